//! `PATCH` and the steps of one license: renew, suspend, resume, revoke, release, rekey, resend, vouch, unvouch.

use std::sync::Arc;

use chrono::{NaiveDate, Utc};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use warp::http::{HeaderMap, StatusCode};

use crate::serve::api::licenses::body::{idempotency_key, if_match, read};
use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::{KnownSites, LicenseAnswer, LicenseDocument, answer};
use crate::serve::api::licenses::fields::{GraceHours, LastDay, SiteCount, present};
use crate::serve::api::licenses::issue::{self, license_answer, secrets};
use crate::serve::api::licenses::ledger;
use crate::serve::api::licenses::resend;
use crate::serve::ledger_licenses::{self, Changer, ExpectedRevision};
use crate::serve::license_mails::{MailsOrder, RemindersTo};
use crate::serve::license_texts::LicenseTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::JSON;
use crate::serve::state::Service;
use crate::serve::vouches::{self, VouchError};
use countersign_ledger::named_at_random;
use countersign_model::api_token::TokenScope;
use countersign_model::customer::CustomerAddress;
use countersign_model::issuing_key::IssueRequest;
use countersign_model::language::Language;
use countersign_model::license::{Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, LicenseTerms};
use countersign_model::offer::SalesMode;
use countersign_model::remarks::{Author, MAX_REASON, Metadata, NewRemarks, RemarkError, check_remark};
use countersign_model::rights::RightsEdit;
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
    Vouch,
    Unvouch,
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
    #[serde(flatten)]
    rights: RightsEdit,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Metadata>,
    #[serde(default, deserialize_with = "present")]
    language: Option<Language>,
    /// `null` for the customer.
    #[serde(default, deserialize_with = "present")]
    reminders_to: Option<Option<CustomerAddress>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewBody {
    expires: LastDay,
    #[serde(default, deserialize_with = "present")]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody {
    #[serde(default, deserialize_with = "present")]
    host: Option<SiteHost>,
    #[serde(default)]
    all: bool,
    #[serde(default, deserialize_with = "present")]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VouchBody {
    /// A year ahead if it is absent.
    #[serde(default, deserialize_with = "present")]
    until: Option<LastDay>,
    #[serde(default, deserialize_with = "present")]
    reason: Option<String>,
}

/// The answer of [`NamedStep::Vouch`] and [`NamedStep::Unvouch`].
#[derive(Debug, Serialize)]
struct VouchAnswer {
    id: LicenseId,
    changed: bool,
    /// The last day that the license is fine; absent if nobody vouches for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<NaiveDate>,
}

/// The body of a step that takes nothing else.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonBody {
    #[serde(default, deserialize_with = "present")]
    reason: Option<String>,
}

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
        rights,
        metadata,
        language,
        reminders_to,
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
        rights,
    };
    let mails = MailsOrder {
        language,
        reminders_to: reminders_to.map(|to| to.map_or(RemindersTo::Customer, RemindersTo::Address)),
    };
    let secrets = service.gate.snapshot().secrets.licensing.clone();
    let keeper = issue::mails_keeper(service, secrets.as_deref(), caller);
    issue::check_mails(&keeper, &mails)?;
    let given = terms.modules.clone();
    let by = Changer {
        remarks: NewRemarks {
            metadata,
            ..NewRemarks::default()
        },
        ..Changer::from(Arc::clone(&caller.scope))
    };
    let answer = apply(service, caller, &by, id, expected, &LicenseStep::Edit(terms)).await?;
    if let Some(issued) = service.gate.bindings().issued(&id) {
        keeper.keep(&issued.license, &mails).await?;
    }
    if let Some(modules) = &given {
        ledger::warn_of_unsold_modules(service, caller, &id, modules);
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
    let (step, reason) = match named {
        NamedStep::Rekey => {
            let ReasonBody { reason } = read(headers, body).await?;
            return rekey(service, caller, id, expected, headers, author(reason)?).await;
        }
        NamedStep::Vouch => {
            let VouchBody { until, reason } = read(headers, body).await?;
            let until = until.map_or_else(|| vouches::usual_end(Utc::now().date_naive()), |day| day.0);
            return vouch(service, caller, id, Some(until), reason).await;
        }
        NamedStep::Unvouch => {
            let ReasonBody { reason } = read(headers, body).await?;
            return vouch(service, caller, id, None, reason).await;
        }
        NamedStep::Resend => return resend::reply(service, caller, id, expected, headers, body).await,
        NamedStep::Renew => {
            let RenewBody { expires, reason } = read(headers, body).await?;
            (LicenseStep::Renew(expires.0), reason)
        }
        NamedStep::Release => {
            let ReleaseBody { host, all, reason } = read(headers, body).await?;
            let step = match (host, all) {
                (Some(host), false) => LicenseStep::ReleaseHost(host),
                (None, true) => LicenseStep::ReleaseAll,
                (None, false) => LicenseStep::ReleaseOne,
                (Some(_), true) => {
                    return Err(Problem::Malformed("Send 'host' or 'all', but not both.".to_owned()));
                }
            };
            (step, reason)
        }
        NamedStep::Suspend | NamedStep::Resume | NamedStep::Revoke => {
            let ReasonBody { reason } = read(headers, body).await?;
            let step = match named {
                NamedStep::Suspend => LicenseStep::Suspend,
                NamedStep::Resume => LicenseStep::Resume,
                _ => LicenseStep::Revoke,
            };
            (step, reason)
        }
    };
    let by = Changer {
        author: author(reason)?,
        ..Changer::from(Arc::clone(&caller.scope))
    };
    apply(service, caller, &by, id, expected, &step).await
}

/// Vouches for a license, of the ledger or of a file, or takes that back. Nothing of the license changes, so it has no revision.
async fn vouch(
    service: &Service,
    caller: &Caller,
    id: LicenseId,
    until: Option<NaiveDate>,
    reason: Option<String>,
) -> Result<LicenseAnswer, Problem> {
    let by = (&caller.scope, author(reason)?);
    let snapshot = service.gate.snapshot();
    let ledger = service.gate.bindings();
    let changed = vouches::vouch(&snapshot.registry, ledger, by, id, until, Utc::now()).await;
    let document = VouchAnswer {
        id,
        changed: changed.map_err(|error| match error {
            VouchError::NoSuchLicense => Problem::NoSuchLicense,
            VouchError::Past(_) | VouchError::TooFar(_) => {
                Problem::malformed_field("/until", format!("'until': {error}."))
            }
            VouchError::Store(error) => error.into(),
        })?,
        until,
    };
    Ok(LicenseAnswer {
        // Texts and days always serialize.
        response: JSON.answer(serde_json::to_vec(&document).unwrap_or_default()),
        headers: Vec::new(),
    })
}

/// The author of a change with this reason. The token's name is in the line; no person is.
fn author(reason: Option<String>) -> Result<Author, Problem> {
    let Some(reason) = reason else {
        return Ok(Author::default());
    };
    check_remark(&reason, MAX_REASON).map_err(|error| match error {
        RemarkError::TooLong(limit) => Problem::FieldTooLong { field: "reason", limit }.in_body(),
        RemarkError::Empty | RemarkError::HasKey => Problem::malformed_field(
            "/reason",
            "'reason' must not be empty, and must not have a license key.",
        ),
    })?;
    let reason = named_at_random(&reason).map_err(|error| Problem::internal(&error))?;
    Ok(Author {
        who: None,
        reason: Some(reason),
    })
}

async fn apply(
    service: &Service,
    caller: &Caller,
    by: &Changer,
    id: LicenseId,
    expected: ExpectedRevision,
    step: &LicenseStep,
) -> Result<LicenseAnswer, Problem> {
    // Before the change: if the texts cannot be read, nothing has happened.
    let current = ledger::find(service, &id).await?;
    let bindings = service.gate.bindings();
    let mut texts = LicenseTexts::of(bindings, [&*current]).await?;
    if caller.may(TokenScope::CustomersRead) {
        texts = texts.with_customers(bindings, [&current.license]).await?;
    }
    let issued = ledger::apply(service, by, id, expected, step).await?;
    let snapshot = service.gate.snapshot();
    let document = LicenseDocument::issued(&issued, &texts, KnownSites::of(service, &snapshot));
    Ok(answer(StatusCode::OK, &document))
}

/// Gives a license whose key was lost or leaked a new key. The new license grants the same and names the old one, which is
/// revoked in the same commit.
async fn rekey(
    service: &Service,
    caller: &Caller,
    id: LicenseId,
    expected: ExpectedRevision,
    headers: &HeaderMap,
    author: Author,
) -> Result<LicenseAnswer, Problem> {
    let idempotency_key = idempotency_key(headers)?;
    let secrets = secrets(service)?;
    let body = format!("rekey {id}");
    let request = IssueRequest {
        scope: &caller.scope,
        mode: SalesMode::Live,
        idempotency_key,
        body: body.as_bytes(),
    };
    let new = secrets
        .new_origin(&request)
        .map_err(|error| Problem::internal(&error))?;
    let snapshot = service.gate.snapshot();
    let bindings = service.gate.bindings();
    let old = ledger::find(service, &id).await?;
    let texts = LicenseTexts::of(bindings, [&*old]).await?;
    let outcome = ledger_licenses::rekey(&snapshot.registry, bindings, &new, id, expected, author).await;
    let outcome = outcome.map_err(ledger::problem)?;
    license_answer(service, caller, &secrets, &new, (outcome, &texts))
}
