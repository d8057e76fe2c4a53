//! One license: its sites and what they run, its customer and order, what happened to it, and the forms that change it.

use std::collections::BTreeMap;

use askama::Template;
use chrono::NaiveDate;
use warp::http::StatusCode;

use crate::serve::api::licenses::reports;
use crate::serve::desk::asked::{Asked, text};
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::kept_figures;
use crate::serve::desk::license_history::{ShownHistory, author};
use crate::serve::desk::license_rows::{LicenseNames, LicenseRow};
use crate::serve::desk::terms_form;
use crate::serve::found_license::{self, FoundLicense};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::covered::covers;
use crate::serve::pages::form_fields::new_once;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, ShownHost, ShownTime, counted};
use crate::serve::reply::problem::Problem;
use countersign_ledger::StoreError;
use countersign_model::binding::{SiteReport, Stored as _};
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license::{License, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::period::{NEVER, Period};
use countersign_model::site_host::SiteHost;
use countersign_model::stored_text::StoredText;
use countersign_model::text::outside_text::OutsideText;

/// How many sites a page has.
const MOST_SITES: usize = 200;

/// The most sites that support may give a license.
pub(super) const MOST_SUPPORT_SITES: u32 = 100;

#[derive(Template)]
#[template(path = "desk/license.html")]
struct LicensePage {
    frame: PageFrame,
    /// What was done just now.
    notice: Option<&'static str>,
    /// What looks like sharing.
    sharing: Option<String>,
    row: LicenseRow,
    /// The name of the license on its page.
    heading: OutsideText,
    is_named: bool,
    seats: String,
    sites: Vec<ShownSite>,
    more_sites: usize,
    history: ShownHistory,
    facts: Vec<LicenseFact>,
    change: Option<ChangeForms>,
    /// Why there are no forms.
    no_change: Option<OutsideText>,
}

/// A site of a license.
struct ShownSite {
    host: ShownHost,
    /// What it runs, by plugin.
    runs: Vec<OutsideText>,
    seen: Option<ShownTime>,
    since: Option<ShownTime>,
    /// What is special about it.
    note: &'static str,
    /// Whether its seat can be freed here.
    is_held: bool,
}

/// A line about a license.
struct LicenseFact {
    name: &'static str,
    value: OutsideText,
    link: Option<String>,
    is_code: bool,
}

/// The forms that a visitor may use now.
struct ChangeForms {
    revision: u32,
    until: String,
    /// The end that the form begins with.
    proposed: String,
    tomorrow: String,
    sites: String,
    most_sites: u32,
    is_suspended: bool,
    may_revoke: bool,
    note: String,
    /// What it covers, for who may change that and say whose it is.
    modules: Option<String>,
    /// Whether it has a customer that can be erased.
    has_holder: bool,
    /// What makes the forms for mails one, however often they are sent.
    once: String,
    /// Whether the key can be mailed to the customer.
    mails_key: bool,
    /// Whether a link to the download can be mailed to the customer.
    mails_page: bool,
}

/// The license that a path names, as it is in force.
///
/// # Errors
/// The name is no id, or nobody has it.
pub(super) fn named<'a>(asked: &'a Asked<'_>) -> Result<FoundLicense<'a>, PageProblem> {
    let id: LicenseId = asked.name.parse().map_err(|_| PageProblem::no_license())?;
    let bindings = asked.state.service.gate.bindings();
    found_license::find(&asked.snapshot.registry, bindings, &id).ok_or_else(PageProblem::no_license)
}

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let found = named(asked)?;
    let license: &License = &found;
    let only = std::slice::from_ref(&found);
    let names = LicenseNames::of(asked, only).await?;
    let row = LicenseRow::of(asked, &names, &found);
    let texts = match &found {
        FoundLicense::Ledger(issued) => texts(asked, issued).await?,
        FoundLicense::Declared(_) => BTreeMap::new(),
    };
    let reported = reports::reports_of(&asked.state.service, license.id, MOST_SITES).await?;
    let reported: BTreeMap<SiteHost, SiteReport> =
        reported.into_iter().map(|(_, host, report)| (host, report)).collect();
    let (sites, more_sites) = sites(asked, license, &reported);
    let is_named = !row.customer.name.is_empty();
    let heading = if is_named {
        row.customer.name.clone()
    } else {
        OutsideText::of(&row.tag)
    };
    let facts = facts(asked, &found, &row, &texts);
    let (change, no_change) = match &found {
        FoundLicense::Ledger(issued) => {
            let note = text(&texts, license.details.remarks().note).unwrap_or_default();
            (forms(asked, issued, note, row.customer.address.is_some())?, None)
        }
        FoundLicense::Declared(_) => {
            let place = asked.snapshot.registry.place(&license.id);
            let place =
                place.map(|(file, line)| format!("{}:{line} declares this license. Change it there.", file.display()));
            (None, place.as_deref().map(OutsideText::of_sentence))
        }
    };
    let page = LicensePage {
        frame: asked.frame(heading.as_str(), NavEntry::Licenses).with_find(),
        notice: notice(asked.fields.get("done")),
        sharing: sharing(asked, license.id).await,
        seats: seats(asked, license),
        history: ShownHistory::of(asked, license.id).await?,
        row,
        heading,
        is_named,
        sites,
        more_sites,
        facts,
        change,
        no_change,
    };
    Ok(PageAnswer::page(StatusCode::OK, &page))
}

/// What a form did that led here. The address says which; it can only choose a sentence.
fn notice(done: &str) -> Option<&'static str> {
    Some(match done {
        "extended" => "The new end is in force. The customer’s sites see it at their next check.",
        "sites" => "The number of sites is in force.",
        "freed" => "The seat is free.",
        "moved" => "The seat is the new site’s.",
        "modules" => "What it covers is in force.",
        "note" => "The note is saved.",
        "assigned" => "The license is for the customer with this address.",
        "erased" => "The customer is erased. The licenses stay.",
        "issued" => "The license is issued, and its key is on its way to the customer.",
        "suspended" => "The license is suspended.",
        "lifted" => "The license works again.",
        "revoked" => "The license is revoked for good.",
        "new-key" => "This license has a new key, which is mailed to the customer. The old key never works again.",
        "mailed" => "The key is on its way to the customer.",
        "mailed-page" => "The link to the download is on its way to the customer.",
        "same" => "Nothing changed: it is so already.",
        _ => return None,
    })
}

/// The texts that the last line of a license names.
pub(super) async fn texts(
    asked: &Asked<'_>,
    issued: &IssuedLicense,
) -> Result<BTreeMap<Hex128, StoredText>, StoreError> {
    asked.texts(issued.license.details.remarks().texts().collect()).await
}

/// Who made the last change, for people.
pub(super) fn changed_by(issued: &IssuedLicense, texts: &BTreeMap<Hex128, StoredText>) -> OutsideText {
    author(Some(&issued.scope), text(texts, issued.license.details.remarks().who))
}

fn seats(asked: &Asked<'_>, license: &License) -> String {
    let gate = &asked.state.service.gate;
    let bound = gate.bindings().of(&license.id);
    let used = license.seat_use(&bound, &gate.rules().staging);
    let seats = match license.sites {
        SiteLimit::Limited(limit) => format!("{} of {} used", used.seats, counted(limit.get() as usize, "seat")),
        SiteLimit::Unlimited => format!("{} used, any number allowed", counted(used.seats, "seat")),
    };
    match used.copies.len() {
        0 => seats,
        copies => format!("{seats} · {copies} staging"),
    }
}

fn sites(asked: &Asked<'_>, license: &License, reported: &BTreeMap<SiteHost, SiteReport>) -> (Vec<ShownSite>, usize) {
    let gate = &asked.state.service.gate;
    let bound = gate.bindings().of(&license.id);
    let used = license.seat_use(&bound, &gate.rules().staging);
    let listed = license.details.hosts.iter();
    let listed = listed.filter(|host| bound.all().iter().all(|binding| binding.host != **host));
    let name = |slug| {
        let plugin = asked.snapshot.registry.plugin(slug);
        plugin.map_or(slug.to_owned(), |plugin| {
            plugin
                .shown_name(asked.snapshot.catalog.plugin_name(&plugin.slug))
                .to_owned()
        })
    };
    let site = |host: &SiteHost, since, note, is_held| {
        let report = reported.get(host);
        let runs = report.into_iter().flat_map(|report| &report.current_versions);
        ShownSite {
            host: ShownHost::from(host),
            runs: runs
                .map(|(slug, version)| OutsideText::of(&format!("{} {version}", name(slug.as_str()))))
                .collect(),
            seen: report
                .and_then(|report| report.last_seen)
                .map(|seen| ShownTime::of(seen, asked.now)),
            since,
            note,
            is_held,
        }
    };
    let ahead = listed.map(|host| site(host, None, "listed ahead", false));
    let of_bound = bound.all().iter().rev().map(|binding| {
        let is_void = license.is_void(binding);
        let note = match &binding.host {
            _ if is_void => "freed, takes no seat",
            host if used.copies.contains(&host) => "staging, takes no seat",
            host if used.gave_way.contains(&host) => "has no seat: the file lists others",
            _ => "",
        };
        site(
            &binding.host,
            Some(ShownTime::of(binding.bound_at, asked.now)),
            note,
            !is_void,
        )
    });
    let mut all: Vec<_> = ahead.chain(of_bound).collect();
    // Those with a seat first.
    all.sort_by_key(|site| !site.is_held && site.since.is_some());
    let more = all.len().saturating_sub(MOST_SITES);
    all.truncate(MOST_SITES);
    (all, more)
}

fn facts(
    asked: &Asked<'_>,
    found: &FoundLicense<'_>,
    row: &LicenseRow,
    texts: &BTreeMap<Hex128, StoredText>,
) -> Vec<LicenseFact> {
    let license: &License = found;
    let remarks = license.details.remarks();
    let plain = |name, value: OutsideText| LicenseFact {
        name,
        value,
        link: None,
        is_code: false,
    };
    let mut facts = vec![plain("Covers", covers(license, asked.snapshot))];
    if let Some(address) = &row.customer.address {
        let query: String = url::form_urlencoded::byte_serialize(address.as_str().as_bytes()).collect();
        facts.push(LicenseFact {
            link: Some(format!("/licenses?q={query}")),
            ..plain("Address", address.clone())
        });
    }
    if let Some(order) = &row.order {
        facts.push(plain("Order", order.clone()));
    }
    if let FoundLicense::Ledger(issued) = found {
        let by = issued.origin.scope.words();
        let issued_at = ShownTime::of(issued.origin.issued, asked.now);
        facts.push(plain(
            "Issued",
            OutsideText::of(&format!("{} by {by}", issued_at.exact)),
        ));
        if let (true, Some(by)) = (license.status != LicenseStatus::Active, &issued.status_by) {
            facts.push(plain("Withdrawn by", OutsideText::of(&by.words())));
        }
        if let Some(sold) = &remarks.sold {
            let sale = sold.sale.to_string();
            facts.push(plain("Sale", OutsideText::of(&sale[..8])));
        }
        if let Some(note) = text(texts, remarks.note).filter(|_| asked.visitor.sees_customers()) {
            facts.push(plain("Note", OutsideText::of_sentence(note)));
        }
        facts.push(plain("Revision", OutsideText::of(&issued.revision.to_string())));
    }
    if let Some(replaced) = license.details.replaces {
        facts.push(LicenseFact {
            link: Some(format!("/licenses/{replaced}")),
            is_code: true,
            ..plain("Took the place of", OutsideText::of(&replaced.log_tag()))
        });
    }
    facts.push(LicenseFact {
        is_code: true,
        ..plain("License", OutsideText::of(&license.id.to_string()))
    });
    facts.push(plain("Key", OutsideText::of("not kept here")));
    facts
}

fn forms(
    asked: &Asked<'_>,
    issued: &IssuedLicense,
    note: &str,
    has_address: bool,
) -> Result<Option<ChangeForms>, PageProblem> {
    let license = &issued.license;
    if !asked.visitor.may(DeskRole::Support) || license.status == LicenseStatus::Revoked {
        return Ok(None);
    }
    let is_admin = asked.visitor.may(DeskRole::Admin);
    let may_mail = has_address && asked.state.service.mail.get().is_some();
    let pages = asked.state.service.first_copy_pages(asked.snapshot);
    Ok(Some(ChangeForms {
        revision: issued.revision,
        until: ShownDay::of(license.expires, asked.today()).machine,
        proposed: ShownDay::of(later_end(license), asked.today()).machine,
        tomorrow: asked.today().to_string(),
        sites: match license.sites {
            SiteLimit::Limited(limit) => limit.to_string(),
            SiteLimit::Unlimited => String::new(),
        },
        most_sites: if is_admin { 100_000 } else { MOST_SUPPORT_SITES },
        is_suspended: license.status == LicenseStatus::Suspended,
        may_revoke: is_admin,
        note: note.to_owned(),
        modules: is_admin.then(|| terms_form::modules_text(&license.modules)),
        has_holder: license.details.remarks().holder.is_some(),
        once: once()?,
        mails_key: may_mail && asked.secrets.license_key(&issued.origin).is_some(),
        mails_page: may_mail && pages.is_some_and(|pages| pages.link(license, asked.today()).is_some()),
    }))
}

/// A year after the end of a license; of one that never ends, its end.
fn later_end(license: &License) -> NaiveDate {
    match license.expires {
        NEVER => NEVER,
        expires => Period::Months(12).after(expires),
    }
}

/// What looks like sharing of a license, or until when somebody says that it is none.
async fn sharing(asked: &Asked<'_>, id: LicenseId) -> Option<String> {
    let vouch = asked.state.service.gate.bindings().vouch_of(&id, asked.today());
    if let Some(until) = vouch.and_then(|entry| entry.until) {
        let until = ShownDay::of(until, asked.today()).exact;
        return Some(format!("Marked as fine until {until}."));
    }
    // Without it, the page says everything else.
    let found = kept_figures::sharing(asked).await.ok()?;
    if let Some(refused) = found.many_hosts.iter().find(|found| found.license == id) {
        let sites = counted(refused.hosts.len(), "site");
        return Some(format!("{sites} without a seat asked with this key."));
    }
    let is_listed = found.many_moves.iter().any(|found| found.license == id)
        || found.many_first_copies.iter().any(|found| found.license == id)
        || found.odd_copies.iter().any(|found| found.license == id);
    is_listed.then(|| "It may be shared.".to_owned())
}

/// A random number for a form: if the form is sent twice, it is one mail or one key.
pub(super) fn once() -> Result<String, PageProblem> {
    let once = new_once().map_err(|error| Problem::internal(&error))?;
    Ok(once.to_string())
}
