//! `countersign build`: registry entries → tags → the plugin's own files at each tag → manifests and packages →
//! `releases/`.
//!
//! [`publish_folder`] publishes what another machine built, with the last of these steps.
//!
//! [`run`] does it in the five steps of `pipeline`; `plugin_build` has those of one plugin. The outcome of each tag
//! is data in a [`BuildReport`]. The server reads the published files through the catalog.

mod client_copy;
mod compose;
pub mod draft;
mod error;
mod fetch;
#[cfg(test)]
mod fixture;
pub mod git;
mod inputs;
mod manifest_sink;
pub mod package_folder;
mod packing;
mod pipeline;
mod plugin_build;
mod progress;
mod publish;
pub mod rebuild;
mod refused_cache;
mod release_builder;
mod release_signing;
mod remark;
mod report;
mod review;
mod side_by_side;
pub mod source;
mod tags;
#[cfg(test)]
mod tests;
mod version_check;

pub use error::BuildError;
pub use git::credentials::{Credentials, CredentialsError};
pub use git::mirror::Mirrors;
pub use git::repository::{RepositoryError, can_be_read};
pub use inputs::FORMAT;
pub use packing::PackingOptions;
pub use pipeline::{Options, run};
pub use progress::{NoProgress, Progress};
pub use publish::from_folder::{FolderError, FolderOptions, FolderReport, PublishedName, publish_folder};
pub use release_signing::SignedChains;
pub use remark::Remark;
pub use report::BuildReport;
pub use report::listing::counted;
pub use report::outcome::{ReleaseOutcome, TagOutcome};
pub use report::plugin_report::{PluginReport, PluginState, ReleaseWarning};
pub use report::summary::summary;
