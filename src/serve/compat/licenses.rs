//! `check_license`, `activate_license` and `deactivate_license`, with the fields and words of EDD.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::Utc;
use serde_json::{Map, Value, json};

use crate::serve::api::params::find_license;
use crate::serve::compat::items::MeantPlugins;
use crate::serve::compat::question::{EddAbout, EddQuestion};
use crate::serve::day_tally::SitePlatform;
use crate::serve::found_license::FoundLicense;
use crate::serve::gate::release::NotReleased;
use crate::serve::gate::{Gate, LicenseRequest, SentHashes, Snapshot};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::LedgerLook;
use countersign_model::binding::CheckIn;
use countersign_model::license::{License, LicenseState, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::period::NEVER;
use countersign_model::site_host::SiteHost;
use countersign_model::statement::Verdict;

type AnsweredQuestion = Result<(Code, Value), Problem>;

/// Whether a request has read the ledger to its end. Once is enough.
#[derive(Default)]
pub(super) struct LedgerProof(AtomicBool);

impl LedgerProof {
    async fn take(&self, service: &Service) -> Result<(), Problem> {
        if let Some(look) = service.gate.bindings().refresh(LedgerLook::Proved)
            && !self.0.load(Ordering::Relaxed)
        {
            service.within_deadline(look).await?;
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The license with this id, looked for so that "there is none", "it is over" and "not for this download" are certain.
pub(super) async fn certain<'s>(
    service: &Service,
    snapshot: &'s Snapshot,
    id: &LicenseId,
    about: &EddAbout,
    proof: &LedgerProof,
) -> Result<Option<FoundLicense<'s>>, Problem> {
    let found = find_license(service, snapshot, id)?;
    let today = Utc::now().date_naive();
    let is_yes = |license: &License| {
        let meant = MeantPlugins::find(&snapshot.registry, about);
        license.state(today) == LicenseState::Active && meant.covered(license, about).is_some()
    };
    let is_certain = found.as_deref().is_some_and(is_yes);
    if is_certain {
        return Ok(found);
    }
    proof.take(service).await?;
    Ok(service.gate.license(snapshot, id))
}

/// Says what a license is on a site. Binds nothing.
pub(super) async fn check(service: &Service, question: &EddQuestion) -> AnsweredQuestion {
    let about = &question.about;
    let snapshot = service.gate.snapshot();
    require_issuing(service)?;
    let Some(id) = about.license() else {
        return Ok((
            Code::MalformedLicenseKey,
            answer("invalid", false, about, None, service),
        ));
    };
    let found = certain(service, &snapshot, &id, about, &LedgerProof::default()).await?;
    let Some(license) = found.as_deref() else {
        return Ok((Code::UnknownLicense, answer("invalid", false, about, None, service)));
    };
    let meant = MeantPlugins::find(&snapshot.registry, about);
    let now = Utc::now();
    let (code, status) = match license.state(now.date_naive()) {
        _ if meant.covered(license, about).is_none() => (Code::PluginNotCovered, meant.mismatch()),
        LicenseState::Expired => (Code::Expired, "expired"),
        LicenseState::Suspended => (Code::Suspended, "disabled"),
        LicenseState::Revoked => (Code::Revoked, "disabled"),
        LicenseState::Active => match about.host(service, &id).transpose()? {
            // A client that names no site asks about the license alone.
            None => (Code::Ok, "inactive"),
            Some(host) => {
                let check_in = check_in();
                match service.is_active_on(license, &host, &check_in).await? {
                    true => (Code::Ok, "valid"),
                    false if sites(license, &service.gate) == 0 => (Code::LicenseNotBound, "inactive"),
                    false => (Code::LicenseNotBound, "site_inactive"),
                }
            }
        },
    };
    tracing::debug!(license = id.log_tag(), status, "an EDD client checked its license");
    let plugin = meant.covered(license, about);
    service.tally.validation(plugin, code, SitePlatform::default(), now);
    Ok((code, answer(status, true, about, Some(license), service)))
}

/// Binds a site.
pub(super) async fn activate(service: &Service, question: &EddQuestion) -> AnsweredQuestion {
    let about = &question.about;
    let snapshot = service.gate.snapshot();
    require_issuing(service)?;
    let refused = |code, error: &str, license: Option<&License>| {
        let mut document = answer("invalid", false, about, license, service);
        document["error"] = error.into();
        if error == "no_activations_left" {
            document["max_sites"] = document["license_limit"].clone();
        }
        Ok((code, document))
    };
    let Some(id) = about.license() else {
        return refused(Code::MalformedLicenseKey, "missing", None);
    };
    let found = certain(service, &snapshot, &id, about, &LedgerProof::default()).await?;
    let Some(license) = found.as_deref() else {
        return refused(Code::UnknownLicense, "missing", None);
    };
    let Some(host) = about.host(service, &id).transpose()? else {
        return refused(Code::MissingField, "missing_url", Some(license));
    };
    let meant = MeantPlugins::find(&snapshot.registry, about);
    let is_active = license.state(Utc::now().date_naive()) == LicenseState::Active;
    if is_active && meant.covered(license, about).is_none() {
        return refused(Code::PluginNotCovered, meant.mismatch(), Some(license));
    }
    let request = LicenseRequest {
        id: &id,
        license: Some(license),
        host: &host,
        check_in: check_in(),
    };
    let decision = service.gate.validate(&request, SentHashes::default()).await?;
    let code = decision.verdict.into();
    tracing::debug!(license = id.log_tag(), site = %host, code = decision.verdict.code(), "an EDD client activated");
    let plugin = meant.covered(license, about);
    service
        .tally
        .validation(plugin, code, SitePlatform::default(), request.check_in.time);
    match decision.verdict {
        Verdict::Ok => Ok((code, answer("valid", true, about, Some(license), service))),
        Verdict::BoundElsewhere => refused(code, "no_activations_left", Some(license)),
        Verdict::Expired => refused(code, "expired", Some(license)),
        Verdict::Suspended | Verdict::Revoked => refused(code, "disabled", Some(license)),
        Verdict::UnknownLicense | Verdict::Released => refused(code, "missing", None),
    }
}

/// Gives a site's seat back.
pub(super) async fn deactivate(service: &Service, question: &EddQuestion) -> AnsweredQuestion {
    let about = &question.about;
    let snapshot = service.gate.snapshot();
    require_issuing(service)?;
    let failed = |code, license: Option<&License>| Ok((code, answer("failed", false, about, license, service)));
    let Some(id) = about.license() else {
        return failed(Code::MalformedLicenseKey, None);
    };
    let found = certain(service, &snapshot, &id, about, &LedgerProof::default()).await?;
    let Some(license) = found.as_deref() else {
        return failed(Code::UnknownLicense, None);
    };
    let Some(host) = about.host(service, &id).transpose()? else {
        return failed(Code::MissingField, Some(license));
    };
    if MeantPlugins::find(&snapshot.registry, about)
        .covered(license, about)
        .is_none()
    {
        return failed(Code::PluginNotCovered, Some(license));
    }
    match service.gate.release(license, &host, None, Utc::now()).await {
        Ok(had_seat) => {
            if had_seat {
                tracing::info!(license = id.log_tag(), site = %host, "released by its client");
            }
            Ok((
                Code::Released,
                answer("deactivated", true, about, Some(license), service),
            ))
        }
        Err(NotReleased::License(refusal)) => failed(Problem::Refused(refusal).code(), Some(license)),
        Err(NotReleased::Site(refusal)) => {
            tracing::info!(license = id.log_tag(), site = %host, ?refusal, "not released");
            failed(Problem::NotReleased(refusal).code(), Some(license))
        }
        Err(NotReleased::Store(error)) => Err(error.into()),
    }
}

/// A node whose secrets differ from the others' says nothing.
pub(super) fn require_issuing(service: &Service) -> Result<(), Problem> {
    match service.gate.bindings().may_issue() {
        true => Ok(()),
        false => Err(Problem::StoreUnavailable),
    }
}

/// These clients report nothing but that they are there.
fn check_in() -> CheckIn<'static> {
    CheckIn {
        time: Utc::now(),
        build_id: None,
        plugin_version: None,
        current_version: None,
    }
}

impl Service {
    /// Whether a site holds a seat of an active license. Before it is said that it does not, the ledger is read to its end.
    pub(super) async fn is_active_on(
        &self,
        license: &License,
        host: &SiteHost,
        check_in: &CheckIn<'_>,
    ) -> Result<bool, Problem> {
        if self.gate.is_active_on(license, host, check_in) {
            return Ok(true);
        }
        let Some(look) = self.gate.bindings().refresh(LedgerLook::Proved) else {
            return Ok(false);
        };
        self.within_deadline(look).await?;
        Ok(self.gate.is_active_on(license, host, check_in))
    }
}

/// How many sites use a seat of a license. EDD does not count staging copies either.
fn sites(license: &License, gate: &Gate) -> usize {
    let bound = gate.bindings().of(&license.id);
    license.used_seats(&bound, &gate.rules().staging)
}

/// The members of every answer, and those about a known license. Name and address of the customer are there for clients that
/// read them, and are empty.
fn answer(status: &str, success: bool, about: &EddAbout, license: Option<&License>, service: &Service) -> Value {
    let mut document = Map::new();
    let item_id = about.item_id().map_or(json!(false), |id| json!(id));
    document.insert("success".into(), success.into());
    document.insert("license".into(), status.into());
    document.insert("item_id".into(), item_id);
    document.insert("item_name".into(), about.shown_name().into());
    if let Some(license) = license {
        let count = sites(license, &service.gate);
        let (limit, left) = match license.sites {
            SiteLimit::Unlimited => (0, json!("unlimited")),
            SiteLimit::Limited(limit) => (limit.get(), json!((limit.get() as usize).saturating_sub(count))),
        };
        let end = license.end_on(Utc::now().date_naive());
        let is_lifetime = end == NEVER;
        let expires = match is_lifetime {
            true => "lifetime".to_owned(),
            false => format!("{end} 23:59:59"),
        };
        document.insert("expires".into(), expires.into());
        document.insert("license_limit".into(), limit.into());
        document.insert("site_count".into(), count.into());
        document.insert("activations_left".into(), left);
        document.insert("payment_id".into(), 0.into());
        document.insert("customer_name".into(), "".into());
        document.insert("customer_email".into(), "".into());
        document.insert("price_id".into(), false.into());
    }
    document.into()
}
