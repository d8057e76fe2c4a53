//! The messages of an endpoint that are in files, as its thread knows them.

use std::collections::{BTreeMap, HashSet};
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use crate::json_folder::JsonFolderError;
use crate::model::license_key::LicenseId;
use crate::model::slug::Slug;
use crate::webhook::event::WebhookEvent;
use crate::webhook::kept_event::{KeptEvent, KeptState};
use crate::webhook::outbox::{KeptName, MAX_KEPT, Outbox};

/// The kept messages of one endpoint.
pub(super) struct KeptMessages {
    webhook: Slug,
    outbox: Outbox,
    /// As they were read last, with the time of their last change.
    kept: BTreeMap<KeptName, (SystemTime, KeptEvent)>,
    next_number: u64,
}

impl KeptMessages {
    /// Nothing is read yet.
    pub(super) fn new(webhook: Slug, outbox: Outbox) -> Self {
        Self {
            webhook,
            outbox,
            kept: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Reads what changed in the folder: commands change it, too.
    pub(super) fn look(&mut self) -> Result<(), JsonFolderError> {
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
        Ok(())
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
    pub(super) fn taken(&self, name: KeptName) -> Result<(), JsonFolderError> {
        self.outbox.remove(name).map(drop)
    }

    /// Notes that a message was refused again.
    pub(super) fn refused(
        &self,
        name: KeptName,
        kept: KeptEvent,
        reason: String,
        now: DateTime<Utc>,
    ) -> Result<(), JsonFolderError> {
        let kept = kept.refused(reason, now);
        self.outbox.replace(name, &kept)?;
        self.tell(&kept);
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
        self.outbox.keep(self.next_number, &kept)?;
        self.next_number += 1;
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
