//! `countersign keys`: makes signing keys, lists them, and publishes their public halves.
//!
//! The private key is a file of its own that nobody else may read. Its public half and those of the keys before it go to
//! `public/`, where clients find the one a statement names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rsa::RsaPrivateKey;
use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};
use rsa::rand_core::OsRng;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::config::{Config, Paths};
use crate::durable_file;
use crate::model::public_key::{Jwk, PublicKey, PublicKeyError};
use crate::serve::signer::SigningKey;

use super::output::{self, Table};
use super::{Exit, Failure};

/// The size of a new key: RSA with 3072 bits is as strong as a symmetric key of 128 (NIST SP 800-57 part 1, table 2).
pub const DEFAULT_BITS: u16 = 3072;

/// Make, list and publish signing keys
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign keys generate
  countersign keys generate --out next.pem
  countersign keys rotate next.pem
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
  countersign keys generate --out next.pem
  countersign keys generate --rotate --bits 4096

The instance's own key is published at once. With --rotate, it signs at once, too, and the public half of
the old one is kept. Clients that pin keys must know a key before it signs: make it with --out, which
prints its public half, pin that in a release of your plugins, and when your customers have the release,
let `keys rotate` put it in the signing key's place.")]
    Generate(GenerateArgs),
    /// Let a prepared key sign; the public half of the one before is kept
    #[command(after_help = "Example:
  countersign keys rotate next.pem

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

/// A key, and the file it comes from.
#[derive(Debug)]
struct Listed {
    key: PublicKey,
    file: PathBuf,
    current: bool,
}

/// Does what was asked for.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let paths = &config.paths;
    let text = match &args.verb {
        Verb::Generate(args) => generate(args, paths),
        Verb::Rotate { file } => rotate_to(file, paths),
        Verb::List { json } => list(*json, paths),
        Verb::Publish => publish(paths),
    }?;
    output::print(&text)
}

/// Makes the instance's signing key where it has none yet, and publishes it; returns its id.
pub fn create(paths: &Paths, bits: u16) -> Result<String, Failure> {
    let (private, public) = new_key(bits)?;
    write_private(&paths.signing_key, &private, "--rotate retires it and makes another")?;
    publish_all(paths, &public)?;
    Ok(public.key_id().to_owned())
}

fn generate(args: &GenerateArgs, paths: &Paths) -> Result<String, Failure> {
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

fn rotate_to(file: &Path, paths: &Paths) -> Result<String, Failure> {
    let old = read_key(&paths.signing_key)?;
    let public = read_key(file)?;
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
fn write_private(path: &Path, pem: &str, otherwise: &str) -> Result<(), Failure> {
    create_folder(path)?;
    // SECURITY: 0600 from the first moment; and a key that is overwritten cannot be had again.
    durable_file::create_new(path, pem.as_bytes(), 0o600).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Failure::from(KeyError::Exists(path.to_owned())).hint(otherwise),
        _ => io_error(path, source).into(),
    })
}

fn write_public(path: &Path, bytes: &[u8]) -> Result<(), KeyError> {
    create_folder(path)?;
    durable_file::replace(path, bytes).map_err(|source| io_error(path, source))
}

fn create_folder(file: &Path) -> Result<(), KeyError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(|source| io_error(folder, source))
}

fn list(json: bool, paths: &Paths) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Row<'a> {
        key_id: &'a str,
        bits: usize,
        state: &'static str,
        file: &'a Path,
    }
    let current = read_key(&paths.signing_key)?;
    let keys = all_keys(paths, &current)?;
    let state = |listed: &Listed| if listed.current { "current" } else { "retired" };
    if json {
        let rows = keys.iter().map(|listed| {
            let Listed { key, file, .. } = listed;
            Row { key_id: key.key_id(), bits: key.bits(), state: state(listed), file }
        });
        return output::json(&rows.collect::<Vec<_>>());
    }
    let mut table = Table::new(&["KEY ID", "BITS", "STATE", "FILE"]);
    for listed in &keys {
        let Listed { key, file, .. } = listed;
        table.row([&key.key_id(), &key.bits(), &state(listed), &file.display()]);
    }
    Ok(table.to_string())
}

fn publish(paths: &Paths) -> Result<String, Failure> {
    let current = read_key(&paths.signing_key)?;
    let written = publish_all(paths, &current)?;
    Ok(written.iter().map(|file| format!("{}\n", file.display())).collect())
}

/// Writes the public halves of `current` and of the retired keys; a key that was published before stays.
fn publish_all(paths: &Paths, current: &PublicKey) -> Result<Vec<PathBuf>, Failure> {
    #[derive(Serialize)]
    struct Jwks {
        keys: Vec<Jwk>,
    }
    let keys = all_keys(paths, current)?;
    let mut written = Vec::new();
    for Listed { key, .. } in &keys {
        let file = paths.public.join("keys").join(format!("{}.pem", key.key_id()));
        write_public(&file, key.to_pem().as_bytes())?;
        written.push(file);
    }
    let file = paths.public.join(".well-known/jwks.json");
    let jwks = Jwks { keys: keys.iter().map(|listed| listed.key.to_jwk()).collect() };
    write_public(&file, output::json(&jwks)?.as_bytes())?;
    written.push(file);
    Ok(written)
}

/// The current key, then the retired ones by file name.
fn all_keys(paths: &Paths, current: &PublicKey) -> Result<Vec<Listed>, KeyError> {
    let mut keys = vec![Listed { key: current.clone(), file: paths.signing_key.clone(), current: true }];
    let folder = &paths.retired_keys;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(|source| io_error(folder, source))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
        Err(source) => return Err(io_error(folder, source)),
    };
    let mut files: Vec<_> = entries.iter().map(fs::DirEntry::path).filter(|path| is_pem(path)).collect();
    files.sort();
    for file in files {
        let pem = fs::read_to_string(&file).map_err(|source| io_error(&file, source))?;
        let key = PublicKey::from_pem(&pem).map_err(|source| KeyError::Public { path: file.clone(), source })?;
        if key != *current {
            keys.push(Listed { key, file, current: false });
        }
    }
    Ok(keys)
}

fn is_pem(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && path.extension().is_some_and(|extension| extension == "pem")
}

/// The public half of a private key.
fn read_key(file: &Path) -> Result<PublicKey, Failure> {
    SigningKey::load(file).map(|key| key.public().clone()).map_err(|error| {
        let hint = error.hint();
        Failure::input(error).hint(hint)
    })
}

fn io_error(path: &Path, source: io::Error) -> KeyError {
    KeyError::Io { path: path.to_owned(), source }
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
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::{PathSettings, ServeSettings};

    struct Instance(tempfile::TempDir, Paths);

    impl Instance {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let config = Config::load(folder.path(), &PathSettings::default(), &ServeSettings::default()).unwrap();
            Self(folder, config.paths)
        }

        fn generate(&self, rotate: bool, out: Option<PathBuf>) -> Result<String, Failure> {
            generate(&GenerateArgs { bits: 2048, rotate, out }, &self.1)
        }

        fn json(&self, path: &str) -> serde_json::Value {
            serde_json::from_slice(&fs::read(self.0.path().join(path)).unwrap()).unwrap()
        }

        fn public_keys(&self) -> usize {
            fs::read_dir(self.0.path().join("public/keys")).unwrap().count()
        }
    }

    #[test]
    fn a_private_key_is_its_owners_alone_and_its_public_half_everybodys() {
        let instance = Instance::new();
        instance.generate(false, None).unwrap();
        let path = &instance.1.signing_key;
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let key = read_key(&instance.1.signing_key).unwrap();
        let published = fs::read_to_string(instance.1.public.join(format!("keys/{}.pem", key.key_id()))).unwrap();
        assert_eq!(PublicKey::from_pem(&published).unwrap(), key);
        let jwks = instance.json("public/.well-known/jwks.json");
        assert_eq!(jwks, serde_json::json!({ "keys": [serde_json::to_value(key.to_jwk()).unwrap()] }));
    }

    #[test]
    fn a_key_is_never_overwritten() {
        let instance = Instance::new();
        let out = instance.0.path().join("other.pem");
        instance.generate(false, Some(out.clone())).unwrap();
        let before = fs::read(&out).unwrap();
        let refused = |out: Option<PathBuf>| {
            let failure = instance.generate(false, out).unwrap_err();
            assert!(failure.exit == Exit::Input && failure.error.to_string().ends_with(".pem: is already there"));
            failure.hint.unwrap()
        };
        assert_eq!(refused(Some(out.clone())), "choose another file");
        assert_eq!(fs::read(&out).unwrap(), before);
        assert!(!instance.1.public.exists(), "a key elsewhere is not this instance's");
        instance.generate(false, None).unwrap();
        assert_eq!(refused(None), "--rotate retires it and makes another");
    }

    #[test]
    fn rotation_keeps_the_public_half_of_every_key_before() {
        let instance = Instance::new();
        instance.generate(false, None).unwrap();
        let first = read_key(&instance.1.signing_key).unwrap();
        instance.generate(true, None).unwrap();
        let second = read_key(&instance.1.signing_key).unwrap();
        instance.generate(true, None).unwrap();
        assert_eq!(fs::metadata(&instance.1.signing_key).unwrap().permissions().mode() & 0o777, 0o600);
        let rows: serde_json::Value = serde_json::from_str(&list(true, &instance.1).unwrap()).unwrap();
        let column = |name: &str| rows.as_array().unwrap().iter().map(|row| row[name].clone()).collect::<Vec<_>>();
        assert_eq!(column("state"), ["current", "retired", "retired"]);
        assert_eq!(column("bits"), [2048, 2048, 2048]);
        for old in [&first, &second] {
            assert!(column("key_id").contains(&old.key_id().into()));
            let kept = instance.1.retired_keys.join(format!("{}.pem", old.key_id()));
            assert!(fs::read_to_string(kept).unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
        }
        assert_eq!(instance.json("public/.well-known/jwks.json")["keys"].as_array().unwrap().len(), 3);
        assert_eq!(instance.public_keys(), 3);
    }

    #[test]
    fn a_key_is_prepared_pinned_and_only_then_signs() {
        let instance = Instance::new();
        instance.generate(false, None).unwrap();
        let old = read_key(&instance.1.signing_key).unwrap();
        let next = instance.0.path().join("next.pem");
        let told = instance.generate(false, Some(next.clone())).unwrap();
        let pinned = PublicKey::from_pem(&told[told.find("-----BEGIN PUBLIC KEY-----").unwrap()..]).unwrap();
        assert_eq!((read_key(&instance.1.signing_key).unwrap(), instance.public_keys()), (old.clone(), 1));

        let told = rotate_to(&next, &instance.1).unwrap();
        assert!(told.contains(pinned.key_id()) && told.contains(old.key_id()), "{told}");
        assert_eq!(read_key(&instance.1.signing_key).unwrap(), pinned);
        assert_eq!(fs::metadata(&instance.1.signing_key).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!next.exists() && instance.1.retired_keys.join(format!("{}.pem", old.key_id())).exists());
        assert_eq!(instance.json("public/.well-known/jwks.json")["keys"].as_array().unwrap().len(), 2);

        let failure = rotate_to(&instance.1.signing_key, &instance.1).unwrap_err();
        assert!(failure.error.to_string().ends_with("signing.pem: is the signing key already"), "{}", failure.error);
        assert!(instance.1.signing_key.exists());
        fs::write(&next, "no key").unwrap();
        assert!(rotate_to(&next, &instance.1).is_err());
        assert_eq!(read_key(&instance.1.signing_key).unwrap(), pinned);
    }

    #[test]
    fn a_key_made_by_older_tools_is_listed_published_and_rotated() {
        use rsa::pkcs1::EncodeRsaPrivateKey as _;
        let instance = Instance::new();
        let private = RsaPrivateKey::new(&mut OsRng, 2048).unwrap();
        let pem = private.to_pkcs1_pem(LineEnding::LF).unwrap();
        assert!(pem.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
        write_private(&instance.1.signing_key, &pem, "").unwrap();
        let id = PublicKey::new(private.to_public_key()).unwrap().key_id().to_owned();
        assert!(list(false, &instance.1).unwrap().contains(&id));
        assert!(publish(&instance.1).unwrap().contains(&id));
        assert!(instance.generate(true, None).unwrap().contains(&id));
    }

    #[test]
    fn publishing_again_removes_nothing() {
        let instance = Instance::new();
        instance.generate(false, None).unwrap();
        let old = instance.1.public.join("keys/of-another-time.pem");
        fs::write(&old, "kept").unwrap();
        let written = publish(&instance.1).unwrap();
        assert_eq!(written.lines().count(), 2);
        assert_eq!(fs::read(&old).unwrap(), b"kept");
    }

    #[test]
    fn what_is_no_key_is_named_with_its_file() {
        let instance = Instance::new();
        let failure = list(false, &instance.1).unwrap_err();
        assert!(failure.exit == Exit::Input && failure.hint.is_some_and(|hint| hint.contains("keys generate")));
        instance.generate(false, None).unwrap();
        fs::create_dir(&instance.1.retired_keys).unwrap();
        fs::write(instance.1.retired_keys.join("old.pem"), "no key").unwrap();
        let failure = publish(&instance.1).unwrap_err();
        assert!(failure.error.to_string().ends_with("retired/old.pem: cannot be used"), "{}", failure.error);
        fs::write(&instance.1.signing_key, "no key").unwrap();
        let failure = publish(&instance.1).unwrap_err();
        let reason = failure.error.to_string();
        assert!(reason.contains("signing.pem: ") && failure.hint.is_some(), "{reason}");
    }
}
