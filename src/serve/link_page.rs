//! Pages that links in mails open: a sentence, and at most one button. On `/unsubscribe/<token>` a customer stops reminders; on
//! `/site-claim/<token>` a customer confirms that a site was installed again.
//!
//! GET and HEAD show the button and change nothing, because mail scanners open every link. The button sends
//! POST, and so does the one-click command of a mail program (RFC 8058).

use askama::Template;
use chrono::Utc;
use hyper::body::Incoming;
use warp::http::{Method, Request, StatusCode};

use crate::serve::api::body;
use crate::serve::first_copy_page::{self, CountedPage};
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::LedgerLicense;
use countersign_model::customer::NewCustomer;
use countersign_model::issued_license::Hex128;
use countersign_model::license::{License, LicenseState};
use countersign_model::site_claim::{ClaimStep, SiteClaim};
use countersign_model::site_host::SiteHost;
use countersign_model::{site_claim_token, unsubscribe_token};

/// Size limit of a form in bytes. A mail program sends `List-Unsubscribe=One-Click`.
const MAX_FORM: usize = 1024;

#[derive(Template)]
#[template(path = "link.html")]
struct LinkPage {
    title: &'static str,
    sentence: String,
    /// What the button says.
    button: Option<&'static str>,
}

impl LinkPage {
    /// The page of a link that names nothing.
    fn unknown() -> Self {
        Self {
            title: "This link is not valid",
            sentence: "Please copy the whole link from the mail, up to its last character.".to_owned(),
            button: None,
        }
    }

    /// The page where something fails that may work later.
    fn failed() -> Self {
        Self {
            title: "This does not work now",
            sentence: "Please try again in some minutes. Your link stays valid.".to_owned(),
            button: None,
        }
    }

    /// The answer with this page; `problem` is why there is no better one.
    fn answer(&self, problem: Option<&Problem>) -> CountedPage {
        let (status, code, weight) = match problem {
            None => (StatusCode::OK, Code::Ok, Weight::Request),
            Some(problem) => (problem.status(), problem.code(), problem.weight()),
        };
        first_copy_page::answer(status, (code, weight), self)
    }
}

/// Reads a form, and does what its button is for.
async fn posted(
    service: &Service,
    request: Request<Incoming>,
    work: impl Future<Output = Result<(), Problem>>,
) -> Result<(), Problem> {
    let whole = async {
        // What it says does not matter: only a person with the link posts to it.
        body::read(request, MAX_FORM).await?;
        work.await
    };
    let done = tokio::time::timeout(service.request_timeout, whole).await;
    done.unwrap_or(Err(Problem::RequestTimeout))
}

/// Answers the page with which a customer says no to reminders; `token` is the part after [`PATH`](unsubscribe_token::PATH).
pub(super) async fn unsubscribe(service: &Service, token: &str, request: Request<Incoming>) -> CountedPage {
    let is_post = request.method() == Method::POST;
    let done = match customer(service, token) {
        Ok(number) if is_post => keep_unsubscribed(service, number, request).await,
        Ok(_) => Ok(()),
        Err(problem) => Err(problem),
    };
    let page = match &done {
        Ok(()) if is_post => LinkPage {
            title: "No more reminders",
            sentence: "You get no reminders of the end of your licenses any more.".to_owned(),
            button: None,
        },
        Ok(()) => LinkPage {
            title: "No more reminders?",
            sentence: "We remind you by mail when one of your licenses ends. The button stops that for all your licenses here."
                .to_owned(),
            button: Some("No more reminders"),
        },
        Err(Problem::UnknownLink) => LinkPage::unknown(),
        Err(_) => LinkPage::failed(),
    };
    page.answer(done.as_ref().err())
}

/// SECURITY: nothing is looked up before this.
fn customer(service: &Service, token: &str) -> Result<Hex128, Problem> {
    let snapshot = service.gate.load();
    let keys = snapshot.secrets.downloads.as_deref();
    let mut keys = keys.into_iter().flat_map(|keys| keys.all());
    keys.find_map(|key| unsubscribe_token::read(key, token))
        .ok_or(Problem::UnknownLink)
}

async fn keep_unsubscribed(service: &Service, number: Hex128, request: Request<Incoming>) -> Result<(), Problem> {
    let bindings = service.gate.bindings();
    posted(service, request, async {
        // Nothing is kept of who was erased.
        if !bindings.is_erased(number) {
            bindings.keep_customer(NewCustomer::unsubscribed(number)).await?;
            tracing::info!(customer = %number, "a customer wants no reminders");
        }
        Ok(())
    })
    .await
}

/// What a link names, as it is now.
enum LinkedClaim {
    /// The customer may confirm it.
    Waits(LedgerLicense, SiteClaim),
    /// The new installation counts.
    Done(SiteHost),
    /// The old installation was heard of.
    Ended(SiteHost),
    /// Another claim or another customer came since, its time is over, or the license is not active.
    Over,
}

/// Answers the page with which a customer confirms a claim; `token` is the part after [`PATH`](site_claim_token::PATH).
pub(super) async fn site_claim(service: &Service, token: &str, request: Request<Incoming>) -> CountedPage {
    let is_post = request.method() == Method::POST;
    let found = match find_claim(service, token) {
        Ok(LinkedClaim::Waits(issued, claim)) if is_post => confirm_claim(service, &issued.license, claim, request)
            .await
            .and_then(|()| find_claim(service, token)),
        found => found,
    };
    match &found {
        Ok(claim) => claim_page(claim).answer(matches!(claim, LinkedClaim::Over).then_some(&Problem::LinkExpired)),
        Err(problem @ Problem::UnknownLink) => LinkPage::unknown().answer(Some(problem)),
        Err(problem) => LinkPage::failed().answer(Some(problem)),
    }
}

fn claim_page(claim: &LinkedClaim) -> LinkPage {
    match claim {
        LinkedClaim::Waits(_, SiteClaim { host, .. }) => LinkPage {
            title: "Was it you?",
            sentence: format!(
                "Somebody who has your license key set up the plugin again on {host}. If it was you, or somebody who works for you, \
                 press the button: the new installation then counts as this website. If it was not, close this page."
            ),
            button: Some("It was me"),
        },
        LinkedClaim::Done(host) => LinkPage {
            title: "Thank you",
            sentence: format!("The new installation on {host} counts now. There is nothing more to do."),
            button: None,
        },
        LinkedClaim::Ended(host) => LinkPage {
            title: "Nothing has changed",
            sentence: format!(
                "The earlier installation on {host} is still running, so it goes on counting as this website. If that is wrong, \
                 please write to us."
            ),
            button: None,
        },
        LinkedClaim::Over => LinkPage {
            title: "This link is no longer valid",
            sentence:
                "There is nothing to confirm any more. If something does not work on your website, please write to us."
                    .to_owned(),
            button: None,
        },
    }
}

/// SECURITY: nothing is looked up before the token is known to be one of this vendor.
fn find_claim(service: &Service, token: &str) -> Result<LinkedClaim, Problem> {
    let snapshot = service.gate.load();
    let keys = snapshot.secrets.downloads.as_deref();
    let mut keys = keys.into_iter().flat_map(|keys| keys.all());
    let read = keys.find_map(|key| Some((key, site_claim_token::read(key, token)?)));
    let (key, token) = read.ok_or(Problem::UnknownLink)?;
    let bindings = service.gate.bindings();
    let Some(issued) = bindings.issued_beginning_with(&token.license) else {
        return Ok(LinkedClaim::Over);
    };
    let license = &issued.license;
    let Some(to) = license.details.remarks().holder else {
        return Ok(LinkedClaim::Over);
    };
    let mut claims = bindings.claims_of(&license.id).into_iter();
    let Some(claim) = claims.find(|claim| token.is_of(key, &license.id, to, claim)) else {
        return Ok(LinkedClaim::Over);
    };
    let now = Utc::now();
    Ok(match claim.step {
        ClaimStep::Taken | ClaimStep::Confirmed => LinkedClaim::Done(claim.host),
        ClaimStep::Ended | ClaimStep::Returned => LinkedClaim::Ended(claim.host),
        ClaimStep::Begun => match license.state(now.date_naive()) == LicenseState::Active
            && claim.may_be_confirmed(claim.replaces, now)
        {
            true => LinkedClaim::Waits(issued, claim),
            false => LinkedClaim::Over,
        },
    })
}

/// The old hash may take the binding back, as after 14 days.
async fn confirm_claim(
    service: &Service,
    license: &License,
    claim: SiteClaim,
    request: Request<Incoming>,
) -> Result<(), Problem> {
    let bindings = service.gate.bindings();
    posted(service, request, async {
        let host = claim.host.clone();
        if bindings.confirm_claim(license, claim, Utc::now()).await? {
            tracing::info!(license = license.id.log_tag(), site = %host, step = "confirmed", "a site that was installed again");
        }
        Ok(())
    })
    .await
}
