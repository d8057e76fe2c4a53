//! The files of the queue: one for each mail, in the node's own folder. The server and commands use them at the same time.
//!
//! [`queue`](super::queue) adds what only the server has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::Utc;

use crate::durable_file::{self, Access};
use crate::mail::mail_id::MailId;
use crate::mail::mail_queue_error::MailQueueError;
use crate::mail::queued_mail::QueuedMail;
use crate::regular_file;

/// The folder in the node's own.
const FOLDER: &str = "mail";

/// The ending of a mail's file.
const ENDING: &str = ".json";

/// Size limit of a mail's file, in bytes: a hundred licenses take seven thousand.
const MAX_FILE: u64 = 64 << 10;

/// The folder of the queue.
#[derive(Clone, Debug)]
pub struct MailFolder(PathBuf);

impl MailFolder {
    /// The folder in `store`, which is made if it is missing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(store: &Path) -> Result<Self, MailQueueError> {
        let path = store.join(FOLDER);
        match durable_file::create_folders(&path, Access::Owner) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(MailQueueError::Io { path, source }),
        }
    }

    /// The folder, if there is one.
    pub fn existing(store: &Path) -> Option<Self> {
        let path = store.join(FOLDER);
        path.is_dir().then_some(Self(path))
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Deletes what killed processes left.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn remove_leftovers(&self) -> Result<(), MailQueueError> {
        durable_file::remove_leftovers(&self.0).map_err(|source| MailQueueError::Io {
            path: self.0.clone(),
            source,
        })
    }

    /// Every mail, with the time of its last change. Files of other names are passed over.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn list(&self) -> Result<Vec<(MailId, SystemTime)>, MailQueueError> {
        let failed = |source| MailQueueError::Io {
            path: self.0.clone(),
            source,
        };
        let mut mails = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(ENDING)?.parse().ok());
            let Some(id) = id else { continue };
            // One that is gone was sent meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            mails.push((id, regular_file::change_time(&metadata)));
        }
        mails.sort_unstable();
        Ok(mails)
    }

    /// Reads a mail; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self, id: MailId) -> Result<Option<QueuedMail>, MailQueueError> {
        let path = self.file(id);
        let text = match regular_file::read_to_string(&path, MAX_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if regular_file::is_unsuitable(&error) || error.kind() == io::ErrorKind::InvalidData => {
                return Err(MailQueueError::Damaged(path));
            }
            Err(source) => return Err(MailQueueError::Io { path, source }),
        };
        match serde_json::from_str::<QueuedMail>(&text) {
            Ok(mail) if mail.id() == id => Ok(Some(mail)),
            _ => Err(MailQueueError::Damaged(path)),
        }
    }

    /// Keeps a new mail durably. Returns `false` if there is one of its event already.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn put_new(&self, mail: &QueuedMail) -> Result<bool, MailQueueError> {
        let path = self.file(mail.id());
        match bytes(mail).and_then(|bytes| durable_file::create_new(&path, &bytes, Access::Owner)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(MailQueueError::Io { path, source }),
        }
    }

    /// Replaces a mail, unless it is gone: then a person dropped it.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn replace(&self, mail: &QueuedMail) -> Result<(), MailQueueError> {
        let path = self.file(mail.id());
        if !path.exists() {
            return Ok(());
        }
        let replaced = bytes(mail).and_then(|bytes| durable_file::replace(&path, &bytes));
        replaced.map_err(|source| MailQueueError::Io { path, source })
    }

    /// Has a mail sent again at once; `false` if it is gone. A running server notices.
    ///
    /// # Errors
    /// As [`Self::read`], and the disk fails.
    pub fn retry(&self, id: MailId) -> Result<bool, MailQueueError> {
        let Some(mail) = self.read(id)? else { return Ok(false) };
        self.replace(&mail.retried(Utc::now()))?;
        Ok(true)
    }

    /// Deletes a mail; `false` if it is gone.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(&self, id: MailId) -> Result<bool, MailQueueError> {
        let path = self.file(id);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(MailQueueError::Io { path, source }),
        }
    }

    fn file(&self, id: MailId) -> PathBuf {
        self.0.join(format!("{id}{ENDING}"))
    }
}

fn bytes(mail: &QueuedMail) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(mail)?;
    bytes.push(b'\n');
    Ok(bytes)
}
