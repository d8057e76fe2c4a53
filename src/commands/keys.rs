//! `countersign keys`: makes signing keys, lists them, and publishes their public halves.
//!
//! The private key is a file of its own that nobody else may read. Its public half and those of the keys before it go to
//! `public/`, where clients find the one a statement names. `make` makes keys, `rotate` changes which one signs, `retired`
//! keeps private keys that no longer do, and `lost` knows whether there was a key before.

pub mod lost;
mod make;
mod publish;
pub mod retired;
mod rotate;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::{Config, KeySettings, Paths};
use crate::durable_file::{self, Access};
use crate::keys::signing_key::SigningKey;
use crate::model::public_key::{PublicKey, PublicKeyError};

use crate::commands::output;
use crate::commands::{Exit, Failure};
use retired::Which;
use rotate::Old;

pub use crate::commands::keys::make::{create, refuse_a_second};

/// The size of a new key: RSA with 3072 bits is as strong as a symmetric key of 128 (NIST SP 800-57 part 1, table 2).
pub const DEFAULT_BITS: u16 = 3072;

/// More than a key of 4096 bits in PEM, in bytes.
const MAX_PEM: u64 = 16 * 1024;

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
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Write the public halves to public/keys/ and public/.well-known/jwks.json
    #[command(after_help = "Example:
  countersign keys publish

For a key that `keys generate` did not make, or one that was put among the retired ones by hand.")]
    Publish,
}

#[derive(clap::Args, Debug)]
struct GenerateArgs {
    /// Size of the key
    #[arg(long, value_name = "BITS", default_value_t = DEFAULT_BITS, value_parser = clap::value_parser!(u16).range(2048..=4096))]
    bits: u16,
    /// Put it in the place of the signing key, which is retired, and sign with it at once
    #[arg(long)]
    rotate: bool,
    /// Write it to this file in place of the instance's own, and print its public half without publishing it
    #[arg(long, value_name = "FILE", conflicts_with = "rotate")]
    out: Option<PathBuf>,
    /// Make a new key although the instance had one, which no backup has: plugins that pin the old one lose their licenses
    #[arg(long, conflicts_with_all = ["rotate", "out"])]
    old_key_is_lost: bool,
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

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file or folder cannot be read or written.
    #[error("{}: cannot be read or written", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A key is never overwritten.
    #[error("{}: is already there", .0.display())]
    Exists(PathBuf),
    /// The key to rotate to is the signing key.
    #[error("{}: is the signing key already", .0.display())]
    Current(PathBuf),
    /// A public key is not one, or of a size that is not used.
    #[error("{}: cannot be used", path.display())]
    Public {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PublicKeyError,
    },
    /// There was a signing key before, and a new one would not be believed.
    #[error("this instance had a signing key: there is {}", trace.display())]
    HadOne {
        /// What shows it.
        trace: PathBuf,
    },
    /// Another command is changing the signing key.
    #[error("{}: another command is changing the keys", .0.display())]
    Busy(PathBuf),
    /// No private key was kept.
    #[error("{}: no retired private key is kept here", .0.display())]
    NothingToGoBackTo(PathBuf),
    /// A retired private key is asked for that is not there.
    #[error("{}: there is no such retired private key", .0.display())]
    NotRetired(PathBuf),
    /// No key could be made.
    #[error("no key could be made")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Does what was asked for.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let paths = &config.paths;
    let Args { verb, settings } = args;
    let text = match verb {
        Verb::Generate(args) => make::generate(args, paths),
        Verb::Rotate(args) => {
            let old = if args.old_key_is_lost { Old::Lost } else { Old::Retire };
            match &args.file {
                Some(file) => rotate::rotate_to(file, old, paths),
                None => rotate::rotate_back(old, paths),
            }
        }
        Verb::Remove(args) => {
            let days = config.keys.with(settings).keep_retired_days;
            let which = if args.overdue { Which::Overdue { days } } else { Which::Named(&args.key_ids) };
            retired::remove(&which, paths, SystemTime::now())
        }
        Verb::List { json } => publish::list(*json, paths),
        Verb::Publish => publish::publish(paths),
    }?;
    output::print(&text)
}

/// The public half of the signing key.
fn read_key(paths: &Paths) -> Result<PublicKey, Failure> {
    SigningKey::load(&paths.signing_key).map(|key| key.public().clone()).map_err(|error| {
        let hint = lost::hint(&error, paths);
        Failure::input(error).hint(hint)
    })
}

/// The public half of a private key that the command `generate` makes.
fn read_key_made_by(generate: &str, file: &Path) -> Result<PublicKey, Failure> {
    SigningKey::load(file).map(|key| key.public().clone()).map_err(|error| {
        let hint = error.hint_for(generate);
        Failure::of_key(error).hint(hint)
    })
}

fn io_error(path: &Path, source: io::Error) -> KeyError {
    KeyError::Io { path: path.to_owned(), source }
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn create_folder(file: &Path, access: Access) -> Result<(), KeyError> {
    let folder = folder_of(file);
    durable_file::create_folders(folder, access).map_err(|source| io_error(folder, source))
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Io { .. } | KeyError::Generate(_) | KeyError::Busy(_) => Self::environment(error),
            _ => Self::input(error),
        }
    }
}

#[cfg(test)]
mod tests;
