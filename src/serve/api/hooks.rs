//! `POST /hooks/<name>`: a delivery of a shop, answered with 200 once it is on disk.
//!
//! Anybody can send one. So the signature's header is checked before the body is read, the body has little time, and each
//! address may send a few at once.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use hyper::body::{Body as _, Incoming};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use warp::http::Request;

use crate::serve::api::body;
use crate::serve::hooks::{Hook, HookError};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_shops::event::MAX_DELIVERY;
use countersign_shops::signature::{self, SignatureError};

/// Time limit of a body.
const BODY_TIME: Duration = Duration::from_secs(3);

/// Size limit of a body without a signature, in bytes: more than a ping has.
const MAX_UNSIGNED: usize = 256;

/// Takes a delivery. The future may be dropped early: what was received is kept.
pub async fn reply(
    service: &Arc<Service>,
    client: IpAddr,
    name: &str,
    request: Request<Incoming>,
) -> Result<(Code, Response), Problem> {
    let (hook, _) = service.hooks.find(name).ok_or(Problem::NotFound)?;
    let kind = hook.config.kind;
    let header = request.headers().get(kind.signature_header);
    // A header that is no text is not what a shop signs with.
    let header = header.map(|value| value.to_str().unwrap_or_default().to_owned());
    if header.is_none() && kind.is_ping.is_some() {
        return unsigned(hook, request).await;
    }
    hook.check_header(header.as_deref(), Utc::now())
        .map_err(|error| refuse(hook, error.into()))?;
    // Its address first: who waits for that permit holds none that others need.
    let announced = request.body().size_hint().upper();
    let permits = service.hooks.permits.acquire(client, announced).await;
    let _permits = permits.ok_or(Problem::Overloaded)?;
    let body = read(request, MAX_DELIVERY).await?;
    let taking = Arc::clone(service);
    let name = name.to_owned();
    let taken = spawn_blocking(move || {
        let (hook, spool) = taking.hooks.find(&name).ok_or(Problem::NotFound)?;
        hook.take(spool, header.as_deref(), &body, Utc::now())
            .map_err(|error| refuse(hook, error))?;
        taking.hooks.announce();
        Ok::<_, Problem>(())
    });
    taken.await.map_err(|error| Problem::internal(&error))??;
    // What a shop signed costs nothing: it sends whole days of sales from a few addresses.
    service.limits.give_back(client);
    Ok((Code::Ok, JSON.answer("{}")))
}

/// Takes a request that the shop does not sign. It has no content, and nothing is done.
async fn unsigned(hook: &Hook, request: Request<Incoming>) -> Result<(Code, Response), Problem> {
    let kind = hook.config.kind;
    match read(request, MAX_UNSIGNED).await {
        Ok(body) if signature::is_unsigned_ping(kind, &body) => Ok((Code::Ok, JSON.answer("{}"))),
        Ok(_) | Err(Problem::PayloadTooLarge(_)) => {
            Err(refuse(hook, SignatureError::Missing(kind.signature_header).into()))
        }
        Err(problem) => Err(problem),
    }
}

async fn read(request: Request<Incoming>, limit: usize) -> Result<Bytes, Problem> {
    let read = timeout(BODY_TIME, body::read(request, limit)).await;
    read.unwrap_or(Err(Problem::RequestTimeout))
}

/// The answer to a delivery that is not taken. Logs it, unless another one was logged a moment ago.
fn refuse(hook: &Hook, error: HookError) -> Problem {
    if hook.is_log_due() {
        let shop = hook.config.name.as_str();
        tracing::warn!(shop, %error, "a delivery was not taken; more within a minute are not logged");
    }
    match error {
        HookError::Signature(_) => Problem::WrongSignature,
        HookError::Secret(_) | HookError::Spool(_) => Problem::DeliveryNotKept,
    }
}
