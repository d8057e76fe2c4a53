//! Progress of a build, for display.

use crate::build::report::plugin_report::PluginReport;
use countersign_model::slug::Slug;

/// Receives progress, from several threads.
pub trait Progress: Send + Sync {
    /// Fetching a remote repository starts.
    fn fetching(&self, address: &str);
    /// This many tags of a plugin are to be read.
    fn tags_found(&self, plugin: &Slug, tags: usize);
    /// This many tags, of any plugin, are done.
    fn tags_done(&self, tags: usize);
    /// A plugin is done.
    fn plugin_done(&self, report: &PluginReport);
}

/// Ignores progress.
#[derive(Debug)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn fetching(&self, _: &str) {}
    fn tags_found(&self, _: &Slug, _: usize) {}
    fn tags_done(&self, _: usize) {}
    fn plugin_done(&self, _: &PluginReport) {}
}
