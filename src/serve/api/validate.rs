//! `POST /api/v1/validate-license`: parses the request, lets the gate decide, and sends a signed statement.
//!
//! Every well-formed request gets a signed answer. An unsigned answer decides nothing. Cheap checks come first.

use chrono::{DateTime, Utc};
use hyper::body::Incoming;
use warp::http::Request;

use crate::serve::api::params::{
    MAX_VERSION, at_most, build_id, find_license, license_id, reported_version, site_host,
};
use crate::serve::api::question::{MAX_NONCE, parse, read_body};
use crate::serve::day_tally::{self, SitePlatform};
use crate::serve::gate::{Decision, LicenseRequest, SentHashes, Snapshot};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::reported_copies;
use crate::serve::signing::Lane;
use crate::serve::site_claims::{self, NewClaim};
use crate::serve::state::Service;
use countersign_ledger::LedgerLook;
use countersign_model::binding::CheckIn;
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::statement::{Grant, Statement, Verdict};

/// Answers a validation. The future may be dropped early: the binding is completed.
pub async fn reply(service: &Service, request: Request<Incoming>) -> Result<(Code, Response), Problem> {
    let body = read_body(request).await?;
    let question = parse(&body)?;
    service.catch_up().await;
    let id = license_id(service, question.license_key.as_deref())?;
    let site_url = question.site_url()?;
    let host = site_host(service, &id, site_url)?;
    at_most(MAX_NONCE, "nonce", question.nonce.as_deref())?;
    at_most(MAX_VERSION, "plugin_version", question.plugin_version.as_deref())?;
    let build_id = build_id(question.build_id.as_deref())?;
    let sent = SentHashes {
        release_hash: question.release_hash()?,
        proof: question.release_proof()?,
    };

    let now = Utc::now();
    let snapshot = service.gate.snapshot();
    let mut found = find_license(service, &snapshot, &id)?;
    let is_active = found.as_ref().map(|license| license.state(now.date_naive())) == Some(LicenseState::Active);
    // Another node may have issued, adopted, renewed or resumed it. A statement that says no is signed, so a look must be one that a
    // primary which was replaced cannot answer.
    if !is_active && let Some(proof) = service.gate.bindings().refresh(LedgerLook::Proved) {
        service.within_deadline(proof).await?;
        found = service.gate.license(&snapshot, &id);
    }
    let license = found.as_deref();
    let plugin_version = reported_version(service, &id, question.plugin_version.as_deref());
    let check_in = CheckIn {
        time: now,
        build_id,
        plugin_version,
        current_version: None,
    };
    let license_request = LicenseRequest {
        id: &id,
        license,
        host: &host,
        check_in,
    };
    reported_copies::count(
        &service.metrics.reported_copies,
        &service.gate,
        &snapshot,
        &license_request,
    );
    let decision = service.gate.validate(&license_request, sent).await?;
    if let Some((license, hash)) = license.zip(decision.new_claim) {
        let new = NewClaim {
            license,
            host: &host,
            hash,
            now,
        };
        site_claims::begin(service, &snapshot, new).await;
    }
    if decision.verdict == Verdict::BoundElsewhere {
        // For abuse review: which build is used on which foreign site.
        tracing::info!(license = id.log_tag(), site = %host, build_id = build_id.map(tracing::field::display), "bound elsewhere");
    } else {
        tracing::debug!(license = id.log_tag(), site = %host, code = decision.verdict.code(), "validated");
    }

    let plugin = license.zip(question.plugin.as_deref());
    let plugin = plugin.and_then(|(license, slug)| day_tally::covered(&snapshot.registry, license, slug));
    let platform = match license {
        Some(_) => SitePlatform::read(question.wp_version.as_deref(), question.php_version.as_deref()),
        None => SitePlatform::default(),
    };
    service.tally.validation(plugin, decision.verdict.into(), platform, now);

    let answered = AnsweredSite {
        id: &id,
        license,
        site_url,
        domain: &host,
        nonce: question.nonce.as_deref(),
        now,
    };
    Ok((
        decision.verdict.into(),
        answered.sign(service, &snapshot, &decision).await?,
    ))
}

/// A site that gets the answer to a validation.
pub(super) struct AnsweredSite<'a> {
    /// The license.
    pub id: &'a LicenseId,
    /// The same, if its key is known.
    pub license: Option<&'a License>,
    /// The address as it was sent.
    pub site_url: &'a str,
    /// Its host.
    pub domain: &'a SiteHost,
    /// The request's nonce.
    pub nonce: Option<&'a str>,
    /// The time of the request.
    pub now: DateTime<Utc>,
}

impl AnsweredSite<'_> {
    /// The signed statement about a decision.
    pub(super) async fn sign(
        &self,
        service: &Service,
        snapshot: &Snapshot,
        decision: &Decision,
    ) -> Result<Response, Problem> {
        let Self { license, now, .. } = *self;
        let is_white_label = license.is_some_and(|license| license.details.rights.white_label);
        // SECURITY: a person with the key of a license that another site uses learns no more of it.
        let shows_shop = !is_white_label && matches!(decision.verdict, Verdict::Ok | Verdict::Expired);
        let links = license
            .filter(|_| shows_shop)
            .map(|license| service.license_links(snapshot, license))
            .unwrap_or_default();
        let account = service.account.get().filter(|_| !is_white_label);
        let account_url = account.map(|account| account.url());
        let statement = Statement {
            verdict: decision.verdict,
            grant: license
                .filter(|_| decision.verdict == Verdict::Ok)
                .map(|license| Grant {
                    modules: &license.modules,
                    grace_period_hours: license.grace_period_hours.map_or(service.grace_period_hours, u32::from),
                }),
            expires: license.map(|license| license.end_on(now.date_naive())),
            renews: license.is_some_and(License::renews) && decision.verdict == Verdict::Ok,
            renew_url: links.renew.as_deref(),
            upgrade_url: links.upgrade.as_deref(),
            account_url: account_url.as_deref(),
            white_label: is_white_label,
            issued_at: now,
            nonce: self.nonce,
            site_url: self.site_url,
            domain: self.domain,
            bound_domain: decision.bound_domain.as_ref(),
            key_id: snapshot.key.public().key_id(),
            license_id: self.id,
        };
        let lane = match license {
            Some(_) => Lane::Licensed,
            None => Lane::Unknown,
        };
        let signed = service
            .signer
            .sign(lane, snapshot.key.clone(), statement.to_unsigned())
            .await?;
        Ok(JSON.answer(signed))
    }
}
