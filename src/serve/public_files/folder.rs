//! Finds what must not be in the public folder: secrets, and files for licensed sites only.
//!
//! The server does not start with it, and `doctor` reports it. `public_files` serves the rest.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::serve::public_files::private_key;
use countersign_files::regular_file;
use countersign_settings::config::Paths;

/// The most files and folders to check.
const MOST_ENTRIES: usize = 10_000;

/// The most bytes of files to read.
const MOST_BYTES: u64 = 256 << 20;

/// Something that anyone could read.
#[derive(Debug, thiserror::Error)]
pub enum PublicError {
    /// A part of the instance.
    #[error("{}: {what} and the public folder {} must not contain each other", path.display(), public.display())]
    Overlap {
        /// The part's name for a person.
        what: &'static str,
        /// Its configured path.
        path: PathBuf,
        /// The configured path of the public folder.
        public: PathBuf,
    },
    /// A file with a private key.
    #[error("{}: a private key in the public folder, where anyone can read it", .0.display())]
    PrivateKey(PathBuf),
}

impl PublicError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Overlap { .. } => "choose another folder with --public: anyone can download its files",
            Self::PrivateKey(_) => "move it away; if anyone could read it, replace it with a new key",
        }
    }
}

/// Whether everything in the folder was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searched {
    /// Everything.
    All,
    /// It has more than is searched. Each file is checked again before it is served.
    Some,
}

/// Checks that no part of the instance is in the public folder, also through links, and no file with a private key.
/// Only the first MiB of a file is read.
///
/// # Errors
/// The first [`PublicError`].
pub fn check(paths: &Paths, tls_key: Option<&Path>) -> Result<Searched, PublicError> {
    let Paths {
        registry,
        releases,
        packages,
        cache,
        public,
        store,
        signing_key,
        downloads_key,
        issuing_key,
        references_key,
        retired_keys,
        database: _,
    } = paths;
    let root = resolved(public);
    let parts = [
        ("the registry", Some(registry.as_path()), false),
        // Files for licensed sites or for nobody. They would also be served if the public folder were inside.
        ("the releases", Some(releases), true),
        ("the packages", Some(packages), true),
        ("the mirrors", Some(cache), true),
        ("the store", Some(store), true),
        ("the signing key", Some(signing_key), false),
        ("the key for downloads", Some(downloads_key), false),
        ("the key for issuing", Some(issuing_key), false),
        ("the key for references", Some(references_key), false),
        ("the retired keys", Some(retired_keys), false),
        ("the certificate's key", tls_key, false),
    ];
    for (what, path, both_ways) in parts {
        let Some(path) = path else { continue };
        // A link in the public folder to another place is a name in the folder, too.
        let named = path
            .parent()
            .map(resolved)
            .unwrap_or_default()
            .join(path.file_name().unwrap_or_default());
        let inside = [resolved(path), named]
            .iter()
            .any(|path| path.starts_with(&root) || both_ways && root.starts_with(path));
        if inside {
            return Err(PublicError::Overlap {
                what,
                path: path.to_owned(),
                public: public.clone(),
            });
        }
    }
    search(public)
}

/// The path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path
        .ancestors()
        .find_map(|ancestor| Some((ancestor, fs::canonicalize(ancestor).ok()?)));
    let Some((ancestor, mut found)) = there else {
        return path;
    };
    for component in path.strip_prefix(ancestor).unwrap_or(Path::new("")).components() {
        match component {
            Component::ParentDir => drop(found.pop()),
            component => found.push(component),
        }
    }
    found
}

/// Searches for private keys, also in files that are not served: a setting or a link may make them public later.
fn search(public: &Path) -> Result<Searched, PublicError> {
    let mut folders = vec![public.to_owned()];
    let mut entries = 0;
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MOST_ENTRIES || bytes > MOST_BYTES {
                return Ok(Searched::Some);
            }
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                // A link is served only if it leads to a file that is found here under its own name.
                Ok(kind) if kind.is_file() => {
                    let Ok(file) = regular_file::open(&path, u64::MAX) else {
                        continue;
                    };
                    let mut start = Vec::new();
                    let read = file.take(private_key::SEARCHED).read_to_end(&mut start);
                    bytes += start.len() as u64;
                    if read.is_ok() && private_key::is_in(&start) {
                        return Err(PublicError::PrivateKey(path));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(Searched::All)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use countersign_settings::config::{Config, PathSettings, ServeSettings};

    /// The result for an instance after `make`, with these paths besides the usual ones.
    fn verdict(make: impl Fn(&Path), settings: impl Fn(&Path) -> PathSettings) -> Result<Searched, String> {
        let made = tempfile::tempdir().unwrap();
        let instance = fs::canonicalize(made.path()).unwrap();
        for folder in ["registry", "releases", "cache", "public", "store", "keys/retired"] {
            fs::create_dir_all(instance.join(folder)).unwrap();
        }
        fs::write(instance.join("keys/signing.pem"), "").unwrap();
        make(&instance);
        let config = Config::load(&instance, &settings(&instance), &ServeSettings::default()).unwrap();
        check(&config.paths, Some(&instance.join("tls/key.pem"))).map_err(|error| match error {
            PublicError::Overlap { what, .. } => what.to_owned(),
            PublicError::PrivateKey(path) => path.strip_prefix(&instance).unwrap().display().to_string(),
        })
    }

    fn public(path: &str) -> impl Fn(&Path) -> PathSettings {
        move |instance| PathSettings {
            public: Some(instance.join(path)),
            ..PathSettings::default()
        }
    }

    #[test]
    fn no_part_of_an_instance_lies_in_its_public_folder_under_any_name() {
        let nothing = |_: &Path| ();
        assert_eq!(verdict(nothing, public("public")), Ok(Searched::All));
        assert_eq!(verdict(nothing, public("nothing/there")), Ok(Searched::All));
        for (path, what) in [
            ("", "the registry"),
            ("registry", "the registry"),
            ("releases", "the releases"),
            ("releases/acme", "the releases"),
            ("public/../store", "the store"),
            ("store/index", "the store"),
            ("cache", "the mirrors"),
            ("keys", "the signing key"),
            ("keys/retired", "the retired keys"),
            ("tls", "the certificate's key"),
        ] {
            assert_eq!(verdict(nothing, public(path)), Err(what.to_owned()), "{path}");
        }
        let link = |instance: &Path| symlink(instance.join("keys"), instance.join("linked")).unwrap();
        assert_eq!(verdict(link, public("linked")), Err("the signing key".to_owned()));
        let moved = |instance: &Path| {
            fs::rename(instance.join("keys"), instance.join("public/k")).unwrap();
            symlink("public/k", instance.join("keys")).unwrap();
        };
        assert_eq!(verdict(moved, public("public")), Err("the signing key".to_owned()));
        let named = |instance: &Path| symlink(instance.join("store"), instance.join("public/s")).unwrap();
        let store = |instance: &Path| PathSettings {
            store: Some(instance.join("public/s")),
            ..PathSettings::default()
        };
        assert_eq!(
            verdict(named, store),
            Err("the store".to_owned()),
            "a name of the store lies in it"
        );
    }

    #[test]
    fn a_private_key_is_found_wherever_it_lies_and_a_pipe_holds_nobody() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n";
        for place in ["public/key.pem", "public/.hidden/backup~", "public/deep/er/data.json"] {
            let put = |instance: &Path| {
                fs::create_dir_all(instance.join(place).parent().unwrap()).unwrap();
                fs::write(instance.join(place), format!("{{\"key\": \"{key}\"}}")).unwrap();
                let pipe = instance.join("public/pipe");
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    pipe,
                    rustix::fs::FileType::Fifo,
                    rustix::fs::Mode::RUSR,
                    0,
                )
                .unwrap();
            };
            assert_eq!(verdict(put, public("public")), Err(place.to_owned()));
        }
    }

    #[test]
    fn the_search_has_an_end() {
        let many = |instance: &Path| {
            for number in 0..=MOST_ENTRIES {
                fs::write(instance.join(format!("public/{number}")), "").unwrap();
            }
        };
        assert_eq!(verdict(many, public("public")), Ok(Searched::Some));
    }
}
