//! Shell completion of arguments: plugins, modules and licenses of the instance that the command line names.
//!
//! It must not delay the person who types, nor print anything. What cannot be read in time is not offered.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;

use crate::commands::known_licenses::KnownLicenses;
use crate::commands::store::store_source;
use countersign_files::time_limit;
use countersign_registry::{Registry, RegistryFiles, plugins};
use countersign_settings::config::{Config, PathSettings, Paths, ServeSettings};

/// A completion may take this long. A million licenses are loaded in 0.6 s.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most candidates that a shell shows.
const MOST: usize = 100;

/// How many digits of a license's id to offer.
const SHORT_ID: usize = 12;

/// Slugs of plugins that begin with `typed`.
pub fn slugs(typed: &OsStr) -> Vec<CompletionCandidate> {
    offer(typed, |paths, typed| {
        let entries = plugins::load(&RegistryFiles::folder(&paths.registry)).unwrap_or_default();
        let slugs = entries.into_iter().filter_map(|entry| Some(entry.slug?.to_string()));
        slugs
            .filter(|slug| slug.starts_with(typed))
            .map(|slug| (slug, None))
            .collect()
    })
}

/// Modules of plugins that begin with `typed`.
pub fn modules(typed: &OsStr) -> Vec<CompletionCandidate> {
    offer(typed, |paths, typed| {
        let entries = plugins::load(&RegistryFiles::folder(&paths.registry)).unwrap_or_default();
        let mut modules: Vec<String> = entries
            .into_iter()
            .filter_map(|entry| Some(entry.plugin.ok()?.module.to_string()))
            .collect();
        modules.sort();
        modules.dedup();
        modules
            .into_iter()
            .filter(|module| module.starts_with(typed))
            .map(|module| (module, None))
            .collect()
    })
}

/// Ids of licenses that begin with `typed`, with their notes.
// SECURITY: the typed text may be a key. It is only compared with ids.
pub fn licenses(typed: &OsStr) -> Vec<CompletionCandidate> {
    offer(typed, |paths, typed| {
        // What cannot be read is not offered, and the rest is.
        let registry = Registry::load_licenses(&paths.registry).unwrap_or_default();
        let issued = countersign_ledger::issued_licenses(store_source(paths)).unwrap_or_default();
        let known = KnownLicenses::new(registry, issued);
        let length = if typed.len() > SHORT_ID { usize::MAX } else { SHORT_ID };
        let described = known.all().map(|license| (license.id.to_string(), license));
        let meant = described.filter(|(id, _)| id.starts_with(typed)).take(MOST);
        meant
            .map(|(mut id, license)| {
                id.truncate(length);
                (id, Some(license.details.note.clone()))
            })
            .collect()
    })
}

type Candidates = Vec<(String, Option<String>)>;

/// The candidates that `find` finds in the instance for `typed`.
fn offer(typed: &OsStr, find: fn(&Paths, &str) -> Candidates) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str().map(str::to_owned) else {
        return Vec::new();
    };
    let found = time_limit::within(PATIENCE, move || {
        paths().map_or(Vec::new(), |paths| find(&paths, &typed))
    });
    let candidate = |(value, help): (String, Option<String>)| {
        CompletionCandidate::new(value).help(help.filter(|help| !help.is_empty()).map(Into::into))
    };
    found
        .unwrap_or_default()
        .into_iter()
        .take(MOST)
        .map(candidate)
        .collect()
}

/// The paths of the command line that is being typed, which is everything after `--`.
fn paths() -> Option<Paths> {
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let instance = value(&words, Some("-C"), "--instance");
    let instance = instance.or_else(|| std::env::var_os("COUNTERSIGN_INSTANCE").map(PathBuf::from));
    let instance = instance.unwrap_or_else(|| PathBuf::from("."));
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let given = PathSettings {
        registry: value(&words, None, "--registry").or_else(|| variable("COUNTERSIGN_REGISTRY")),
        store: value(&words, None, "--store").or_else(|| variable("COUNTERSIGN_STORE")),
        ..PathSettings::default()
    };
    Some(Config::load(&instance, &given, &ServeSettings::default()).ok()?.paths)
}

/// The value of an option among `words`: `-C DIR`, `--instance DIR` or `--instance=DIR`.
fn value(words: &[OsString], short: Option<&str>, long: &str) -> Option<PathBuf> {
    let joined = words
        .iter()
        .find_map(|word| word.to_str()?.strip_prefix(long)?.strip_prefix('=').map(PathBuf::from));
    let is_option = |word: &OsString| word == long || short.is_some_and(|short| word == short);
    joined.or_else(|| {
        words
            .iter()
            .skip_while(|word| !is_option(word))
            .nth(1)
            .map(PathBuf::from)
    })
}
