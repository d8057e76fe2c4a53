//! Table `[keys]`: how long retired private keys are kept, as given and as resolved.

use serde::Deserialize;

use crate::config::value;

const KEEP_RETIRED_DAYS: u32 = 90;

/// Table `[keys]`: what happens to retired keys.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "each has its help")]
pub struct KeySettings {
    #[arg(long, env = "COUNTERSIGN_KEEP_RETIRED_DAYS", value_name = "DAYS", global = true, hide_short_help = true, value_parser = value::parse::<u32>,
        help = value::with_default("Days to keep a retired private key before `doctor` asks you to remove it", KEEP_RETIRED_DAYS))]
    #[serde(deserialize_with = "value::one")]
    pub keep_retired_days: Option<u32>,
}

/// The resolved settings of `[keys]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the setting of the same name in KeySettings")]
pub struct KeysConfig {
    pub keep_retired_days: u32,
}

impl KeysConfig {
    /// Takes what the file has, then the defaults.
    pub(super) fn of_file(file: &KeySettings) -> Self {
        Self {
            keep_retired_days: file.keep_retired_days.unwrap_or(KEEP_RETIRED_DAYS),
        }
    }

    /// Takes what the command line and the environment give, then these settings.
    pub fn with(&self, given: &KeySettings) -> Self {
        Self {
            keep_retired_days: given.keep_retired_days.unwrap_or(self.keep_retired_days),
        }
    }
}
