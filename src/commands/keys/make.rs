//! Makes private keys; `rotate` puts one in the place of another.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rsa::RsaPrivateKey;
use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};
use rsa::rand_core::OsRng;

use crate::config::Paths;
use crate::durable_file::{self, Access};
use crate::model::public_key::PublicKey;

use crate::commands::keys::lost;
use crate::commands::keys::publish::publish_all;
use crate::commands::keys::rotate::{KeysLock, Old, Private, current, replace_current};
use crate::commands::keys::{Failure, GenerateArgs, KeyError, create_folder, io_error};

/// Makes the instance's signing key where it has none yet, and publishes it; returns its id.
///
/// An instance that had a key gets no other one, unless a person says that the old one `is_lost`: every plugin that pins
/// the old key would stop to believe this server.
pub fn create(paths: &Paths, bits: u16, is_lost: bool) -> Result<String, Failure> {
    refuse_a_second(paths, is_lost, "keys generate --old-key-is-lost")?;
    let Private { pem, public } = new_key(bits)?;
    write_private(&paths.signing_key, &pem, "--rotate retires it and makes another")?;
    publish_all(paths, &public)?;
    Ok(public.key_id().to_owned())
}

/// Fails where there was a key and it is missing, unless a person says that it `is_lost` by the command `otherwise`.
pub fn refuse_a_second(paths: &Paths, is_lost: bool, otherwise: &str) -> Result<(), Failure> {
    let is_missing = paths.signing_key.symlink_metadata().is_err();
    match lost::trace(paths).filter(|_| is_missing && !is_lost) {
        None => Ok(()),
        Some(trace) => {
            let hint = trace.hint(&paths.signing_key, otherwise);
            Err(Failure::from(KeyError::HadOne { trace: trace.file }).hint(hint))
        }
    }
}

/// Makes a key: the instance's own, the one after it, or one for later.
pub(super) fn generate(args: &GenerateArgs, paths: &Paths) -> Result<String, Failure> {
    let bits = args.bits;
    match &args.out {
        Some(file) => {
            let Private { pem, public } = new_key(bits)?;
            write_private(file, &pem, "choose another file")?;
            Ok(format!("{}: {} bits, key {}\n{}", file.display(), public.bits(), public.key_id(), public.to_pem()))
        }
        None if args.rotate => {
            let lock = KeysLock::take(paths)?;
            let current = current(Old::Retire, paths)?;
            replace_current(&lock, paths, current.as_ref(), &new_key(bits)?)
        }
        None => {
            let key_id = create(paths, bits, args.old_key_is_lost)?;
            Ok(format!("{}: {bits} bits, key {key_id}\n", paths.signing_key.display()))
        }
    }
}

fn new_key(bits: u16) -> Result<Private, KeyError> {
    let private = RsaPrivateKey::new(&mut OsRng, bits.into()).map_err(|error| KeyError::Generate(error.into()))?;
    let public = PublicKey::new(private.to_public_key()).map_err(|error| KeyError::Generate(error.into()))?;
    let pem = private.to_pkcs8_pem(LineEnding::LF).map_err(|error| KeyError::Generate(error.into()))?;
    Ok(Private { pem, public })
}

/// Creates the file of a key; where there is one already, the hint is what to do `otherwise`.
pub(super) fn write_private(path: &Path, pem: &str, otherwise: &str) -> Result<(), Failure> {
    create_folder(path, Access::Owner)?;
    // SECURITY: 0600 from the first moment; and a key that is overwritten cannot be had again.
    durable_file::create_new(path, pem.as_bytes(), Access::Owner).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Failure::from(KeyError::Exists(path.to_owned())).hint(otherwise),
        _ => io_error(path, source).into(),
    })
}

/// Writes a private key where there may be one already; readable by its owner alone in either case.
pub(super) fn put_private(path: &Path, pem: &str) -> Result<(), KeyError> {
    let created = durable_file::create_new(path, pem.as_bytes(), Access::Owner);
    let put = created.or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            // SECURITY: a file that is replaced keeps its permissions.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            durable_file::replace(path, pem.as_bytes())
        }
        _ => Err(error),
    });
    put.map_err(|source| io_error(path, source))
}
