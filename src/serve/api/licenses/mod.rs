//! The management API, `/api/v1/licenses`: programs of a vendor read, issue and change licenses with a token.
//!
//! [`reports`] tells what sites reported, below `/api/v1/reports/`, and [`rollouts`] how releases reach them, below
//! `/api/v1/rollouts/`. There is no such API until there is a token. [`caller`] checks the token, [`issue`] and [`change`] write licenses of the
//! ledger, [`list`] and [`document`] show licenses wherever they stand. Licenses of files are only shown: people change them.

mod body;
mod caller;
mod change;
mod document;
mod fields;
mod issue;
mod ledger;
pub(in crate::serve) mod list;
pub(in crate::serve) mod reports;
mod resend;
mod rollouts;

use hyper::body::Incoming;
use warp::http::{Method, Request, StatusCode};

use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::{KnownSites, LicenseDocument, answer};
use crate::serve::ledger_licenses::refresh;
use crate::serve::license_texts::LicenseTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::api_token::TokenScope;
use countersign_model::license_key::LicenseId;

pub use crate::serve::api::licenses::document::{LICENSES, LicenseAnswer};

/// What a path is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApiTarget<'a> {
    All,
    One(&'a str),
    Step(&'a str, &'a str),
    Report(&'a str),
    Rollout(&'a str),
}

/// Whether the path is one of this API.
pub fn is_at(path: &str) -> bool {
    let of_licenses = path.strip_prefix(LICENSES);
    path.starts_with(reports::REPORTS)
        || path.starts_with(rollouts::ROLLOUTS)
        || of_licenses.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn target(path: &str) -> Option<ApiTarget<'_>> {
    if let Some(report) = path.strip_prefix(reports::REPORTS) {
        return Some(ApiTarget::Report(report));
    }
    if let Some(rollout) = path.strip_prefix(rollouts::ROLLOUTS) {
        return Some(ApiTarget::Rollout(rollout));
    }
    let rest = path.strip_prefix(LICENSES)?;
    let Some(rest) = rest.strip_prefix('/') else {
        return rest.is_empty().then_some(ApiTarget::All);
    };
    match rest.split_once('/') {
        None => Some(ApiTarget::One(rest)),
        Some((id, step)) => Some(ApiTarget::Step(id, step)),
    }
}

/// Answers a request. The future may be dropped early: a change is completed, and a retry finds it.
pub async fn reply(service: &Service, request: Request<Incoming>) -> Result<LicenseAnswer, Problem> {
    if !service.gate.bindings().has_tokens() {
        return Err(Problem::NotFound);
    }
    let (head, incoming) = request.into_parts();
    let caller = Caller::of(service, &head.headers)?;
    let target = target(head.uri.path()).ok_or(Problem::NotFound)?;
    let query = head.uri.query().unwrap_or_default();
    let is_get = matches!(head.method, Method::GET | Method::HEAD);
    match target {
        ApiTarget::All if is_get => {
            caller.require(TokenScope::LicensesRead)?;
            list::reply(service, &caller, query).await
        }
        ApiTarget::All if head.method == Method::POST => {
            caller.require(TokenScope::LicensesWrite)?;
            issue::reply(service, &caller, &head.headers, incoming).await
        }
        ApiTarget::All => Err(Problem::MethodNotAllowed("GET, HEAD, POST")),
        ApiTarget::One(id) if is_get => {
            caller.require(TokenScope::LicensesRead)?;
            one(service, &caller, license_id(id)?).await
        }
        ApiTarget::One(id) if head.method == Method::PATCH => {
            caller.require(TokenScope::LicensesWrite)?;
            change::patch(service, &caller, license_id(id)?, &head.headers, incoming).await
        }
        ApiTarget::One(_) => Err(Problem::MethodNotAllowed("GET, HEAD, PATCH")),
        ApiTarget::Report(report) if is_get => {
            caller.require(TokenScope::ReportsRead)?;
            reports::reply(service, report, query).await
        }
        ApiTarget::Report(_) => Err(Problem::MethodNotAllowed("GET, HEAD")),
        ApiTarget::Rollout(rollout) => {
            rollouts::reply(service, &caller, rollout, &head.method, &head.headers, incoming).await
        }
        ApiTarget::Step(id, step) => {
            let step = step.parse().map_err(|_| Problem::NotFound)?;
            if head.method != Method::POST {
                return Err(Problem::MethodNotAllowed("POST"));
            }
            caller.require(TokenScope::LicensesWrite)?;
            change::step(service, &caller, license_id(id)?, step, &head.headers, incoming).await
        }
    }
}

/// Nobody has a license with an id that is none.
fn license_id(text: &str) -> Result<LicenseId, Problem> {
    text.parse().map_err(|_| Problem::NoSuchLicense)
}

/// One license.
async fn one(service: &Service, caller: &Caller, id: LicenseId) -> Result<LicenseAnswer, Problem> {
    let snapshot = service.gate.snapshot();
    if service.gate.license(&snapshot, &id).is_none() {
        // Another node may have issued it a moment ago.
        refresh(service.gate.bindings()).await?;
    }
    let found = service.gate.license(&snapshot, &id).ok_or(Problem::NoSuchLicense)?;
    let bindings = service.gate.bindings();
    let mut texts = LicenseTexts::of_found(bindings, std::slice::from_ref(&found)).await?;
    if caller.may(TokenScope::CustomersRead) {
        texts = texts.with_customers(bindings, [&*found]).await?;
    }
    let document = LicenseDocument::new(&found, &texts, KnownSites::of(service, &snapshot));
    Ok(answer(StatusCode::OK, &document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_all_licenses_one_or_a_step() {
        let at = |rest: &str| {
            let path = format!("{LICENSES}{rest}");
            (is_at(&path), target(&path).map(|target| format!("{target:?}")))
        };
        assert_eq!(at(""), (true, Some("All".to_owned())));
        assert_eq!(at("/ab"), (true, Some("One(\"ab\")".to_owned())));
        assert_eq!(at("/ab/renew"), (true, Some("Step(\"ab\", \"renew\")".to_owned())));
        assert_eq!(at("/ab/renew/"), (true, Some("Step(\"ab\", \"renew/\")".to_owned())));
        assert!(!at("x").0);
    }
}
