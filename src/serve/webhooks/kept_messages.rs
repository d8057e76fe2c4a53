//! The messages of an endpoint that are in files, as its thread knows them. What the thread itself changes it knows at once; what
//! commands change it finds when it lists the folder.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};

use crate::webhook::event::WebhookEvent;
use crate::webhook::kept_event::{KeptEvent, KeptState};
use crate::webhook::outbox::{KeptName, MAX_KEPT, Outbox};
use countersign_files::json_folder::JsonFolderError;
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;

/// The time between two looks at the folder, which may have 10,000 files.
const LIST_EVERY: Duration = Duration::from_secs(2);

/// The time of a change that this thread made: the file is read again when the folder is listed.
const OWN_CHANGE: SystemTime = SystemTime::UNIX_EPOCH;

/// The kept messages of one endpoint.
pub(super) struct KeptMessages {
    webhook: Slug,
    outbox: Outbox,
    /// As they were read last, with the time of their last change.
    kept: BTreeMap<KeptName, (SystemTime, KeptEvent)>,
    next_number: u64,
    next_listing: Option<Instant>,
}

impl KeptMessages {
    /// Nothing is read yet.
    pub(super) fn new(webhook: Slug, outbox: Outbox) -> Self {
        Self {
            webhook,
            outbox,
            kept: BTreeMap::new(),
            next_number: 0,
            next_listing: None,
        }
    }

    /// Reads what commands changed in the folder, if it is time; whether it was.
    pub(super) fn look(&mut self, now: Instant) -> Result<bool, JsonFolderError> {
        if self.next_listing.is_some_and(|next| now < next) {
            return Ok(false);
        }
        let mut kept = BTreeMap::new();
        for (name, changed) in self.outbox.list()? {
            self.next_number = self.next_number.max(name.number + 1);
            let known = self.kept.remove(&name).filter(|(time, _)| *time == changed);
            let event = match known {
                Some((_, event)) => Some(event),
                // `doctor` names what is damaged.
                None => self.outbox.read(name).unwrap_or_else(|error| {
                    tracing::warn!(webhook = %self.webhook, %error, "a kept message cannot be read");
                    None
                }),
            };
            kept.extend(event.map(|event| (name, (changed, event))));
        }
        self.kept = kept;
        self.next_listing = Some(now + LIST_EVERY);
        Ok(true)
    }

    /// How many more may be kept.
    pub(super) fn room(&self) -> usize {
        MAX_KEPT.saturating_sub(self.kept.len())
    }

    /// The number of those that wait, and of those that are parked.
    pub(super) fn count(&self) -> (usize, usize) {
        let waiting = self.waiting().count();
        (waiting, self.kept.len() - waiting)
    }

    fn waiting(&self) -> impl Iterator<Item = (&KeptName, &KeptEvent)> {
        let all = self.kept.iter().map(|(name, (_, kept))| (name, kept));
        all.filter(|(_, kept)| kept.state == KeptState::Waiting)
    }

    /// The licenses whose next messages have to wait.
    pub(super) fn blocked(&self) -> HashSet<LicenseId> {
        self.waiting().map(|(_, kept)| kept.license).collect()
    }

    /// At most `limit` messages that are due, of each license the first one.
    pub(super) fn due(&self, limit: usize, now: DateTime<Utc>) -> Vec<(KeptName, KeptEvent, WebhookEvent)> {
        let mut seen = HashSet::new();
        let first = self.waiting().filter(|(_, kept)| seen.insert(kept.license));
        let due = first.filter(|(_, kept)| kept.is_due(now)).take(limit);
        due.filter_map(|(name, kept)| Some((*name, kept.clone(), kept.event()?)))
            .collect()
    }

    /// Deletes a message that was taken.
    pub(super) fn taken(&mut self, name: KeptName) -> Result<(), JsonFolderError> {
        self.outbox.remove(name)?;
        self.kept.remove(&name);
        Ok(())
    }

    /// Notes that a message was refused again.
    pub(super) fn refused(
        &mut self,
        name: KeptName,
        kept: KeptEvent,
        reason: String,
        now: DateTime<Utc>,
    ) -> Result<(), JsonFolderError> {
        let kept = kept.refused(reason, now);
        self.outbox.replace(name, &kept)?;
        self.tell(&kept);
        self.kept.insert(name, (OWN_CHANGE, kept));
        Ok(())
    }

    /// Keeps a message durably: one that was refused, or one whose turn has not come.
    pub(super) fn keep(
        &mut self,
        event: &WebhookEvent,
        refused: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<(), JsonFolderError> {
        // After a crash, the message may have been kept already.
        if self.kept.keys().any(|name| name.id == event.id) {
            return Ok(());
        }
        let Some(mut kept) = KeptEvent::new(event, now) else {
            return Ok(());
        };
        if let Some(reason) = refused {
            kept = kept.refused(reason, now);
            self.tell(&kept);
        }
        let number = self.next_number;
        self.outbox.keep(number, &kept)?;
        self.next_number += 1;
        self.kept.insert(KeptName { number, id: kept.id }, (OWN_CHANGE, kept));
        Ok(())
    }

    fn tell(&self, kept: &KeptEvent) {
        let webhook = &self.webhook;
        let message = kept.id;
        let reason = kept.reason.as_deref().unwrap_or_default();
        match kept.state {
            KeptState::Waiting => tracing::warn!(%webhook, %message, reason, "an endpoint refused a message"),
            KeptState::Parked => {
                tracing::error!(%webhook, %message, reason, "a message is parked: the endpoint refused it for three days");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::webhook::event::EventId;
    use countersign_model::event_kind::EventKind;

    #[test]
    fn own_changes_are_known_at_once_and_those_of_commands_when_the_folder_is_listed() {
        let store = tempfile::tempdir().unwrap();
        let name: Slug = "crm".parse().unwrap();
        let outbox = Outbox::open(store.path(), &name).unwrap();
        let mut messages = KeptMessages::new(name, outbox.clone());
        let start = Instant::now();
        let now = Utc::now();
        let license = |number: u8| LicenseId::from_bytes([number; 32]);
        let event = |number: u8| {
            let id = EventId::of(format_args!("{number}"));
            WebhookEvent::new(id, EventKind::Bound, license(number), now, json!({}))
        };
        assert!(messages.look(start).unwrap());
        for number in [1, 2, 2, 3] {
            messages.keep(&event(number), None, now).unwrap();
            assert!(
                !messages.look(start + LIST_EVERY / 2).unwrap(),
                "it is not listed again"
            );
        }
        assert_eq!((messages.count(), messages.room()), ((3, 0), MAX_KEPT - 3));
        assert!(messages.blocked().contains(&license(3)));
        let due = messages.due(9, now);
        messages.taken(due[0].0).unwrap();
        messages
            .refused(due[1].0, due[1].1.clone(), "answered 422".into(), now)
            .unwrap();
        let left: Vec<_> = messages.due(9, now).into_iter().map(|(name, ..)| name).collect();
        assert_eq!((left, messages.count()), (vec![due[2].0], (2, 0)));
        // A command parks one, and another process keeps one.
        let parked = KeptEvent {
            state: KeptState::Parked,
            ..outbox.read(due[1].0).unwrap().unwrap()
        };
        outbox.replace(due[1].0, &parked).unwrap();
        outbox.keep(7, &KeptEvent::new(&event(7), now).unwrap()).unwrap();
        assert!(messages.look(start + LIST_EVERY).unwrap());
        assert_eq!(messages.count(), (2, 1));
        messages.keep(&event(8), None, now).unwrap();
        assert_eq!(outbox.list().unwrap().last().unwrap().0.number, 8);
    }
}
