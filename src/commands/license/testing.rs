//! An instance with two licenses, for the tests of the license commands.

use std::path::Path;

use chrono::{DateTime, NaiveDate, Utc};
use clap::{Args, Command, FromArgMatches};

use countersign_model::license_key::LicenseKey;
use countersign_registry::Registry;
use countersign_settings::config::{Config, PathSettings, ServeSettings};

/// A registry in a folder of its own.
pub(super) struct Instance(tempfile::TempDir);

impl Instance {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("plugins")).unwrap();
        std::fs::create_dir(folder.path().join("licenses")).unwrap();
        std::fs::write(folder.path().join("licenses/licenses.toml"), Self::toml()).unwrap();
        Self(folder)
    }

    pub(super) fn key(number: u8) -> LicenseKey {
        LicenseKey::from_random([number; 20])
    }

    pub(super) fn toml() -> String {
        format!(
            "[[license]]\nid = '{}'\nexpires = 2027-12-31\nnote = 'first'\n[license.modules]\nforms = ['pdf', 'api']\nbase = []\n\n\
             [[license]]\nid = '{}'\nexpires = 2027-01-31\nstatus = 'suspended'\nsites = 'unlimited'\nnote = \"se\\u001bcond\"\n\
             modules.base = []\nreleased = {{ 'old.com' = 2026-01-01T00:00:00Z }}\n",
            Self::key(1).id(),
            Self::key(2).id()
        )
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn text(&self) -> String {
        std::fs::read_to_string(self.path().join("licenses/licenses.toml")).unwrap()
    }

    pub(super) fn registry(&self) -> Registry {
        Registry::load(self.path()).unwrap()
    }

    pub(super) fn config(&self) -> Config {
        let paths = PathSettings {
            registry: Some(self.path().to_owned()),
            ..PathSettings::default()
        };
        Config::load(self.path(), &paths, &ServeSettings::default()).unwrap()
    }
}

/// The arguments of one verb, as a person would type them.
pub(super) fn parse<T: Args + FromArgMatches>(line: &str) -> T {
    let command = T::augment_args(Command::new("verb").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(line.split_whitespace()).unwrap()).unwrap()
}

pub(super) fn today() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, 20).unwrap()
}

pub(super) fn now() -> DateTime<Utc> {
    "2026-11-20T10:17:03Z".parse().unwrap()
}
