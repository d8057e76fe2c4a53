//! `countersign webhook list`: the endpoints, from the node's files and a shared database. Works beside a running server.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::commands::output::Table;
use crate::commands::{Exit, Failure, output};
use crate::webhook::outbox::{EndpointProgress, Outbox};
use countersign_files::queue::QueueState;
use countersign_ledger::{SharedEndpoint, shared_endpoints};
use countersign_model::event_kind::EventKind;
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_settings::config::{Config, WebhookConfig};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ListedWebhook {
    webhook: Slug,
    /// Scheme, host and port: the rest may be a secret of the receiver.
    origin: String,
    /// Empty for all.
    events: Vec<EventKind>,
    /// The sequence of the last line of the ledger that was sent to it; absent if nothing was ever sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    /// The node that sends to it; absent without a shared ledger, and while no node does.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    waiting: usize,
    parked: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let shared = match &config.paths.database {
        Some(address) if !config.webhooks.is_empty() => Some(shared_endpoints(address).map_err(Failure::of_store)?),
        _ => None,
    };
    let endpoints = config.webhooks.iter();
    let listed: Vec<_> = endpoints
        .map(|endpoint| listed(endpoint, config, shared.as_deref()))
        .collect::<Result<_, _>>()?;
    output::print(&if args.json {
        output::json(&listed)?
    } else {
        text(&listed)
    })
}

/// An endpoint. With a shared ledger, the database has its progress.
fn listed(
    endpoint: &WebhookConfig,
    config: &Config,
    shared: Option<&[SharedEndpoint]>,
) -> Result<ListedWebhook, Failure> {
    let mut listed = ListedWebhook {
        webhook: endpoint.name.clone(),
        origin: endpoint.url.origin(),
        events: endpoint.events.clone(),
        sequence: None,
        node: None,
        waiting: 0,
        parked: 0,
        failing_since: None,
        reason: None,
    };
    let outbox = Outbox::existing(&config.paths.store, &endpoint.name);
    let progress = match (shared, &outbox) {
        (Some(shared), _) => {
            let found = shared.iter().find(|found| found.endpoint == endpoint.name.as_str());
            let holder = found.filter(|found| found.is_held);
            listed.node = holder.map(|found| found.node.clone());
            found.and_then(EndpointProgress::of_shared)
        }
        (None, Some(outbox)) => outbox.progress()?,
        (None, None) => None,
    };
    if let Some(progress) = progress {
        listed.sequence = Some(progress.cursor.position.sequence);
        if let Some(trouble) = progress.trouble {
            (listed.failing_since, listed.reason) = (Some(trouble.since), Some(trouble.reason));
        }
    }
    let Some(outbox) = outbox else {
        return Ok(listed);
    };
    for (name, _) in outbox.kept.list()? {
        match outbox.kept.read(name)? {
            Some(kept) if kept.state == QueueState::Parked => listed.parked += 1,
            Some(_) => listed.waiting += 1,
            None => {}
        }
    }
    Ok(listed)
}

fn text(listed: &[ListedWebhook]) -> String {
    if listed.is_empty() {
        return "There is no webhook: add a table [webhooks.NAME] to countersign.toml.\n".to_owned();
    }
    let columns = [
        "WEBHOOK",
        "ENDPOINT",
        "SENT UP TO LINE",
        "NODE",
        "WAITING",
        "PARKED",
        "STATE",
    ];
    let mut table = Table::new(columns);
    for webhook in listed {
        let state = match (&webhook.failing_since, webhook.sequence) {
            (Some(since), _) => {
                let since = since.format("%Y-%m-%d %H:%M");
                format!("fails since {since}: {}", webhook.reason.as_deref().unwrap_or_default())
            }
            (None, Some(_)) => "ok".to_owned(),
            (None, None) => "not begun".to_owned(),
        };
        let sequence = webhook.sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
        table.row([
            &webhook.webhook,
            &webhook.origin,
            &sequence,
            &webhook.node.as_deref().unwrap_or("-"),
            &webhook.waiting,
            &webhook.parked,
            &Printable(&state),
        ]);
    }
    table.to_string()
}
