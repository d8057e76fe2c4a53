//! Health: what state each part is in and since when. [`ops`](crate::serve::ops) shows it on `/readyz`.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use enum_map::Enum;
use serde::{Serialize, Serializer};
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

/// What the server is made of.
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

/// How a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it stands on disk.
    Ok,
    /// What stands on disk is broken; the last good state is served.
    Stale,
    /// It does not do its work.
    Failing,
}

#[derive(Clone, Debug, Serialize)]
struct PartHealth {
    state: State,
    #[serde(serialize_with = "seconds")]
    since: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The folder that it is read from. JSON is UTF-8, and a path need not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<String>,
    /// What that folder looked like when what is in force was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<String>,
    /// When its files were last looked at; the store and the packages have none that are.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds_of_look")]
    looked: Option<LastCheck>,
}

/// A look at a part's files, by the clock for people and by one that does not jump.
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
    /// Whether every part does its work.
    pub ready: bool,
    parts: Parts,
}

/// The condition of every part.
#[derive(Debug)]
pub struct Health {
    parts: Mutex<Parts>,
    /// A part that was not looked at for so long stands still.
    patience: Duration,
}

impl Health {
    /// Everything is well as of `now`; TLS is a part where it is spoken. A part that was not looked at for `patience` fails.
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

    /// Notes that a part's files were looked at.
    pub fn looked(&self, part: Part, now: DateTime<Utc>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(condition) = parts.of(part) {
            condition.looked = Some(LastCheck {
                time: now,
                at: Instant::now(),
            });
        }
    }

    /// When each part's files were last looked at, in seconds since 1970.
    pub fn looks(&self) -> Vec<(Part, i64)> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts
            .all()
            .filter_map(|(part, condition)| Some((part, condition.looked?.time.timestamp())))
            .collect()
    }

    /// The parts as they are now: one that nobody looks at any more fails, whatever it was when it was looked at.
    fn now(&self) -> Parts {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for part in Part::iter() {
            let Some(condition) = parts.of(part) else { continue };
            if let Some(look) = condition.looked.filter(|look| look.at.elapsed() > self.patience) {
                condition.state = State::Failing;
                condition.since = look.time;
                condition.detail =
                    Some("its files do not let themselves be looked at: is their disk still there?".to_owned());
            }
        }
        parts
    }

    /// Notes that a part is in `state`, `since` when; a part that stays in its state keeps its time. Returns whether
    /// anything is new.
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

    /// Notes from which files the registry in force was read; a command can wait for its change.
    pub(super) fn note_registry(&self, folder: &Path, in_force: Option<String>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.registry.files = Some(folder.to_string_lossy().into_owned());
        parts.registry.in_force = in_force;
    }

    /// The state of every part.
    pub fn states(&self) -> Vec<(Part, State)> {
        self.now()
            .all()
            .map(|(part, condition)| (part, condition.state))
            .collect()
    }

    /// What `/readyz` shows: ready while every part does its work, be it with its last good version.
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
