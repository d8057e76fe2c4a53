//! Table `[build]`: where repositories may be fetched from, as it is set and as it is decided.

use serde::Deserialize;

use crate::config::{address, value};
use crate::model::git_hosts::{DEFAULT, GitHost};

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

/// How repositories are read, decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the setting of the same name in BuildSettings")]
pub struct BuildConfig {
    pub allowed_git_hosts: Vec<GitHost>,
}

impl BuildConfig {
    /// What the file says, over the defaults.
    pub(super) fn of_file(file: BuildSettings) -> Self {
        // The defaults are hosts by a test.
        let default = || DEFAULT.iter().filter_map(|host| host.parse().ok()).collect();
        Self {
            allowed_git_hosts: file.allowed_git_hosts.unwrap_or_else(default),
        }
    }

    /// What the command line and the environment gave, over this.
    pub fn with(&self, given: &BuildSettings) -> Self {
        let given = given.allowed_git_hosts.clone();
        Self {
            allowed_git_hosts: given.unwrap_or_else(|| self.allowed_git_hosts.clone()),
        }
    }
}
