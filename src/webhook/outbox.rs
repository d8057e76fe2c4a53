//! What is kept of an endpoint, in the node's own folder: how far it was told, and the messages that it did not take.
//!
//! The server and commands use the files at the same time. Messages have buyers' hosts, so that only the owner reads them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::durable_file::{self, Access};
use crate::model::license_key::LicenseId;
use crate::model::slug::Slug;
use crate::regular_file;
use crate::store::SharedEndpoint;
use crate::store::ledger_feed::FeedCursor;
use crate::store::log::Position;
use crate::webhook::event::EventId;
use crate::webhook::kept_event::KeptEvent;

/// The folder in the node's own.
const FOLDER: &str = "webhooks";

/// How far an endpoint was told.
const PROGRESS: &str = "progress.json";

/// The ending of a message's file.
const ENDING: &str = ".json";

/// The most messages that one endpoint has waiting or parked. Then the ledger waits.
pub const MAX_KEPT: usize = 10_000;

/// Size limit of a file, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// How far an endpoint was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldProgress {
    /// The last line of the ledger that it was told, or that is kept.
    pub cursor: FeedCursor,
    /// The last day whose ending licenses it was told.
    pub day: NaiveDate,
    /// On the day after that, the last license it was told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after: Option<LicenseId>,
    /// Refused hosts up to this time were told.
    pub refused_until: DateTime<Utc>,
    /// Copies that sites reported up to this time were told.
    pub copies_until: DateTime<Utc>,
    /// Since then, the last license whose copies were told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copies_after: Option<LicenseId>,
    /// Why it cannot be told anything now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trouble: Option<EndpointTrouble>,
}

impl ToldProgress {
    /// That of a new endpoint: it is told what comes after this line, and which licenses end soon from today on.
    pub fn beginning_after(line: Position, now: DateTime<Utc>) -> Self {
        Self {
            cursor: FeedCursor {
                position: line,
                time: now,
            },
            day: now.date_naive().pred_opt().unwrap_or_default(),
            after: None,
            refused_until: now,
            copies_until: now,
            copies_after: None,
            trouble: None,
        }
    }

    /// What a shared database says; `None` if nobody told the endpoint anything.
    pub fn of_shared(endpoint: &SharedEndpoint) -> Option<Self> {
        serde_json::from_str::<Option<Self>>(&endpoint.progress).ok()?
    }
}

/// Why an endpoint cannot be told anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointTrouble {
    /// Since when.
    pub since: DateTime<Utc>,
    /// What failed.
    pub reason: String,
}

/// The place of a kept message: they are sent in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeptName {
    /// Counts the messages of the endpoint.
    pub number: u64,
    /// The event.
    pub id: EventId,
}

/// Why the files of an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The disk failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else wrote this file.
    #[error("{}: damaged", .0.display())]
    Damaged(PathBuf),
}

/// The folder of an endpoint.
#[derive(Clone, Debug)]
pub struct Outbox(PathBuf);

impl Outbox {
    /// The folder of this endpoint in `store`, which is made if it is missing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(store: &Path, name: &Slug) -> Result<Self, OutboxError> {
        let path = store.join(FOLDER).join(name.as_str());
        match durable_file::create_folders(&path, Access::Owner) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(OutboxError::Io { path, source }),
        }
    }

    /// The folder, if there is one.
    pub fn existing(store: &Path, name: &Slug) -> Option<Self> {
        let path = store.join(FOLDER).join(name.as_str());
        path.is_dir().then_some(Self(path))
    }

    /// How far the endpoint was told; `None` if nobody ever told it anything.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn progress(&self) -> Result<Option<ToldProgress>, OutboxError> {
        self.read_file(&self.0.join(PROGRESS))
    }

    /// Notes durably how far the endpoint was told.
    ///
    /// # Errors
    /// The disk fails.
    pub fn save(&self, progress: &ToldProgress) -> Result<(), OutboxError> {
        let path = self.0.join(PROGRESS);
        let saved = bytes(progress).and_then(|bytes| match path.exists() {
            true => durable_file::replace(&path, &bytes),
            false => durable_file::create_new(&path, &bytes, Access::Owner),
        });
        saved.map_err(|source| OutboxError::Io { path, source })
    }

    /// Every kept message with the time of its last change, in order. Files of other names are passed over.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn list(&self) -> Result<Vec<(KeptName, SystemTime)>, OutboxError> {
        let failed = |source| OutboxError::Io {
            path: self.0.clone(),
            source,
        };
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file = entry.file_name();
            let Some(name) = file.to_str().and_then(kept_name) else {
                continue;
            };
            // One that is gone was sent meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            kept.push((name, regular_file::change_time(&metadata)));
        }
        kept.sort_unstable();
        Ok(kept)
    }

    /// Reads a kept message; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self, name: KeptName) -> Result<Option<KeptEvent>, OutboxError> {
        let path = self.file(name);
        match self.read_file::<KeptEvent>(&path)? {
            Some(kept) if kept.id != name.id => Err(OutboxError::Damaged(path)),
            kept => Ok(kept),
        }
    }

    /// Keeps a message durably.
    ///
    /// # Errors
    /// The disk fails.
    pub fn keep(&self, number: u64, kept: &KeptEvent) -> Result<(), OutboxError> {
        let path = self.file(KeptName { number, id: kept.id });
        let written = bytes(kept).and_then(|bytes| durable_file::create_new(&path, &bytes, Access::Owner));
        match written {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            written => written.map_err(|source| OutboxError::Io { path, source }),
        }
    }

    /// Replaces a message, unless it is gone: then a person dropped it.
    ///
    /// # Errors
    /// The disk fails.
    pub fn replace(&self, name: KeptName, kept: &KeptEvent) -> Result<(), OutboxError> {
        let path = self.file(name);
        if !path.exists() {
            return Ok(());
        }
        let replaced = bytes(kept).and_then(|bytes| durable_file::replace(&path, &bytes));
        replaced.map_err(|source| OutboxError::Io { path, source })
    }

    /// Deletes a message; `false` if it is gone.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(&self, name: KeptName) -> Result<bool, OutboxError> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(OutboxError::Io { path, source }),
        }
    }

    fn read_file<T: serde::de::DeserializeOwned>(&self, path: &Path) -> Result<Option<T>, OutboxError> {
        let text = match regular_file::read_to_string(path, MAX_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if regular_file::is_unsuitable(&error) || error.kind() == io::ErrorKind::InvalidData => {
                return Err(OutboxError::Damaged(path.to_owned()));
            }
            Err(source) => {
                let path = path.to_owned();
                return Err(OutboxError::Io { path, source });
            }
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| OutboxError::Damaged(path.to_owned()))
    }

    fn file(&self, KeptName { number, id }: KeptName) -> PathBuf {
        self.0.join(format!("{number:020}-{id}{ENDING}"))
    }
}

fn kept_name(file: &str) -> Option<KeptName> {
    let (number, id) = file.strip_suffix(ENDING)?.split_once('-')?;
    Some(KeptName {
        number: number.parse().ok()?,
        id: id.parse().ok()?,
    })
}

fn bytes(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::model::event_kind::EventKind;
    use crate::webhook::event::WebhookEvent;

    #[test]
    fn progress_and_messages_are_read_back_in_order_and_nobody_else_reads_them() {
        let store = tempfile::tempdir().unwrap();
        let name: Slug = "crm".parse().unwrap();
        assert!(Outbox::existing(store.path(), &name).is_none());
        let outbox = Outbox::open(store.path(), &name).unwrap();
        assert_eq!(outbox.progress().unwrap(), None);
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let mut progress = ToldProgress::beginning_after(Position::genesis(), now);
        for reason in [None, Some("answered 500")] {
            progress.trouble = reason.map(|reason| EndpointTrouble {
                since: now,
                reason: reason.to_owned(),
            });
            outbox.save(&progress).unwrap();
            assert_eq!(outbox.progress().unwrap().as_ref(), Some(&progress));
        }
        let license = LicenseId::from_bytes([7; 32]);
        let event = |number: u64| {
            let id = EventId::of(format_args!("{number}"));
            WebhookEvent::new(id, EventKind::Bound, license, now, serde_json::json!({}))
        };
        for number in [10, 9] {
            let kept = KeptEvent::new(&event(number), now).unwrap();
            outbox.keep(number, &kept).unwrap();
            outbox.keep(number, &kept).unwrap();
        }
        let listed = outbox.list().unwrap();
        let numbers: Vec<_> = listed.iter().map(|(name, _)| name.number).collect();
        assert_eq!(numbers, [9, 10]);
        let first = listed[0].0;
        let kept = outbox.read(first).unwrap().unwrap();
        assert_eq!(kept.event(), Some(event(9)));
        let mode = fs::metadata(outbox.file(first)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let refused = kept.refused("answered 422".into(), now);
        outbox.replace(first, &refused).unwrap();
        assert_eq!(outbox.read(first).unwrap(), Some(refused.clone()));
        assert!(outbox.remove(first).unwrap() && !outbox.remove(first).unwrap());
        outbox.replace(first, &refused).unwrap();
        assert_eq!(outbox.read(first).unwrap(), None, "a person dropped it");
        fs::write(outbox.file(listed[1].0), "{}").unwrap();
        assert!(matches!(outbox.read(listed[1].0), Err(OutboxError::Damaged(_))));
    }
}
