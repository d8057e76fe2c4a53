//! The history of a license on its page: each line of the ledger, who wrote it, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::serve::desk::asked::{Asked, text};
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, ShownTime};
use countersign_files::queue::QueueState;
use countersign_ledger::log::record::LedgerEvent;
use countersign_ledger::{HistoryEntry, LineActor};
use countersign_mail::MailKind;
use countersign_mail::queue::MailsAbout;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::stored_text::StoredText;
use countersign_model::text::ErrorChain;
use countersign_model::text::outside_text::OutsideText;

/// How many of the newest changes a page has until somebody wants all of them.
const NEWEST: usize = 10;

/// How many it has then: the license of a large agency has thousands, and `license history` prints them.
const MOST: usize = 500;

/// What happened to a license and which mails about it were sent, the newest first.
pub(super) struct ShownHistory {
    pub(super) entries: Vec<ShownChange>,
    /// How many there are, if not all are shown.
    pub(super) all: Option<usize>,
    /// Whether a page has no more than these.
    pub(super) is_longest: bool,
    /// Whether the ledger could not be read.
    pub(super) is_unreadable: bool,
    /// Whether the newest mail with the key is parked.
    pub(super) is_key_undelivered: bool,
}

/// A change, or a mail.
pub(super) struct ShownChange {
    /// How its mark looks.
    pub(super) class: &'static str,
    pub(super) what: OutsideText,
    pub(super) time: ShownTime,
    pub(super) by: OutsideText,
    pub(super) reason: Option<OutsideText>,
    /// The license that this one replaced, where the change is that one's.
    pub(super) earlier: Option<OutsideText>,
}

impl ShownHistory {
    /// The history of this license. The page is worth more than its history: an error is logged, and a sentence says so.
    ///
    /// # Errors
    /// Too many look at the ledger.
    pub(super) async fn of(asked: &Asked<'_>, license: LicenseId) -> Result<Self, PageProblem> {
        let service = Arc::clone(&asked.state.service);
        let look = move || {
            let events = service.gate.bindings().history(&license);
            let mails = service.mail.get().map(|queue| queue.about(&license)).transpose();
            (events, mails)
        };
        let (events, mails) = asked.state.scans.look(look).await?;
        let unreadable = |error: &(dyn std::error::Error + 'static)| {
            tracing::warn!(error = %ErrorChain(error), "the history of a license cannot be read");
        };
        let is_unreadable = events.is_err() || mails.is_err();
        let events = events.inspect_err(|error| unreadable(error)).unwrap_or_default();
        let mails = mails.inspect_err(|error| unreadable(error)).unwrap_or_default();
        let most = match asked.fields.get("history") {
            "all" => MOST,
            _ => NEWEST,
        };
        let named = events.iter().take(most).map(LedgerEvent::texts);
        let names = named.flat_map(|texts| [texts.who, texts.reason]).flatten();
        let texts = asked.texts(names.collect()).await?;
        let changes = (0..events.len().min(most)).map(|index| {
            let entry = HistoryEntry::of(&events, index);
            let earlier = entry.license.filter(|of| *of != license);
            let change = ShownChange {
                earlier: earlier.map(|license| OutsideText::of(&license.log_tag())),
                ..ShownChange::of(asked, &entry, &texts)
            };
            (entry.time, change)
        });
        let mut timed: Vec<_> = changes
            .chain(mails.iter().flat_map(|mails| shown_mails(asked, mails)))
            .collect();
        timed.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        let is_key_undelivered = mails.as_ref().is_some_and(is_key_undelivered);
        let all = events.len() + mails.map_or(0, |mails| mails.sent.len() + mails.queued.len());
        let entries: Vec<_> = timed.into_iter().take(most).map(|(_, change)| change).collect();
        Ok(Self {
            all: (entries.len() < all).then_some(all),
            is_longest: most == MOST,
            entries,
            is_unreadable,
            is_key_undelivered,
        })
    }
}

impl ShownChange {
    /// A change in words. Its reason is shown to whom customers are.
    pub(super) fn of(asked: &Asked<'_>, entry: &HistoryEntry<'_>, texts: &BTreeMap<Hex128, StoredText>) -> Self {
        Self {
            class: match entry.event {
                "revoked" | "suspended" => "stop",
                "issued" => "mark",
                _ => "",
            },
            what: OutsideText::of_sentence(&with_shown_days(&capitalized(&entry.what), asked.today())),
            time: ShownTime::of(entry.time, asked.now),
            by: match (entry.by, text(texts, entry.who)) {
                (None, None) => OutsideText::of(entry.actor.words()),
                (by, who) => author(by, who),
            },
            reason: text(texts, entry.reason)
                .filter(|_| asked.visitor.sees_customers())
                .map(OutsideText::of_sentence),
            earlier: None,
        }
    }
}

/// What a mail is about.
pub(super) fn mail_words(kind: MailKind) -> &'static str {
    match kind {
        MailKind::License => "the key",
        MailKind::Download => "the link to the download",
        MailKind::ReminderBefore => "it ends soon",
        MailKind::ReminderAfter => "it has ended",
        MailKind::SiteClaimed => "a site was installed again",
    }
}

/// Whether the newest mail with the key is parked.
fn is_key_undelivered(mails: &MailsAbout) -> bool {
    let queued = mails.queued.iter().filter(|mail| mail.item.kind() == MailKind::License);
    let newest = queued.max_by_key(|mail| mail.queued);
    let sent = mails.sent.iter().filter(|mail| mail.kind == MailKind::License);
    newest.is_some_and(|newest| {
        newest.state == QueueState::Parked && sent.map(|mail| mail.time).max() < Some(newest.queued)
    })
}

/// The mails about a license with their times.
fn shown_mails(asked: &Asked<'_>, mails: &MailsAbout) -> Vec<(DateTime<Utc>, ShownChange)> {
    let shown = |time: DateTime<Utc>, kind: MailKind, became: &str, class, reason: Option<&str>| {
        let about = mail_words(kind);
        let change = ShownChange {
            class,
            what: OutsideText::of(&format!("Mail {became}: {about}")),
            time: ShownTime::of(time, asked.now),
            by: OutsideText::of("the server"),
            reason: reason
                .filter(|_| asked.visitor.sees_customers())
                .map(OutsideText::of_sentence),
            earlier: None,
        };
        (time, change)
    };
    let sent = mails
        .sent
        .iter()
        .map(|mail| shown(mail.time, mail.kind, "sent", "", None));
    let queued = mails.queued.iter().map(|mail| {
        let state = match mail.state {
            QueueState::Waiting => ("waits", ""),
            QueueState::Parked => ("not delivered", "stop"),
        };
        shown(mail.queued, mail.item.kind(), state.0, state.1, mail.reason.as_deref())
    });
    sent.chain(queued).collect()
}

/// Words that begin with a capital letter, unless a host does.
fn capitalized(what: &[String]) -> String {
    let mut words = what.join(", ");
    let is_host = words.split(' ').next().is_some_and(|word| word.contains('.'));
    if let Some(first) = words.get_mut(..1).filter(|_| !is_host) {
        first.make_ascii_uppercase();
    }
    words
}

/// Words with days as the other pages show them: `31 Dec 2026` for `2026-12-31`.
fn with_shown_days(words: &str, today: NaiveDate) -> String {
    let shown = words.split(' ').map(|word| {
        let bare = word.trim_end_matches(',');
        match bare.parse::<NaiveDate>() {
            Ok(day) => format!("{}{}", ShownDay::of(day, today).exact, &word[bare.len()..]),
            Err(_) => word.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Who made a change, for people.
pub(super) fn author(by: Option<&ChangeScope>, who: Option<&str>) -> OutsideText {
    OutsideText::of(&match (by, who) {
        (Some(by), Some(who)) if *by == ChangeScope::desk() => who.to_owned(),
        (Some(by), Some(who)) => format!("{who} ({})", by.words()),
        (Some(by), None) => by.words(),
        (None, Some(who)) => who.to_owned(),
        (None, None) => LineActor::Somebody.words().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_in_words_are_shown_as_elsewhere() {
        let today = NaiveDate::from_ymd_opt(2026, 11, 29).unwrap();
        let shown = |words: &str| with_shown_days(words, today);
        assert_eq!(
            shown("Extended to 2027-11-29, for 5 sites"),
            "Extended to 29 Nov 2027, for 5 sites"
        );
        assert_eq!(shown("Covers 2027-11-29x, a.example"), "Covers 2027-11-29x, a.example");
    }
}
