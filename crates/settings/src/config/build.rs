//! Table `[build]`: hosts that repositories may be fetched from, as given and as resolved.

use serde::Deserialize;

use crate::config::{address, value};
use countersign_model::git_hosts::{DEFAULT, GitHost};

/// Table `[build]`: how repositories are read.
#[derive(clap::Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "each has its help")]
pub struct BuildSettings {
    #[arg(long, env = "COUNTERSIGN_ALLOWED_GIT_HOSTS", value_name = "HOST,...", value_delimiter = ',',
        help = value::with_default("Hosts that git may fetch from over https and ssh; write http://HOST, git://HOST or file:// to allow these", DEFAULT.join(",")))]
    #[serde(deserialize_with = "address::many")]
    pub allowed_git_hosts: Option<Vec<GitHost>>,
}

/// The resolved settings of `[build]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the setting of the same name in BuildSettings")]
pub struct BuildConfig {
    pub allowed_git_hosts: Vec<GitHost>,
}

impl BuildConfig {
    /// Takes what the file has, then the defaults.
    pub(super) fn of_file(file: BuildSettings) -> Self {
        // A test checks that the defaults are hosts.
        let default = || DEFAULT.iter().filter_map(|host| host.parse().ok()).collect();
        Self {
            allowed_git_hosts: file.allowed_git_hosts.unwrap_or_else(default),
        }
    }

    /// Takes what the command line and the environment give, then these settings.
    pub fn with(&self, given: &BuildSettings) -> Self {
        let given = given.allowed_git_hosts.clone();
        Self {
            allowed_git_hosts: given.unwrap_or_else(|| self.allowed_git_hosts.clone()),
        }
    }
}
