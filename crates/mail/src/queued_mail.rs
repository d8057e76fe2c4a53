//! A mail in the queue: its name, its recipient, and the licenses that it is about, never a key. [`MailQueueError`] says why a mail
//! could not be queued.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::address::MailAddress;
use crate::values::MailKind;
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::QueueItem;
use countersign_model::issued_license::{Hex128, NotHex128};
use countersign_model::license_key::LicenseId;
use countersign_model::reminder::ReminderKind;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

/// The folder in the node's own.
const FOLDER: &str = "mail";

/// The most licenses in one mail.
pub const MAX_LICENSES: usize = 100;

/// The longest id of an event, in bytes.
const MAX_EVENT: usize = 200;

/// How often a mail is tried: with the default settings, for five days (RFC 5321, section 4.5.4.1).
const MAX_ATTEMPTS: u32 = 126;

/// A mail of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedMail {
    /// Whom it goes to.
    pub address: MailAddress,
    /// The licenses that it is about, at least one.
    pub licenses: Vec<LicenseId>,
    /// What made it necessary. An event has one mail.
    pub event: String,
    /// What it reminds of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminder: Option<QueuedReminder>,
    /// The site that was installed again; only of a mail about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<QueuedSite>,
    /// Whether it has the pages with first copies, and no key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_download: bool,
}

/// A site that was installed again. The mail is sent once the ledger has its claim, and never if that does not wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedSite {
    /// The site.
    pub host: SiteHost,
    /// Its new hash.
    pub hash: ReleaseHash,
    /// A number for the mail alone.
    pub number: Hex128,
    /// The number of the customer who gets it.
    pub to: Hex128,
}

/// What a mail reminds of. It is sent once a line of the ledger has its number, and never if none has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedReminder {
    /// The last day of its licenses.
    pub expires: NaiveDate,
    /// Which reminder.
    pub kind: ReminderKind,
    /// The mail's number in the ledger.
    pub number: Hex128,
    /// The number of the customer who gets it.
    pub to: Hex128,
}

impl QueuedMail {
    /// A reminder.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn reminder(
        address: MailAddress,
        licenses: Vec<LicenseId>,
        reminder: QueuedReminder,
    ) -> Result<Self, MailQueueError> {
        let mail = Self::new(address, licenses, &format!("reminder {}", reminder.number))?;
        Ok(Self {
            reminder: Some(reminder),
            ..mail
        })
    }

    /// A mail about a site that was installed again.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn site_claimed(address: MailAddress, license: LicenseId, site: QueuedSite) -> Result<Self, MailQueueError> {
        let mail = Self::new(address, vec![license], &format!("site claim {}", site.number))?;
        Ok(Self {
            site: Some(site),
            ..mail
        })
    }

    /// What it is about.
    pub fn kind(&self) -> MailKind {
        match (&self.reminder, &self.site) {
            (Some(reminder), _) if reminder.kind.is_before() => MailKind::ReminderBefore,
            (Some(_), _) => MailKind::ReminderAfter,
            (None, Some(_)) => MailKind::SiteClaimed,
            (None, None) if self.is_download => MailKind::Download,
            (None, None) => MailKind::License,
        }
    }

    /// A mail with keys that the queue can take.
    ///
    /// # Errors
    /// [`MailQueueError::Malformed`]: no license, too many, or an event's id that is empty or too long.
    pub fn new(address: MailAddress, licenses: Vec<LicenseId>, event: &str) -> Result<Self, MailQueueError> {
        if licenses.is_empty() || licenses.len() > MAX_LICENSES || event.is_empty() || event.len() > MAX_EVENT {
            return Err(MailQueueError::Malformed);
        }
        Ok(Self {
            address,
            licenses,
            event: event.to_owned(),
            reminder: None,
            site: None,
            is_download: false,
        })
    }

    /// A mail that links to the page with a license's first copies, without the key.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn download(address: MailAddress, license: LicenseId, event: &str) -> Result<Self, MailQueueError> {
        let mail = Self::new(address, vec![license], event)?;
        Ok(Self {
            is_download: true,
            ..mail
        })
    }

    /// Its name.
    pub fn id(&self) -> MailId {
        MailId::of_event(&self.event)
    }
}

impl QueueItem for QueuedMail {
    type Name = MailId;

    const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

    fn is_named(&self, name: MailId, _: &[u8]) -> bool {
        self.id() == name
    }
}

/// The folder of the queue in the node's own.
pub fn folder(store: &Path) -> PathBuf {
    store.join(FOLDER)
}

/// How long a mail waits that failed so often before and now again: `first` the first time, then twice as long each time.
/// `None` if it was tried too often.
pub(super) fn wait(attempts: u32, first: Duration) -> Option<Duration> {
    let doubled = first.saturating_mul(1_u32.checked_shl(attempts).unwrap_or(u32::MAX));
    (attempts + 1 < MAX_ATTEMPTS).then_some(doubled.min(QueuedMail::LONGEST_WAIT))
}

/// What is hashed in front of the event's id, so that no other digest of it is the same.
const LABEL: &str = "countersign mail\n";

/// 16 bytes of a SHA-256 of the event's id; written as 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct MailId(Hex128);

impl MailId {
    /// The mail of an event.
    pub fn of_event(event: &str) -> Self {
        Self(Hex128::of_words(LABEL, format_args!("{event}")))
    }

    /// Its Message-ID (RFC 5322, section 3.6.4); `domain` is the sender's.
    pub(super) fn message_id(self, domain: &str) -> String {
        format!("<{self}@{domain}>")
    }
}

impl FromStr for MailId {
    type Err = NotHex128;

    fn from_str(text: &str) -> Result<Self, NotHex128> {
        text.parse().map(Self)
    }
}

impl fmt::Display for MailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The most mails that wait, and the most that are parked.
pub const MAX_MAILS: usize = 10_000;

/// Why a mail is not kept or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MailQueueError {
    /// The disk fails, or a file is damaged.
    #[error(transparent)]
    Folder(#[from] JsonFolderError),
    /// Too many wait.
    #[error("{}: {MAX_MAILS} mails wait already", .0.display())]
    Full(PathBuf),
    /// It has no license, too many, or no usable name of its event.
    #[error("not a mail: it needs 1 to 100 licenses, and an event's id of 1 to 200 bytes")]
    Malformed,
}

impl MailQueueError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Folder(JsonFolderError::Io { .. }) => "run this as the server's user, and look at the disk's space",
            Self::Full(_) => "look at `countersign mail parked list --all` and at the mail server",
            Self::Folder(JsonFolderError::Damaged(_)) => "look at the file, and delete it",
            Self::Malformed => "report this error with your version",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use chrono::{DateTime, TimeDelta, Utc};

    use super::*;
    use countersign_files::queue::{Queue, QueueState, Queued};

    const FIRST: Duration = Duration::from_secs(60);

    fn mail(event: &str, now: DateTime<Utc>) -> Queued<QueuedMail> {
        let license = LicenseId::from_bytes([7; 32]);
        let mail = QueuedMail::new("anna@example.com".parse().unwrap(), vec![license], event).unwrap();
        Queued::new(mail, now)
    }

    fn refused(mail: Queued<QueuedMail>, now: DateTime<Utc>) -> Queued<QueuedMail> {
        let wait = wait(mail.attempts, FIRST);
        mail.refused("451".to_owned(), wait, now)
    }

    #[test]
    fn a_mail_waits_longer_each_time_up_to_an_hour_and_is_parked_after_five_days() {
        let mut now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let mut mail = mail("evt_1", now);
        let mut waits = Vec::new();
        loop {
            assert!(mail.is_due(now));
            mail = refused(mail, now);
            assert!(!mail.is_due(now));
            if mail.state == QueueState::Parked {
                break;
            }
            waits.push((mail.next - now).num_seconds());
            now = mail.next;
        }
        assert_eq!(waits[..8], [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(mail.attempts, MAX_ATTEMPTS);
        let days = (now - mail.queued).num_hours() / 24;
        assert!((4..=5).contains(&days), "{days}");
        let again = mail.retried(now);
        assert_eq!((again.is_due(now), again.attempts), (true, 0));
    }

    #[test]
    fn a_clock_that_was_set_back_holds_no_mail_for_years() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let later = refused(mail("evt_1", now), now + TimeDelta::days(400));
        assert!(later.is_due(now));
        assert!(!refused(mail("evt_1", now), now).is_due(now));
    }

    #[test]
    fn a_file_of_an_older_version_is_read_and_written_as_it_was() {
        let written = r#"{"address":"anna@example.com","licenses":["0707070707070707070707070707070707070707070707070707070707070707"],"event":"evt_1","queued":"1970-01-12T13:46:40Z","state":"parked","attempts":3,"next":"1970-01-12T13:47:40Z","reason":"550"}"#;
        let store = tempfile::tempdir().unwrap();
        let queue = Queue::open(folder(store.path())).unwrap();
        let id = MailId::of_event("evt_1");
        let file = queue.path().join(format!("{id}.json"));
        fs::write(&file, written.replace("parked", "waiting")).unwrap();
        let parked = |mail: Queued<QueuedMail>| {
            Some(Queued {
                state: QueueState::Parked,
                ..mail
            })
        };
        queue.change(id, parked).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{written}\n"));
        let mail: Queued<QueuedMail> = queue.read(id).unwrap().unwrap();
        assert_eq!(
            (mail.state, mail.attempts, mail.item.event.as_str()),
            (QueueState::Parked, 3, "evt_1")
        );
    }

    #[test]
    fn what_is_no_order_is_refused() {
        let address: MailAddress = "anna@example.com".parse().unwrap();
        let license = LicenseId::from_bytes([7; 32]);
        let new = |count: usize, event: &str| QueuedMail::new(address.clone(), vec![license; count], event);
        assert!(new(1, "e").is_ok() && new(100, &"e".repeat(200)).is_ok());
        for (count, event) in [(0, "e"), (101, "e"), (1, ""), (1, &*"e".repeat(201))] {
            assert!(
                matches!(new(count, event), Err(MailQueueError::Malformed)),
                "{count} {event}"
            );
        }
    }

    #[test]
    fn an_event_has_one_mail_and_another_event_another() {
        let id = MailId::of_event("evt_1");
        assert_eq!(id, MailId::of_event("evt_1"));
        assert_ne!(id, MailId::of_event("evt_2"));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(
            id.message_id("acme.example"),
            "<".to_owned() + &id.to_string() + "@acme.example>"
        );
    }
}
