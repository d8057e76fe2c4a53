//! Progress of a build, for display.

use crate::build::report::plugin_report::PluginReport;
use crate::model::slug::Slug;

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
