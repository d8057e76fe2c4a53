//! `countersign webhook`: the vendor's own services that receive events.

mod endpoints;
mod list;
mod parked;
mod secret;
mod test;

use crate::commands::{Exit, Failure};
use countersign_files::json_folder::JsonFolderError;
use countersign_settings::config::Config;
use countersign_settings::keys::service_secrets::ServiceSecretError;

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
    Secret(secret::Args),
    /// Send a test message to an endpoint now
    #[command(after_help = "\
Example:
  countersign webhook test crm

Exit codes: 0 the endpoint took it, 3 it refused it or a setting is wrong, 4 it cannot be reached.")]
    Test(test::Args),
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
    Parked(crate::commands::parked::Verb),
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::List(args) => list::run(args, config),
        Verb::Secret(args) => secret::run(args, config),
        Verb::Test(args) => test::run(args, config),
        Verb::Parked(verb) => parked::run(verb, config),
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
