//! How far a build is, for whoever shows it.

use crate::build::report::plugin_report::PluginReport;
use crate::model::slug::Slug;

/// Hears how far the build is; called from several threads.
pub trait Progress: Send + Sync {
    /// A remote repository is about to be fetched.
    fn fetching(&self, address: &str);
    /// So many tags of a plugin are about to be read.
    fn tags_found(&self, plugin: &Slug, tags: usize);
    /// So many tags, of whichever plugin, are done.
    fn tags_done(&self, tags: usize);
    /// A plugin is done.
    fn plugin_done(&self, report: &PluginReport);
}
