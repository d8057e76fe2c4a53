//! A new license, issued by a person. As `countersign license issue`.

use askama::Template;
use chrono::NaiveDate;

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
    let offers = asked.snapshot.registry.offers().all().iter();
    let offers = offers.filter(|(offer, _)| !offer.is_nothing);
    let shown = offers.map(|(offer, _)| {
        let modules = terms_form::modules_text(&offer.modules);
        let grants = format!("{}: {modules} · sites: {} · {}", offer.name, offer.sites, offer.lasts);
        (offer.name.to_string(), OutsideText::of(&grants))
    });
    Ok(PageAnswer::ok(&NewLicensePage {
        frame: asked.frame("New license", NavEntry::Licenses),
        offers: shown.collect(),
        tomorrow: asked.today().succ_opt().unwrap_or(asked.today()),
        mails: asked.state.service.mail.get().is_some(),
        once: license_page::once()?,
    }))
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
            let found = found.map_err(|_| PageProblem::refused("There is no such offer any more.".to_owned()))?;
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
        (text, _) => terms_form::modules(text, &asked.snapshot.registry)?,
    };
    let sites = match (get("sites"), offer) {
        ("", Some(offer)) => offer.sites,
        (text, _) => terms_form::sites(text)?.map_or(SiteLimit::Unlimited, SiteLimit::Limited),
    };
    let expires = match (get("until"), offer.map(|offer| offer.lasts)) {
        ("never", _) | ("", Some(LicenseTerm::Lifetime)) => NEVER,
        ("", Some(LicenseTerm::Period(period))) => period.after(asked.today()),
        (text, _) => terms_form::day(text)?,
    };
    match expires < asked.today() {
        true => Err(PageProblem::refused("The last day is past.".to_owned())),
        false => Ok(WantedTerms {
            modules,
            sites,
            expires,
        }),
    }
}

/// Issues the license, and mails its key or shows it. A form that is sent twice issues one.
pub(super) async fn issue(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let back = |problem: PageProblem| problem.back_to("/new-license".to_owned());
    let refused = |sentence: &str| back(PageProblem::refused(sentence.to_owned()));
    let get = |name| asked.fields.get(name);
    let once = once(asked).map_err(back)?;
    let terms = terms(asked).map_err(back)?;
    let customer = match get("address") {
        "" => None,
        address => Some(
            address
                .parse::<CustomerAddress>()
                .map_err(|_| refused("This is no mail address."))?,
        ),
    };
    // SECURITY: a key that is pasted into the wrong field must not get into the ledger.
    if LicenseKey::is_in(get("note")) {
        return Err(refused("The note has a license key in it."));
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
            return Err(back(PageProblem::refused(sentence(&reason))));
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
