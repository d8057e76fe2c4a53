//! The mails of the queue as the sending thread read them last. Only files that changed are read again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use crate::mail_id::MailId;
use crate::mail_queue_error::MAX_MAILS;
use crate::queue::MailQueue;
use crate::queued_mail::{MailState, QueuedMail};
use countersign_model::license_key::LicenseId;

/// Each mail with the time of its last change.
#[derive(Debug, Default)]
pub(super) struct KnownMails(HashMap<MailId, (SystemTime, QueuedMail)>);

impl KnownMails {
    /// Reads what changed in the folder. Returns the mails that are due, the one that waits longest first.
    pub(super) fn look(&mut self, queue: &MailQueue, now: DateTime<Utc>) -> Vec<MailId> {
        let listed = match queue.folder.list() {
            Ok(listed) => listed,
            Err(error) => {
                tracing::error!(%error, "cannot look at the queue of mails");
                return Vec::new();
            }
        };
        let mut seen = HashMap::with_capacity(listed.len());
        for (id, changed) in listed {
            let known = self.0.remove(&id).filter(|(time, _)| *time == changed);
            let mail = match known {
                Some((_, mail)) => Some(mail),
                // What is damaged was told when it was read first, and `mail list` shows it.
                None => queue.folder.read(id).unwrap_or_else(|error| {
                    tracing::warn!(mail = %id, %error, "a mail of the queue cannot be read");
                    None
                }),
            };
            seen.extend(mail.map(|mail| (id, (changed, mail))));
        }
        self.0 = seen;
        self.drop_surplus(queue, MAX_MAILS);
        self.count(queue);
        let due = self.in_state(MailState::Waiting).filter(|(_, mail)| mail.is_due(now));
        let mut due: Vec<_> = due.map(|(id, mail)| (mail.next, id)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// When the next one is due; `None` if none waits.
    pub(super) fn next(&self) -> Option<DateTime<Utc>> {
        self.in_state(MailState::Waiting).map(|(_, mail)| mail.next).min()
    }

    fn in_state(&self, state: MailState) -> impl Iterator<Item = (MailId, &QueuedMail)> {
        let all = self.0.iter().map(|(id, (_, mail))| (*id, mail));
        all.filter(move |(_, mail)| mail.state == state)
    }

    /// Deletes the oldest parked mails where there are more than `most`. They have a limit of their own, so that they do not
    /// stop those that can be sent.
    fn drop_surplus(&mut self, queue: &MailQueue, most: usize) {
        let parked = self.in_state(MailState::Parked);
        let mut parked: Vec<_> = parked.map(|(id, mail)| (mail.queued, id)).collect();
        parked.sort_unstable();
        let surplus = parked.len().saturating_sub(most);
        for (_, id) in parked.into_iter().take(surplus) {
            // A person may have had it tried again a moment ago.
            let Ok(Some(dropped)) = queue.folder.read(id) else {
                continue;
            };
            if dropped.state != MailState::Parked {
                continue;
            }
            queue.forget(id);
            self.0.remove(&id);
            let licenses: Vec<_> = dropped.licenses.iter().map(LicenseId::log_tag).collect();
            tracing::error!(
                mail = %id,
                licenses = licenses.join(" "),
                "{most} mails are parked, so the oldest one was deleted: its buyer did not get these licenses' keys"
            );
        }
    }

    fn count(&self, queue: &MailQueue) {
        let number = |state| self.in_state(state).count() as u64;
        let oldest = self
            .in_state(MailState::Waiting)
            .map(|(_, mail)| mail.queued.timestamp())
            .min();
        let oldest = u64::try_from(oldest.unwrap_or_default()).unwrap_or_default();
        let set = |count: &AtomicU64, value| count.store(value, Ordering::Relaxed);
        set(&queue.counts.waiting, number(MailState::Waiting));
        set(&queue.counts.parked, number(MailState::Parked));
        set(&queue.counts.oldest, oldest);
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn the_oldest_parked_mails_make_room_and_none_that_waits_or_was_retried_is_touched() {
        let store = tempfile::tempdir().unwrap();
        let now = Utc::now();
        let queue = MailQueue::open(store.path(), now).unwrap();
        let address = "anna@example.com".parse().unwrap();
        let license = [LicenseId::from_bytes([7; 32])];
        for number in 0..6 {
            let event = format!("evt_{number}");
            let at = now - TimeDelta::minutes(number);
            queue.enqueue(&address, &license, &event, at).unwrap();
            if number > 0 {
                let mail = queue.folder.read(MailId::of_event(&event)).unwrap().unwrap();
                let parked = mail.refused("no such mailbox".into(), true, std::time::Duration::ZERO, now);
                queue.folder.replace(&parked).unwrap();
            }
        }
        let mut known = KnownMails::default();
        let waiting = MailId::of_event("evt_0");
        assert_eq!(known.look(&queue, now), [waiting]);
        assert_eq!(queue.counts.parked.load(Ordering::Relaxed), 5);
        // The oldest is tried again before the folder is looked at again.
        queue.folder.retry(MailId::of_event("evt_5")).unwrap();
        known.drop_surplus(&queue, 2);
        let mut left: Vec<_> = queue.folder.list().unwrap().into_iter().map(|(id, _)| id).collect();
        let mut expected = ["evt_0", "evt_1", "evt_2", "evt_5"].map(MailId::of_event);
        left.sort_unstable();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
}
