//! `POST /api/v1/release-site`: a client gives its site's seat back, and gets a signed statement that says so.
//!
//! Only a signed answer makes a client forget its license. Every refusal is a problem.

use chrono::Utc;
use hyper::body::Incoming;
use warp::http::Request;

use crate::serve::api::params::{at_most, find_license, license_id, site_host};
use crate::serve::api::question::{MAX_NONCE, parse, read_body};
use crate::serve::gate::release::NotReleased;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::signing::queue::Lane;
use crate::serve::state::Service;
use countersign_ledger::LedgerLook;
use countersign_model::entitlement::Refusal;
use countersign_model::license::LicenseStatus;
use countersign_model::statement::{Statement, Verdict};

/// Answers a release. The future may be dropped early: the release is completed, and a retry is told so.
pub async fn reply(service: &Service, request: Request<Incoming>) -> Result<(Code, Response), Problem> {
    let body = read_body(request).await?;
    let question = parse(&body)?;
    service.catch_up().await;
    let id = license_id(service, question.license_key.as_deref())?;
    let site_url = question.site_url()?;
    let host = site_host(service, &id, site_url)?;
    at_most(MAX_NONCE, "nonce", question.nonce.as_deref())?;
    let proof = question.release_proof()?;

    let now = Utc::now();
    let snapshot = service.gate.snapshot();
    let mut found = find_license(service, &snapshot, &id)?;
    let may_release = found
        .as_ref()
        .is_some_and(|license| license.status == LicenseStatus::Active);
    if !may_release && let Some(look) = service.gate.bindings().refresh(LedgerLook::Read) {
        // Another node may have issued, adopted or resumed it a moment ago.
        service.within_deadline(look).await?;
        found = service.gate.license(&snapshot, &id);
    }
    let license = found.as_deref().ok_or(Problem::Refused(Refusal::UnknownLicense))?;
    let released = service.gate.release(license, &host, proof, now).await;
    let had_seat = released.map_err(|error| match error {
        NotReleased::License(refusal) => Problem::Refused(refusal),
        NotReleased::Site(refusal) => {
            // For abuse review: somebody tries to end another site's binding, or moves too often.
            tracing::info!(license = id.log_tag(), site = %host, ?refusal, "not released");
            Problem::NotReleased(refusal)
        }
        NotReleased::Store(error) => error.into(),
    })?;
    if had_seat {
        tracing::info!(license = id.log_tag(), site = %host, "released by its client");
    }

    let statement = Statement {
        verdict: Verdict::Released,
        grant: None,
        expires: Some(license.end_on(now.date_naive())),
        renews: false,
        renew_url: None,
        upgrade_url: None,
        issued_at: now,
        nonce: question.nonce.as_deref(),
        site_url,
        domain: &host,
        bound_domain: None,
        key_id: snapshot.key.public().key_id(),
        license_id: &id,
    };
    let signed = service
        .signer
        .sign(Lane::Licensed, snapshot.key.clone(), statement.to_unsigned())
        .await?;
    Ok((Code::Released, JSON.answer(signed)))
}
