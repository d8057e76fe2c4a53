//! Signing in by mail: who asks for it gets a code of eight characters and a link, for fifteen minutes.
//!
//! An attempt is signed, so that every node knows it again; so are its code and its link. That it was used, or tried too often on one
//! node, is a line of the ledger, which all nodes obey. Who may not sign in sees the same, and gets no mail.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use tokio::time::timeout;

use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::label::PageLabel;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::session::{PageSession, SessionOwner};
use crate::serve::reply::problem::Problem;
use countersign_ledger::{Ledger, SessionEnd, SessionMark};
use countersign_mail::account::MailAccount;
use countersign_mail::address::MailAddress;
use countersign_mail::queued_mail::MailId;
use countersign_mail::sending::send_one;
use countersign_mail::texts::RenderedMail;
use countersign_model::issued_license::Hex128;
use countersign_model::issuing_key::ReferenceKey;

/// How long the mail server may take for a mail.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a code and a link can be used.
pub(in crate::serve) const MINUTES: i64 = 15;

/// For how long the mails of a [label](PageLabel::mails) are counted.
const SOON: TimeDelta = TimeDelta::minutes(MINUTES);

/// How often a code may be tried.
const TRIES: u8 = 5;

/// How many mails a person gets on a day.
const MAILS: usize = 20;

/// The most attempts, and the most people with mails, that are remembered.
const MOST_ATTEMPTS: usize = 10_000;

/// What the MACs begin with: of an attempt, its code, its link, and that its mail is sent.
const ATTEMPT: &[u8] = b"sign-in 1\0";
const CODE: &[u8] = b"sign-in code 1\0";
const LINK: &[u8] = b"sign-in link 1\0";
const SENT: &[u8] = b"sign-in sent 1\0";

/// The 32 characters of a code. Those that are mistaken for others are not among them.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// An id, the seconds since 1970, and the number of a person.
const PAYLOAD: usize = 16 + 8 + 16;
const MAC: usize = 32;

/// An attempt to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct SignInAttempt {
    id: Hex128,
    started: DateTime<Utc>,
    /// The number that the session of this person has.
    pub(in crate::serve) person: Hex128,
}

/// What one node remembers of attempts.
#[derive(Debug, Default)]
pub(in crate::serve) struct SignInCounts(Mutex<CountedAttempts>);

#[derive(Debug, Default)]
struct CountedAttempts {
    /// How often the code of an attempt was tried, and until when it matters.
    tries: HashMap<Hex128, (u8, DateTime<Utc>)>,
    /// When people got mails in the last day.
    mails: HashMap<Hex128, Vec<DateTime<Utc>>>,
}

impl SignInAttempt {
    /// An attempt whose mail is sent, if the address is known.
    pub(in crate::serve) fn new(
        label: PageLabel,
        key: &ReferenceKey,
        person: Hex128,
        now: DateTime<Utc>,
    ) -> Result<Self, getrandom::Error> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)?;
        id[15] = sent_mark(label, key, &id);
        Ok(Self {
            id: Hex128(id),
            started: DateTime::from_timestamp(now.timestamp(), 0).unwrap_or(now),
            person,
        })
    }

    /// Marks that the mail of this attempt was over the limit and not sent, so that nobody can use the attempt. Only the server's key
    /// shows the mark.
    #[must_use]
    pub(in crate::serve) fn unsent(mut self) -> Self {
        self.id.0[15] ^= 1;
        self
    }

    /// Whether its mail was sent, if the address is known.
    // SECURITY: otherwise each attempt over the limit would give more tries at a code.
    pub(in crate::serve) fn is_sent(&self, label: PageLabel, key: &ReferenceKey) -> bool {
        self.id.0[15] == sent_mark(label, key, &self.id.0)
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = self.id.0.to_vec();
        payload.extend(self.started.timestamp().to_be_bytes());
        payload.extend(self.person.0);
        payload
    }

    fn signed(&self, label: PageLabel, key: &ReferenceKey, use_of: &[u8]) -> String {
        let mut bytes = self.payload();
        let mac = label.mac(key, use_of, &bytes);
        bytes.extend(mac);
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    fn read(label: PageLabel, key: &ReferenceKey, text: &str, use_of: &[u8], now: DateTime<Utc>) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD
            .decode(text.get(..(PAYLOAD + MAC) * 4 / 3)?)
            .ok()?;
        let (payload, mac) = bytes.split_last_chunk::<MAC>()?;
        if text.len() != (PAYLOAD + MAC) * 4 / 3 || !label.is_mac(key, use_of, payload, mac) {
            return None;
        }
        let (id, rest) = payload.split_first_chunk::<16>()?;
        let (started, person) = rest.split_first_chunk::<8>()?;
        let attempt = Self {
            id: Hex128(*id),
            started: DateTime::from_timestamp(i64::from_be_bytes(*started), 0)?,
            person: Hex128(person.try_into().ok()?),
        };
        (now < attempt.ends()).then_some(attempt)
    }

    fn ends(&self) -> DateTime<Utc> {
        self.started + TimeDelta::minutes(MINUTES)
    }

    /// How the page for the code names it.
    pub(in crate::serve) fn name(&self, label: PageLabel, key: &ReferenceKey) -> String {
        self.signed(label, key, ATTEMPT)
    }

    /// The attempt of this name, if it can still be used.
    pub(in crate::serve) fn named(
        label: PageLabel,
        key: &ReferenceKey,
        name: &str,
        now: DateTime<Utc>,
    ) -> Option<Self> {
        Self::read(label, key, name, ATTEMPT, now)
    }

    /// The secret of the link in the mail.
    pub(in crate::serve) fn link(&self, label: PageLabel, key: &ReferenceKey) -> String {
        self.signed(label, key, LINK)
    }

    /// The attempt of a link, if it can still be used.
    pub(in crate::serve) fn linked(
        label: PageLabel,
        key: &ReferenceKey,
        link: &str,
        now: DateTime<Utc>,
    ) -> Option<Self> {
        Self::read(label, key, link, LINK, now)
    }

    /// The code in the mail: 40 bits.
    pub(in crate::serve) fn code(&self, label: PageLabel, key: &ReferenceKey) -> String {
        let mac = label.mac(key, CODE, &self.payload());
        let code = mac[..8].iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)]));
        code.collect()
    }
}

/// The last byte of the id of an attempt whose mail is sent.
fn sent_mark(label: PageLabel, key: &ReferenceKey, id: &[u8; 16]) -> u8 {
    label.mac(key, SENT, &id[..15])[0]
}

/// A code as people type it: with blanks and hyphens, in any case, and with letters for the digits that they look like.
fn typed_code(text: &str) -> String {
    let signs = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
    let plain = signs.flat_map(char::to_uppercase).map(|c| match c {
        'O' => '0',
        'I' | 'L' => '1',
        c => c,
    });
    plain.take(16).collect()
}

impl SignInCounts {
    fn counts(&self) -> MutexGuard<'_, CountedAttempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this person may get one more mail now: some in fifteen minutes, and twenty in a day.
    pub(in crate::serve) fn take_mail(&self, label: PageLabel, person: Hex128, now: DateTime<Utc>) -> bool {
        let is_kept = |time: &DateTime<Utc>| now - *time < TimeDelta::days(1);
        let mut counts = self.counts();
        if counts.mails.len() >= MOST_ATTEMPTS && !counts.mails.contains_key(&person) {
            counts
                .mails
                .retain(|_, times| times.last().is_some_and(|last| now - *last < SOON));
        }
        if counts.mails.len() >= MOST_ATTEMPTS && !counts.mails.contains_key(&person) {
            // Better a mail more than none for anybody.
            counts.mails.clear();
        }
        let times = counts.mails.entry(person).or_default();
        times.retain(is_kept);
        let soon = times.iter().filter(|time| now - **time < SOON).count();
        let may = soon < label.mails && times.len() < MAILS;
        if may {
            times.push(now);
        }
        may
    }

    /// How often the code of this attempt may be tried after this time; `None` if this is one too many.
    fn take_try(&self, attempt: &SignInAttempt, now: DateTime<Utc>) -> Option<u8> {
        let mut counts = self.counts();
        if counts.tries.len() >= MOST_ATTEMPTS {
            counts.tries.retain(|_, (_, ends)| now < *ends);
        }
        if counts.tries.len() >= MOST_ATTEMPTS {
            return None;
        }
        let (tries, _) = counts.tries.entry(attempt.id).or_insert((0, attempt.ends()));
        *tries = tries.saturating_add(1);
        TRIES.checked_sub(*tries)
    }
}

/// Signing in by mail at the pages of a label.
pub(in crate::serve) struct MailSignIn<'a> {
    pub(in crate::serve) label: PageLabel,
    pub(in crate::serve) key: &'a ReferenceKey,
    pub(in crate::serve) counts: &'a SignInCounts,
    pub(in crate::serve) ledger: &'a Ledger,
    pub(in crate::serve) now: DateTime<Utc>,
}

impl MailSignIn<'_> {
    fn over(&self) -> PageProblem {
        PageProblem::used_code(self.label)
    }

    /// The attempt of this name. Changes nothing.
    pub(in crate::serve) fn named(&self, name: &str) -> Result<SignInAttempt, PageProblem> {
        SignInAttempt::named(self.label, self.key, name, self.now).ok_or_else(|| self.over())
    }

    /// The attempt of a link that nobody used. Changes nothing.
    pub(in crate::serve) fn linked(&self, link: &str) -> Result<SignInAttempt, PageProblem> {
        let attempt = SignInAttempt::linked(self.label, self.key, link, self.now);
        attempt
            .filter(|attempt| !self.is_used(attempt))
            .ok_or_else(|| self.over())
    }

    fn is_used(&self, attempt: &SignInAttempt) -> bool {
        self.ledger.has_ended(SessionMark::Code(attempt.id))
    }

    /// The attempt of this name, if somebody typed its code. Takes a try; after the last one, no node takes the code.
    pub(in crate::serve) async fn with_code(&self, name: &str, typed: &str) -> Result<SignInAttempt, PageProblem> {
        let attempt = self.named(name)?;
        if self.is_used(&attempt) {
            return Err(self.over());
        }
        let left = self.counts.take_try(&attempt, self.now).ok_or_else(|| self.over())?;
        if typed_code(typed) == attempt.code(self.label, self.key) {
            return Ok(attempt);
        }
        if left == 0 {
            self.use_up(&attempt).await?;
        }
        Err(PageProblem::wrong_code(format!("{}/{name}", self.label.sign_in)))
    }

    /// Uses an attempt up. Only the first one may, of all that come to any node.
    pub(in crate::serve) async fn use_up(&self, attempt: &SignInAttempt) -> Result<(), PageProblem> {
        let end = SessionEnd {
            mark: SessionMark::Code(attempt.id),
            until: attempt.ends(),
            now: self.now,
        };
        match self.ledger.end_session(end).await? {
            true => Ok(()),
            false => Err(self.over()),
        }
    }

    /// Begins a session of this owner.
    pub(in crate::serve) fn signed_in(&self, owner: SessionOwner, is_https: bool) -> Result<PageAnswer, PageProblem> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| Problem::internal(&error))?;
        let session = PageSession {
            id: Hex128(id),
            owner,
            issued: self.now.trunc_subsecs(0),
        };
        Ok(PageAnswer::SignedIn {
            label: self.label,
            cookie: session.signed(self.label, self.key),
            is_https,
        })
    }
}

/// Sends the mail with a code and a link. The log has neither of them, and no address.
pub(in crate::serve) async fn send_mail(
    label: PageLabel,
    account: &MailAccount,
    address: &MailAddress,
    id: MailId,
    now: DateTime<Utc>,
    said: &RenderedMail,
) {
    let at = label.name;
    match timeout(PATIENCE, send_one(account, address, id, now, said)).await {
        Ok(Ok(())) => tracing::info!(at, "sent a mail to sign in"),
        Ok(Err(error)) => tracing::warn!(at, %error, "a mail to sign in was not sent"),
        Err(_) => tracing::warn!(at, "a mail to sign in was not sent in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERSON: Hex128 = Hex128([3; 16]);

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn new_attempt() -> SignInAttempt {
        SignInAttempt::new(PageLabel::DESK, &ReferenceKey::new(&[1; 32]), PERSON, now()).unwrap()
    }

    #[test]
    fn only_who_has_the_key_sees_that_the_mail_of_an_attempt_was_not_sent() {
        let key = ReferenceKey::new(&[1; 32]);
        let is_sent = |attempt: &SignInAttempt| attempt.is_sent(PageLabel::DESK, &key);
        let all = [(); 100].map(|()| (new_attempt(), new_attempt().unsent()));
        assert!(all.iter().all(|(sent, unsent)| is_sent(sent) && !is_sent(unsent)));
        let odd =
            |attempts: &dyn Fn(usize) -> SignInAttempt| (0..100).filter(|at| attempts(*at).id.0[15] & 1 == 1).count();
        for count in [odd(&|at| all[at].0), odd(&|at| all[at].1)] {
            assert!((15..=85).contains(&count), "{count} of 100 end in an odd byte");
        }
        // Each kind names the person, and is of one length.
        let (sent, unsent) = all[0];
        assert_eq!((sent.person, unsent.person), (PERSON, PERSON));
        let names = [sent, unsent].map(|attempt| attempt.name(PageLabel::DESK, &key).len());
        assert_eq!(names[0], names[1]);
    }

    #[test]
    fn an_attempt_its_code_and_its_link_are_known_again_on_every_node_for_fifteen_minutes() {
        let key = ReferenceKey::new(&[1; 32]);
        let attempt = SignInAttempt::new(PageLabel::DESK, &key, PERSON, now()).unwrap();
        let name = attempt.name(PageLabel::DESK, &key);
        let link = attempt.link(PageLabel::DESK, &key);
        let late = now() + TimeDelta::minutes(MINUTES);
        assert_eq!(SignInAttempt::named(PageLabel::DESK, &key, &name, now()), Some(attempt));
        assert_eq!(
            SignInAttempt::linked(PageLabel::DESK, &key, &link, now()),
            Some(attempt)
        );
        assert_eq!(SignInAttempt::named(PageLabel::DESK, &key, &name, late), None);
        assert_eq!(SignInAttempt::linked(PageLabel::DESK, &key, &link, late), None);
        assert_eq!(
            SignInAttempt::linked(PageLabel::DESK, &key, &name, now()),
            None,
            "who asks has no link"
        );
        assert_eq!(SignInAttempt::named(PageLabel::DESK, &key, &link, now()), None);
        assert_eq!(
            SignInAttempt::named(PageLabel::DESK, &ReferenceKey::new(&[2; 32]), &name, now()),
            None
        );
        for wrong in ["", "x", &name[1..], &format!("{name}A"), &"é".repeat(60)] {
            assert_eq!(SignInAttempt::named(PageLabel::DESK, &key, wrong, now()), None);
        }
        let account = PageLabel::ACCOUNT;
        assert_eq!(SignInAttempt::named(account, &key, &name, now()), None);
        assert_eq!(SignInAttempt::linked(account, &key, &link, now()), None);
        let code = attempt.code(PageLabel::DESK, &key);
        assert_ne!(attempt.code(account, &key), code);
        assert!(
            code.len() == 8 && code.bytes().all(|byte| ALPHABET.contains(&byte)),
            "{code}"
        );
        assert_eq!(
            typed_code(&format!(" {}-{} ", &code[..4].to_lowercase(), &code[4..])),
            code
        );
        assert_eq!(typed_code("oil-0"), "0110");
        let other = SignInAttempt::new(PageLabel::DESK, &key, PERSON, now()).unwrap();
        assert_ne!(other.code(PageLabel::DESK, &key), code);
    }

    #[test]
    fn a_code_is_tried_five_times_and_a_person_gets_twenty_mails_a_day() {
        let counts = SignInCounts::default();
        let attempt = new_attempt();
        let tried = [(); 7].map(|()| counts.take_try(&attempt, now()));
        assert_eq!(tried, [Some(4), Some(3), Some(2), Some(1), Some(0), None, None]);
        let other = new_attempt();
        assert_eq!(counts.take_try(&other, now()), Some(4));
        let take = |label, person, minutes| counts.take_mail(label, person, now() + TimeDelta::minutes(minutes));
        let mails = (0..30).filter(|_| take(PageLabel::DESK, PERSON, 0)).count();
        assert_eq!(mails, 20);
        assert!(take(PageLabel::DESK, PERSON, 24 * 60));
        let customer = Hex128([4; 16]);
        let soon: Vec<_> = (0..1_000).filter(|_| take(PageLabel::ACCOUNT, customer, 0)).collect();
        assert_eq!(soon, [0, 1, 2]);
        assert!(!take(PageLabel::ACCOUNT, customer, 14) && take(PageLabel::ACCOUNT, customer, 15));
        let of_day = (30..24 * 60)
            .filter(|minute| take(PageLabel::ACCOUNT, customer, *minute))
            .count();
        assert_eq!(of_day, 20 - 4);
    }
}
