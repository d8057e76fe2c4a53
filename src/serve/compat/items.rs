//! Which plugin a client of EDD means by the number or name of a download.

use crate::serve::compat::question::EddAbout;
use countersign_model::license::License;
use countersign_model::plugin::Plugin;
use countersign_registry::Registry;

/// The plugins that a client may mean.
pub(super) struct MeantPlugins<'r> {
    plugins: Vec<&'r Plugin>,
    by_id: bool,
}

impl<'r> MeantPlugins<'r> {
    /// Those with the number; if nobody has it, those with the name. Sorted by slug.
    pub(super) fn find(registry: &'r Registry, about: &EddAbout) -> Self {
        let id = about.item_id();
        let name = about.item_name();
        let mut plugins = Vec::new();
        if let Some(id) = id {
            plugins.extend(registry.plugins().filter(|plugin| plugin.edd.ids.contains(&id)));
        }
        if let Some(name) = name.filter(|_| plugins.is_empty()) {
            plugins.extend(registry.plugins().filter(|plugin| plugin.edd.has_name(&name)));
        }
        plugins.sort_unstable_by(|one, other| one.slug.cmp(&other.slug));
        Self {
            plugins,
            by_id: id.is_some(),
        }
    }

    /// The plugin that this license covers: the one with the client's own slug, or whose own download it is, goes before those
    /// that it is bundled with.
    pub(super) fn covered(&self, license: &License, about: &EddAbout) -> Option<&'r Plugin> {
        let covered = || {
            self.plugins
                .iter()
                .copied()
                .filter(|plugin| license.modules.contains_key(&plugin.module))
        };
        let is_own = |plugin: &&Plugin| match (about.item_id(), about.item_name()) {
            (Some(id), _) if plugin.edd.ids.first() == Some(&id) => true,
            (_, Some(name)) => plugin.edd.names.first() == Some(&name),
            _ => false,
        };
        let with_slug = covered().find(|plugin| plugin.slug.as_str() == about.slug());
        with_slug
            .or_else(|| covered().find(is_own))
            .or_else(|| covered().next())
    }

    /// EDD's word for a download that the license is not for.
    pub(super) fn mismatch(&self) -> &'static str {
        match self.by_id {
            true => "invalid_item_id",
            false => "item_name_mismatch",
        }
    }
}
