//! Sharing: licenses that more people may use than bought them. As `countersign review`; nothing is done by itself. A person says
//! that a license is fine until a day, as `license vouch`.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use chrono::NaiveDate;

use crate::serve::desk::asked::{Asked, text};
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::kept_figures;
use crate::serve::desk::license_changes::author as author_of;
use crate::serve::desk::license_history::author;
use crate::serve::desk::license_page::named;
use crate::serve::desk::license_rows::{LicenseRow, StatePill};
use crate::serve::desk::page_table::DeskPage;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, ShownHost, ShownTime, counted};
use crate::serve::vouches::{self, VouchError, latest_end, usual_end};
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::ChangeScope;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::MOST_HOSTS as MOST_REFUSED;
use countersign_model::text::outside_text::OutsideText;

/// How many entries a list has.
const PAGE: usize = 50;

/// How many hosts an entry names.
const MOST_HOSTS: usize = 3;

#[derive(Template)]
#[template(path = "desk/sharing.html")]
struct SharingPage {
    frame: PageFrame,
    notice: Option<&'static str>,
    lists: Vec<SharingList>,
    fine: Vec<FineEntry>,
    more_fine: usize,
    /// For who may vouch for a license.
    form: Option<VouchForm>,
}

/// The days of a form.
struct VouchForm {
    until: String,
    today: String,
    latest: String,
}

/// A license that somebody vouched for.
struct FineEntry {
    license: LicenseId,
    name: OutsideText,
    covers: OutsideText,
    until: ShownDay,
    by: OutsideText,
    reason: Option<OutsideText>,
    since: ShownTime,
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
    let many_hosts = &found.many_hosts;
    let many_moves = &found.many_moves;
    let many_first_copies = &found.many_first_copies;
    let odd_copies = &found.odd_copies;
    let vouches = asked.state.service.gate.bindings().vouches(asked.today());
    let hosts = many_hosts.iter().take(PAGE);
    let moves = many_moves.iter().take(PAGE);
    let copies = many_first_copies.iter().take(PAGE);
    let odd = odd_copies.iter().take(PAGE);
    let fine = vouches.iter().take(PAGE);
    let ids = (hosts.clone().map(|found| found.license))
        .chain(moves.clone().map(|found| found.license))
        .chain(copies.clone().map(|found| found.license))
        .chain(odd.clone().map(|found| found.license))
        .chain(fine.clone().map(|entry| entry.license));
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = LicenseRow::of_ids(asked, &ids).await?;
    let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let name = |license: &LicenseId| {
        let named = rows.get(license).map(|row| row.customer.name.clone());
        let named = named.filter(|name| !name.is_empty());
        named.unwrap_or_else(|| OutsideText::of(&license.log_tag()))
    };
    let entry = |license: LicenseId, said: String, hosts: Vec<ShownHost>, last| {
        let row = rows.get(&license);
        SharingEntry {
            license,
            name: name(&license),
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
        let count = found.hosts.len();
        let said = match count {
            // No more of them are kept.
            MOST_REFUSED.. => format!("{count} sites or more without a seat"),
            count => format!("{} without a seat", counted(count, "site")),
        };
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
            many_hosts.len(),
        ),
        list(
            "copies",
            "Copies found elsewhere",
            "each package is marked; a site says which it runs",
            "Runs",
            elsewhere.collect(),
            odd_copies.len(),
        ),
        list(
            "moved",
            "Moved often",
            "three or more moves in 30 days",
            "Moves",
            moved.collect(),
            many_moves.len(),
        ),
        list(
            "first",
            "Many first copies",
            "packages before any site was bound",
            "Given",
            copied.collect(),
            many_first_copies.len(),
        ),
    ];
    let texts = fine.clone().flat_map(|entry| [entry.who, entry.reason]).flatten();
    let texts = asked.texts(texts.collect()).await?;
    let fine = fine.filter_map(|entry| {
        let reason = text(&texts, entry.reason).filter(|_| asked.visitor.sees_customers());
        Some(FineEntry {
            license: entry.license,
            name: name(&entry.license),
            covers: rows
                .get(&entry.license)
                .map(|row| row.covers.clone())
                .unwrap_or_default(),
            until: ShownDay::of(entry.until?, asked.today()),
            by: author(Some(&entry.scope), text(&texts, entry.who)),
            reason: reason.map(OutsideText::of_sentence),
            since: ShownTime::of(entry.time, asked.now),
        })
    });
    let fine: Vec<_> = fine.collect();
    Ok(PageAnswer::ok(&SharingPage {
        frame: asked.frame("Sharing", NavEntry::Sharing),
        notice: match asked.fields.get("done") {
            "vouched" => Some("The license is fine until that day. Until then it is not listed."),
            "unvouched" => Some("The license is listed again where something was found."),
            "same" => Some("Nothing changed: it is so already."),
            _ => None,
        },
        lists,
        more_fine: vouches.len() - fine.len(),
        fine,
        form: asked.visitor.may(DeskRole::Support).then(|| VouchForm {
            until: usual_end(asked.today()).to_string(),
            today: asked.today().to_string(),
            latest: latest_end(asked.today()).to_string(),
        }),
    }))
}

/// Vouches for a license until the day of the form, or takes that back.
pub(super) async fn vouch(asked: &Asked<'_>, page: DeskPage) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let id = named(asked)?.id;
    let back = |problem: PageProblem| problem.back_to("/sharing".to_owned());
    // What is taken back is named, too: the word that the page showed.
    let until: NaiveDate = asked
        .fields
        .get("until")
        .parse()
        .map_err(|_| back(PageProblem::refused("The form has no day.".to_owned())))?;
    let is_fine = page == DeskPage::Vouch;
    let ledger = asked.state.service.gate.bindings();
    let by = (&Arc::new(ChangeScope::desk()), author_of(asked).map_err(back)?);
    let registry = &asked.snapshot.registry;
    let vouched = vouches::vouch(registry, ledger, by, id, is_fine.then_some(until), asked.now).await;
    let vouched = vouched.map_err(|error| match error {
        VouchError::NoSuchLicense => PageProblem::no_license(),
        VouchError::Past(_) | VouchError::TooFar(_) => PageProblem::refused(format!("{error}.")),
        VouchError::Store(error) => error.into(),
    });
    let done = match vouched.map_err(back)? {
        true if is_fine => "vouched",
        true => "unvouched",
        false => "same",
    };
    Ok(PageAnswer::SeeOther(format!("/sharing?done={done}")))
}
