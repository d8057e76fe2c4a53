//! `countersign shop`: what shops sell, and what their deliveries would do.

mod offers;

use crate::commands::{Exit, Failure};
use crate::config::Config;

/// Show what your shops' products grant
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign shop offers
  countersign shop offers --json")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// List what each product and price grants, or every mistake in the offers
    #[command(after_help = "\
Examples:
  countersign shop offers
  countersign shop offers --json

Offers are files: registry/offers/<name>.toml.
Exit codes: 0 all offers can be used, 3 there are mistakes.")]
    Offers(offers::Args),
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Offers(args) => offers::run(args, config),
    }
}
