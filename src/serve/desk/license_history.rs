//! The history of a license on its page: each line of the ledger, who wrote it, and why.

use countersign_ledger::HistoryEntry;
use countersign_ledger::log::record::LedgerEvent;
use countersign_model::issued_license::ChangeScope;
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Remarks;
use countersign_model::text::outside_text::OutsideText;

use crate::serve::desk::asked::{Asked, text};
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::ShownTime;

/// How many of the newest changes a page has until somebody wants all of them.
const NEWEST: usize = 10;

/// What happened to a license, the newest first.
pub(super) struct ShownHistory {
    pub(super) entries: Vec<ShownChange>,
    /// How many there are, if not all are shown.
    pub(super) all: Option<usize>,
    /// Whether the ledger could not be read.
    pub(super) is_unreadable: bool,
}

/// One change.
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
        let service = std::sync::Arc::clone(&asked.state.service);
        let look = move || countersign_ledger::history(service.gate.bindings().source(), &license);
        let events = match asked.state.scans.look(look).await? {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(%error, "the history of a license cannot be read");
                return Ok(Self {
                    entries: Vec::new(),
                    all: None,
                    is_unreadable: true,
                });
            }
        };
        let most = if asked.fields.get("history") == "all" {
            usize::MAX
        } else {
            NEWEST
        };
        let newest: Vec<_> = (0..events.len().min(most))
            .map(|index| HistoryEntry::of(&events, index))
            .collect();
        let names = |remarks: &Remarks| [remarks.who, remarks.reason];
        let names: Vec<_> = events
            .iter()
            .take(most)
            .filter_map(LedgerEvent::remarks)
            .flat_map(names)
            .flatten()
            .collect();
        let texts = asked.texts(names).await?;
        let shown = |entry: HistoryEntry<'_>| ShownChange {
            class: match entry.event {
                "revoked" | "suspended" => "stop",
                "issued" => "mark",
                _ => "",
            },
            what: OutsideText::of_sentence(&sentence(&entry.what)),
            time: ShownTime::of(entry.time, asked.now),
            by: author(entry.by, text(&texts, entry.who)),
            reason: text(&texts, entry.reason)
                .filter(|_| asked.visitor.sees_customers())
                .map(OutsideText::of_sentence),
            earlier: (entry.license != license).then(|| OutsideText::of(&entry.license.log_tag())),
        };
        Ok(Self {
            all: (newest.len() < events.len()).then_some(events.len()),
            entries: newest.into_iter().map(shown).collect(),
            is_unreadable: false,
        })
    }
}

/// Words that begin with a capital letter, unless a host does.
fn sentence(what: &[String]) -> String {
    let mut words = what.join(", ");
    let is_host = words.split(' ').next().is_some_and(|word| word.contains('.'));
    if let Some(first) = words.get_mut(..1).filter(|_| !is_host) {
        first.make_ascii_uppercase();
    }
    words
}

/// Who made a change, for people. Without a token, a shop or a command it was a site.
pub(super) fn author(by: Option<&ChangeScope>, who: Option<&str>) -> OutsideText {
    OutsideText::of(&match (by, who) {
        (Some(by), Some(who)) if *by == ChangeScope::desk() => who.to_owned(),
        (Some(by), Some(who)) => format!("{who} ({})", by.words()),
        (Some(by), None) => by.words(),
        (None, _) => "the site".to_owned(),
    })
}
