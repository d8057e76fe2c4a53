//! `PATCH` and the steps of one license: renew, suspend, resume, revoke, release, rekey, resend.

use hyper::body::Incoming;
use serde::Deserialize;
use warp::http::{HeaderMap, StatusCode};

use crate::serve::api::licenses::answer::{LicenseAnswer, answer};
use crate::serve::api::licenses::body::{idempotency_key, if_match, read};
use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::{KnownSites, LicenseDocument};
use crate::serve::api::licenses::fields::{GraceHours, LastDay, SiteCount, present};
use crate::serve::api::licenses::ledger;
use crate::serve::api::licenses::rekey;
use crate::serve::api::licenses::resend;
use crate::serve::api::licenses::unsold_modules;
use crate::serve::ledger_licenses::ExpectedRevision;
use crate::serve::order_texts::OrderTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::license::{Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, LicenseTerms};
use countersign_model::site_host::SiteHost;

/// A step that has a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(super) enum NamedStep {
    Renew,
    Suspend,
    Resume,
    Revoke,
    Release,
    Rekey,
    Resend,
}

/// The body of `PATCH`. What is absent stays.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TermsBody {
    #[serde(default, deserialize_with = "present")]
    expires: Option<LastDay>,
    #[serde(default, deserialize_with = "present")]
    sites: Option<SiteCount>,
    #[serde(default, deserialize_with = "present")]
    modules: Option<Modules>,
    /// `null` for the server's setting.
    #[serde(default, deserialize_with = "present")]
    grace_period_hours: Option<Option<GraceHours>>,
    /// The same.
    #[serde(default, deserialize_with = "present")]
    staging_sites: Option<Option<u16>>,
    /// The same.
    #[serde(default, deserialize_with = "present")]
    site_moves: Option<Option<u16>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewBody {
    expires: LastDay,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody {
    #[serde(default, deserialize_with = "present")]
    host: Option<SiteHost>,
    #[serde(default)]
    all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoBody {}

/// Changes terms of a license. `If-Match` is required, so that nobody overwrites what they have not seen.
pub(super) async fn patch(
    service: &Service,
    caller: &Caller,
    id: LicenseId,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<LicenseAnswer, Problem> {
    let expected = if_match(headers)?.ok_or(Problem::MissingField("If-Match"))?;
    let TermsBody {
        expires,
        sites,
        modules,
        grace_period_hours,
        staging_sites,
        site_moves,
    } = read(headers, body).await?;
    if modules.as_ref().is_some_and(Modules::is_empty) {
        return Err(Problem::malformed_field(
            "/modules",
            "'modules' must name at least one module.",
        ));
    }
    let sites = sites.map(|sites| match sites.into() {
        SiteLimit::Limited(limit) => Some(limit),
        SiteLimit::Unlimited => None,
    });
    let terms = LicenseTerms {
        expires: expires.map(|day| day.0),
        sites,
        modules,
        grace_period_hours: grace_period_hours.map(|hours| hours.map(|hours| hours.0)),
        staging_sites,
        site_moves,
    };
    let given = terms.modules.clone();
    let answer = apply(service, caller, id, expected, &LicenseStep::Edit(terms)).await?;
    if let Some(modules) = &given {
        unsold_modules::warn(service, caller, &id, modules);
    }
    Ok(answer)
}

/// Takes a step. `If-Match` is optional.
pub(super) async fn step(
    service: &Service,
    caller: &Caller,
    id: LicenseId,
    named: NamedStep,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<LicenseAnswer, Problem> {
    if matches!(named, NamedStep::Rekey | NamedStep::Resend) {
        // A request without it is malformed, whatever else it has.
        idempotency_key(headers)?;
    }
    let expected = if_match(headers)?.unwrap_or(ExpectedRevision::Any);
    let step = match named {
        NamedStep::Rekey => {
            let NoBody {} = read(headers, body).await?;
            return rekey::reply(service, caller, id, expected, headers).await;
        }
        NamedStep::Resend => return resend::reply(service, caller, id, expected, headers, body).await,
        NamedStep::Renew => {
            let RenewBody { expires } = read(headers, body).await?;
            LicenseStep::Renew(expires.0)
        }
        NamedStep::Release => match read(headers, body).await? {
            ReleaseBody {
                host: Some(host),
                all: false,
            } => LicenseStep::ReleaseHost(host),
            ReleaseBody { host: None, all: true } => LicenseStep::ReleaseAll,
            ReleaseBody { host: None, all: false } => LicenseStep::ReleaseOne,
            _ => return Err(Problem::Malformed("Send 'host' or 'all', but not both.".to_owned())),
        },
        NamedStep::Suspend | NamedStep::Resume | NamedStep::Revoke => {
            let NoBody {} = read(headers, body).await?;
            match named {
                NamedStep::Suspend => LicenseStep::Suspend,
                NamedStep::Resume => LicenseStep::Resume,
                _ => LicenseStep::Revoke,
            }
        }
    };
    apply(service, caller, id, expected, &step).await
}

async fn apply(
    service: &Service,
    caller: &Caller,
    id: LicenseId,
    expected: ExpectedRevision,
    step: &LicenseStep,
) -> Result<LicenseAnswer, Problem> {
    // Before the change: if the texts cannot be read, nothing has happened.
    let current = ledger::find(service, &id).await?;
    let texts = OrderTexts::of(service.gate.bindings(), [current.reference]).await?;
    let issued = ledger::apply(service, &caller.scope, id, expected, step).await?;
    let document = LicenseDocument::issued(&issued, &texts, KnownSites::of(&service.gate));
    Ok(answer(StatusCode::OK, &document))
}
