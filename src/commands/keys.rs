//! `countersign keys`: makes signing keys, lists them, and publishes their public halves.
//!
//! The private key is a file of its own that nobody else may read. Its public half and those of the keys before it go to
//! `public/`, where clients find the one a statement names. `make` makes keys, `rotate` changes which one signs, `retired`
//! keeps private keys that no longer do, and `lost` knows whether there was a key before.

pub mod error;
mod files;
pub mod lost;
mod make;
mod publish;
mod report;
pub mod retired;
mod rotate;

use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;

use crate::commands::keys::make::GenerateArgs;
use crate::commands::keys::report::{KeyInForce, Published, Removed};
use crate::commands::keys::retired::Which;
use crate::commands::keys::rotate::Old;
use crate::commands::{Exit, Failure, output};
use crate::config::{Config, KeySettings};

pub use crate::commands::keys::error::KeyCommandError;
pub use crate::commands::keys::make::{DEFAULT_BITS, create, refuse_a_second};

/// Make, list and publish signing keys
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign keys generate
  countersign keys generate --out keys/next.pem
  countersign keys rotate keys/next.pem
  countersign keys rotate --back
  countersign keys list
  countersign keys publish")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    settings: KeySettings,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Make a signing key; never overwrites one
    #[command(after_help = "Examples:
  countersign keys generate
  countersign keys generate --out keys/next.pem
  countersign keys generate --rotate --bits 4096

The instance's own key is published at once. With --rotate, it signs at once, too, and the public half of
the old one is kept, as is the private one for `keys rotate --back`. Clients that pin keys must know a key before it signs: make it with --out, which
prints its public half, pin that in a release of your plugins, and when your customers have the release,
let `keys rotate` put it in the signing key's place.")]
    Generate(GenerateArgs),
    /// Let a prepared key sign; the one before is kept, and can sign again
    #[command(after_help = "Examples:
  countersign keys rotate keys/next.pem
  countersign keys rotate --back
  countersign keys rotate keys/retired/KEY_ID.private.pem

The file is one that `keys generate --out` made, or a retired key. It is moved to the signing key's place. The private key
before it is kept beside its public half in keys/retired, mode 0600; `doctor` tells when `keep_retired_days` are over.")]
    Rotate(RotateArgs),
    /// Remove retired private keys for good; their public halves stay
    #[command(after_help = "Examples:
  countersign keys remove --overdue
  countersign keys remove KEY_ID

Without its private key, a retired key can never sign again. Old answers are still checked with its public half.")]
    Remove(RemoveArgs),
    /// Show the signing key and those before it
    #[command(after_help = "Examples:
  countersign keys list
  countersign keys list --json")]
    List,
    /// Write the public halves to public/keys/ and public/.well-known/jwks.json
    #[command(after_help = "Example:
  countersign keys publish

For a key that `keys generate` did not make, or one that was put among the retired ones by hand.")]
    Publish,
}

#[derive(clap::Args, Debug)]
struct RotateArgs {
    /// The private key that signs from now on
    #[arg(value_name = "FILE", required_unless_present = "back")]
    file: Option<PathBuf>,
    /// Let the key sign again that was retired last
    #[arg(long, conflicts_with = "file")]
    back: bool,
    /// Do it although there is no signing key that could be retired, and no backup has it
    #[arg(long)]
    old_key_is_lost: bool,
}

#[derive(clap::Args, Debug)]
struct RemoveArgs {
    /// Keys whose private halves are removed
    #[arg(value_name = "KEY_ID", required_unless_present = "overdue")]
    key_ids: Vec<String>,
    /// All that were retired more than `keep_retired_days` ago
    #[arg(long, conflicts_with = "key_ids")]
    overdue: bool,
}

impl Args {
    /// Whether it makes a key that belongs to no instance yet.
    pub fn need_no_instance(&self) -> bool {
        matches!(&self.verb, Verb::Generate(args) if args.out.is_some())
    }
}

/// Does what was asked for.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let paths = &config.paths;
    let in_force = |key: KeyInForce| tell(args, &key, KeyInForce::text);
    match &args.verb {
        Verb::Generate(generate) => make::generate(generate, paths).and_then(in_force),
        Verb::Rotate(RotateArgs {
            file, old_key_is_lost, ..
        }) => {
            let old = if *old_key_is_lost { Old::Lost } else { Old::Retire };
            let rotated = match file {
                Some(file) => rotate::rotate_to(file, old, paths),
                None => rotate::rotate_back(old, paths),
            };
            rotated.and_then(in_force)
        }
        Verb::Remove(remove) => {
            let days = config.keys.with(&args.settings).keep_retired_days;
            let which = if remove.overdue {
                Which::Overdue { days }
            } else {
                Which::Named(&remove.key_ids)
            };
            tell(args, &retired::remove(&which, paths, SystemTime::now())?, Removed::text)
        }
        Verb::List => output::print(&publish::list(args.json, paths)?),
        Verb::Publish => tell(args, &publish::publish(paths)?, Published::text),
    }
}

/// Prints what was changed, as text or as JSON.
fn tell<T: Serialize>(args: &Args, done: &T, text: impl Fn(&T) -> String) -> Result<Exit, Failure> {
    output::print_change(&if args.json { output::json(done)? } else { text(done) })
}

#[cfg(test)]
mod tests;
