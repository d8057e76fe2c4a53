//! The messages of an endpoint that are in files, as its thread knows them. What the thread itself changes it knows at once; what
//! commands change it finds when it lists the folder.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::webhook::event::WebhookEvent;
use crate::webhook::kept_event::{self, KeptEvent, KeptName};
use crate::webhook::outbox::MAX_KEPT;
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueState, QueueView, Queued};
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;

/// The time between two looks at the folder, which may have 10,000 files.
const LIST_EVERY: Duration = Duration::from_secs(2);

/// The kept messages of one endpoint.
pub(super) struct KeptMessages {
    webhook: Slug,
    kept: QueueView<KeptEvent>,
    next_number: u64,
    next_listing: Option<Instant>,
}

impl KeptMessages {
    /// Nothing is read yet.
    pub(super) fn new(webhook: Slug, kept: Queue<KeptEvent>) -> Self {
        Self {
            webhook,
            kept: QueueView::new(kept),
            next_number: 0,
            next_listing: None,
        }
    }

    /// Reads what commands changed in the folder, if it is time; whether it was.
    pub(super) fn look(&mut self, now: Instant) -> Result<bool, JsonFolderError> {
        if self.next_listing.is_some_and(|next| now < next) {
            return Ok(false);
        }
        let webhook = &self.webhook;
        self.kept.look(|_, error| {
            // `doctor` names what is damaged.
            tracing::warn!(%webhook, %error, "a kept message cannot be read");
        })?;
        let last = self.kept.names().next_back();
        self.next_number = self.next_number.max(last.map_or(0, |name| name.number + 1));
        self.next_listing = Some(now + LIST_EVERY);
        Ok(true)
    }

    /// How many more may be kept.
    pub(super) fn room(&self) -> usize {
        let (waiting, parked) = self.count();
        MAX_KEPT.saturating_sub(waiting + parked)
    }

    /// The number of those that wait, and of those that are parked.
    pub(super) fn count(&self) -> (usize, usize) {
        self.kept.count()
    }

    fn waiting(&self) -> impl Iterator<Item = (KeptName, &Queued<KeptEvent>)> {
        self.kept.in_state(QueueState::Waiting)
    }

    /// The licenses whose next messages have to wait.
    pub(super) fn blocked(&self) -> HashSet<LicenseId> {
        self.waiting().map(|(_, kept)| kept.item.license).collect()
    }

    /// At most `limit` messages that are due, of each license the first one.
    pub(super) fn due(&self, limit: usize, now: DateTime<Utc>) -> Vec<(KeptName, WebhookEvent)> {
        let mut seen = HashSet::new();
        let first = self.waiting().filter(|(_, kept)| seen.insert(kept.item.license));
        let due = first.filter(|(_, kept)| kept.is_due(now)).take(limit);
        due.filter_map(|(name, kept)| Some((name, kept.item.event()?)))
            .collect()
    }

    /// Deletes a message that was taken.
    pub(super) fn taken(&mut self, name: KeptName) -> Result<(), JsonFolderError> {
        self.kept.remove(name)
    }

    /// Notes that a message was refused again.
    pub(super) fn refused(
        &mut self,
        name: KeptName,
        reason: String,
        now: DateTime<Utc>,
    ) -> Result<(), JsonFolderError> {
        let webhook = &self.webhook;
        self.kept.change(name, |kept| after_refusal(webhook, kept, reason, now))
    }

    /// Keeps a message durably: one that was refused, or one that still waits for its turn.
    pub(super) fn keep(
        &mut self,
        event: &WebhookEvent,
        refused: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<(), JsonFolderError> {
        // After a crash, the message may have been kept already.
        if self.kept.names().any(|name| name.id == event.id) {
            return Ok(());
        }
        let Some(kept) = KeptEvent::new(event) else {
            return Ok(());
        };
        let mut kept = Queued::new(kept, now);
        if let Some(reason) = refused {
            kept = after_refusal(&self.webhook, kept, reason, now);
        }
        let number = self.next_number;
        self.kept.put(KeptName { number, id: event.id }, kept)?;
        self.next_number += 1;
        Ok(())
    }
}

/// The message after the endpoint refused it. Logs the refusal.
fn after_refusal(webhook: &Slug, kept: Queued<KeptEvent>, reason: String, now: DateTime<Utc>) -> Queued<KeptEvent> {
    let wait = kept_event::wait(kept.attempts);
    let kept = kept.refused(reason, wait, now);
    let message = kept.item.id;
    let reason = kept.reason.as_deref().unwrap_or_default();
    match kept.state {
        QueueState::Waiting => tracing::warn!(%webhook, %message, reason, "an endpoint refused a message"),
        QueueState::Parked => {
            tracing::error!(%webhook, %message, reason, "a message is parked: the endpoint refused it for three days");
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::webhook::event::EventId;
    use crate::webhook::outbox::Outbox;
    use countersign_model::event_kind::EventKind;

    #[test]
    fn own_changes_are_known_at_once_and_those_of_commands_when_the_folder_is_listed() {
        let store = tempfile::tempdir().unwrap();
        let name: Slug = "crm".parse().unwrap();
        let outbox = Outbox::open(store.path(), &name).unwrap();
        let queue = outbox.kept.clone();
        let mut messages = KeptMessages::new(name, queue.clone());
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
        messages.refused(due[1].0, "answered 422".into(), now).unwrap();
        let left: Vec<_> = messages.due(9, now).into_iter().map(|(name, ..)| name).collect();
        assert_eq!((left, messages.count()), (vec![due[2].0], (2, 0)));
        // A command parks one, and another process keeps one.
        let parked = |queued: Queued<KeptEvent>| Some(queued.refused("no".into(), None, now));
        queue.change(due[1].0, parked).unwrap();
        let name = KeptName {
            number: 7,
            id: event(7).id,
        };
        let other = Queued::new(KeptEvent::new(&event(7)).unwrap(), now);
        queue.put(name, &other).unwrap();
        assert!(messages.look(start + LIST_EVERY).unwrap());
        assert_eq!(messages.count(), (2, 1));
        messages.keep(&event(8), None, now).unwrap();
        assert_eq!(queue.list().unwrap().last().unwrap().0.number, 8);
    }
}
