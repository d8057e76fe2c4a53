//! `countersign webhook parked`: messages that endpoints did not take.

use serde_json::json;

use crate::commands::parked::{self, About, QueueWords, Verb};
use crate::commands::{Exit, Failure};
use crate::webhook::kept_event::KeptEvent;
use crate::webhook::outbox::Outbox;
use countersign_model::slug::Slug;
use countersign_settings::config::Config;

const MESSAGES: QueueWords = QueueWords {
    one: "message",
    command: "webhook",
    whose: "WEBHOOK",
};

/// Runs the verb. The messages of each endpoint are in the order in which they are sent.
pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    let mut items = Vec::new();
    for endpoint in &config.webhooks {
        if let Some(outbox) = Outbox::existing(&config.paths.store, &endpoint.name) {
            let about = |kept, _: &[u8]| about(&endpoint.name, kept);
            items.extend(parked::listed(outbox.kept, |name| name.id.to_string(), about)?);
        }
    }
    parked::run(verb, &MESSAGES, items)
}

fn about(webhook: &Slug, kept: KeptEvent) -> About {
    About {
        whose: Some(webhook.to_string()),
        event: Some(kept.kind),
        subscription: None,
        members: [("webhook", json!(webhook)), ("license", json!(kept.license))]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
    }
}
