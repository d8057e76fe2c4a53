//! `POST /api/v1/licenses/<id>/rekey`: a new key for a license whose key was lost or leaked.
//!
//! The new license grants the same and names the old one, which is revoked in the same commit.

use warp::http::HeaderMap;

use crate::serve::api::licenses::answer::LicenseAnswer;
use crate::serve::api::licenses::body::idempotency_key;
use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::issue::{license_answer, secrets};
use crate::serve::api::licenses::ledger;
use crate::serve::ledger_licenses::{self, ExpectedRevision};
use crate::serve::license_texts::LicenseTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::remarks::Author;

/// Issues the new license and revokes the old one.
pub(super) async fn reply(
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
