//! Health: the state of each part, and since when. [`ops`](crate::serve::ops) shows it on `/readyz`.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use enum_map::Enum;
use serde::{Serialize, Serializer};
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

/// The parts of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "each is its name")]
pub enum Part {
    Registry,
    Catalog,
    Key,
    Packages,
    Store,
    Tls,
}

impl Part {
    /// Whether it is loaded again when its files change.
    pub(crate) fn has_files(self) -> bool {
        !matches!(self, Self::Store | Self::Packages)
    }
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The files on disk are in use.
    Ok,
    /// The files on disk are broken; the last good version is in use.
    Stale,
    /// The part does not work.
    Failing,
}

#[derive(Clone, Debug, Serialize)]
struct PartHealth {
    state: State,
    #[serde(serialize_with = "seconds")]
    since: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The folder it was read from, as JSON text; a path need not be UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<String>,
    /// The fingerprint of the folder when the version in use was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<String>,
    /// When its files were last checked; absent for the store and the packages, which are not reloaded.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds_of_look")]
    looked: Option<LastCheck>,
    /// How far a ledger was read that other nodes write, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<LedgerReading>,
}

/// How far this node has read a shared ledger.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct LedgerReading {
    /// The number of the last line.
    pub sequence: u64,
    /// How long ago it had every line.
    #[serde(rename = "age_seconds", serialize_with = "milliseconds")]
    pub age: Duration,
}

/// The time of a check, by the system clock and by a monotonic clock.
#[derive(Clone, Copy, Debug)]
struct LastCheck {
    time: DateTime<Utc>,
    at: Instant,
}

fn seconds_of_look<S: Serializer>(look: &Option<LastCheck>, serializer: S) -> Result<S::Ok, S::Error> {
    look.map(|look| look.time)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Secs, true)
        .serialize(serializer)
}

/// Seconds with three decimals.
fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_millis() as f64 / 1_000.0)
}

fn seconds<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

#[derive(Clone, Debug, Serialize)]
struct Parts {
    catalog: PartHealth,
    key: PartHealth,
    packages: PartHealth,
    registry: PartHealth,
    store: PartHealth,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<PartHealth>,
}

impl Parts {
    fn of(&mut self, part: Part) -> Option<&mut PartHealth> {
        match part {
            Part::Registry => Some(&mut self.registry),
            Part::Catalog => Some(&mut self.catalog),
            Part::Key => Some(&mut self.key),
            Part::Packages => Some(&mut self.packages),
            Part::Store => Some(&mut self.store),
            Part::Tls => self.tls.as_mut(),
        }
    }

    fn all(&self) -> impl Iterator<Item = (Part, &PartHealth)> {
        let Self {
            catalog,
            key,
            packages,
            registry,
            store,
            tls,
        } = self;
        let parts = [
            (Part::Catalog, catalog),
            (Part::Key, key),
            (Part::Packages, packages),
            (Part::Registry, registry),
            (Part::Store, store),
        ];
        parts.into_iter().chain(tls.as_ref().map(|tls| (Part::Tls, tls)))
    }
}

/// The state of the server and of each part, as `/readyz` serializes it.
#[derive(Debug, Serialize)]
pub struct Readiness {
    /// Whether every part works.
    pub ready: bool,
    parts: Parts,
}

/// A part, as people see it.
#[derive(Clone, Debug)]
pub(crate) struct PartReport {
    /// Which one.
    pub part: Part,
    /// How it is.
    pub state: State,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Why.
    pub detail: Option<String>,
}

impl Readiness {
    /// Every part.
    pub(crate) fn reports(&self) -> Vec<PartReport> {
        let parts = self.parts.all();
        let reports = parts.map(|(part, health)| PartReport {
            part,
            state: health.state,
            since: health.since,
            detail: health.detail.clone(),
        });
        reports.collect()
    }
}

/// The state of every part.
#[derive(Debug)]
pub struct Health {
    parts: Mutex<Parts>,
    /// A part that was not checked for this long has stopped.
    patience: Duration,
}

impl Health {
    /// All parts are well as of `now`. TLS is a part if it is configured. A part that was not checked for `patience`
    /// fails.
    pub fn new(tls: bool, now: DateTime<Utc>, patience: Duration) -> Self {
        let looked = Some(LastCheck {
            time: now,
            at: Instant::now(),
        });
        let well = || PartHealth {
            state: State::Ok,
            since: now,
            detail: None,
            files: None,
            in_force: None,
            looked,
            ledger: None,
        };
        let tls = tls.then(well);
        let [packages, store] = [well(), well()].map(|part| PartHealth { looked: None, ..part });
        Self {
            parts: Mutex::new(Parts {
                catalog: well(),
                key: well(),
                packages,
                registry: well(),
                store,
                tls,
            }),
            patience,
        }
    }

    /// Records that a part's files were checked.
    pub fn looked(&self, part: Part, now: DateTime<Utc>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(condition) = parts.of(part) {
            condition.looked = Some(LastCheck {
                time: now,
                at: Instant::now(),
            });
        }
    }

    /// When each part's files were last checked, in seconds since 1970.
    pub fn looks(&self) -> Vec<(Part, i64)> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts
            .all()
            .filter_map(|(part, condition)| Some((part, condition.looked?.time.timestamp())))
            .collect()
    }

    /// The current state of the parts. A part that is no longer checked fails.
    fn now(&self) -> Parts {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for part in Part::iter() {
            let Some(condition) = parts.of(part) else { continue };
            if let Some(look) = condition.looked.filter(|look| look.at.elapsed() > self.patience) {
                condition.state = State::Failing;
                condition.since = look.time;
                condition.detail = Some("its files cannot be checked: is their disk still there?".to_owned());
            }
        }
        parts
    }

    /// Records that a part is in `state` since `since`; if the state is the same, its old time stays. Returns whether
    /// anything changed.
    pub fn note(&self, part: Part, state: State, detail: Option<String>, since: DateTime<Utc>) -> bool {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(condition) = parts.of(part) else { return false };
        let news = condition.state != state || condition.detail != detail;
        if news {
            let since = if condition.state == state {
                condition.since
            } else {
                since
            };
            *condition = PartHealth {
                state,
                since,
                detail,
                ..condition.clone()
            };
        }
        news
    }

    /// Records which files the current registry was read from, so that a command can wait for its change.
    pub(super) fn note_registry(&self, folder: &Path, in_force: Option<String>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.registry.files = Some(folder.to_string_lossy().into_owned());
        parts.registry.in_force = in_force;
    }

    /// Records how far the shared ledger was read.
    pub(super) fn note_ledger(&self, reading: LedgerReading) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.store.ledger = Some(reading);
    }

    /// The state of every part.
    pub fn states(&self) -> Vec<(Part, State)> {
        self.now()
            .all()
            .map(|(part, condition)| (part, condition.state))
            .collect()
    }

    /// The content of `/readyz`: ready if every part works, even with its last good version.
    pub fn readiness(&self) -> Readiness {
        let parts = self.now();
        let ready = parts.all().all(|(_, condition)| condition.state != State::Failing);
        Readiness { ready, parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_nobody_looks_at_any_more_fails_until_somebody_does() {
        let health = Health::new(true, Utc::now(), Duration::ZERO);
        assert!(!health.readiness().ready);
        let failing: Vec<_> = health
            .states()
            .into_iter()
            .filter(|(_, state)| *state == State::Failing)
            .collect();
        let parts = [Part::Catalog, Part::Key, Part::Registry, Part::Tls];
        assert_eq!(
            failing,
            parts.map(|part| (part, State::Failing)),
            "the store and the packages have no files that are looked at"
        );
        let health = Health::new(true, Utc::now(), Duration::from_secs(3_600));
        assert!(health.readiness().ready);
        health.looked(Part::Catalog, DateTime::from_timestamp(7, 0).unwrap());
        assert!(health.looks().contains(&(Part::Catalog, 7)));
    }
}
