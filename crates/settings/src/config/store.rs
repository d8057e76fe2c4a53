//! Table `[store]`: what the server of a shared ledger does by itself, as given and as resolved.

use clap::ValueEnum;
use serde::Deserialize;

use crate::config::value::{self, Setting};

const SYNCHRONOUS: Synchronous = Synchronous::Checked;

/// Table `[store]`: the database of a shared ledger.
#[derive(clap::Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "each has its help")]
pub struct StoreSettings {
    #[arg(long, env = "COUNTERSIGN_SYNCHRONOUS", value_name = "RULE",
        help = value::with_default("Whether to warn if the database waits for no standby", value::name(SYNCHRONOUS)))]
    #[serde(deserialize_with = "value::one")]
    pub synchronous: Option<Synchronous>,
}

/// How the nodes know that a failover loses no binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Synchronous {
    /// Warn if the database waits for no synchronous standby
    Checked,
    /// Warn of nothing: storage below the database is replicated
    Assumed,
}

impl Setting for Synchronous {
    const EXPECTED: &'static str = "expected \"checked\" or \"assumed\"";

    fn from_text(text: &str) -> Option<Self> {
        clap::ValueEnum::from_str(text, false).ok()
    }
}

/// The resolved settings of `[store]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the setting of the same name in StoreSettings")]
pub struct StoreConfig {
    pub synchronous: Synchronous,
}

impl StoreConfig {
    /// Takes what the file has, then the defaults.
    pub(super) fn of_file(file: &StoreSettings) -> Self {
        Self {
            synchronous: file.synchronous.unwrap_or(SYNCHRONOUS),
        }
    }

    /// Takes what the command line and the environment give, then these settings.
    pub fn with(&self, given: &StoreSettings) -> Self {
        Self {
            synchronous: given.synchronous.unwrap_or(self.synchronous),
        }
    }

    /// Whether something below the database keeps every binding, so that no standby is needed.
    pub fn is_synchronous_assumed(&self) -> bool {
        self.synchronous == Synchronous::Assumed
    }
}
