//! The files of the queue: one for each mail, in the node's own folder. The server and commands use them at the same time.
//!
//! [`queue`](super::queue) adds what only the server has.

use std::path::Path;
use std::time::SystemTime;

use chrono::Utc;

use crate::mail_id::MailId;
use crate::mail_queue_error::MailQueueError;
use crate::queued_mail::QueuedMail;
use countersign_files::json_folder::JsonFolder;

/// The folder in the node's own.
const FOLDER: &str = "mail";

/// The ending of a mail's file.
const ENDING: &str = ".json";

/// The folder of the queue.
#[derive(Clone, Debug)]
pub struct MailFolder(JsonFolder);

impl MailFolder {
    /// The folder in `store`, which is made if it is missing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(store: &Path) -> Result<Self, MailQueueError> {
        Ok(Self(JsonFolder::open(store.join(FOLDER))?))
    }

    /// The folder, if there is one.
    pub fn existing(store: &Path) -> Option<Self> {
        JsonFolder::existing(store.join(FOLDER)).map(Self)
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Deletes what killed processes left.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn remove_leftovers(&self) -> Result<(), MailQueueError> {
        Ok(self.0.remove_leftovers()?)
    }

    /// Every mail, with the time of its last change.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn list(&self) -> Result<Vec<(MailId, SystemTime)>, MailQueueError> {
        Ok(self.0.list(|name| name.strip_suffix(ENDING)?.parse().ok())?)
    }

    /// Reads a mail; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self, id: MailId) -> Result<Option<QueuedMail>, MailQueueError> {
        match self.0.read::<QueuedMail>(&file(id))? {
            Some(mail) if mail.id() != id => Err(MailQueueError::Damaged(self.path().join(file(id)))),
            mail => Ok(mail),
        }
    }

    /// Keeps a new mail durably. Returns `false` if there is one of its event already.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn put_new(&self, mail: &QueuedMail) -> Result<bool, MailQueueError> {
        Ok(self.0.create(&file(mail.id()), mail)?)
    }

    /// Replaces a mail, unless it is gone: then a person dropped it.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn replace(&self, mail: &QueuedMail) -> Result<(), MailQueueError> {
        self.0.replace(&file(mail.id()), mail)?;
        Ok(())
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
        Ok(self.0.remove(&file(id))?)
    }
}

fn file(id: MailId) -> String {
    format!("{id}{ENDING}")
}
