//! One license of a customer: its sites, what can be done, and what the customer did. And the pages that ask before something is done.

use std::collections::BTreeMap;

use askama::Template;
use chrono::{DateTime, Utc};

use crate::serve::account::asked::AccountAsked;
use crate::serve::account::composer_tokens;
use crate::serve::account::frame::AccountFrame;
use crate::serve::account::list_part::{ListPart, SiteSearch};
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::account::shown_license::ShownLicense;
use crate::serve::account::words::{AccountWords, filled};
use crate::serve::api::licenses::reports;
use crate::serve::found_license::FoundLicense;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::new_once;
use crate::serve::pages::shown::ShownHost;
use crate::serve::reply::problem::Problem;
use countersign_ledger::{Handout, Ledger, LedgerLicense};
use countersign_model::binding::{SiteReport, Stored as _};
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{self, MOVE_PERIOD, ReleasedBy};
use countersign_model::text::outside_text::OutsideText;

/// How many sites a page has, so that it stays small.
const MOST_SITES: usize = 15;

/// How many reports of sites are read for it.
const MOST_REPORTS: usize = 1_000;

/// How many steps it has.
const MOST_STEPS: usize = 10;

/// How many replaced licenses are looked at.
const MOST_REPLACED: usize = 100;

#[derive(Template)]
#[template(path = "account/license.html")]
struct AccountLicensePage<'a> {
    frame: AccountFrame<'a>,
    license: ShownLicense<'a>,
    /// What was done just now.
    notice: Option<&'a str>,
    /// What its state means.
    state_text: Option<&'a str>,
    sites: Vec<ShownSiteOfCustomer<'a>>,
    part: Option<ListPart>,
    forms: Option<KeyForms>,
    /// Where the customer sees what was paid for it, and ends what renews by itself.
    billing: Option<&'a str>,
    /// Whether it may have a Composer token.
    offers_composer: bool,
    steps: Vec<ShownStep>,
}

/// A site of a license.
struct ShownSiteOfCustomer<'w> {
    host: ShownHost,
    /// What it runs, by plugin.
    runs: Vec<OutsideText>,
    seen: Option<String>,
    note: &'w str,
    /// Whether the customer may move or free it.
    may_leave: bool,
}

/// What the forms about the key have.
struct KeyForms {
    once: Hex128,
    /// Whether no address is kept, so that the form asks for it.
    asks_address: bool,
}

/// What the customer did.
struct ShownStep {
    what: OutsideText,
    day: String,
}

#[derive(Template)]
#[template(path = "account/move.html")]
struct AccountMovePage<'a> {
    frame: AccountFrame<'a>,
    id: LicenseId,
    covers: OutsideText,
    host: ShownHost,
    moves_left: String,
}

#[derive(Template)]
#[template(path = "account/new-key.html")]
struct AccountNewKeyPage<'a> {
    frame: AccountFrame<'a>,
    id: LicenseId,
    covers: OutsideText,
    text: String,
    once: Hex128,
    revision: u32,
    asks_address: bool,
}

fn shown<'a>(asked: &AccountAsked<'a>, license: &License) -> ShownLicense<'a> {
    ShownLicense::of(asked.service, asked.snapshot, asked.words, license, asked.today())
}

/// The page.
pub(super) async fn page(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let license: &License = &found;
    let words = asked.words;
    let reported = reports::reports_of(asked.service, license.id, MOST_REPORTS).await?;
    let reported: BTreeMap<SiteHost, SiteReport> =
        reported.into_iter().map(|(_, host, report)| (host, report)).collect();
    let search = SiteSearch::of(asked);
    let mut sites = sites(asked, license, &reported, &search);
    let path = format!("/account/licenses/{}", license.id);
    let part = ListPart::take(asked, &path, &search, &mut sites, MOST_SITES);
    let forms = match issued_with_key(asked, &found) {
        Ok(_) => Some(KeyForms {
            once: once()?,
            asks_address: asked.visitor.row.address.is_none(),
        }),
        Err(_) => None,
    };
    let shown = shown(asked, license);
    let title = shown.covers.as_str().to_owned();
    Ok(PageAnswer::ok(&AccountLicensePage {
        frame: asked.frame(&words.licenses).titled(&title),
        license: shown,
        notice: notice(words, asked.fields.get("done")),
        state_text: match license.state(asked.today()) {
            LicenseState::Active => None,
            LicenseState::Expired => Some(&words.expired_text),
            LicenseState::Suspended => Some(&words.suspended_text),
            LicenseState::Revoked => Some(&words.revoked_text),
        },
        sites,
        part,
        forms,
        billing: (found.order().is_some() || license.renews())
            .then_some(asked.setup.config.billing.as_deref())
            .flatten(),
        offers_composer: composer_tokens::is_offered(asked, license),
        steps: steps(asked, &found),
    }))
}

/// What a form did that led here. The address says which; it can only choose a sentence.
fn notice<'w>(words: &'w AccountWords, done: &str) -> Option<&'w str> {
    Some(match done {
        "freed" => &words.done_freed,
        "moved" => &words.done_moved,
        "mailed" => &words.done_mailed,
        "new-key" => &words.done_key,
        "revoked-token" => &words.done_revoked,
        "same" => &words.done_same,
        _ => return None,
    })
}

fn sites<'w>(
    asked: &AccountAsked<'w>,
    license: &License,
    reported: &BTreeMap<SiteHost, SiteReport>,
    search: &SiteSearch,
) -> Vec<ShownSiteOfCustomer<'w>> {
    let gate = &asked.service.gate;
    let bound = gate.bindings().of(&license.id);
    let used = license.seat_use(&bound, &gate.rules().staging);
    let listed = &license.details.hosts;
    let site = |host: &SiteHost, note: &'w str, may_leave| {
        let report = reported.get(host);
        let runs = report.into_iter().flat_map(|report| &report.current_versions);
        ShownSiteOfCustomer {
            host: ShownHost::from(host),
            runs: runs
                .map(|(slug, version)| OutsideText::of(&format!("{} {version}", plugin_name(asked, slug.as_str()))))
                .collect(),
            seen: report
                .and_then(|report| report.last_seen)
                .map(|seen| asked.words.day(seen.date_naive())),
            note,
            may_leave,
        }
    };
    let may_leave = !matches!(
        license.state(asked.today()),
        LicenseState::Suspended | LicenseState::Revoked
    );
    let set = listed
        .iter()
        .filter(|host| search.has(host))
        .map(|host| site(host, &asked.words.set_by_seller, false));
    let held = bound.all().iter().rev();
    let held = held.filter(|binding| !license.is_void(binding) && !listed.contains(&binding.host));
    let held = held.filter(|binding| search.has(&binding.host));
    let held = held.map(|binding| {
        let is_copy = used.copies.contains(&&binding.host);
        let note = if is_copy { asked.words.copy.as_str() } else { "" };
        site(&binding.host, note, may_leave)
    });
    set.chain(held).collect()
}

/// How people know a plugin.
fn plugin_name(asked: &AccountAsked<'_>, slug: &str) -> String {
    let plugin = asked.snapshot.registry.plugin(slug);
    plugin.map_or(slug.to_owned(), |plugin| {
        let published = asked.snapshot.catalog.plugin_name(&plugin.slug);
        plugin.shown_name(published).to_owned()
    })
}

/// What the customer did: in memory are the moves of this license, what it gave lately, and whether it got a new key.
fn steps(asked: &AccountAsked<'_>, found: &FoundLicense<'_>) -> Vec<ShownStep> {
    let words = asked.words;
    let bound = asked.service.gate.bindings().of(&found.id);
    let moves = bound
        .moves()
        .iter()
        .filter(|release| release.by == ReleasedBy::Customer);
    let mut steps: Vec<(DateTime<Utc>, String)> = moves
        .map(|release| {
            let host = release.host.as_str();
            let what = match &release.moved {
                Some(moved) => filled(&words.step_moved, &[("host", host), ("to", moved.to.as_str())]),
                None => filled(&words.step_freed, &[("host", host)]),
            };
            (release.time, what)
        })
        .collect();
    let given = asked.service.gate.bindings().handouts(&found.id);
    let own = given.iter().filter(|entry| *entry.scope == ChangeScope::account());
    steps.extend(own.filter_map(|entry| {
        let what = match &entry.what {
            Handout::Key => words.step_mailed.clone(),
            Handout::Package(package) => {
                let name = format!("{} {}", plugin_name(asked, package.plugin.as_str()), package.version);
                filled(&words.step_downloaded, &[("name", &name)])
            }
            // No form of this page.
            Handout::Page | Handout::Address => return None,
        };
        Some((entry.time, what))
    }));
    if let FoundLicense::Ledger(issued) = found
        && *issued.origin.scope == ChangeScope::account()
    {
        steps.push((issued.origin.issued, words.step_key.clone()));
    }
    steps.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let steps = steps.into_iter().take(MOST_STEPS);
    steps
        .map(|(time, what)| ShownStep {
            what: OutsideText::of_sentence(&what),
            day: words.day(time.date_naive()),
        })
        .collect()
}

/// The page that asks whether a site moved or is gone.
pub(super) async fn ask_move(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let back = format!("/account/licenses/{}", found.id);
    let bound = asked.service.gate.bindings().of(&found.id);
    let host = asked.fields.get("host").parse::<SiteHost>().ok();
    let is_held = |host: &SiteHost| bound.find(host).is_some_and(|binding| !found.is_void(binding));
    let host = host.filter(is_held);
    let host = host.ok_or_else(|| AccountProblem::from(AccountRefusal::NotOnIt).back_to(&back))?;
    let left = moves_left(asked, &found, MovesOf::License);
    Ok(PageAnswer::ok(&AccountMovePage {
        frame: asked.frame(&asked.words.move_title),
        id: found.id,
        covers: shown(asked, &found).covers,
        host: ShownHost::from(&host),
        moves_left: filled(&asked.words.moves_left, &[("count", &left.to_string())]),
    }))
}

/// The page that asks whether the license shall have a new key.
pub(super) async fn ask_new_key(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let back = |problem: AccountProblem| problem.back_to(&format!("/account/licenses/{}", found.id));
    let issued = issued_with_key(asked, &found).map_err(back)?;
    let bound = asked.service.gate.bindings().of(&found.id);
    let count = bound.all().iter().filter(|binding| !found.is_void(binding)).count();
    Ok(PageAnswer::ok(&AccountNewKeyPage {
        frame: asked.frame(&asked.words.key_title),
        id: found.id,
        covers: shown(asked, &found).covers,
        text: filled(&asked.words.key_text, &[("count", &count.to_string())]),
        once: once()?,
        revision: issued.revision,
        asks_address: asked.visitor.row.address.is_none(),
    }))
}

fn once() -> Result<Hex128, AccountProblem> {
    Ok(new_once().map_err(|error| Problem::internal(&error))?)
}

/// The license, if its key can be made and mailed.
///
/// # Errors
/// A file declares it, it is suspended or revoked, its key was made elsewhere, or there is no mail server.
pub(super) fn issued_with_key<'f>(
    asked: &AccountAsked<'_>,
    found: &'f FoundLicense<'_>,
) -> Result<&'f LedgerLicense, AccountProblem> {
    let FoundLicense::Ledger(issued) = found else {
        return Err(AccountRefusal::AskSeller.into());
    };
    let may = matches!(
        issued.license.state(asked.today()),
        LicenseState::Active | LicenseState::Expired
    );
    if !may {
        return Err(AccountRefusal::NotActive.into());
    }
    match asked.secrets.license_key(&issued.origin).is_some() && asked.service.mail.get().is_some() {
        true => Ok(issued),
        false => Err(AccountRefusal::NoMail.into()),
    }
}

/// Whose moves count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MovesOf {
    /// Those of a license.
    License,
    /// Also those of the licenses that it replaced, and each new key that the customer got: it frees all seats.
    Replaced,
}

/// How often a license may still move within 30 days.
pub(super) fn moves_left(asked: &AccountAsked<'_>, license: &License, of: MovesOf) -> usize {
    let gate = &asked.service.gate;
    let ledger = gate.bindings();
    let most = license.most_moves(gate.rules().site_moves) as usize;
    let mut moves = moves_of(ledger, license, asked.now);
    let mut next = (of == MovesOf::Replaced).then_some(license.id);
    for _ in 0..MOST_REPLACED {
        let Some(issued) = next.and_then(|id| ledger.issued(&id)) else {
            break;
        };
        if issued.license.id != license.id {
            moves += moves_of(ledger, &issued.license, asked.now);
        }
        let is_recent = asked.now.signed_duration_since(issued.origin.issued) < MOVE_PERIOD;
        if !is_recent {
            break;
        }
        moves += usize::from(*issued.origin.scope == ChangeScope::account());
        next = issued.license.details.replaces;
    }
    most.saturating_sub(moves)
}

fn moves_of(ledger: &Ledger, license: &License, now: DateTime<Utc>) -> usize {
    let bound = ledger.of(&license.id);
    let is_held = |host: &SiteHost| bound.find(host).is_some_and(|binding| !license.is_void(binding));
    site_release::moves(bound.moves(), is_held, now).count()
}
