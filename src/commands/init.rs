//! `countersign init`: creates an instance, empty (`instance`) or with demo plugins and licenses (`demo`).
//!
//! It checks first that none of its files exists, and changes none. The list of files, the demo's license keys and
//! the next steps go to stdout.

mod demo;
mod demo_customers;
mod demo_history;
mod demo_repository;
mod files;
mod instance;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::commands::init::demo::DemoLicense;
use crate::commands::init::files::{InitError, create_shops_folder};
use crate::commands::{Exit, Failure, keys, output};
use countersign_model::customer::CustomerAddress;
use countersign_model::text::shell_quoted;
use countersign_settings::config::{Config, PathSettings, ServeSettings};

/// Create an instance in a folder
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign init licensing
  countersign init licensing --admin anna@example.com
  countersign init --demo

An instance is a folder with a configuration, a registry of plugins and licenses, and a signing \
key. `init` never overwrites a file.")]
pub struct Args {
    /// Where to create it [default: the folder of -C; with --demo, the folder demo in it]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Add two plugins with git repositories, two licenses, and made-up customers with a history
    #[arg(long)]
    demo: bool,
    /// Let the person with this address sign in at the desk, as admin
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<CustomerAddress>,
    /// Create a new signing key although the folder has keys or bindings of an instance. Only if no backup has its key
    #[arg(long)]
    old_key_is_lost: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What was created.
#[derive(Serialize)]
struct MadeInstance {
    folder: String,
    files: Vec<&'static str>,
    key_id: String,
    /// The demo's licenses. Their keys are not stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<DemoLicense>,
    /// For people: the next steps.
    #[serde(skip)]
    next: String,
}

impl MadeInstance {
    fn text(&self) -> String {
        let files: String = self.files.iter().map(|name| format!("  {name}\n")).collect();
        format!(
            "MadeInstance in {}:\n{files}\n{}",
            shell_quoted(Path::new(&self.folder)),
            self.next
        )
    }
}

/// Creates an instance in `args.dir`, relative to the current folder, or in `instance`.
pub fn run(args: &Args, instance: &Path) -> Result<Exit, Failure> {
    let default = || {
        if args.demo {
            instance.join("demo")
        } else {
            instance.to_owned()
        }
    };
    let made = make(&args.dir.clone().unwrap_or_else(default), args)?;
    output::print_change(&if args.json { output::json(&made)? } else { made.text() })
}

/// Creates an instance and returns what to print.
fn make(folder: &Path, args: &Args) -> Result<MadeInstance, Failure> {
    let demo_names = if args.demo { demo::NAMES } else { &[] };
    let files: Vec<_> = instance::NAMES.iter().chain(demo_names).copied().collect();
    let taken: Vec<_> = files
        .iter()
        .copied()
        .filter(|name| folder.join(name).symlink_metadata().is_ok())
        .collect();
    if !taken.is_empty() {
        return Err(InitError::AlreadyThere {
            folder: folder.to_owned(),
            names: taken,
        }
        .into());
    }
    let paths = Config::load(folder, &PathSettings::default(), &ServeSettings::default())?.paths;
    keys::refuse_a_second(&paths, args.old_key_is_lost, "init --old-key-is-lost")?;
    instance::write(folder, args.admin.as_ref())?;
    let config = Config::load(folder, &PathSettings::default(), &ServeSettings::default())?;
    let key = keys::create(&config.paths, keys::DEFAULT_BITS, args.old_key_is_lost)?;
    keys::create_secrets(&config.paths)?;
    create_shops_folder(folder)?;
    let mut made = MadeInstance {
        folder: output::path_text(folder),
        files,
        key_id: key.key_id().to_owned(),
        licenses: vec![],
        next: instance::next_steps(folder),
    };
    if args.demo {
        let demo = demo::write(folder, &config, &made.key_id)?;
        made.licenses = demo.licenses;
        made.next = demo.next;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn args(folder: &Path, demo: bool) -> Args {
        Args {
            dir: Some(folder.to_owned()),
            demo,
            admin: None,
            old_key_is_lost: false,
            json: false,
        }
    }

    fn init(folder: &Path, demo: bool) -> Result<Exit, Failure> {
        run(&args(folder, demo), Path::new("elsewhere"))
    }

    /// Every file with its bytes.
    fn tree(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
        let mut files = std::collections::BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    drop(files.insert(path.clone(), fs::read(path).unwrap()));
                }
            }
        }
        files
    }

    #[test]
    fn a_new_instance_has_all_it_takes_and_a_key_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/instance");
        make(&path, &args(&path, false)).unwrap();
        for name in instance::NAMES {
            assert!(path.join(name).exists(), "{name}");
        }
        let names = ["signing.pem", "downloads.key", "issuing.key", "references.key"];
        let [signing, secrets @ ..] = names.map(|name| path.join("keys").join(name));
        for key in secrets.iter().chain([&signing]) {
            assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let of_shops = fs::metadata(path.join("keys/shops")).unwrap();
        assert_eq!(of_shops.permissions().mode() & 0o777, 0o700);
        let secrets: std::collections::BTreeSet<_> = secrets.iter().map(|key| fs::read(key).unwrap()).collect();
        assert!(secrets.len() == 3 && secrets.iter().all(|secret| secret.len() == 32));
        assert!(
            fs::read_to_string(signing)
                .unwrap()
                .starts_with("-----BEGIN PRIVATE KEY-----")
        );
    }

    #[test]
    fn what_is_there_is_named_and_nothing_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("registry/licenses")).unwrap();
        fs::write(folder.path().join("registry/licenses/licenses.toml"), "mine").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("countersign.toml")).unwrap();
        let failure = init(folder.path(), true).unwrap_err();
        assert_eq!(failure.exit, Exit::Input);
        let message = failure.error.to_string();
        assert!(
            message.ends_with("already has countersign.toml, registry/licenses/licenses.toml"),
            "{message}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert_eq!(
            fs::read(folder.path().join("registry/licenses/licenses.toml")).unwrap(),
            b"mine"
        );
    }

    #[test]
    fn a_folder_with_other_things_in_it_is_welcome() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("README.md"), "mine").unwrap();
        make(folder.path(), &args(folder.path(), false)).unwrap();
        let before = tree(folder.path());
        assert_eq!(init(folder.path(), false).unwrap_err().exit, Exit::Input);
        assert_eq!(tree(folder.path()), before);
    }

    #[test]
    fn the_demos_keys_are_shown_and_stored_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let output = make(folder.path(), &args(folder.path(), true)).unwrap().text();
        let words: std::collections::BTreeSet<_> =
            output.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        let keys: Vec<_> = words
            .iter()
            .filter_map(|word| word.parse::<countersign_model::license_key::LicenseKey>().ok())
            .collect();
        assert_eq!(keys.len(), 2);
        let files = tree(folder.path());
        let ledger = fs::read_to_string(folder.path().join("store/ledger.jsonl")).unwrap();
        for key in keys {
            assert!(ledger.contains(&format!("\"license\":\"{}\"", key.id())));
            let secret = key.reveal().as_bytes();
            for (path, bytes) in &files {
                assert!(
                    !bytes.windows(secret.len()).any(|window| window == secret),
                    "{}",
                    path.display()
                );
            }
        }
    }

    #[test]
    fn the_demos_registry_is_read() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), &args(folder.path(), true)).unwrap();
        let registry = countersign_registry::Registry::load(&folder.path().join("registry")).unwrap();
        assert_eq!((registry.plugin_count(), registry.license_count()), (2, 0));
    }
}
