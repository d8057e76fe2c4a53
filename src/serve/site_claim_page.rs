//! `/site-claim/<token>`: the page with which a customer confirms that a site was installed again, by the link in the mail about it.
//!
//! GET and HEAD change nothing. POST carries the claim out; the old hash may take the binding back, as after 14 days.

use chrono::Utc;
use hyper::body::Incoming;
use warp::http::{Method, Request};

use crate::serve::api::body;
use crate::serve::first_copy_page::CountedPage;
use crate::serve::link_page::{LinkPage, MAX_FORM};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::LedgerLicense;
use countersign_model::license::{License, LicenseState};
use countersign_model::site_claim::{ClaimStep, SiteClaim};
use countersign_model::site_claim_token;
use countersign_model::site_host::SiteHost;

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

/// Answers GET, HEAD and POST; `token` is the part after [`PATH`](site_claim_token::PATH).
pub(super) async fn reply(service: &Service, token: &str, request: Request<Incoming>) -> CountedPage {
    let is_post = request.method() == Method::POST;
    let found = match find(service, token) {
        Ok(LinkedClaim::Waits(issued, claim)) if is_post => confirm(service, &issued.license, claim, request)
            .await
            .and_then(|()| find(service, token)),
        found => found,
    };
    match &found {
        Ok(claim) => page(claim).answer(matches!(claim, LinkedClaim::Over).then_some(&Problem::LinkExpired)),
        Err(problem @ Problem::UnknownLink) => LinkPage::unknown().answer(Some(problem)),
        Err(problem) => LinkPage::failed().answer(Some(problem)),
    }
}

fn page(claim: &LinkedClaim) -> LinkPage {
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
fn find(service: &Service, token: &str) -> Result<LinkedClaim, Problem> {
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

async fn confirm(
    service: &Service,
    license: &License,
    claim: SiteClaim,
    request: Request<Incoming>,
) -> Result<(), Problem> {
    let work = async {
        // What it says does not matter: only a person with the link posts to it.
        body::read(request, MAX_FORM).await?;
        let host = claim.host.clone();
        let bindings = service.gate.bindings();
        if bindings.confirm_claim(license, claim, Utc::now()).await? {
            tracing::info!(license = license.id.log_tag(), site = %host, step = "confirmed", "a site that was installed again");
        }
        Ok(())
    };
    let done = tokio::time::timeout(service.request_timeout, work).await;
    done.unwrap_or(Err(Problem::RequestTimeout))
}
