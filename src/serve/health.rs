//! Health: `/healthz` says the process answers, `/readyz` says what state each part is in and since when.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use warp::http::{HeaderValue, StatusCode, header};
use warp::reply::Response;

/// What the server is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its name")]
pub enum Part {
    Registry,
    Catalog,
    Key,
    Store,
}

impl Part {
    /// The part's name in logs and on `/readyz`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Catalog => "catalog",
            Self::Key => "key",
            Self::Store => "store",
        }
    }
}

/// How a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it stands on disk.
    Ok,
    /// What stands on disk is broken; the last good state is served.
    Stale,
    /// It does not do its work.
    Failing,
}

#[derive(Clone, Debug, Serialize)]
struct Condition {
    state: State,
    #[serde(serialize_with = "seconds")]
    since: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

fn seconds<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

#[derive(Clone, Debug, Serialize)]
struct Parts {
    catalog: Condition,
    key: Condition,
    registry: Condition,
    store: Condition,
}

#[derive(Serialize)]
struct Readiness<'a> {
    ready: bool,
    parts: &'a Parts,
}

/// The condition of every part.
#[derive(Debug)]
pub struct Health(Mutex<Parts>);

impl Health {
    /// Everything is well as of `now`.
    pub fn new(now: DateTime<Utc>) -> Self {
        let well = Condition { state: State::Ok, since: now, detail: None };
        Self(Mutex::new(Parts { catalog: well.clone(), key: well.clone(), registry: well.clone(), store: well }))
    }

    /// Notes that a part is in `state`, `since` when; a part that stays in its state keeps its time. Returns whether
    /// anything is new.
    pub fn note(&self, part: Part, state: State, detail: Option<String>, since: DateTime<Utc>) -> bool {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let condition = match part {
            Part::Registry => &mut parts.registry,
            Part::Catalog => &mut parts.catalog,
            Part::Key => &mut parts.key,
            Part::Store => &mut parts.store,
        };
        let news = condition.state != state || condition.detail != detail;
        if news {
            let since = if condition.state == state { condition.since } else { since };
            *condition = Condition { state, since, detail };
        }
        news
    }

    /// The answer of `/readyz`: 200 while every part does its work, be it with its last good state, else 503.
    pub fn readiness(&self) -> Response {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Parts { catalog, key, registry, store } = &parts;
        let ready = [catalog, key, registry, store].iter().all(|condition| condition.state != State::Failing);
        // Strings and a bool: nothing in it can fail to serialize.
        let body = serde_json::to_vec_pretty(&Readiness { ready, parts: &parts }).unwrap_or_default();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        answer(status, "application/json", body.into())
    }
}

/// The answer of `/healthz`.
pub fn liveness() -> Response {
    answer(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"alive\n"))
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
