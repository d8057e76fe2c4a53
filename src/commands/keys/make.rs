//! Creates private keys; `rotate` puts one in the place of another.

use std::path::PathBuf;

use rsa::RsaPrivateKey;
use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};
use rsa::rand_core::OsRng;

use countersign_model::public_key::PublicKey;
use countersign_settings::config::Paths;
use countersign_settings::keys::secret_keys::SecretUse;

use crate::commands::Failure;
use crate::commands::keys::error::KeyCommandError;
use crate::commands::keys::files::{KeysLock, Private, folder_of, write_private};
use crate::commands::keys::lost;
use crate::commands::keys::publish::publish_all;
use crate::commands::keys::report::KeyInForce;
use crate::commands::keys::rotate::{Old, current, replace_current};

/// The size of a new key. RSA with 3072 bits is as strong as a symmetric key of 128 (NIST SP 800-57 part 1, table 2).
pub const DEFAULT_BITS: u16 = 3072;

#[derive(clap::Args, Debug)]
pub(super) struct GenerateArgs {
    /// Size of the key: 2048 to 4096
    #[arg(long, value_name = "BITS", default_value_t = DEFAULT_BITS, value_parser = clap::value_parser!(u16).range(2048..=4096))]
    pub bits: u16,
    /// Retire the key in force and use the new one at once
    #[arg(long)]
    pub rotate: bool,
    /// Create the key for downloads instead of a signing key
    #[arg(long, conflicts_with_all = ["bits", "out", "old_key_is_lost"])]
    pub downloads: bool,
    /// Create the key that makes the keys of licenses that machines issue
    #[arg(long, conflicts_with_all = ["bits", "out", "old_key_is_lost", "downloads"])]
    pub issuing: bool,
    /// Create the key that hides the orders of shops in the ledger
    #[arg(long, conflicts_with_all = ["bits", "out", "old_key_is_lost", "downloads", "issuing"])]
    pub references: bool,
    /// Write the key to this file instead of the instance's, and print its public half without publishing it
    #[arg(long, value_name = "FILE", conflicts_with = "rotate")]
    pub out: Option<PathBuf>,
    /// Create a new key although the instance had one. Only if no backup has it: plugins that pin the old key reject
    /// the new
    #[arg(long, conflicts_with_all = ["rotate", "out"])]
    pub old_key_is_lost: bool,
}

impl GenerateArgs {
    /// The use of the secret to create; `None` for a signing key.
    pub(super) fn secret(&self) -> Option<SecretUse> {
        let uses = [
            (self.downloads, SecretUse::Downloads),
            (self.issuing, SecretUse::Issuing),
            (self.references, SecretUse::References),
        ];
        uses.into_iter()
            .find_map(|(is_wanted, purpose)| is_wanted.then_some(purpose))
    }
}

/// Creates the instance's signing key if it has none yet, and publishes it; returns its public half.
///
/// An instance that had a key gets no new one unless a person says that the old one `is_lost`: every plugin that pins
/// the old key would reject this server's statements.
pub fn create(paths: &Paths, bits: u16, is_lost: bool) -> Result<PublicKey, Failure> {
    refuse_a_second(paths, is_lost, "keys generate --old-key-is-lost")?;
    let Private { pem, public } = new_key(bits)?;
    write_private(
        &paths.signing_key,
        pem.as_bytes(),
        "--rotate retires it and makes another",
    )?;
    publish_all(paths, &public)?;
    Ok(public)
}

/// Fails if there was a key and it is missing, unless a person says that it `is_lost` by the command `otherwise`.
pub fn refuse_a_second(paths: &Paths, is_lost: bool, otherwise: &str) -> Result<(), Failure> {
    let is_missing = paths.signing_key.symlink_metadata().is_err();
    match lost::trace(paths).filter(|_| is_missing && !is_lost) {
        None => Ok(()),
        Some(trace) => {
            let hint = trace.hint(&paths.signing_key, otherwise);
            Err(Failure::from(KeyCommandError::HadOne { trace: trace.file }).hint(hint))
        }
    }
}

/// Creates a key: the instance's first, its next, or one for later.
pub(super) fn generate(args: &GenerateArgs, paths: &Paths) -> Result<KeyInForce, Failure> {
    let bits = args.bits;
    match &args.out {
        Some(file) => {
            let Private { pem, public } = new_key(bits)?;
            write_private(file, pem.as_bytes(), "choose another file")?;
            Ok(KeyInForce {
                public_key: Some(public.to_pem()),
                ..KeyInForce::new(file, &public)
            })
        }
        None if args.rotate => {
            let lock = KeysLock::take(folder_of(&paths.signing_key))?;
            let current = current(Old::Retire, paths)?;
            replace_current(&lock, paths, current.as_ref(), &new_key(bits)?)
        }
        None => Ok(KeyInForce::new(
            &paths.signing_key,
            &create(paths, bits, args.old_key_is_lost)?,
        )),
    }
}

fn new_key(bits: u16) -> Result<Private, KeyCommandError> {
    let private =
        RsaPrivateKey::new(&mut OsRng, bits.into()).map_err(|error| KeyCommandError::Generate(error.into()))?;
    let public = PublicKey::new(private.to_public_key()).map_err(|error| KeyCommandError::Generate(error.into()))?;
    let pem = private
        .to_pkcs8_pem(LineEnding::LF)
        .map_err(|error| KeyCommandError::Generate(error.into()))?;
    Ok(Private { pem, public })
}
