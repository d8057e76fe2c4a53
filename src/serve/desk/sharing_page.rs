//! Sharing: licenses that more people may use than bought them. As `countersign review`; nothing is done by itself.

use std::collections::HashMap;

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::figures::SharingFigures;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::kept_figures;
use crate::serve::desk::license_rows::{LicenseRow, StatePill};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownHost, ShownTime, counted};
use countersign_model::license_key::LicenseId;
use countersign_model::text::outside_text::OutsideText;

/// How many entries a list has.
const PAGE: usize = 50;

/// How many hosts an entry names.
const MOST_HOSTS: usize = 3;

#[derive(Template)]
#[template(path = "desk/sharing.html")]
struct SharingPage {
    frame: PageFrame,
    lists: Vec<SharingList>,
}

/// One kind of finding.
struct SharingList {
    id: &'static str,
    title: &'static str,
    hint: &'static str,
    what: &'static str,
    entries: Vec<SharingEntry>,
    more: usize,
}

/// A license that deserves a look.
struct SharingEntry {
    license: LicenseId,
    name: OutsideText,
    covers: OutsideText,
    pill: Option<StatePill>,
    said: String,
    hosts: Vec<ShownHost>,
    more_hosts: usize,
    last: Option<ShownTime>,
}

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let found = kept_figures::sharing(asked).await?;
    let SharingFigures(report) = &*found;
    let hosts = report.many_hosts.iter().take(PAGE);
    let moves = report.many_moves.iter().take(PAGE);
    let copies = report.many_first_copies.iter().take(PAGE);
    let odd = report.odd_copies.iter().take(PAGE);
    let ids = (hosts.clone().map(|found| found.license))
        .chain(moves.clone().map(|found| found.license))
        .chain(copies.clone().map(|found| found.license))
        .chain(odd.clone().map(|found| found.license));
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = LicenseRow::of_ids(asked, &ids).await?;
    let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let entry = |license: LicenseId, said: String, hosts: Vec<ShownHost>, last| {
        let row = rows.get(&license);
        let named = row.map(|row| row.customer.name.clone()).filter(|name| !name.is_empty());
        SharingEntry {
            license,
            name: named.unwrap_or_else(|| OutsideText::of(&license.log_tag())),
            covers: row.map(|row| row.covers.clone()).unwrap_or_default(),
            pill: row.map(|row| row.pill),
            said,
            more_hosts: hosts.len().saturating_sub(MOST_HOSTS),
            hosts: hosts.into_iter().take(MOST_HOSTS).collect(),
            last,
        }
    };
    let at = |time| Some(ShownTime::of(time, asked.now));
    let tried = hosts.map(|found| {
        let said = format!("{} without a seat", counted(found.hosts.len(), "site"));
        entry(
            found.license,
            said,
            found.hosts.iter().map(ShownHost::from).collect(),
            at(found.last),
        )
    });
    let moved = moves.map(|found| {
        let hosts = found
            .moves
            .iter()
            .rev()
            .map(|moved| ShownHost::from(&moved.host))
            .collect();
        let last = found.moves.last().and_then(|moved| at(moved.time));
        entry(
            found.license,
            format!("{} in 30 days", counted(found.moves.len(), "move")),
            hosts,
            last,
        )
    });
    let copied = copies.map(|found| {
        let packages = counted(found.packages as usize, "package");
        let said = format!("{packages} to {} in 14 days", counted(found.networks, "network"));
        entry(found.license, said, Vec::new(), at(found.last))
    });
    let elsewhere = odd.map(|found| {
        let said = format!("the copy {} of somebody else", found.build_id);
        entry(found.license, said, vec![ShownHost::from(&found.host)], None)
    });
    let list = |id, title, hint, what, entries: Vec<SharingEntry>, all: usize| SharingList {
        id,
        title,
        hint,
        what,
        more: all.saturating_sub(entries.len()),
        entries,
    };
    let lists = vec![
        list(
            "tried",
            "Tried by many sites",
            "sites that asked in vain",
            "Tried by",
            tried.collect(),
            report.many_hosts.len(),
        ),
        list(
            "copies",
            "Copies found elsewhere",
            "each package is marked; a site says which it runs",
            "Runs",
            elsewhere.collect(),
            report.odd_copies.len(),
        ),
        list(
            "moved",
            "Moved often",
            "three or more moves in 30 days",
            "Moves",
            moved.collect(),
            report.many_moves.len(),
        ),
        list(
            "first",
            "Many first copies",
            "packages before any site was bound",
            "Given",
            copied.collect(),
            report.many_first_copies.len(),
        ),
    ];
    Ok(PageAnswer::ok(&SharingPage {
        frame: asked.frame("Sharing", NavEntry::Sharing),
        lists,
    }))
}
