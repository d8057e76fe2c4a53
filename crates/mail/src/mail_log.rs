//! The log of mails that the mail server took: when, what about, and of which licenses. It has no address and no text.
//!
//! A file a month in the node's own folder, with one JSON object a line:
//!
//! ```text
//! {"time":"2026-11-27T18:00:00Z","kind":"license","licenses":["<64 hex>"]}
//! ```

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::queued_mail::QueuedMail;
use crate::values::MailKind;
use countersign_files::durable_file::{self, Access};
use countersign_files::{line_search, regular_file};
use countersign_model::license_key::LicenseId;

/// The folder in the node's own.
const FOLDER: &str = "mail-log";

/// How long a mail is in the log, at least: a license of a year and its reminders.
const KEPT: TimeDelta = TimeDelta::days(400);

/// A mail that the mail server took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedMail {
    /// When.
    pub time: DateTime<Utc>,
    /// What it was about.
    pub kind: MailKind,
    licenses: Vec<LicenseId>,
}

/// The files.
#[derive(Debug)]
pub(super) struct MailLog {
    folder: PathBuf,
}

impl MailLog {
    /// Makes the folder, and ends a line that was torn by a loss of power, so that the next one is whole.
    pub(super) fn open(store: &Path, now: DateTime<Utc>) -> io::Result<Self> {
        let log = Self {
            folder: store.join(FOLDER),
        };
        durable_file::create_folders(&log.folder, Access::Owner)?;
        let path = log.file(now);
        if let Ok(mut file) = regular_file::open(&path, regular_file::UNLIMITED) {
            let mut last = [b'\n'];
            if file.seek(SeekFrom::End(-1)).is_ok() {
                file.read_exact(&mut last)?;
            }
            if last != [b'\n'] {
                durable_file::append(&path, None, b"\n")?;
            }
        }
        Ok(log)
    }

    fn file(&self, time: DateTime<Utc>) -> PathBuf {
        self.folder.join(time.format("%Y-%m.jsonl").to_string())
    }

    /// Notes a mail. The first one of a month deletes the files that are too old, once it is noted. Errors name the folder.
    pub(super) fn note(&self, mail: &QueuedMail, now: DateTime<Utc>) -> io::Result<()> {
        let noted = self.try_note(mail, now);
        noted.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.folder.display())))
    }

    fn try_note(&self, mail: &QueuedMail, now: DateTime<Utc>) -> io::Result<()> {
        let logged = LoggedMail {
            time: now,
            kind: mail.kind(),
            licenses: mail.licenses.clone(),
        };
        let mut line = serde_json::to_vec(&logged)?;
        line.push(b'\n');
        let path = self.file(now);
        if path.exists() {
            return durable_file::append(&path, None, &line);
        }
        durable_file::create_new(&path, &line, Access::Owner)?;
        let oldest = self.file(now - KEPT);
        for old in self.files()?.into_iter().filter(|file| *file < oldest) {
            fs::remove_file(old)?;
        }
        Ok(())
    }

    /// The mails about a license, the oldest first. A line that cannot be read is left out. Reads each file.
    pub(super) fn of(&self, license: &LicenseId) -> io::Result<Vec<LoggedMail>> {
        let mut mails = Vec::new();
        for file in self.files()? {
            let file = regular_file::open(&file, regular_file::UNLIMITED)?;
            line_search::lines_with(file, license.to_string().as_bytes(), |line| {
                mails.extend(serde_json::from_slice::<LoggedMail>(line).ok());
                Ok::<_, io::Error>(())
            })?;
        }
        mails.retain(|mail| mail.licenses.contains(license));
        Ok(mails)
    }

    /// The files, the oldest first.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            files.extend(path.extension().is_some_and(|end| end == "jsonl").then_some(path));
        }
        files.sort_unstable();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(licenses: &[LicenseId]) -> QueuedMail {
        QueuedMail::new("anna@example.com".parse().unwrap(), licenses.to_vec(), "event").unwrap()
    }

    #[test]
    fn mails_are_found_by_license_for_400_days_and_a_torn_line_spoils_none() {
        let store = tempfile::tempdir().unwrap();
        let start: DateTime<Utc> = "2026-01-15T12:00:00Z".parse().unwrap();
        let [one, two] = [1, 2].map(|number| LicenseId::from_bytes([number; 32]));
        let log = MailLog::open(store.path(), start).unwrap();
        log.note(&mail(&[one, two]), start).unwrap();
        log.note(&mail(&[two]), start).unwrap();
        let path = store.path().join("mail-log/2026-01.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("anna") && text.lines().count() == 2, "{text}");
        durable_file::append(&path, None, b"{\"time\":\"20").unwrap();
        let log = MailLog::open(store.path(), start).unwrap();
        log.note(&mail(&[one]), start + TimeDelta::days(1)).unwrap();
        assert_eq!(log.of(&one).unwrap().len(), 2);
        assert_eq!(log.of(&two).unwrap().len(), 2);
        assert_eq!(log.of(&one).unwrap()[0].kind, MailKind::License);
        // What is noted stays, also where an old file cannot be deleted, and the error names the folder.
        fs::create_dir(store.path().join("mail-log/2020-01.jsonl")).unwrap();
        let failed = log.note(&mail(&[one]), start + TimeDelta::days(31)).unwrap_err();
        assert!(failed.to_string().contains("mail-log"), "{failed}");
        fs::remove_dir(store.path().join("mail-log/2020-01.jsonl")).unwrap();
        assert_eq!(log.of(&one).unwrap().len(), 3);
        // The file of a month goes when its last day is too old.
        let kept = start + TimeDelta::days(400);
        log.note(&mail(&[two]), kept).unwrap();
        assert_eq!(log.of(&one).unwrap().len(), 3);
        log.note(&mail(&[two]), kept + TimeDelta::days(31)).unwrap();
        assert_eq!(log.of(&one).unwrap().len(), 1);
        assert_eq!(log.of(&two).unwrap().len(), 2);
    }
}
