//! A new license, issued by a person. As `countersign license issue`.

use askama::Template;
use chrono::NaiveDate;
use warp::http::StatusCode;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_changes::{desk_event, done, once};
use crate::serve::desk::license_page;
use crate::serve::desk::terms_form;
use crate::serve::license_mails::{MailsOrder, enqueue_key};
use crate::serve::ops::issue_answers::{IssueOrder, IssueReply, LicenseGrant};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::sentence;
use countersign_mail::address::MailAddress;
use countersign_model::customer::CustomerAddress;
use countersign_model::license::{Modules, SiteLimit};
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::offer::{LicenseTerm, Offer};
use countersign_model::period::NEVER;
use countersign_model::rights::Rights;
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "desk/new-license.html")]
struct NewLicensePage {
    frame: PageFrame,
    offers: Vec<(String, OutsideText)>,
    tomorrow: NaiveDate,
    /// Whether there is a mail server.
    mails: bool,
    once: String,
    /// Why the form was not carried out.
    problem: Vec<OutsideText>,
    /// What was typed.
    typed: TypedTerms,
}

/// The fields of the form as they were typed.
#[derive(Default)]
struct TypedTerms {
    offer: String,
    modules: String,
    sites: String,
    until: String,
    address: String,
    note: String,
    key: String,
}

impl TypedTerms {
    fn of(asked: &Asked<'_>) -> Self {
        // SECURITY: a key that is pasted into the wrong field is on no page.
        let typed = |name| match asked.fields.get(name) {
            text if LicenseKey::is_in(text) => String::new(),
            text => text.to_owned(),
        };
        Self {
            offer: typed("offer"),
            modules: typed("modules"),
            sites: typed("sites"),
            until: typed("until"),
            address: typed("address"),
            note: typed("note"),
            key: typed("key"),
        }
    }
}

/// A problem with the field that has it.
fn in_field(name: &'static str) -> impl Fn(PageProblem) -> PageProblem {
    move |problem| {
        let sentences = problem.sentences();
        let said: Vec<_> = sentences.iter().map(OutsideText::as_str).collect();
        PageProblem::refused(format!("{name}: {}", said.join(" ")))
    }
}

/// A key, shown once.
// SECURITY: the key is on this page alone, which no browser keeps.
#[derive(Template)]
#[template(path = "desk/new-key.html")]
struct NewKeyPage {
    frame: PageFrame,
    id: LicenseId,
    tag: String,
    key: String,
    download_page: Option<String>,
    is_repeated: bool,
}

/// The form.
pub(super) fn form(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let once = license_page::once()?;
    Ok(PageAnswer::ok(&form_page(
        asked,
        once,
        Vec::new(),
        TypedTerms::default(),
    )))
}

/// Carries the form out. If something is wrong in it, it is shown again with what was typed.
pub(super) async fn issue(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    match issued(asked).await {
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY && problem.back.is_none() => {
            let page = form_page(asked, once(asked)?, problem.sentences(), TypedTerms::of(asked));
            Ok(PageAnswer::page(problem.status, &page))
        }
        answer => answer,
    }
}

fn form_page(asked: &Asked<'_>, once: String, problem: Vec<OutsideText>, typed: TypedTerms) -> NewLicensePage {
    let offers = asked.snapshot.registry.offers().all().iter();
    let offers = offers.filter(|(offer, _)| !offer.is_nothing);
    let shown = offers.map(|(offer, _)| {
        let modules = terms_form::modules_text(&offer.modules);
        let grants = format!("{}: {modules} · sites: {} · {}", offer.name, offer.sites, offer.lasts);
        (offer.name.to_string(), OutsideText::of(&grants))
    });
    NewLicensePage {
        frame: asked.frame("New license", NavEntry::Licenses),
        offers: shown.collect(),
        tomorrow: asked.today().succ_opt().unwrap_or(asked.today()),
        mails: asked.state.service.mail.get().is_some(),
        once,
        problem,
        typed,
    }
}

/// What a form asks for.
struct WantedTerms {
    modules: Modules,
    sites: SiteLimit,
    expires: NaiveDate,
}

fn offer<'r>(asked: &Asked<'r>) -> Result<Option<&'r Offer>, PageProblem> {
    match asked.fields.get("offer") {
        "" => Ok(None),
        name => {
            let found = asked.snapshot.registry.offers().named(name);
            let found =
                found.map_err(|_| PageProblem::refused("Offer: There is no such offer any more.".to_owned()))?;
            Ok(Some(found))
        }
    }
}

/// The terms of a form. What it leaves empty is the offer's.
fn terms(asked: &Asked<'_>) -> Result<WantedTerms, PageProblem> {
    let get = |name| asked.fields.get(name);
    let offer = offer(asked)?;
    let modules = match (get("modules"), offer) {
        ("", Some(offer)) => Modules::clone(&offer.modules),
        (text, _) => terms_form::modules(text, &asked.snapshot.registry).map_err(in_field("Modules"))?,
    };
    let sites = match (get("sites"), offer) {
        ("", Some(offer)) => offer.sites,
        (text, _) => terms_form::sites(text)
            .map_err(in_field("Sites"))?
            .map_or(SiteLimit::Unlimited, SiteLimit::Limited),
    };
    let expires = match (get("until"), offer.map(|offer| offer.lasts)) {
        ("never", _) | ("", Some(LicenseTerm::Lifetime)) => NEVER,
        ("", Some(LicenseTerm::Period(period))) => period.after(asked.today()),
        (text, _) => terms_form::day(text).map_err(in_field("Last day"))?,
    };
    match expires < asked.today() {
        true => Err(PageProblem::refused("Last day: It is past.".to_owned())),
        false => Ok(WantedTerms {
            modules,
            sites,
            expires,
        }),
    }
}

/// Issues the license, and mails its key or shows it. A form that is sent twice issues one.
async fn issued(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let refused = |sentence: &str| PageProblem::refused(sentence.to_owned());
    let get = |name| asked.fields.get(name);
    let once = once(asked)?;
    let terms = terms(asked)?;
    let customer = match get("address") {
        "" => None,
        address => Some(
            address
                .parse::<CustomerAddress>()
                .map_err(|_| refused("Mail address: This is none."))?,
        ),
    };
    // SECURITY: a key that is pasted into the wrong field must not get into the ledger.
    if LicenseKey::is_in(get("note")) {
        return Err(refused("Note: It has a license key in it."));
    }
    let mailed = match (get("key"), asked.state.service.mail.get()) {
        ("mail", Some(queue)) => {
            let address = get("address").parse::<MailAddress>();
            let address = address.map_err(|_| refused("A key is mailed to an address: give one, or show the key."))?;
            Some((queue.clone(), address))
        }
        ("mail", None) => return Err(refused("There is no mail server: show the key instead.")),
        _ => None,
    };
    let typed = ["offer", "modules", "sites", "until", "note"].map(|name| (name, get(name)));
    let order = IssueOrder {
        request: once.clone(),
        typed: url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(typed)
            .finish(),
        grant: LicenseGrant {
            modules: terms.modules,
            expires: terms.expires,
            sites: match terms.sites {
                SiteLimit::Limited(sites) => Some(sites),
                SiteLimit::Unlimited => None,
            },
            grace_period_hours: None,
            staging_sites: None,
            site_moves: None,
            rights: Rights::NONE,
            hosts: Vec::new(),
            note: get("note").to_owned(),
        },
        customer,
        mails: MailsOrder::default(),
    };
    let (new, earlier) = match asked.tools().issue(order).await? {
        IssueReply::Issued { new, earlier } => (new, earlier),
        IssueReply::Refused(reason) => {
            return Err(PageProblem::refused(sentence(&reason)));
        }
    };
    if let Some((queue, address)) = mailed {
        let queued = enqueue_key(queue, address, new.id, desk_event(&once), asked.now).await;
        return match queued {
            Ok(()) => Ok(done(new.id, "issued")),
            Err(_) => {
                let sentence = "The license is issued, and the mail with its key could not be queued: `countersign license resend` sends it.";
                Err(PageProblem::refused(sentence.to_owned()).back_to(format!("/licenses/{}", new.id)))
            }
        };
    }
    Ok(PageAnswer::ok(&NewKeyPage {
        frame: asked.frame("The new key", NavEntry::Licenses),
        id: new.id,
        tag: new.id.log_tag(),
        key: new.license_key,
        download_page: new.download_page,
        is_repeated: earlier.is_some(),
    }))
}
