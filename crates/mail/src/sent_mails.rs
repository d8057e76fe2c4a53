//! Which mails the mail server has taken: no event gets a second one, also if it comes again days later.
//!
//! One line a mail: its name, and when. It has no address and no license. A line is on disk before the mail's file goes.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};

use crate::queued_mail::MailId;
use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;

/// The file in the queue's folder.
const FILE: &str = "sent";

/// How long a mail is known. A shop repeats a delivery for three days.
const KEPT: TimeDelta = TimeDelta::days(30);

/// How often those that are too old are forgotten.
const PRUNED_EVERY: TimeDelta = TimeDelta::days(1);

/// Size limit of the file, in bytes: five million mails.
const MAX_FILE: u64 = 256 << 20;

/// The mails that were taken.
#[derive(Debug)]
pub(super) struct SentMails {
    path: PathBuf,
    /// When each was taken, in seconds since 1970.
    times: HashMap<MailId, i64>,
    /// When those that are too old are forgotten next.
    next_pruning: DateTime<Utc>,
}

impl SentMails {
    /// Reads the file, and rewrites it without what is too old. A line that was torn by a loss of power is left out.
    pub(super) fn open(folder: &Path, now: DateTime<Utc>) -> io::Result<Self> {
        let path = folder.join(FILE);
        let text = match regular_file::read_to_string(&path, MAX_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                durable_file::create_new(&path, b"", Access::Owner)?;
                String::new()
            }
            Err(error) => return Err(error),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut sent = Self {
            path,
            times: whole.lines().filter_map(parse).collect(),
            next_pruning: now + PRUNED_EVERY,
        };
        let lines = sent.prune(now);
        if lines.len() != text.len() {
            durable_file::replace(&sent.path, lines.as_bytes())?;
        }
        Ok(sent)
    }

    /// Forgets what is too old; returns the lines of what is left.
    fn prune(&mut self, now: DateTime<Utc>) -> String {
        let oldest = (now - KEPT).timestamp();
        self.times.retain(|_, time| *time >= oldest);
        self.times.iter().map(|(id, time)| line(*id, *time)).collect()
    }

    /// Whether the mail server has this one.
    pub(super) fn has(&self, id: MailId) -> bool {
        self.times.contains_key(&id)
    }

    /// Notes a mail durably. If that fails, it is known until the server ends.
    pub(super) fn note(&mut self, id: MailId, now: DateTime<Utc>) -> io::Result<()> {
        self.times.insert(id, now.timestamp());
        if now >= self.next_pruning {
            self.next_pruning = now + PRUNED_EVERY;
            let lines = self.prune(now);
            // Where that fails, such as on a full disk, the line alone may still find room.
            if durable_file::replace(&self.path, lines.as_bytes()).is_ok() {
                return Ok(());
            }
        }
        durable_file::append(&self.path, None, line(id, now.timestamp()).as_bytes())
    }
}

fn line(id: MailId, time: i64) -> String {
    format!("{id} {time}\n")
}

fn parse(line: &str) -> Option<(MailId, i64)> {
    let (id, time) = line.split_once(' ')?;
    Some((id.parse().ok()?, time.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_taken_is_known_after_a_restart_and_a_torn_line_spoils_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let [first, second, third] = ["1", "2", "3"].map(MailId::of_event);
        let mut sent = SentMails::open(folder.path(), now).unwrap();
        sent.note(first, now - TimeDelta::days(29)).unwrap();
        sent.note(second, now).unwrap();
        assert!(sent.has(second) && !sent.has(third));
        let path = folder.path().join(FILE);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{}", &line(third, 1_800_000_000)[..20])).unwrap();
        let mut sent = SentMails::open(folder.path(), now).unwrap();
        assert_eq!([first, second, third].map(|id| sent.has(id)), [true, true, false]);
        sent.note(third, now).unwrap();
        let sent = SentMails::open(folder.path(), now + TimeDelta::days(2)).unwrap();
        assert_eq!([first, second, third].map(|id| sent.has(id)), [false, true, true]);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_server_that_runs_for_months_forgets_what_is_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let start = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let mut sent = SentMails::open(folder.path(), start).unwrap();
        let id = |day: i64| MailId::of_event(&day.to_string());
        for day in 0..100 {
            sent.note(id(day), start + TimeDelta::days(day)).unwrap();
        }
        let known: Vec<_> = (0..100).filter(|day| sent.has(id(*day))).collect();
        assert!(known.len() <= 32 && known.ends_with(&[97, 98, 99]), "{known:?}");
        let file = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(file.lines().count(), known.len());
    }
}
