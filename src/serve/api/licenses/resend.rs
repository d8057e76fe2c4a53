//! `POST /api/v1/licenses/<id>/resend`: mails the key of a license, or the page of its first copies, to the address in the
//! request.

use std::sync::Arc;

use chrono::Utc;
use hyper::body::Incoming;
use serde::Deserialize;
use warp::http::{HeaderMap, StatusCode};

use crate::serve::api::licenses::body::{idempotency_key, read};
use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::{KnownSites, LicenseAnswer, LicenseDocument, answer};
use crate::serve::api::licenses::ledger;
use crate::serve::ledger_licenses::ExpectedRevision;
use crate::serve::license_mails::{MailAgain, MailTools, MailedAgain};
use crate::serve::license_texts::LicenseTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_mail::address::MailAddress;
use countersign_model::api_token::TokenScope;
use countersign_model::digest::Digest;
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResendBody {
    address: MailAddress,
    #[serde(default)]
    what: MailedAgain,
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
    // SECURITY: the address may be the caller's own, so this shows the key, or gives what the license covers.
    caller.require(TokenScope::KeysRead)?;
    let request_key = idempotency_key(headers)?.to_owned();
    let ResendBody { address, what } = read(headers, body).await?;
    let found = ledger::find(service, &id).await?;
    if matches!(expected, ExpectedRevision::Only(revision) if revision != found.revision) {
        return Err(Problem::LicenseRevised);
    }
    let texts = LicenseTexts::of(service.gate.bindings(), [&*found]).await?;
    // Two licenses under one key are two mails, and so are two addresses.
    let event = format!("resend {} {request_key} {id} {}", caller.scope, address.reveal());
    let event = format!("resend {}", Digest::of(event.as_bytes()));
    let snapshot = service.gate.snapshot();
    let pages = service.first_copy_pages(&snapshot);
    let tools = MailTools {
        bindings: service.gate.bindings(),
        queue: service.mail.get().cloned(),
        secrets: snapshot.secrets.licensing.as_deref(),
        pages: pages.as_ref(),
    };
    let wanted = MailAgain {
        what,
        address,
        event,
        scope: Arc::clone(&caller.scope),
        author: Author::default(),
        now: Utc::now(),
    };
    tools.mail_again(&found, wanted).await?;
    tracing::info!(license = id.log_tag(), by = %caller.scope, ?what, "mailed again");
    let document = LicenseDocument::issued(&found, &texts, KnownSites::of(service, &snapshot));
    Ok(answer(StatusCode::ACCEPTED, &document))
}
