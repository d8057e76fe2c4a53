//! `POST /api/v1/licenses/<id>/resend`: mails the key of a license to the address in the request.

use std::sync::Arc;

use chrono::Utc;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use warp::http::{HeaderMap, StatusCode};

use crate::serve::api::licenses::answer::{LicenseAnswer, answer};
use crate::serve::api::licenses::body::{idempotency_key, read};
use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::{KnownSites, LicenseDocument};
use crate::serve::api::licenses::issue::secrets;
use crate::serve::api::licenses::ledger;
use crate::serve::ledger_licenses::ExpectedRevision;
use crate::serve::license_texts::LicenseTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_mail::address::MailAddress;
use countersign_mail::mail_queue_error::MailQueueError;
use countersign_model::api_token::TokenScope;
use countersign_model::digest::Digest;
use countersign_model::license::LicenseStatus;
use countersign_model::license_key::LicenseId;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResendBody {
    address: MailAddress,
}

/// Puts the mail into this node's queue. A retry with the same `Idempotency-Key` is one mail.
pub(super) async fn reply(
    service: &Service,
    caller: &Caller,
    id: LicenseId,
    expected: ExpectedRevision,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<LicenseAnswer, Problem> {
    // SECURITY: the address may be the caller's own, so this tells the key.
    caller.require(TokenScope::KeysRead)?;
    let request_key = idempotency_key(headers)?.to_owned();
    let ResendBody { address } = read(headers, body).await?;
    let found = ledger::find(service, &id).await?;
    if matches!(expected, ExpectedRevision::Only(revision) if revision != found.revision) {
        return Err(Problem::LicenseRevised);
    }
    if found.license.status == LicenseStatus::Revoked {
        return Err(conflict("This license is revoked, which cannot be undone."));
    }
    if secrets(service)?.license_key(&found.origin).is_none() {
        return Err(conflict(
            "The secret that this license was issued with is not on the server.",
        ));
    }
    let texts = LicenseTexts::of(service.gate.bindings(), [&*found]).await?;
    let queue = service.mail.get().map(Arc::clone);
    let queue = queue.ok_or_else(|| {
        conflict("This server sends no mail: `server` in table [mail] of countersign.toml is not set.")
    })?;
    // Two licenses under one key are two mails, and so are two addresses.
    let event = format!("resend {} {request_key} {id} {}", caller.scope, address.reveal());
    let event = format!("resend {}", Digest::of(event.as_bytes()));
    let queued = spawn_blocking(move || queue.enqueue(&address, &[id], &event, Utc::now())).await;
    match queued.map_err(|error| Problem::internal(&error))? {
        Ok(_) => {}
        Err(MailQueueError::Full(_)) => return Err(Problem::Overloaded),
        Err(error) => return Err(Problem::internal(&error)),
    }
    tracing::info!(license = id.log_tag(), by = %caller.scope, "the license key will be mailed again");
    let snapshot = service.gate.snapshot();
    let document = LicenseDocument::issued(&found, &texts, KnownSites::of(service, &snapshot));
    Ok(answer(StatusCode::ACCEPTED, &document))
}

fn conflict(detail: &str) -> Problem {
    Problem::Conflict(detail.to_owned())
}
