//! `countersign keys`: creates signing keys and secrets, lists keys, and publishes public halves.
//!
//! Private keys are readable by their owner only. Public halves go to `public/`, where clients find the one a
//! statement names. `make` creates keys, `rotate` changes the signing key, `retired` keeps old private keys,
//! `secrets` has those of downloads, issuing and references, and `lost` detects that a key is missing.

pub mod error;
mod files;
pub mod lost;
mod make;
mod publish;
mod report;
pub mod retired;
mod rotate;
pub mod secrets;

use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;
use strum::IntoEnumIterator as _;

use crate::commands::keys::make::GenerateArgs;
use crate::commands::keys::report::{KeyInForce, PublishedKeys, Removed};
use crate::commands::keys::retired::Which;
use crate::commands::keys::rotate::Old;
use crate::commands::keys::secrets::SecretInForce;
use crate::commands::{Exit, Failure, output};
use countersign_settings::config::{Config, KeySettings, Paths};
use countersign_settings::keys::secret_keys::SecretUse;

pub use crate::commands::keys::error::KeyCommandError;
pub use crate::commands::keys::make::{DEFAULT_BITS, create, refuse_a_second};

/// Create, list, rotate and publish keys
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
    /// Create a signing key or a secret; never overwrites one
    #[command(after_help = "Examples:
  countersign keys generate
  countersign keys generate --out keys/next.pem
  countersign keys generate --rotate --bits 4096
  countersign keys generate --downloads --rotate
  countersign keys generate --issuing
  countersign keys generate --references

Without --out, the public half is published at once. With --rotate, the new key also signs at once. \
The old key is kept: its public half for good, its private half for `keys rotate --back`.

Clients that pin keys must know a key before it signs:
1. Create it with --out, which prints its public half.
2. Pin the public half in a release of your plugins.
3. When your customers have that release, put the key in force with `keys rotate`.

--downloads creates the key that makes links to packages and build ids. With --rotate, links of the \
old key expire at once; sites ask for new ones by themselves. The old key stays in keys/retired, so \
that its build ids can be traced.

--issuing and --references create the keys for licenses that machines issue: one makes the license \
keys, the other hides the orders of shops in the ledger. Servers that share a ledger need the same \
ones. What retired ones made stays good, as long as keys/retired has them.")]
    Generate(GenerateArgs),
    /// Make a prepared key the signing key, and retire the old one
    #[command(after_help = "Examples:
  countersign keys rotate keys/next.pem
  countersign keys rotate --back
  countersign keys rotate keys/retired/KEY_ID.private.pem

FILE is a key from `keys generate --out`, or a retired key. `rotate` moves it to the signing key's \
place. The old private key stays in keys/retired, mode 0600, so that it can sign again. After \
`keep_retired_days`, `doctor` asks you to remove it.")]
    Rotate(RotateArgs),
    /// Delete retired private keys; their public halves stay
    #[command(after_help = "Examples:
  countersign keys remove --overdue
  countersign keys remove KEY_ID
  countersign keys remove -- -KEY_ID      if the id begins with a hyphen

Without its private half, a retired key can never sign again. Clients still check old statements \
with its public half.")]
    Remove(RemoveArgs),
    /// Show the signing key, the secrets and the retired keys
    #[command(after_help = "Examples:
  countersign keys list
  countersign keys list --json")]
    List,
    /// Write the public halves to public/keys/ and public/.well-known/jwks.json
    #[command(after_help = "Example:
  countersign keys publish

Needed only for a key that another program made, or one you put in keys/retired by hand.")]
    Publish,
}

#[derive(clap::Args, Debug)]
struct RotateArgs {
    /// The private key to sign with
    #[arg(value_name = "FILE", required_unless_present = "back")]
    file: Option<PathBuf>,
    /// Sign again with the key that was retired last
    #[arg(long, conflicts_with = "file")]
    back: bool,
    /// Rotate although the current signing key is missing. Only if no backup has it
    #[arg(long)]
    old_key_is_lost: bool,
}

#[derive(clap::Args, Debug)]
struct RemoveArgs {
    /// Keys whose private halves to delete
    #[arg(value_name = "KEY_ID", required_unless_present = "overdue")]
    key_ids: Vec<String>,
    /// Delete those of all keys that were retired more than `keep_retired_days` ago
    #[arg(long, conflicts_with = "key_ids")]
    overdue: bool,
}

impl Args {
    /// Whether it creates a key outside of any instance.
    pub fn need_no_instance(&self) -> bool {
        matches!(&self.verb, Verb::Generate(args) if args.out.is_some())
    }
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let paths = &config.paths;
    let in_force = |key: KeyInForce| tell(args, &key, KeyInForce::text);
    match &args.verb {
        Verb::Generate(generate) => match generate.secret() {
            Some(purpose) => {
                let made = secrets::generate(purpose, generate.rotate, paths)?;
                tell(args, &made, SecretInForce::text)
            }
            None => make::generate(generate, paths).and_then(in_force),
        },
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
        Verb::Publish => tell(args, &publish::publish(paths)?, PublishedKeys::text),
    }
}

/// Creates the secrets of a new instance.
pub fn create_secrets(paths: &Paths) -> Result<(), Failure> {
    SecretUse::iter().try_for_each(|purpose| secrets::generate(purpose, false, paths).map(drop))
}

/// Prints what was changed, as text or as JSON.
fn tell<T: Serialize>(args: &Args, done: &T, text: impl Fn(&T) -> String) -> Result<Exit, Failure> {
    output::print_change(&if args.json { output::json(done)? } else { text(done) })
}

#[cfg(test)]
mod tests;
