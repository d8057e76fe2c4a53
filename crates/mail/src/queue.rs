//! The queue of the running server: takes mails, and hands them to the thread that sends.
//!
//! It has no keys: a mail is an address and the ids of licenses. The key is derived when the mail is made.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use crossbeam_channel::{Receiver, Sender};

use crate::address::MailAddress;
use crate::mail_log::{LoggedMail, MailLog};
use crate::queued_mail::{self, MAX_MAILS, MailId, MailQueueError, QueuedMail};
use crate::sent_mails::SentMails;
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, Queued};
use countersign_model::license_key::LicenseId;

/// How many mails of the queue are read for one license.
const MOST_READ: usize = 1_000;

/// The mails of one node.
#[derive(Debug)]
pub struct MailQueue {
    pub(super) folder: Queue<QueuedMail>,
    sent: Mutex<SentMails>,
    log: MailLog,
    /// For the metrics.
    pub counts: MailCounts,
    wake: Sender<()>,
    /// Woken when there is a new mail.
    pub(super) woken: Receiver<()>,
}

/// The mails about a license.
#[derive(Debug)]
pub struct MailsAbout {
    /// Those that the mail server took, the oldest first.
    pub sent: Vec<LoggedMail>,
    /// Those of the queue.
    pub queued: Vec<Queued<QueuedMail>>,
}

/// Numbers of the queue.
#[derive(Debug, Default)]
pub struct MailCounts {
    /// Mails that wait.
    pub waiting: AtomicU64,
    /// Mails that a person has to decide.
    pub parked: AtomicU64,
    /// When the oldest one that waits was put into the queue, in seconds since 1970; 0 if none waits.
    pub oldest: AtomicU64,
    /// Mails that the mail server took.
    pub sent: AtomicU64,
    /// Attempts that failed, those to reach the mail server included.
    pub failures: AtomicU64,
}

/// What became of an order to mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The mail is durably in the queue.
    New,
    /// The event has its mail already, waiting or sent.
    Known,
}

impl MailQueue {
    /// Opens the queue in the node's own folder.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(store: &Path, now: DateTime<Utc>) -> Result<Self, MailQueueError> {
        let folder = Queue::open(queued_mail::folder(store))?;
        let failed = |source| JsonFolderError::Io {
            path: folder.path().to_owned(),
            source,
        };
        let sent = SentMails::open(folder.path(), now).map_err(failed)?;
        let log = MailLog::open(store, now).map_err(failed)?;
        let (wake, woken) = crossbeam_channel::bounded(1);
        Ok(Self {
            folder,
            sent: Mutex::new(sent),
            log,
            counts: MailCounts::default(),
            wake,
            woken,
        })
    }

    /// Mails the keys of these licenses to `address`: at once, or when the mail server is there again. When it returns, the
    /// mail is on disk. `event` names what happened, and an event gets one mail. Waits for the disk.
    ///
    /// # Errors
    /// The mail is not kept: too many wait, or the disk fails. The same order may be given again.
    pub fn enqueue(
        &self,
        address: &MailAddress,
        licenses: &[LicenseId],
        event: &str,
        now: DateTime<Utc>,
    ) -> Result<Enqueued, MailQueueError> {
        let queued = self.put(QueuedMail::new(address.clone(), licenses.to_vec(), event)?, now)?;
        self.wake();
        Ok(queued)
    }

    /// Puts a mail into the queue. When it returns, the mail is on disk. It is sent within seconds. Waits for the disk.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn put(&self, mail: QueuedMail, now: DateTime<Utc>) -> Result<Enqueued, MailQueueError> {
        let id = mail.id();
        if self.is_sent(id) {
            return Ok(Enqueued::Known);
        }
        // Approximate between two looks at the folder.
        if self.counts.waiting.load(Ordering::Relaxed) >= MAX_MAILS as u64 {
            return Err(MailQueueError::Full(self.folder.path().to_owned()));
        }
        if !self.folder.put(id, &Queued::new(mail, now))? {
            return Ok(Enqueued::Known);
        }
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(Enqueued::New)
    }

    /// Has the thread that sends look at the folder.
    pub(super) fn wake(&self) {
        // If it is full, the thread will look anyway.
        let _ = self.wake.try_send(());
    }

    pub(super) fn is_sent(&self, id: MailId) -> bool {
        self.sent().has(id)
    }

    /// Notes that the mail server has a mail, and deletes its file.
    pub(super) fn note_sent(&self, mail: &QueuedMail, now: DateTime<Utc>) {
        let id = mail.id();
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.log.note(mail, now) {
            tracing::error!(mail = %id, %error, "cannot write a mail into the log of mails");
        }
        let noted = self.sent().note(id, now);
        if let Err(error) = noted {
            tracing::error!(mail = %id, %error, "cannot note that a mail was sent");
        }
        self.forget(id);
    }

    /// The mails of this node about a license: those that the mail server took in the last 400 days, the oldest first, and those that
    /// wait or are parked, unless more than a thousand do. Waits for the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub fn about(&self, license: &LicenseId) -> io::Result<MailsAbout> {
        let mut queued = Vec::new();
        let names = self.folder.list().map_err(io::Error::other)?;
        let are_too_many = names.len() > MOST_READ;
        for (name, _) in names.into_iter().filter(|_| !are_too_many) {
            // One that was sent meanwhile, or is damaged, is not there.
            let mail = self.folder.read(name).ok().flatten();
            queued.extend(mail.filter(|mail| mail.item.licenses.contains(license)));
        }
        Ok(MailsAbout {
            sent: self.log.of(license)?,
            queued,
        })
    }

    /// Deletes the file of a mail that is not to be sent.
    pub fn forget(&self, id: MailId) {
        match self.folder.remove(id) {
            Ok(_) => {}
            // It is known as sent, and so is not sent again.
            Err(error) => tracing::error!(mail = %id, %error, "cannot delete a mail of the queue"),
        }
    }

    fn sent(&self) -> std::sync::MutexGuard<'_, SentMails> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_event_gets_one_mail_whether_it_waits_or_was_sent_and_nobody_else_reads_it() {
        let store = tempfile::tempdir().unwrap();
        let now = Utc::now();
        let address: MailAddress = "anna@example.com".parse().unwrap();
        let license = [LicenseId::from_bytes([7; 32])];
        let queue = MailQueue::open(store.path(), now).unwrap();
        let enqueue = |queue: &MailQueue, event: &str| queue.enqueue(&address, &license, event, now).unwrap();
        assert_eq!(enqueue(&queue, "evt_1"), Enqueued::New);
        assert_eq!(enqueue(&queue, "evt_1"), Enqueued::Known);
        let id = MailId::of_event("evt_1");
        let file = store.path().join(format!("mail/{id}.json"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&store.path().join("mail"))), (0o600, 0o700));
        assert_eq!(mode(&store.path().join("mail/sent")), 0o600);
        let mail = QueuedMail::new(address.clone(), license.to_vec(), "evt_1").unwrap();
        queue.note_sent(&mail, now);
        assert_eq!(queue.about(&license[0]).unwrap().sent.len(), 1);
        assert!(!file.exists());
        assert_eq!(enqueue(&queue, "evt_1"), Enqueued::Known);
        drop(queue);
        let left = store.path().join(format!("mail/.{id}.json.0123456789abcdef.tmp"));
        fs::write(&left, "anna@example.com").unwrap();
        let queue = MailQueue::open(store.path(), now).unwrap();
        assert!(!left.exists(), "a killed process left it");
        assert_eq!(enqueue(&queue, "evt_1"), Enqueued::Known);
        assert_eq!(enqueue(&queue, "evt_2"), Enqueued::New);
        assert!(
            !fs::read_to_string(store.path().join("mail/sent"))
                .unwrap()
                .contains("anna")
        );
    }

    #[test]
    fn a_full_queue_takes_nothing_more_and_damaged_files_are_reported() {
        let store = tempfile::tempdir().unwrap();
        let queue = MailQueue::open(store.path(), Utc::now()).unwrap();
        let address: MailAddress = "anna@example.com".parse().unwrap();
        let license = [LicenseId::from_bytes([7; 32])];
        queue.enqueue(&address, &license, "evt_1", Utc::now()).unwrap();
        let [known, other] = ["evt_1", "evt_2"].map(MailId::of_event);
        let path = |id: MailId| store.path().join(format!("mail/{id}.json"));
        fs::copy(path(known), path(other)).unwrap();
        fs::write(store.path().join("mail/notes.txt"), "").unwrap();
        assert_eq!(queue.folder.list().unwrap().len(), 2);
        assert!(queue.folder.read(known).unwrap().is_some());
        assert!(matches!(queue.folder.read(other), Err(JsonFolderError::Damaged(_))));
        queue.counts.waiting.store(MAX_MAILS as u64, Ordering::Relaxed);
        let full = queue.enqueue(&address, &license, "evt_3", Utc::now());
        assert!(matches!(full, Err(MailQueueError::Full(_))));
    }
}
