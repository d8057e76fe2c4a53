//! `POST /api/v1/release-site`: a client gives its site's seat back, or moves it to the site's new address, and gets a signed
//! statement that says so.
//!
//! Only a signed answer makes a client forget its license. Every refusal is a problem.

use chrono::{DateTime, Utc};
use hyper::body::Incoming;
use uuid::Uuid;
use warp::http::Request;

use crate::serve::api::params::{
    MAX_VERSION, at_most, build_id, find_license, license_id, reported_version, site_host,
};
use crate::serve::api::question::{MAX_NONCE, Question, parse, read_body};
use crate::serve::api::validate::AnsweredSite;
use crate::serve::gate::release::NotReleased;
use crate::serve::gate::{LicenseRequest, Snapshot};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::signing::Lane;
use crate::serve::state::Service;
use countersign_ledger::LedgerLook;
use countersign_model::binding::CheckIn;
use countersign_model::entitlement::Refusal;
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;
use countersign_model::statement::{Statement, Verdict};

/// Answers a release. The future may be dropped early: the release is completed, and the answer to a retry says so.
pub async fn reply(service: &Service, request: Request<Incoming>) -> Result<(Code, Response), Problem> {
    let body = read_body(request).await?;
    let question = parse(&body)?;
    service.catch_up().await;
    let id = license_id(service, question.license_key.as_deref())?;
    let site_url = question.site_url()?;
    let host = site_host(service, &id, site_url)?;
    at_most(MAX_NONCE, "nonce", question.nonce.as_deref())?;
    let proof = question.release_proof()?;
    let arrival = Arrival::read(service, &id, &host, &question)?;

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
    if let Some(arrival) = arrival {
        return arrival
            .reply(service, &snapshot, (license, &host), &question, now)
            .await;
    }
    let had_seat = service
        .gate
        .release(license, &host, proof, now)
        .await
        .map_err(|error| refused(error, &id, &host))?;
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
        account_url: None,
        white_label: false,
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

/// Why a site was not released, for abuse review too: somebody tries to end another site's binding, or moves too often.
fn refused(error: NotReleased, id: &LicenseId, host: &SiteHost) -> Problem {
    match error {
        NotReleased::License(refusal) => Problem::Refused(refusal),
        NotReleased::Site(refusal) => {
            tracing::info!(license = id.log_tag(), site = %host, ?refusal, "not released");
            Problem::NotReleased(refusal)
        }
        NotReleased::Store(error) => error.into(),
    }
}

/// The new address of a site that moves, and what its client sent for it.
struct Arrival<'a> {
    site_url: &'a str,
    host: SiteHost,
    proof: Option<ReleaseHash>,
    release_hash: Option<ReleaseHash>,
    plugin_version: Option<&'a str>,
    build_id: Option<Uuid>,
}

impl<'a> Arrival<'a> {
    /// What a request says of the new address; `None` if the site only leaves.
    fn read(
        service: &Service,
        id: &LicenseId,
        old: &SiteHost,
        question: &'a Question<'_>,
    ) -> Result<Option<Self>, Problem> {
        let Some(site_url) = question.new_site_url() else {
            return Ok(None);
        };
        let host = site_host(service, id, site_url)?;
        if host == *old {
            let detail = "'new_site_url' is the same site as 'site_url', so there is nothing to move.";
            return Err(Problem::malformed_field("/new_site_url".to_owned(), detail.to_owned()));
        }
        at_most(MAX_VERSION, "plugin_version", question.plugin_version.as_deref())?;
        Ok(Some(Self {
            site_url,
            host,
            proof: question.release_proof()?,
            release_hash: question.release_hash()?,
            plugin_version: reported_version(service, id, question.plugin_version.as_deref()),
            build_id: build_id(question.build_id.as_deref())?,
        }))
    }

    /// Moves the site, and answers as a validation of its new address does.
    async fn reply(
        &self,
        service: &Service,
        snapshot: &Snapshot,
        leaving: (&License, &SiteHost),
        question: &Question<'_>,
        now: DateTime<Utc>,
    ) -> Result<(Code, Response), Problem> {
        let (license, old) = leaving;
        let request = LicenseRequest {
            id: &license.id,
            license: Some(license),
            host: &self.host,
            check_in: CheckIn {
                time: now,
                build_id: self.build_id,
                plugin_version: self.plugin_version,
                current_version: None,
            },
        };
        let moved = service
            .gate
            .move_site(&request, old, self.proof, self.release_hash)
            .await;
        let (decision, has_moved) = moved.map_err(|error| refused(error, &license.id, old))?;
        if has_moved {
            tracing::info!(license = license.id.log_tag(), site = %old, to = %self.host, "moved by its client");
        }
        let answered = AnsweredSite {
            id: &license.id,
            license: Some(license),
            site_url: self.site_url,
            domain: &self.host,
            nonce: question.nonce.as_deref(),
            now,
        };
        let code = decision.verdict.into();
        Ok((code, answered.sign(service, snapshot, &decision).await?))
    }
}
