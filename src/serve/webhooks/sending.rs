//! Sends messages side by side, those of one license one after the other.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::serve::webhooks::endpoint::SendingError;
use crate::webhook::event::WebhookEvent;
use crate::webhook::post::post;
use countersign_model::license_key::LicenseId;
use countersign_settings::config::WebhookConfig;

/// Connections to one endpoint at once.
const AT_ONCE: usize = 8;

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The endpoint has it.
    Taken,
    /// The endpoint refused it; why.
    Refused(String),
    /// The endpoint can take none now; why.
    Unreachable(String),
    /// It was not sent, because one of its license before it was not taken, or the server stops.
    Behind,
}

/// Sends these messages while `may_go_on` holds, and says what became of each. Begins none once the server `is_stopping`.
pub(super) async fn send(
    endpoint: &WebhookConfig,
    events: &[WebhookEvent],
    may_go_on: &dyn Fn() -> bool,
    is_stopping: &AtomicBool,
) -> Vec<Sent> {
    let mut lanes: BTreeMap<Option<LicenseId>, Vec<usize>> = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        lanes.entry(event.license).or_default().push(number);
    }
    // Why the endpoint can take none, once one message showed it: the others are not tried.
    let unreachable = OnceLock::new();
    let mut sent = vec![Sent::Behind; events.len()];
    let lanes = lanes
        .into_values()
        .map(|lane| send_lane(endpoint, events, lane, may_go_on, is_stopping, &unreachable));
    let mut done = stream::iter(lanes).buffer_unordered(AT_ONCE);
    while let Some(outcomes) = done.next().await {
        for (number, outcome) in outcomes {
            sent[number] = outcome;
        }
    }
    sent
}

/// Sends the messages of one license up to the first that is not taken.
async fn send_lane(
    endpoint: &WebhookConfig,
    events: &[WebhookEvent],
    lane: Vec<usize>,
    may_go_on: &dyn Fn() -> bool,
    is_stopping: &AtomicBool,
    unreachable: &OnceLock<String>,
) -> Vec<(usize, Sent)> {
    let mut outcomes = Vec::new();
    for number in lane {
        // The rest is kept in files: a node that notes the cursor of the first message that was not sent sends later ones twice.
        if is_stopping.load(Ordering::Relaxed) {
            break;
        }
        if !may_go_on() {
            let _ = unreachable.set(SendingError::OtherNode.to_string());
        }
        if let Some(reason) = unreachable.get() {
            outcomes.push((number, Sent::Unreachable(reason.clone())));
            break;
        }
        let outcome = match post(endpoint, &events[number]).await {
            Ok(_) => Sent::Taken,
            Err(error) if error.is_about_the_message() => Sent::Refused(error.to_string()),
            Err(error) => Sent::Unreachable(unreachable.get_or_init(|| error.to_string()).clone()),
        };
        let is_taken = outcome == Sent::Taken;
        outcomes.push((number, outcome));
        if !is_taken {
            break;
        }
    }
    outcomes
}
