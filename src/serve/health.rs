//! Health: `/healthz` says the process answers, `/readyz` says what state each part is in and since when.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use warp::http::StatusCode;

use super::label::labels;
use super::response::{ContentType, JSON, Response};

labels! {
    /// What the server is made of.
    #[allow(missing_docs, reason = "each is its name")]
    Part {
        Registry = "registry",
        Catalog = "catalog",
        Key = "key",
        Store = "store",
        Tls = "tls",
    }
}

labels! {
    /// How a part is.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    State {
        /// As it stands on disk.
        Ok = "ok",
        /// What stands on disk is broken; the last good state is served.
        Stale = "stale",
        /// It does not do its work.
        Failing = "failing",
    }
}

#[derive(Clone, Debug, Serialize)]
struct Condition {
    state: State,
    #[serde(serialize_with = "seconds")]
    since: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The folder that it is read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<PathBuf>,
    /// What that folder looked like when what is in force was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Condition>,
}

impl Parts {
    fn all(&self) -> impl Iterator<Item = (Part, &Condition)> {
        let Self { catalog, key, registry, store, tls } = self;
        let parts = [(Part::Catalog, catalog), (Part::Key, key), (Part::Registry, registry), (Part::Store, store)];
        parts.into_iter().chain(tls.as_ref().map(|tls| (Part::Tls, tls)))
    }
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
    /// Everything is well as of `now`; TLS is a part where it is spoken.
    pub fn new(tls: bool, now: DateTime<Utc>) -> Self {
        let well = || Condition { state: State::Ok, since: now, detail: None, files: None, in_force: None };
        let tls = tls.then(well);
        Self(Mutex::new(Parts { catalog: well(), key: well(), registry: well(), store: well(), tls }))
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
            Part::Tls => match &mut parts.tls {
                Some(tls) => tls,
                None => return false,
            },
        };
        let news = condition.state != state || condition.detail != detail;
        if news {
            let since = if condition.state == state { condition.since } else { since };
            *condition = Condition { state, since, detail, ..condition.clone() };
        }
        news
    }

    /// Notes from which files the registry in force was read; a command can wait for its change.
    pub(super) fn note_registry(&self, folder: PathBuf, in_force: Option<String>) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.registry.files = Some(folder);
        parts.registry.in_force = in_force;
    }

    /// The state of every part.
    pub fn states(&self) -> Vec<(Part, State)> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.all().map(|(part, condition)| (part, condition.state)).collect()
    }

    /// The answer of `/readyz`: 200 while every part does its work, be it with its last good state, else 503.
    pub fn readiness(&self) -> Response {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ready = parts.all().all(|(_, condition)| condition.state != State::Failing);
        // Strings and a bool: nothing in it can fail to serialize.
        let body = serde_json::to_vec_pretty(&Readiness { ready, parts: &parts }).unwrap_or_default();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        Response { status, ..JSON.answer(body) }
    }
}

/// The answer of `/healthz`.
pub fn liveness() -> Response {
    ContentType("text/plain; charset=utf-8").answer("alive\n")
}
