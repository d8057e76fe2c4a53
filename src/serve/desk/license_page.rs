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
use crate::serve::pages::form::new_once;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, ShownHost, ShownTime, counted, covers, sentence};
use crate::serve::reply::problem::Problem;
use countersign_ledger::StoreError;
use countersign_model::binding::{SiteReport, Stored as _};
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license::{License, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::StepRefusal;
use countersign_model::period::{NEVER, Period};
use countersign_model::refused_hosts::MOST_HOSTS;
use countersign_model::seat::Seat;
use countersign_model::site_host::SiteHost;
use countersign_model::stored_text::StoredText;
use countersign_model::text::outside_text::OutsideText;

/// How many sites a page has.
const MOST_SITES: usize = 200;

/// How many sites a page names that asked in vain.
const MOST_IN_VAIN: usize = 20;

/// The most sites among which the page has one chosen whose seat goes to another.
const MOST_GIVERS: usize = 20;

/// The most sites that support may give a license.
pub(super) const MOST_SUPPORT_SITES: u32 = 100;

#[derive(Template)]
#[template(path = "desk/license.html")]
struct LicensePage {
    frame: PageFrame,
    /// What was done just now.
    notice: Option<String>,
    /// A sentence about sharing, and whether it is a warning.
    sharing: Option<(String, bool)>,
    /// What keeps the customer from using it.
    alerts: Vec<OutsideText>,
    row: LicenseRow,
    /// The name of the license on its page.
    heading: OutsideText,
    is_named: bool,
    seats: String,
    sites: Vec<ShownSite>,
    more_sites: usize,
    /// Sites whose seat a refused one may get, where they are few.
    givers: Vec<ShownHost>,
    in_vain: Option<SitesInVain>,
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

/// Sites that have no seat and asked for one.
struct SitesInVain {
    /// The one that asked last comes first.
    hosts: Vec<ShownHost>,
    /// How many more there are, as far as that is known.
    more: Option<String>,
    /// When the first of them asked last.
    last: ShownTime,
    why: String,
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
    /// The end that was chosen beside the form, which is not saved yet.
    chosen: Option<ShownDay>,
    tomorrow: String,
    sites: String,
    most_sites: u32,
    is_suspended: bool,
    /// Whether nobody here can lift it.
    is_shops: bool,
    /// Ends that people want often, each with what it is called.
    quick_ends: Vec<(&'static str, String)>,
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
    let in_vain = sites_in_vain(asked, license).await?;
    let is_named = !row.customer.name.is_empty();
    let heading = if is_named {
        row.customer.name.clone()
    } else {
        OutsideText::of(&row.tag)
    };
    let facts = facts(asked, &found, &row, &names, &texts);
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
    let held = sites.iter().filter(|site| site.is_held).map(|site| site.host.clone());
    let givers = match sites.len() {
        ..=MOST_GIVERS if change.is_some() => held.collect(),
        _ => Vec::new(),
    };
    let history = ShownHistory::of(asked, license.id).await?;
    let page = LicensePage {
        frame: asked.frame(heading.as_str(), NavEntry::Licenses).with_find(),
        notice: notice(asked, &found),
        sharing: sharing(asked, license.id).await,
        seats: seats(asked, license),
        alerts: alerts(asked, &found, &history),
        history,
        row,
        heading,
        is_named,
        givers,
        sites,
        more_sites,
        in_vain,
        facts,
        change,
        no_change,
    };
    Ok(PageAnswer::page(StatusCode::OK, &page))
}

/// What a form did that led here. The address says which; what it says is true of the license now.
fn notice(asked: &Asked<'_>, found: &FoundLicense<'_>) -> Option<String> {
    let done = asked.fields.get("done");
    let site = asked.fields.get("site").parse::<SiteHost>().ok();
    let is_suspended = found.status == LicenseStatus::Suspended;
    let ends = ShownDay::of(found.expires, asked.today()).exact;
    let plain = match done {
        "extended" if is_suspended => "The new end is kept. The license stays suspended.",
        "extended" => {
            return Some(format!(
                "It ends {ends} now. The customer’s sites see it at their next check."
            ));
        }
        "sites" => "The number of sites is in force.",
        "freed" => match site {
            Some(site) => return Some(format!("The seat of {site} is free.")),
            None => "The seat is free.",
        },
        "moved" => match site {
            Some(site) => return Some(format!("The seat is reserved for {site}.")),
            None => "The seat is the new site’s.",
        },
        "modules" => "What it covers is in force.",
        "note" => "The note is saved.",
        "assigned" => "The license is for the customer with this address.",
        "address" => {
            "The customer has the new address, with the same name and the same licenses. Later mails go to it."
        }
        "erased" => "The customer is erased. The licenses stay.",
        "issued" => "The license is issued, and its key is on its way to the customer.",
        "suspended" => "The license is suspended.",
        "lifted" if is_suspended => {
            let shop = shop_suspended(asked, found).unwrap_or_default();
            return Some(format!(
                "What a person suspended is lifted, and the license stays suspended. {shop}"
            ));
        }
        "lifted" => "The license works again.",
        "revoked" => "The license is revoked for good.",
        "new-key" => "This license has a new key, which is mailed to the customer. The old key never works again.",
        "mailed" => "The key is on its way to the customer.",
        "mailed-page" => "The link to the download is on its way to the customer.",
        "same" => "Nothing changed: it is so already.",
        _ => return None,
    };
    Some(plain.to_owned())
}

/// What keeps the customer from using a license: it is suspended, or its key did not arrive.
fn alerts(asked: &Asked<'_>, found: &FoundLicense<'_>, history: &ShownHistory) -> Vec<OutsideText> {
    let mut alerts = Vec::new();
    if found.status == LicenseStatus::Suspended {
        alerts.push(shop_suspended(asked, found).unwrap_or_else(|| {
            let by = match found {
                FoundLicense::Ledger(issued) => issued.status_by.as_ref().map(|by| by.words()),
                FoundLicense::Declared(_) => None,
            };
            format!(
                "Suspended by {}. Its sites get no updates.",
                by.as_deref().unwrap_or("its file")
            )
        }));
    }
    if history.is_key_undelivered {
        alerts.push(
            "The mail with the key did not arrive; the history says why. Enter a new mail address if this one is wrong, then mail the key \
             again."
                .to_owned(),
        );
    }
    alerts.iter().map(|alert| OutsideText::of_sentence(alert)).collect()
}

/// That a shop suspends the license, and why; `None` if none does.
fn shop_suspended(asked: &Asked<'_>, license: &License) -> Option<String> {
    let sold = license.details.remarks().sold.as_deref()?;
    let is_shops = sold.granted(&license.sold_grant()).status == LicenseStatus::Suspended;
    let sale = asked
        .state
        .service
        .gate
        .bindings()
        .known_sale(sold.sale)
        .filter(|_| is_shops);
    let cause = sale.and_then(|sale| sale.facts.suspension_cause());
    is_shops.then(|| sentence(&StepRefusal::ShopSuspended(cause).to_string()))
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
    // A file’s hosts are changed in the file.
    let ahead = listed.map(|host| {
        site(
            host,
            None,
            "reserved: it gets the seat when it asks",
            !license.is_declared,
        )
    });
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

/// The sites that asked in vain since the license began to refuse some, if there are any.
async fn sites_in_vain(asked: &Asked<'_>, license: &License) -> Result<Option<SitesInVain>, PageProblem> {
    let service = &asked.state.service;
    let Some(refused) = reports::refused_of(service, license.id).await? else {
        return Ok(None);
    };
    let rules = service.gate.rules();
    let bound = service.gate.bindings().of(&license.id);
    let has_seat = |host: &SiteHost| license.seat(&bound, &rules.staging, host) == Seat::Held;
    let hosts: Vec<_> = refused.hosts().iter().rev().filter(|host| !has_seat(host)).collect();
    if hosts.is_empty() {
        return Ok(None);
    }
    let used = license.used_seats(&bound, &rules.staging);
    let more = hosts.len().saturating_sub(MOST_IN_VAIN);
    // No more of them are kept, so nobody knows how many there are.
    let is_cut = refused.hosts().len() == MOST_HOSTS;
    Ok(Some(SitesInVain {
        more: match (more, is_cut) {
            (0, false) => None,
            (0, true) => Some("and more".to_owned()),
            (more, false) => Some(format!("and {more} more")),
            (more, true) => Some(format!("and at least {more} more")),
        },
        hosts: hosts.into_iter().take(MOST_IN_VAIN).map(ShownHost::from).collect(),
        last: ShownTime::of(refused.last, asked.now),
        why: match license.sites {
            SiteLimit::Limited(limit) if used >= limit.get() as usize => match limit.get() {
                1 => "the only seat is taken".to_owned(),
                2 => "both seats are taken".to_owned(),
                seats => format!("all {seats} seats are taken"),
            },
            _ => "no seat was free then; one is now".to_owned(),
        },
    }))
}

fn facts(
    asked: &Asked<'_>,
    found: &FoundLicense<'_>,
    row: &LicenseRow,
    names: &LicenseNames,
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
    let rights = license.details.rights.labelled().into_iter();
    let rights = rights.filter(|(_, value)| !value.is_empty());
    facts.extend(rights.map(|(name, value)| plain(name, OutsideText::of(&value))));
    for (number, address) in names.addresses(license).into_iter().enumerate() {
        let query: String = url::form_urlencoded::byte_serialize(address.as_str().as_bytes()).collect();
        let name = match number {
            0 => "Address",
            _ => "Another address",
        };
        facts.push(LicenseFact {
            link: Some(format!("/licenses?q={query}")),
            ..plain(name, address)
        });
    }
    if let Some(order) = &row.order {
        facts.push(plain("Order", order.clone()));
    }
    if let FoundLicense::Ledger(issued) = found {
        let sale = remarks.sold.as_ref().map(|sold| sold.sale);
        let sale = sale.and_then(|sale| asked.state.service.gate.bindings().known_sale(sale));
        if let Some(began) = sale.and_then(|sale| sale.facts.began()) {
            facts.push(plain(
                "Ordered",
                OutsideText::of(&ShownTime::of(began, asked.now).exact),
            ));
        }
        let by = issued.origin.scope.words();
        let issued_at = ShownTime::of(issued.origin.issued, asked.now);
        facts.push(plain(
            "Issued",
            OutsideText::of(&format!("{} by {by}", issued_at.exact)),
        ));
        if let (true, Some(by)) = (license.status != LicenseStatus::Active, &issued.status_by) {
            let name = match license.status {
                LicenseStatus::Revoked => "Revoked by",
                _ => "Suspended by",
            };
            facts.push(plain(name, OutsideText::of(&by.words())));
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
        chosen: (asked.fields.get("until").parse().ok()).map(|chosen| ShownDay::of(chosen, asked.today())),
        quick_ends: quick_ends(license, asked.today()),
        tomorrow: asked.today().to_string(),
        sites: match license.sites {
            SiteLimit::Limited(limit) => limit.to_string(),
            SiteLimit::Unlimited => String::new(),
        },
        most_sites: if is_admin { 100_000 } else { MOST_SUPPORT_SITES },
        is_suspended: license.status == LicenseStatus::Suspended,
        is_shops: (license.details.remarks().sold.as_deref())
            .is_some_and(|sold| sold.is_suspended_by_shop_alone(&license.sold_grant())),
        may_revoke: is_admin,
        note: note.to_owned(),
        modules: is_admin.then(|| terms_form::modules_text(&license.modules)),
        has_holder: license.details.remarks().holder.is_some(),
        once: once()?,
        mails_key: may_mail && asked.secrets.license_key(&issued.origin).is_some(),
        mails_page: may_mail && pages.is_some_and(|pages| pages.link(license, asked.today()).is_some()),
    }))
}

/// A month and a year after the end of a license, or after today if it is over.
fn quick_ends(license: &License, today: NaiveDate) -> Vec<(&'static str, String)> {
    if license.expires == NEVER {
        return Vec::new();
    }
    let from = license.expires.max(today);
    let ends = [("+1 month", Period::Months(1)), ("+1 year", Period::Months(12))];
    ends.map(|(name, period)| (name, period.after(from).to_string())).into()
}

/// A sentence about signs of sharing, with `true`, or about the day until which a person marked the license as fine, with `false`.
async fn sharing(asked: &Asked<'_>, id: LicenseId) -> Option<(String, bool)> {
    let vouch = asked.state.service.gate.bindings().vouch_of(&id, asked.today());
    if let Some(until) = vouch.and_then(|entry| entry.until) {
        let until = ShownDay::of(until, asked.today()).exact;
        return Some((format!("Marked as fine until {until}."), false));
    }
    // Without it, the page says everything else.
    let found = kept_figures::sharing(asked).await.ok()?;
    if let Some(refused) = found.many_hosts.iter().find(|found| found.license == id) {
        let count = refused.hosts.len();
        let sites = match count {
            MOST_HOSTS.. => format!("{count} sites or more"),
            count => counted(count, "site"),
        };
        return Some((format!("{sites} without a seat asked with this key."), true));
    }
    let is_listed = found.many_moves.iter().any(|found| found.license == id)
        || found.many_first_copies.iter().any(|found| found.license == id)
        || found.odd_copies.iter().any(|found| found.license == id);
    is_listed.then(|| ("It may be shared.".to_owned(), true))
}

/// A random number for a form: if the form is sent twice, it is one mail or one key.
pub(super) fn once() -> Result<String, PageProblem> {
    let once = new_once().map_err(|error| Problem::internal(&error))?;
    Ok(once.to_string())
}
