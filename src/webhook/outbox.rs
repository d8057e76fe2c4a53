//! What a node keeps of an endpoint in its own folder: the progress, and the messages that the endpoint did not take.
//!
//! The server and commands use the files at the same time. Messages have buyers' hosts, so that only the owner reads them.

use std::path::Path;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::webhook::kept_event::KeptEvent;
use countersign_files::json_folder::{JsonFolder, JsonFolderError};
use countersign_files::queue::Queue;
use countersign_ledger::SharedEndpoint;
use countersign_ledger::ledger_feed::FeedCursor;
use countersign_ledger::log::Position;
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;

/// The folder in the node's own.
const FOLDER: &str = "webhooks";

/// The file with the progress.
const PROGRESS: &str = "progress.json";

/// The most messages that one endpoint has waiting or parked. Then the ledger waits.
pub const MAX_KEPT: usize = 10_000;

/// The events that an endpoint has got already, or that are kept for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointProgress {
    /// The last line of the ledger that was sent, or that is kept.
    pub cursor: FeedCursor,
    /// The last day whose ending licenses were announced.
    pub day: NaiveDate,
    /// On the day after that, the last license that was announced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after: Option<LicenseId>,
    /// Refused hosts up to this time were announced.
    pub refused_until: DateTime<Utc>,
    /// Copies that sites reported up to this time were announced.
    pub copies_until: DateTime<Utc>,
    /// Since then, the last license whose copies were announced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copies_after: Option<LicenseId>,
    /// Why nothing can be sent now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trouble: Option<EndpointTrouble>,
}

impl EndpointProgress {
    /// The progress of a new endpoint: it gets what comes after this line, and licenses that end soon from today on.
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

    /// The progress in a shared database; `None` if no node sent the endpoint anything.
    pub fn of_shared(endpoint: &SharedEndpoint) -> Option<Self> {
        serde_json::from_str::<Option<Self>>(&endpoint.progress).ok()?
    }
}

/// Why nothing can be sent to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointTrouble {
    /// Since when.
    pub since: DateTime<Utc>,
    /// What failed.
    pub reason: String,
}

/// The folder of an endpoint.
#[derive(Clone, Debug)]
pub struct Outbox {
    /// The messages that it did not take.
    pub kept: Queue<KeptEvent>,
    folder: JsonFolder,
}

impl Outbox {
    /// The folder of this endpoint in `store`, which is made if it is missing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(store: &Path, name: &Slug) -> Result<Self, JsonFolderError> {
        let path = store.join(FOLDER).join(name.as_str());
        Ok(Self {
            kept: Queue::open(path.clone())?,
            folder: JsonFolder::open(path)?,
        })
    }

    /// The folder, if there is one.
    pub fn existing(store: &Path, name: &Slug) -> Option<Self> {
        let path = store.join(FOLDER).join(name.as_str());
        Some(Self {
            kept: Queue::existing(path.clone())?,
            folder: JsonFolder::existing(path)?,
        })
    }

    /// The progress; `None` if nothing was ever sent.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn progress(&self) -> Result<Option<EndpointProgress>, JsonFolderError> {
        self.folder.read(PROGRESS)
    }

    /// Stores the progress durably.
    ///
    /// # Errors
    /// The disk fails.
    pub fn save(&self, progress: &EndpointProgress) -> Result<(), JsonFolderError> {
        self.folder.save(PROGRESS, progress)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn progress_is_read_back_and_nobody_else_reads_it() {
        let store = tempfile::tempdir().unwrap();
        let name: Slug = "crm".parse().unwrap();
        assert!(Outbox::existing(store.path(), &name).is_none());
        let outbox = Outbox::open(store.path(), &name).unwrap();
        assert_eq!(outbox.progress().unwrap(), None);
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let mut progress = EndpointProgress::beginning_after(Position::genesis(), now);
        for reason in [None, Some("answered 500")] {
            progress.trouble = reason.map(|reason| EndpointTrouble {
                since: now,
                reason: reason.to_owned(),
            });
            outbox.save(&progress).unwrap();
            assert_eq!(outbox.progress().unwrap().as_ref(), Some(&progress));
        }
        let left = outbox.kept.path().join(".progress.json.0123456789abcdef.tmp");
        fs::write(&left, "shop.example").unwrap();
        let outbox = Outbox::open(store.path(), &name).unwrap();
        assert!(!left.exists(), "a killed process left it");
        assert_eq!(outbox.progress().unwrap(), Some(progress));
        let mode = fs::metadata(outbox.kept.path().join(PROGRESS))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(outbox.kept.list().unwrap(), [], "it is no message");
    }
}
