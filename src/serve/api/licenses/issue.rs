//! `POST /api/v1/licenses`: issues a license of the ledger and tells its key.
//!
//! The key is stored nowhere. A retry with the same `Idempotency-Key` finds the license by it and derives the key again.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use warp::http::{HeaderMap, StatusCode};

use crate::serve::api::licenses::body::{idempotency_key, read};
use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::{KnownSites, LicenseAnswer, LicenseDocument, answer};
use crate::serve::api::licenses::fields::{GraceHours, LastDay, SiteCount, present};
use crate::serve::api::licenses::ledger;
use crate::serve::api::licenses::ledger::{changed_nothing, refused};
use crate::serve::license_mails::{MailsKeeper, MailsOrder, RemindersTo};
use crate::serve::license_texts::LicenseTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::{ChangeBasis, ChangeOutcome, LedgerChange};
use countersign_model::api_token::TokenScope;
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::MAX_REFERENCE;
use countersign_model::issuing_key::IssueRequest;
use countersign_model::language::Language;
use countersign_model::license::{Details, License, LicenseDetails, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::offer::SalesMode;
use countersign_model::remarks::{Author, Metadata, NewRemarks};
use countersign_model::rights::{Rights, RightsEdit};
use countersign_model::site_host::SiteHost;
use countersign_settings::keys::license_secrets::{LicenseSecrets, NewOrigin};

/// For this long, the answer to a retry has the key. Afterwards the token needs `keys:read`.
const RETRY: TimeDelta = TimeDelta::days(7);

/// The body.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IssueBody {
    /// What it covers.
    modules: BTreeMap<Name, Vec<Name>>,
    expires: LastDay,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    sites: Option<SiteCount>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    grace_period_hours: Option<GraceHours>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    staging_sites: Option<u16>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    site_moves: Option<u16>,
    #[serde(flatten)]
    rights: RightsEdit,
    /// Sites that are bound from the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<SiteHost>,
    /// The shop's order. The ledger has an HMAC of it; its text is kept beside.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    /// What programs note of it.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
    /// The language of the mails about it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    language: Option<Language>,
    /// Who gets the reminders of its end.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    reminders_to: Option<CustomerAddress>,
}

/// Issues a license, or tells that of an earlier request with this key.
pub(super) async fn reply(
    service: &Service,
    caller: &Caller,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<LicenseAnswer, Problem> {
    let idempotency_key = idempotency_key(headers)?;
    let wanted: IssueBody = read(headers, body).await?;
    wanted.check()?;
    let secrets = secrets(service)?;
    let mails = MailsOrder {
        language: wanted.language.clone(),
        reminders_to: wanted.reminders_to.clone().map(RemindersTo::Address),
    };
    let keeper = mails_keeper(service, Some(&secrets), caller);
    check_mails(&keeper, &mails)?;
    let bytes = serde_json::to_vec(&wanted).map_err(|error| Problem::internal(&error))?;
    let request = IssueRequest {
        scope: &caller.scope,
        mode: SalesMode::Live,
        idempotency_key,
        body: &bytes,
    };
    let new = secrets
        .new_origin(&request)
        .map_err(|error| Problem::internal(&error))?;
    let reference = wanted.reference.as_deref().map(|text| secrets.reference(text));
    // Before the license is issued: if the texts cannot be read, nothing has happened.
    let texts = LicenseTexts::of_order(service.gate.bindings(), reference.as_ref()).await?;
    let license = wanted.license(new.key.id());
    let change = LedgerChange {
        remarks: NewRemarks {
            metadata: Some(wanted.metadata.clone()),
            ..NewRemarks::default()
        },
        author: Author::default(),
        license,
        reference,
        scope: Arc::clone(&caller.scope),
        status_by: None,
        now: Utc::now(),
        basis: ChangeBasis::Issue {
            origin: new.origin.clone(),
            retired: new.retired.clone(),
        },
    };
    let outcome = service.gate.change_license(change).await.map_err(changed_nothing)?;
    if let ChangeOutcome::Recorded(issued) | ChangeOutcome::Repeated(issued) = &outcome {
        keeper.keep(&issued.license, &mails).await?;
    }
    if let ChangeOutcome::Recorded(issued) = &outcome {
        ledger::warn_of_unsold_modules(service, caller, &issued.license.id, &issued.license.modules);
    }
    license_answer(service, caller, &secrets, &new, (outcome, &texts))
}

/// What keeps how the mails about a license are to be.
pub(super) fn mails_keeper<'a>(
    service: &'a Service,
    secrets: Option<&'a LicenseSecrets>,
    caller: &'a Caller,
) -> MailsKeeper<'a> {
    MailsKeeper {
        bindings: service.gate.bindings(),
        secrets,
        rule: service.customers,
        by: &caller.scope,
    }
}

/// Whether that can be kept.
pub(super) fn check_mails(keeper: &MailsKeeper<'_>, mails: &MailsOrder) -> Result<(), Problem> {
    let checked = keeper.check(mails);
    checked.map_err(|_| Problem::malformed_field("/reminders_to", "'reminders_to': this server keeps no addresses."))
}

/// The secrets with which licenses are issued.
pub(super) fn secrets(service: &Service) -> Result<Arc<LicenseSecrets>, Problem> {
    let secrets = service.gate.snapshot().secrets.licensing.clone();
    secrets.ok_or_else(|| {
        Problem::internal(
            &"there are no keys to issue licenses with: run `countersign keys generate --issuing` and `--references`",
        )
    })
}

/// The answer with the license of a request. It has the key if the caller may read it.
pub(super) fn license_answer(
    service: &Service,
    caller: &Caller,
    secrets: &LicenseSecrets,
    new: &NewOrigin,
    (outcome, texts): (ChangeOutcome, &LicenseTexts),
) -> Result<LicenseAnswer, Problem> {
    let snapshot = service.gate.snapshot();
    let sites = KnownSites::of(service, &snapshot);
    let pages = service.first_copy_pages(&snapshot);
    let page = |license: &License| pages.as_ref()?.link(license, sites.now.date_naive());
    match outcome {
        ChangeOutcome::Recorded(issued) => {
            tracing::info!(license = issued.license.id.log_tag(), by = %caller.scope, "issued");
            let document =
                LicenseDocument::issued(&issued, texts, sites).with_key(Some(&new.key), page(&issued.license));
            Ok(answer(StatusCode::CREATED, &document))
        }
        ChangeOutcome::Repeated(issued) => {
            let may_have = sites.now - issued.origin.issued < RETRY || caller.may(TokenScope::KeysRead);
            let key = may_have.then(|| secrets.license_key(&issued.origin)).flatten();
            let document = LicenseDocument::issued(&issued, texts, sites).with_key(key.as_ref(), page(&issued.license));
            Ok(answer(StatusCode::OK, &document))
        }
        ChangeOutcome::Refused(refusal) => Err(refused(refusal)),
    }
}

impl IssueBody {
    /// What the types do not say.
    fn check(&self) -> Result<(), Problem> {
        let malformed = |pointer: &str, text: &str| Err(Problem::malformed_field(pointer, text));
        if self.modules.is_empty() {
            return malformed("/modules", "'modules' must name at least one module.");
        }
        let limit = self.sites.map_or(SiteLimit::DEFAULT, SiteLimit::from);
        if let SiteLimit::Limited(limit) = limit
            && self.hosts.len() > limit.get() as usize
        {
            return malformed("/hosts", "'hosts' has more sites than the license is for.");
        }
        let mut hosts = self.hosts.clone();
        hosts.sort();
        hosts.dedup();
        if hosts.len() < self.hosts.len() {
            return malformed("/hosts", "'hosts' has a site twice.");
        }
        match &self.reference {
            Some(reference) if reference.is_empty() => malformed("/reference", "'reference' must not be empty."),
            Some(reference) if reference.len() > MAX_REFERENCE => Err(Problem::FieldTooLong {
                field: "reference",
                limit: MAX_REFERENCE,
            }
            .in_body()),
            _ => Ok(()),
        }
    }

    fn license(&self, id: LicenseId) -> License {
        let hosts = self.hosts.clone();
        License {
            is_declared: false,
            id,
            status: LicenseStatus::Active,
            expires: self.expires.0,
            modules: Arc::new(Modules::clone(&self.modules)),
            sites: self.sites.map_or(SiteLimit::DEFAULT, SiteLimit::from),
            grace_period_hours: self.grace_period_hours.map(|hours| hours.0),
            details: Details::from(LicenseDetails {
                hosts: hosts.into(),
                staging_sites: self.staging_sites,
                site_moves: self.site_moves,
                rights: Rights::NONE.after(&self.rights),
                ..LicenseDetails::default()
            }),
        }
    }
}
