//! `countersign shop parked`: deliveries that the server of this folder left to a person, or that wait.

use serde_json::json;

use crate::commands::parked::{self, About, QueueWords, Verb};
use crate::commands::{Exit, Failure};
use countersign_files::queue::Queue;
use countersign_files::spool::{self, Delivery};
use countersign_settings::config::Config;

const DELIVERIES: QueueWords = QueueWords {
    one: "delivery",
    room: "shop",
    whose: "SHOP",
};

/// Runs the verb. The delivery that came first is at the top.
pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    let mut items = match Queue::<Delivery>::existing(spool::folder(&config.paths.store)) {
        Some(queue) => parked::listed(
            queue,
            |id| id.to_string(),
            |delivery, body| about(&delivery, body, config),
        )?,
        None => Vec::new(),
    };
    items.sort_by_key(|item| item.queued);
    for item in &mut items {
        // One that waits is tried every few seconds, and nobody counts.
        (item.attempts, item.next) = (None, None);
    }
    parked::run(verb, &DELIVERIES, items)
}

fn about(delivery: &Delivery, body: &[u8], config: &Config) -> About {
    let shop = &delivery.shop;
    let settings = config.shops.iter().find(|settings| settings.name == *shop);
    let parsed = settings.and_then(|settings| countersign_shops::read(settings.kind, body).ok());
    About {
        whose: Some(shop.to_string()),
        // The shop's word for it, if it can be read.
        event: parsed.map(|parsed| parsed.event),
        members: [("shop".to_owned(), json!(shop))].into_iter().collect(),
    }
}
