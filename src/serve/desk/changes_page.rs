//! What was changed last, whichever license it is about: by people, or by anyone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use askama::Template;
use chrono::{Days, NaiveDate};
use countersign_ledger::{ChangesBy, ChangesWanted, HistoryEntry, LatestChange};
use countersign_model::license_key::LicenseId;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_history::ShownChange;
use crate::serve::desk::license_rows::LicenseRow;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::address;
use crate::serve::reply::problem::Problem;
use countersign_model::text::outside_text::OutsideText;

/// How many changes a page has.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "desk/changes.html")]
struct ChangesPage {
    frame: PageFrame,
    /// Whether the list includes changes by shops, sites and the server.
    is_all: bool,
    /// The day whose changes are shown, as an address has it; empty for all.
    day: String,
    /// The address of the changes of the day before today.
    yesterday: String,
    /// The addresses of the same list by people, and by anyone.
    tabs: [String; 2],
    changes: Vec<ChangeRow>,
    /// The address of earlier ones.
    older: Option<String>,
}

/// A change with its license.
struct ChangeRow {
    change: ShownChange,
    license: Option<LicenseLink>,
}

/// A license as a list of changes names it: by its customer, else by its first digits.
struct LicenseLink {
    id: LicenseId,
    name: OutsideText,
}

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let is_all = asked.fields.get("by") == "anyone";
    let day = asked.fields.get("day").parse::<NaiveDate>().ok();
    let wanted = ChangesWanted {
        by: if is_all { ChangesBy::Anyone } else { ChangesBy::People },
        before: asked.fields.get("before").parse().ok(),
        day,
        most: PAGE,
    };
    let day = day.map_or_else(String::new, |day| day.to_string());
    let list = |is_all: bool, before: &str| {
        let mut query = vec![("by", "anyone"), ("day", &day), ("before", before)];
        query.retain(|(name, value)| !value.is_empty() && (is_all || *name != "by"));
        match query.is_empty() {
            true => "/changes".to_owned(),
            false => address("/changes", &query),
        }
    };
    let service = Arc::clone(&asked.state.service);
    let look = move || countersign_ledger::latest_changes(service.gate.bindings().source(), wanted);
    let found = asked.state.scans.look(look).await?;
    let found = found.map_err(|error| Problem::internal(&error))?;
    let texts = found.changes.iter().map(|change| change.event.texts());
    let names = texts.flat_map(|texts| [texts.who, texts.reason]).flatten();
    let texts = asked.texts(names.collect()).await?;
    let ids: BTreeSet<_> = found
        .changes
        .iter()
        .filter_map(|change| change.event.license().copied())
        .collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let rows = LicenseRow::of_ids(asked, &ids).await?;
    let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let link = |row: &LicenseRow| LicenseLink {
        id: row.id,
        name: row.shown_name(),
    };
    let shown = found.changes.iter().map(|LatestChange { event, before, .. }| {
        let entry = HistoryEntry::after(event, before.as_deref());
        ChangeRow {
            change: ShownChange::of(asked, &entry, &texts),
            license: entry.license.and_then(|license| rows.get(&license)).map(link),
        }
    });
    Ok(PageAnswer::ok(&ChangesPage {
        frame: asked.frame("Changes", NavEntry::Changes),
        is_all,
        yesterday: format!("/changes?day={}", asked.today() - Days::new(1)),
        tabs: [list(false, ""), list(true, "")],
        changes: shown.collect(),
        older: found.older.map(|before| list(is_all, &before.to_string())),
        day,
    }))
}
