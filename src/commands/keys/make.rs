//! Makes private keys, and puts one in the place of another.

use std::fs;
use std::io;
use std::path::Path;

use rsa::RsaPrivateKey;
use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};
use rsa::rand_core::OsRng;
use zeroize::Zeroizing;

use crate::config::Paths;
use crate::durable_file;
use crate::model::public_key::PublicKey;

use super::publish::{publish_all, write_public};
use super::{Failure, GenerateArgs, KeyError, create_folder, io_error, read_key, read_key_made_by};

/// Makes the instance's signing key where it has none yet, and publishes it; returns its id.
pub fn create(paths: &Paths, bits: u16) -> Result<String, Failure> {
    let (private, public) = new_key(bits)?;
    write_private(&paths.signing_key, &private, "--rotate retires it and makes another")?;
    publish_all(paths, &public)?;
    Ok(public.key_id().to_owned())
}

/// Makes a key: the instance's own, the one after it, or one for later.
pub(super) fn generate(args: &GenerateArgs, paths: &Paths) -> Result<String, Failure> {
    let bits = args.bits;
    match &args.out {
        Some(file) => {
            let (private, public) = new_key(bits)?;
            write_private(file, &private, "choose another file")?;
            Ok(format!("{}: {} bits, key {}\n{}", file.display(), public.bits(), public.key_id(), public.to_pem()))
        }
        None if args.rotate => {
            let (private, public) = new_key(bits)?;
            replace_current(paths, &read_key(&paths.signing_key)?, &private, &public)
        }
        None => Ok(format!("{}: {bits} bits, key {}\n", paths.signing_key.display(), create(paths, bits)?)),
    }
}

/// Puts a key that was made for later in the signing key's place.
pub(super) fn rotate_to(file: &Path, paths: &Paths) -> Result<String, Failure> {
    let old = read_key(&paths.signing_key)?;
    let public = read_key_made_by(&format!("countersign keys generate --out {}", file.display()), file)?;
    if public == old {
        return Err(
            Failure::from(KeyError::Current(file.to_owned())).hint("prepare another with `keys generate --out`")
        );
    }
    let private = fs::read_to_string(file).map(Zeroizing::new).map_err(|source| io_error(file, source))?;
    let told = replace_current(paths, &old, &private, &public)?;
    fs::remove_file(file).map_err(|source| io_error(file, source))?;
    Ok(told)
}

fn replace_current(paths: &Paths, old: &PublicKey, private: &str, public: &PublicKey) -> Result<String, Failure> {
    let retired = paths.retired_keys.join(format!("{}.pem", old.key_id()));
    write_public(&retired, old.to_pem().as_bytes())?;
    // Published before the server can sign with it: no statement names a key that clients cannot get.
    publish_all(paths, public)?;
    durable_file::replace(&paths.signing_key, private.as_bytes())
        .map_err(|source| io_error(&paths.signing_key, source))?;
    Ok(format!(
        "{}: {} bits, key {}\n{}: the key before it, retired\n",
        paths.signing_key.display(),
        public.bits(),
        public.key_id(),
        retired.display()
    ))
}

fn new_key(bits: u16) -> Result<(Zeroizing<String>, PublicKey), KeyError> {
    let private = RsaPrivateKey::new(&mut OsRng, bits.into()).map_err(|error| KeyError::Generate(error.into()))?;
    let public = PublicKey::new(private.to_public_key()).map_err(|error| KeyError::Generate(error.into()))?;
    let pem = private.to_pkcs8_pem(LineEnding::LF).map_err(|error| KeyError::Generate(error.into()))?;
    Ok((pem, public))
}

/// Creates the file of a key; where there is one already, the hint is what to do `otherwise`.
pub(super) fn write_private(path: &Path, pem: &str, otherwise: &str) -> Result<(), Failure> {
    create_folder(path)?;
    // SECURITY: 0600 from the first moment; and a key that is overwritten cannot be had again.
    durable_file::create_new(path, pem.as_bytes(), 0o600).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Failure::from(KeyError::Exists(path.to_owned())).hint(otherwise),
        _ => io_error(path, source).into(),
    })
}
