//! `countersign keys`: makes signing keys, lists them, and publishes their public halves.
//!
//! The private key is a file of its own that nobody else may read. Its public half and those of the keys before it go to
//! `public/`, where clients find the one a statement names.

mod make;
mod publish;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::model::public_key::{PublicKey, PublicKeyError};
use crate::serve::signer::SigningKey;

use super::output;
use super::{Exit, Failure};

pub use self::make::create;

/// The size of a new key: RSA with 3072 bits is as strong as a symmetric key of 128 (NIST SP 800-57 part 1, table 2).
pub const DEFAULT_BITS: u16 = 3072;

/// Make, list and publish signing keys
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign keys generate
  countersign keys generate --out keys/next.pem
  countersign keys rotate keys/next.pem
  countersign keys list
  countersign keys publish")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Make a signing key; never overwrites one
    #[command(after_help = "Examples:
  countersign keys generate
  countersign keys generate --out keys/next.pem
  countersign keys generate --rotate --bits 4096

The instance's own key is published at once. With --rotate, it signs at once, too, and the public half of
the old one is kept. Clients that pin keys must know a key before it signs: make it with --out, which
prints its public half, pin that in a release of your plugins, and when your customers have the release,
let `keys rotate` put it in the signing key's place.")]
    Generate(GenerateArgs),
    /// Let a prepared key sign; the public half of the one before is kept
    #[command(after_help = "Example:
  countersign keys rotate keys/next.pem

The file is one that `keys generate --out` made. It is moved to the signing key's place.")]
    Rotate {
        /// The private key that signs from now on
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
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
    /// No key could be made.
    #[error("no key could be made")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Does what was asked for.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let paths = &config.paths;
    let text = match &args.verb {
        Verb::Generate(args) => make::generate(args, paths),
        Verb::Rotate { file } => make::rotate_to(file, paths),
        Verb::List { json } => publish::list(*json, paths),
        Verb::Publish => publish::publish(paths),
    }?;
    output::print(&text)
}

/// The public half of the signing key.
fn read_key(file: &Path) -> Result<PublicKey, Failure> {
    read_key_made_by("countersign keys generate", file)
}

/// The public half of a private key that the command `generate` makes.
fn read_key_made_by(generate: &str, file: &Path) -> Result<PublicKey, Failure> {
    SigningKey::load(file).map(|key| key.public().clone()).map_err(|error| {
        let hint = error.hint_for(generate);
        Failure::input(error).hint(hint)
    })
}

fn io_error(path: &Path, source: io::Error) -> KeyError {
    KeyError::Io { path: path.to_owned(), source }
}

fn create_folder(file: &Path) -> Result<(), KeyError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(|source| io_error(folder, source))
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Exists(_) | KeyError::Current(_) | KeyError::Public { .. } => Self::input(error),
            KeyError::Io { .. } | KeyError::Generate(_) => Self::environment(error),
        }
    }
}

#[cfg(test)]
mod tests;
