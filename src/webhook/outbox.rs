//! What is kept of an endpoint, in the node's own folder: how far it was told, and the messages that it did not take.
//!
//! The server and commands use the files at the same time. Messages have buyers' hosts, so that only the owner reads them.

use std::path::Path;
use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::webhook::event::EventId;
use crate::webhook::kept_event::KeptEvent;
use countersign_files::json_folder::{JsonFolder, JsonFolderError};
use countersign_ledger::SharedEndpoint;
use countersign_ledger::ledger_feed::FeedCursor;
use countersign_ledger::log::Position;
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;

/// The folder in the node's own.
const FOLDER: &str = "webhooks";

/// How far an endpoint was told.
const PROGRESS: &str = "progress.json";

/// The ending of a message's file.
const ENDING: &str = ".json";

/// The most messages that one endpoint has waiting or parked. Then the ledger waits.
pub const MAX_KEPT: usize = 10_000;

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

/// The folder of an endpoint.
#[derive(Clone, Debug)]
pub struct Outbox(JsonFolder);

impl Outbox {
    /// The folder of this endpoint in `store`, which is made if it is missing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(store: &Path, name: &Slug) -> Result<Self, JsonFolderError> {
        JsonFolder::open(store.join(FOLDER).join(name.as_str())).map(Self)
    }

    /// The folder, if there is one.
    pub fn existing(store: &Path, name: &Slug) -> Option<Self> {
        JsonFolder::existing(store.join(FOLDER).join(name.as_str())).map(Self)
    }

    /// How far the endpoint was told; `None` if nobody ever told it anything.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn progress(&self) -> Result<Option<ToldProgress>, JsonFolderError> {
        self.0.read(PROGRESS)
    }

    /// Notes durably how far the endpoint was told.
    ///
    /// # Errors
    /// The disk fails.
    pub fn save(&self, progress: &ToldProgress) -> Result<(), JsonFolderError> {
        if !self.0.replace(PROGRESS, progress)? {
            self.0.create(PROGRESS, progress)?;
        }
        Ok(())
    }

    /// Every kept message with the time of its last change, in order.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn list(&self) -> Result<Vec<(KeptName, SystemTime)>, JsonFolderError> {
        self.0.list(kept_name)
    }

    /// Reads a kept message; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self, name: KeptName) -> Result<Option<KeptEvent>, JsonFolderError> {
        let file = file(name);
        match self.0.read::<KeptEvent>(&file)? {
            Some(kept) if kept.id != name.id => Err(JsonFolderError::Damaged(self.0.path().join(file))),
            kept => Ok(kept),
        }
    }

    /// Keeps a message durably.
    ///
    /// # Errors
    /// The disk fails.
    pub fn keep(&self, number: u64, kept: &KeptEvent) -> Result<(), JsonFolderError> {
        self.0.create(&file(KeptName { number, id: kept.id }), kept).map(drop)
    }

    /// Replaces a message, unless it is gone: then a person dropped it.
    ///
    /// # Errors
    /// The disk fails.
    pub fn replace(&self, name: KeptName, kept: &KeptEvent) -> Result<(), JsonFolderError> {
        self.0.replace(&file(name), kept).map(drop)
    }

    /// Deletes a message; `false` if it is gone.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(&self, name: KeptName) -> Result<bool, JsonFolderError> {
        self.0.remove(&file(name))
    }
}

fn file(KeptName { number, id }: KeptName) -> String {
    format!("{number:020}-{id}{ENDING}")
}

fn kept_name(file: &str) -> Option<KeptName> {
    let (number, id) = file.strip_suffix(ENDING)?.split_once('-')?;
    Some(KeptName {
        number: number.parse().ok()?,
        id: id.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::webhook::event::WebhookEvent;
    use countersign_model::event_kind::EventKind;

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
        let mode = fs::metadata(outbox.0.path().join(file(first)))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let refused = kept.refused("answered 422".into(), now);
        outbox.replace(first, &refused).unwrap();
        assert_eq!(outbox.read(first).unwrap(), Some(refused.clone()));
        assert!(outbox.remove(first).unwrap() && !outbox.remove(first).unwrap());
        outbox.replace(first, &refused).unwrap();
        assert_eq!(outbox.read(first).unwrap(), None, "a person dropped it");
        fs::write(outbox.0.path().join(file(listed[1].0)), "{}").unwrap();
        assert!(matches!(outbox.read(listed[1].0), Err(JsonFolderError::Damaged(_))));
    }
}
