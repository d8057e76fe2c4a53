//! `countersign webhook`: the vendor's own services that receive events.

mod list;

use std::io;
use std::time::Instant;

use chrono::Utc;
use serde_json::json;
use zeroize::Zeroizing;

use crate::commands::parked::{self, About, QueueWords};
use crate::commands::{Exit, Failure, output};
use crate::webhook::event::WebhookEvent;
use crate::webhook::kept_event::KeptEvent;
use crate::webhook::outbox::Outbox;
use crate::webhook::post::{PostError, post};
use countersign_files::durable_file::{self, Access};
use countersign_files::json_folder::JsonFolderError;
use countersign_model::slug::Slug;
use countersign_model::text::did_you_mean;
use countersign_settings::config::{Config, WebhookConfig};
use countersign_settings::keys::service_secrets::ServiceSecretError;
use countersign_settings::keys::webhook_secrets::{self, WebhookSecret};

/// Make, test and look after webhooks: messages to your own services
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign webhook secret crm
  countersign webhook test crm
  countersign webhook list

Each endpoint is a table [webhooks.NAME] of countersign.toml. docs/webhooks.md lists the events.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// List the endpoints: their progress, and what waits
    #[command(after_help = "\
Examples:
  countersign webhook list
  countersign webhook list --json

Each node tells its own endpoints.")]
    List(list::Args),
    /// Make the secret that signs the messages to an endpoint
    #[command(after_help = "\
Examples:
  countersign webhook secret crm
  countersign webhook secret crm --rotate       sign with the old secret, too

The secret is shown once. Give it to the receiver.")]
    Secret(SecretArgs),
    /// Send a test message to an endpoint now
    #[command(after_help = "\
Example:
  countersign webhook test crm

Exit codes: 0 the endpoint took it, 3 it refused it or a setting is wrong, 4 it cannot be reached.")]
    Test(TestArgs),
    /// List, retry or drop messages that an endpoint refused for three days
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign webhook parked list
  countersign webhook parked list --all --json
  countersign webhook parked retry --all
  countersign webhook parked drop 5f0c2b7e

What you retry is sent nine times more, if it has to be. The running server notices."
    )]
    Parked(parked::Verb),
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::List(args) => list::run(args, config),
        Verb::Secret(args) => make_secret(args, config),
        Verb::Test(args) => send_test(args, config),
        Verb::Parked(verb) => run_parked(verb, config),
    }
}

impl From<ServiceSecretError> for Failure {
    fn from(error: ServiceSecretError) -> Self {
        let hint = error.hint();
        Self::input(error).hint(hint)
    }
}

impl From<JsonFolderError> for Failure {
    fn from(error: JsonFolderError) -> Self {
        let hint = match &error {
            JsonFolderError::Io { .. } => "check the folder's owner, mode and free space",
            JsonFolderError::Damaged(_) => {
                "move the file aside; a webhook without progress.json gets what happens from now on"
            }
        };
        Self::environment(error).hint(hint)
    }
}

/// The endpoint with this name.
fn endpoint<'c>(config: &'c Config, name: &Slug) -> Result<&'c WebhookConfig, Failure> {
    let found = config.webhooks.iter().find(|endpoint| endpoint.name == *name);
    found.ok_or_else(|| {
        let known = config.webhooks.iter().map(|endpoint| endpoint.name.as_str());
        let meant = did_you_mean(name.as_str(), known);
        Failure::input(format!("there is no webhook {name}{meant}")).hint(format!(
            "add the table [webhooks.{name}] with a \"url\" to countersign.toml"
        ))
    })
}

#[derive(clap::Args, Debug)]
struct SecretArgs {
    /// The endpoint
    name: Slug,
    /// Put a new secret in front of the old ones
    #[arg(long)]
    rotate: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn make_secret(args: &SecretArgs, config: &Config) -> Result<Exit, Failure> {
    let path = &endpoint(config, &args.name)?.secret_file;
    let failed = |error: io::Error| Failure::environment(format!("{}: {error}", path.display()));
    let new = WebhookSecret::generate().map_err(failed)?;
    if args.rotate {
        // SECURITY: only a file that was a secret is read and written again.
        webhook_secrets::read(&args.name, path)?;
        let old = webhook_secrets::text(&args.name, path)?;
        let both = Zeroizing::new(format!("{}\n{}", *new, *old));
        durable_file::replace(path, both.as_bytes()).map_err(failed)?;
    } else {
        let folder = path.parent().unwrap_or(path);
        durable_file::create_folders(folder, Access::Owner).map_err(failed)?;
        let line = Zeroizing::new(format!("{}\n", *new));
        durable_file::create_new(path, line.as_bytes(), Access::Owner).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::input(format!("{}: there is a secret already", path.display()))
                .hint("to replace it, add --rotate, and delete its line once the receiver knows the new one"),
            _ => failed(error),
        })?;
    }
    let file = path.display().to_string();
    output::print(&if args.json {
        output::json(&serde_json::json!({ "webhook": args.name, "secret": *new, "file": file }))?
    } else {
        format!(
            "{}\n\nThis is shown once. Messages to {} are signed with it; it is in {file}.\n",
            *new, args.name
        )
    })
}

#[derive(clap::Args, Debug)]
struct TestArgs {
    /// The endpoint
    name: Slug,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn send_test(args: &TestArgs, config: &Config) -> Result<Exit, Failure> {
    let endpoint = endpoint(config, &args.name)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::environment)?;
    let event = WebhookEvent::test(Utc::now());
    let started = Instant::now();
    let posted = runtime.block_on(post(endpoint, &event));
    // A question for an address that nobody answers must not delay the end.
    runtime.shutdown_background();
    let status = posted.map_err(post_failure)?;
    let milliseconds = started.elapsed().as_millis();
    output::print(&if args.json {
        let result = serde_json::json!({
            "webhook": args.name,
            "message": format!("msg_{}", event.id),
            "status": status.as_u16(),
            "milliseconds": milliseconds,
        });
        output::json(&result)?
    } else {
        format!("{} took the message: {status}, {milliseconds} ms\n", args.name)
    })
}

fn post_failure(error: PostError) -> Failure {
    match error {
        PostError::Secret(error) => error.into(),
        PostError::Refused { .. } => {
            Failure::input(error).hint("look into the receiver's log; it may not have the secret")
        }
        error => Failure::environment(error).hint("check the URL, the name and the certificate of the receiver"),
    }
}

const MESSAGES: QueueWords = QueueWords {
    one: "message",
    command: "webhook",
    whose: "WEBHOOK",
};

/// Lists, retries or drops messages that endpoints did not take. Those of each endpoint are in the order in which they are sent.
fn run_parked(verb: &parked::Verb, config: &Config) -> Result<Exit, Failure> {
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
