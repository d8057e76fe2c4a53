//! `countersign shop parked`: deliveries that the server of this folder left to a person, or that wait.

use std::io;

use serde_json::json;

use crate::commands::parked::{self, About, ListedItem, ListedState, QueueWords, Verb};
use crate::commands::{Exit, Failure};
use countersign_files::spool::{Spool, SpoolError, SpooledDelivery, WaitingDelivery};
use countersign_settings::config::Config;

const DELIVERIES: QueueWords = QueueWords {
    one: "delivery",
    room: "shop",
    whose: "SHOP",
};

/// Runs the verb.
pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    let spool = Spool::existing(&config.paths.store);
    let items = match &spool {
        Some(spool) => items(spool, config).map_err(Failure::environment)?,
        None => Vec::new(),
    };
    parked::run(verb, &DELIVERIES, items)
}

fn items<'s>(spool: &'s Spool, config: &Config) -> Result<Vec<ListedItem<'s>>, SpoolError> {
    let parked = spool.parked()?.into_iter().map(|parked| {
        let delivery = spool.read_parked(&parked.name);
        let reason = spool.reason(&parked.name);
        let state = match delivery {
            Err(SpoolError::Damaged(_)) => ListedState::Damaged,
            _ => ListedState::Parked,
        };
        let item = item(spool, &parked, state, delivery.ok(), config);
        ListedItem {
            reason: Some(reason).filter(|reason| !reason.is_empty()),
            ..item
        }
    });
    let waiting = spool.waiting()?.into_iter().map(|waiting| {
        let delivery = spool.read(&waiting).ok();
        item(spool, &waiting, ListedState::Waiting, delivery, config)
    });
    Ok(parked.chain(waiting).collect())
}

/// An item without its reason.
fn item<'s>(
    spool: &'s Spool,
    listed: &WaitingDelivery,
    state: ListedState,
    delivery: Option<SpooledDelivery>,
    config: &Config,
) -> ListedItem<'s> {
    let retried = listed.name.clone();
    let discarded = listed.name.clone();
    let is_parked = state != ListedState::Waiting;
    ListedItem {
        id: listed.name.to_string(),
        state,
        queued: delivery.as_ref().map(|delivery| delivery.received),
        attempts: None,
        next: None,
        reason: None,
        about: delivery.map_or_else(About::default, |delivery| about(&delivery, config)),
        // One that waits is tried every few seconds.
        retry: Box::new(move || match is_parked {
            true => done(spool.retry(&retried)),
            false => Ok(true),
        }),
        discard: Box::new(move || match is_parked {
            true => done(spool.drop_parked(&discarded)),
            false => done(spool.discard(&discarded)),
        }),
    }
}

/// `false` for a delivery that is gone: the server deletes the oldest one if too many are parked.
fn done(result: Result<(), SpoolError>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(SpoolError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::environment(error)),
    }
}

fn about(delivery: &SpooledDelivery, config: &Config) -> About {
    let shop = &delivery.shop;
    let settings = config.shops.iter().find(|settings| settings.name == *shop);
    let parsed = settings.and_then(|settings| countersign_shops::read(settings.kind, &delivery.body).ok());
    About {
        whose: Some(shop.to_string()),
        // The shop's word for it, if it can be read.
        event: parsed.map(|parsed| parsed.event),
        members: [("shop".to_owned(), json!(shop))].into_iter().collect(),
    }
}
