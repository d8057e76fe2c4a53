//! Says once that nothing can be sent to an endpoint, and once that the endpoint is back, in the log, in the metrics and for commands.

use std::sync::atomic::Ordering;

use chrono::Utc;

use crate::serve::webhooks::endpoint_thread::{EndpointThread, FIRST_PAUSE};
use crate::serve::webhooks::sending_error::SendingError;
use crate::webhook::outbox::EndpointTrouble;

impl EndpointThread {
    /// Notes that work was done.
    pub(super) fn recover(&mut self) {
        self.pause = FIRST_PAUSE;
        let was_failing = self.counts.failing_since.swap(0, Ordering::Relaxed) != 0;
        // The server before this one may have noted it.
        let noted = self.open.as_ref().and_then(|(progress, _)| progress.trouble.as_ref());
        if was_failing || noted.is_some() {
            tracing::info!(webhook = %self.endpoint.config.name, "the endpoint takes messages again");
            self.note_trouble(None);
        }
    }

    /// Notes that nothing can be sent, and says so once.
    pub(super) fn fail(&mut self, error: &SendingError) {
        let now = Utc::now();
        if self.counts.failing_since.load(Ordering::Relaxed) == 0 {
            let since = u64::try_from(now.timestamp()).unwrap_or(1);
            self.counts.failing_since.store(since, Ordering::Relaxed);
            let reason = error.to_string();
            self.note_trouble(Some(EndpointTrouble { since: now, reason }));
            tracing::error!(webhook = %self.endpoint.config.name, %error, "messages wait");
        }
    }

    /// Stores the trouble for commands. Nothing depends on it.
    fn note_trouble(&mut self, trouble: Option<EndpointTrouble>) {
        if let Some((progress, _)) = &mut self.open {
            progress.trouble = trouble;
            let _ = self.place.save(progress);
        }
    }
}
