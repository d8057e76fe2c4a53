//! `countersign mail parked`: the mails that wait on this node.

use serde_json::json;

use crate::commands::parked::{self, About, QueueWords, Verb};
use crate::commands::{Exit, Failure};
use countersign_files::queue::Queue;
use countersign_mail::queued_mail::{self, QueuedMail};
use countersign_settings::config::Config;

const MAILS: QueueWords = QueueWords {
    one: "mail",
    command: "mail",
    whose: "TO",
};

/// Runs the verb. The mail that was put into the queue first is at the top.
pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    let mut items = match Queue::<QueuedMail>::existing(queued_mail::folder(&config.paths.store)) {
        Some(queue) => parked::listed(queue, |id| id.to_string(), |mail, _| about(mail))?,
        None => Vec::new(),
    };
    items.sort_by_key(|item| item.queued);
    parked::run(verb, &MAILS, items)
}

fn about(mail: QueuedMail) -> About {
    let address = mail.address.reveal();
    About {
        whose: Some(address.to_owned()),
        event: Some(mail.event),
        subscription: None,
        members: [("address", json!(address)), ("licenses", json!(mail.licenses))]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
    }
}
