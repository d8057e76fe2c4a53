//! What happened to a license, line by line and in words.

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license_key::LicenseId;

pub use crate::log::line_event::LineActor;
use crate::log::record::LedgerEvent;

/// A line of a license's history, for people.
#[derive(Debug)]
pub struct HistoryEntry<'a> {
    /// When.
    pub time: DateTime<Utc>,
    /// The license, or one that it replaced; `None` if the line is about something else.
    pub license: Option<LicenseId>,
    /// `issued`, `renewed`, `bound` and so on.
    pub event: &'static str,
    /// What changed, in words.
    pub what: Vec<String>,
    /// The token, the shop or the command. What a site, a customer or the server does by itself has none.
    pub by: Option<&'a ChangeScope>,
    /// Whose doing it is where the line names nobody.
    pub actor: LineActor,
    /// The name of the text that says who did it.
    pub who: Option<Hex128>,
    /// The name of the text that says why.
    pub reason: Option<Hex128>,
}

impl<'a> HistoryEntry<'a> {
    /// The event with this index in `events`, a license's events with the newest first ([`crate::history()`]).
    pub fn of(events: &'a [LedgerEvent], index: usize) -> Self {
        let event = &events[index];
        let before = events[index + 1..].iter().find_map(|before| match before {
            LedgerEvent::License(before) if Some(&before.license.id) == event.license() => Some(&**before),
            _ => None,
        });
        Self::after(event, before)
    }

    /// An event. `before` is its license as the line before had it; without it, the license is described as a new one.
    pub fn after(event: &'a LedgerEvent, before: Option<&IssuedLicense>) -> Self {
        let (word, what) = event.words(before);
        let texts = event.texts();
        Self {
            time: event.time(),
            license: event.license().copied(),
            event: word,
            what,
            by: event.scope(),
            actor: event.actor(),
            who: texts.who,
            reason: texts.reason,
        }
    }
}
