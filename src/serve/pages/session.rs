//! The session: a signed cookie, which holds on every node and after a restart. What it may do is looked up at each request.
//!
//! Sessions that ended early are lines of the ledger, which every node obeys.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use warp::http::{HeaderMap, header};

use crate::serve::pages::label::PageLabel;
use countersign_ledger::{Ledger, SessionEnd, SessionMark, StoreError};
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::Hex128;
use countersign_model::issuing_key::ReferenceKey;

/// How far the clock of the node that made a session may be ahead.
const MOST_AHEAD: TimeDelta = TimeDelta::minutes(5);

/// What the MAC of a session begins with.
const SESSION: &[u8] = b"session 1\0";

/// What the MAC of a person begins with.
const PERSON: &[u8] = b"person 1\0";

/// The longest cookie that is looked at, in bytes.
const MAX_COOKIE: usize = 1_024;

const MAC: usize = 32;

/// The owner of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum SessionOwner {
    /// Who ran `countersign desk`, as the ledger names the user.
    Operator(Box<str>),
    /// The person of `registry/desk.toml` whose address has this number.
    Person(Hex128),
}

/// What a cookie says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct PageSession {
    /// Random.
    pub(in crate::serve) id: Hex128,
    /// Who signed in.
    pub(in crate::serve) owner: SessionOwner,
    /// When.
    pub(in crate::serve) issued: DateTime<Utc>,
}

/// What the number of all who ran `countersign desk` is made from. No address begins with a zero.
const OPERATORS: &[u8] = b"\0operators";

impl SessionOwner {
    /// The number by which all sessions of this owner end. All who ran `countersign desk` are one.
    pub(in crate::serve) fn number(&self, label: PageLabel, key: &ReferenceKey) -> Hex128 {
        match self {
            Self::Operator(_) => operators_number(label, key),
            Self::Person(number) => *number,
        }
    }
}

/// The number of all who ran `countersign desk`.
pub(in crate::serve) fn operators_number(label: PageLabel, key: &ReferenceKey) -> Hex128 {
    let mac = label.mac(key, PERSON, OPERATORS);
    Hex128(std::array::from_fn(|at| mac[at]))
}

/// The number of a person with this address in sessions of these pages.
pub(in crate::serve) fn person_number(label: PageLabel, key: &ReferenceKey, address: &CustomerAddress) -> Hex128 {
    let mac = label.mac(key, PERSON, address.normal().as_bytes());
    Hex128(std::array::from_fn(|at| mac[at]))
}

impl PageSession {
    /// When it ends.
    pub(in crate::serve) fn ends(&self, label: PageLabel) -> DateTime<Utc> {
        self.issued + label.lasts()
    }

    /// The value of the cookie: letters, digits, `-` and `_`.
    pub(in crate::serve) fn signed(&self, label: PageLabel, key: &ReferenceKey) -> String {
        let mut bytes = self.id.0.to_vec();
        bytes.extend(self.issued.timestamp().to_be_bytes());
        match &self.owner {
            SessionOwner::Operator(user) => {
                bytes.push(b'o');
                bytes.extend(user.as_bytes());
            }
            SessionOwner::Person(number) => {
                bytes.push(b'p');
                bytes.extend(number.0);
            }
        }
        let mac = label.mac(key, SESSION, &bytes);
        bytes.extend(mac);
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The session of a request, if it lasts.
    pub(in crate::serve) fn of(
        label: PageLabel,
        headers: &HeaderMap,
        is_https: bool,
        key: &ReferenceKey,
        now: DateTime<Utc>,
    ) -> Option<Self> {
        cookies(headers, &label.cookie_name(is_https)).find_map(|value| Self::read(label, key, value, now))
    }

    /// The session of a cookie that this server or another node signed, if it lasts.
    fn read(label: PageLabel, key: &ReferenceKey, cookie: &str, now: DateTime<Utc>) -> Option<Self> {
        if cookie.len() > MAX_COOKIE {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (payload, mac) = bytes.split_last_chunk::<MAC>()?;
        // SECURITY: nothing of it counts before this.
        if !label.is_mac(key, SESSION, payload, mac) {
            return None;
        }
        let (id, rest) = payload.split_first_chunk::<16>()?;
        let (issued, rest) = rest.split_first_chunk::<8>()?;
        let owner = match rest.split_first()? {
            (b'o', user) => SessionOwner::Operator(str::from_utf8(user).ok()?.into()),
            (b'p', number) => SessionOwner::Person(Hex128(number.try_into().ok()?)),
            _ => return None,
        };
        let session = Self {
            id: Hex128(*id),
            owner,
            issued: DateTime::from_timestamp(i64::from_be_bytes(*issued), 0)?,
        };
        (session.issued <= now + MOST_AHEAD && now < session.ends(label)).then_some(session)
    }
}

/// The values of the cookies of this name.
fn cookies<'h>(headers: &'h HeaderMap, name: &'h str) -> impl Iterator<Item = &'h str> {
    let sent = headers.get_all(header::COOKIE).iter();
    let pairs = sent
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// The sessions of pages that ended early.
#[derive(Clone, Copy)]
pub(in crate::serve) struct SessionEnds<'a> {
    pub(in crate::serve) label: PageLabel,
    pub(in crate::serve) key: &'a ReferenceKey,
    pub(in crate::serve) ledger: &'a Ledger,
}

impl SessionEnds<'_> {
    /// Whether a session ended: by itself, or with all of its owner that began before.
    pub(in crate::serve) fn has(&self, session: &PageSession) -> bool {
        let owner = session.owner.number(self.label, self.key);
        let with_all = self.ledger.sessions_ended(owner);
        self.ledger.has_ended(SessionMark::Session(session.id)) || with_all.is_some_and(|ended| session.issued <= ended)
    }

    /// Ends a session on every node.
    pub(in crate::serve) async fn end(&self, session: &PageSession, now: DateTime<Utc>) -> Result<(), StoreError> {
        let end = SessionEnd {
            mark: SessionMark::Session(session.id),
            until: session.ends(self.label),
            now,
        };
        self.ledger.end_session(end).await.map(|_| ())
    }

    /// Ends all sessions of an owner that began until now, on every node.
    pub(in crate::serve) async fn end_all(&self, owner: Hex128, now: DateTime<Utc>) -> Result<(), StoreError> {
        let end = SessionEnd {
            mark: SessionMark::Owner(owner),
            until: now + self.label.lasts(),
            now,
        };
        self.ledger.end_session(end).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(owner: SessionOwner) -> PageSession {
        PageSession {
            id: Hex128([7; 16]),
            owner,
            issued: DateTime::from_timestamp(1_800_000_000, 0).unwrap(),
        }
    }

    #[test]
    fn a_cookie_is_read_with_the_key_that_signed_it_for_twelve_hours() {
        let key = ReferenceKey::new(&[1; 32]);
        for owner in [
            SessionOwner::Operator("root, claimed anna".into()),
            SessionOwner::Person(Hex128([3; 16])),
        ] {
            let session = session(owner);
            let cookie = session.signed(PageLabel::DESK, &key);
            let at = |hours| session.issued + TimeDelta::hours(hours);
            assert_eq!(
                PageSession::read(PageLabel::DESK, &key, &cookie, at(0)),
                Some(session.clone())
            );
            assert_eq!(
                PageSession::read(PageLabel::DESK, &key, &cookie, at(11)),
                Some(session.clone())
            );
            assert_eq!(PageSession::read(PageLabel::DESK, &key, &cookie, at(12)), None);
            assert_eq!(
                PageSession::read(PageLabel::DESK, &key, &cookie, at(-1)),
                None,
                "it is of a day to come"
            );
            assert_eq!(
                PageSession::read(PageLabel::DESK, &ReferenceKey::new(&[2; 32]), &cookie, at(1)),
                None
            );
            let other = PageLabel::ACCOUNT;
            assert_eq!(PageSession::read(other, &key, &cookie, at(1)), None);
        }
    }

    #[test]
    fn whatever_is_changed_in_a_cookie_makes_it_none() {
        let key = ReferenceKey::new(&[1; 32]);
        let session = session(SessionOwner::Person(Hex128([3; 16])));
        let cookie = session.signed(PageLabel::DESK, &key);
        for at in 0..cookie.len() {
            let mut other = cookie.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(
                PageSession::read(PageLabel::DESK, &key, &other, session.issued),
                None,
                "{at}"
            );
            assert_eq!(
                PageSession::read(PageLabel::DESK, &key, &cookie[..at], session.issued),
                None,
                "{at}"
            );
        }
        assert_eq!(
            PageSession::read(PageLabel::DESK, &key, &"A".repeat(9_999), session.issued),
            None
        );
    }
}
