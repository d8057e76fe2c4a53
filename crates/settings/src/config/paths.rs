//! Table `[paths]`: paths of the instance's parts, as given and as resolved.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::value;

/// The name of the configuration file.
pub const FILE: &str = "countersign.toml";
const REGISTRY: &str = "registry";
const RELEASES: &str = "releases";
const PACKAGES: &str = "packages";
const CACHE: &str = "cache";
const PUBLIC: &str = "public";
const STORE: &str = "store";
/// The node's own folder, if the store is a database.
const NODE: &str = "node";
const SIGNING_KEY: &str = "keys/signing.pem";
const DOWNLOADS_KEY: &str = "keys/downloads.key";
const ISSUING_KEY: &str = "keys/issuing.key";
const REFERENCES_KEY: &str = "keys/references.key";
const RETIRED_KEYS: &str = "keys/retired";

/// Table `[paths]`: paths of the instance's parts. Paths in the file are relative to the file.
///
/// Every command takes their flags, so no command's help shows them: `countersign help paths` does.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Paths")]
#[allow(missing_docs, reason = "each has its help")]
pub struct PathSettings {
    #[arg(long, env = "COUNTERSIGN_REGISTRY", value_name = "DIR", global = true, hide = true,
        help = value::with_default("Folder of your plugins and licenses", REGISTRY))]
    #[serde(deserialize_with = "value::one")]
    pub registry: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_RELEASES", value_name = "DIR", global = true, hide = true,
        help = value::with_default("Folder of the manifests and packages that `build` writes", RELEASES))]
    #[serde(deserialize_with = "value::one")]
    pub releases: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_PACKAGES", value_name = "DIR", global = true, hide = true,
        help = value::with_default("Folder of the archives that `package add` takes", PACKAGES))]
    #[serde(deserialize_with = "value::one")]
    pub packages: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_CACHE", value_name = "DIR", global = true, hide = true,
        help = value::with_default("Folder for mirrors of remote repositories", CACHE))]
    #[serde(deserialize_with = "value::one")]
    pub cache: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_PUBLIC", value_name = "DIR", global = true, hide = true,
        help = value::with_default("Folder of files that anyone may download", PUBLIC))]
    #[serde(deserialize_with = "value::one")]
    pub public: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_STORE", value_name = "DIR|URL", global = true, hide = true,
        help = value::with_default("Folder of the bindings of sites, or postgres://… for several nodes", STORE))]
    #[serde(deserialize_with = "value::one")]
    pub store: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_SIGNING_KEY", value_name = "FILE", global = true, hide = true,
        help = value::with_default("The private signing key: PEM, mode 0600", SIGNING_KEY))]
    #[serde(deserialize_with = "value::one")]
    pub signing_key: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_DOWNLOADS_KEY", value_name = "FILE", global = true, hide = true,
        help = value::with_default("The key that makes links to packages and build ids: mode 0600", DOWNLOADS_KEY))]
    #[serde(deserialize_with = "value::one")]
    pub downloads_key: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_ISSUING_KEY", value_name = "FILE", global = true, hide = true,
        help = value::with_default("The key that makes the keys of licenses that machines issue: mode 0600", ISSUING_KEY))]
    #[serde(deserialize_with = "value::one")]
    pub issuing_key: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_REFERENCES_KEY", value_name = "FILE", global = true, hide = true,
        help = value::with_default("The key that hides the orders of shops: mode 0600", REFERENCES_KEY))]
    #[serde(deserialize_with = "value::one")]
    pub references_key: Option<PathBuf>,
    #[arg(long, env = "COUNTERSIGN_RETIRED_KEYS", value_name = "DIR", global = true, hide = true,
        help = value::with_default("Folder of retired keys", RETIRED_KEYS))]
    #[serde(deserialize_with = "value::one")]
    pub retired_keys: Option<PathBuf>,
}

/// The resolved paths of the instance's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the setting of the same name in PathSettings")]
pub struct Paths {
    pub registry: PathBuf,
    pub releases: PathBuf,
    pub packages: PathBuf,
    pub cache: PathBuf,
    pub public: PathBuf,
    /// The folder of the bindings; with a `database`, the folder of what belongs to this node alone.
    pub store: PathBuf,
    /// The address of the ledger that several nodes share.
    pub database: Option<String>,
    pub signing_key: PathBuf,
    pub downloads_key: PathBuf,
    pub issuing_key: PathBuf,
    pub references_key: PathBuf,
    pub retired_keys: PathBuf,
}

impl Paths {
    /// Takes what the command line and the environment give, then what the file in `instance` has.
    pub(super) fn merge(instance: &Path, given: &PathSettings, file: PathSettings) -> Self {
        // A path on the command line is relative to the current folder, one in the file to the file.
        let pick = |given: &Option<PathBuf>, file: Option<PathBuf>, default: &str| match given {
            Some(path) => path.clone(),
            None => instance.join(file.unwrap_or_else(|| default.into())),
        };
        let named = given.store.as_ref().or(file.store.as_ref());
        let database = named.and_then(|path| path.to_str()).filter(|store| is_database(store));
        let database = database.map(str::to_owned);
        let store = match database {
            Some(_) => instance.join(NODE),
            None => pick(&given.store, file.store, STORE),
        };
        Self {
            registry: pick(&given.registry, file.registry, REGISTRY),
            releases: pick(&given.releases, file.releases, RELEASES),
            packages: pick(&given.packages, file.packages, PACKAGES),
            cache: pick(&given.cache, file.cache, CACHE),
            public: pick(&given.public, file.public, PUBLIC),
            store,
            database,
            signing_key: pick(&given.signing_key, file.signing_key, SIGNING_KEY),
            downloads_key: pick(&given.downloads_key, file.downloads_key, DOWNLOADS_KEY),
            issuing_key: pick(&given.issuing_key, file.issuing_key, ISSUING_KEY),
            references_key: pick(&given.references_key, file.references_key, REFERENCES_KEY),
            retired_keys: pick(&given.retired_keys, file.retired_keys, RETIRED_KEYS),
        }
    }

    /// Whether the folder has any part of an instance.
    pub(super) fn some_exist(&self) -> bool {
        let Self {
            registry,
            releases,
            public,
            store,
            signing_key,
            ..
        } = self;
        [registry, releases, public, store, signing_key]
            .into_iter()
            .any(|path| path.exists())
    }
}

/// Whether a setting is the address of a database, and not a folder.
fn is_database(store: &str) -> bool {
    ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| store.starts_with(scheme))
}
