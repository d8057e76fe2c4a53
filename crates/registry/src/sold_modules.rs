//! The modules that plugins have. A license for another module covers no plugin by it, and usually its name is mistyped.

use std::collections::BTreeSet;
use std::path::Path;

use countersign_model::license::Modules;
use countersign_model::name::Name;
use countersign_model::plugin::Plugin;
use countersign_model::text::did_you_mean;

use crate::files::RegistryFiles;
use crate::plugins;

/// The modules of all plugins.
#[derive(Clone, Debug, Default)]
pub struct SoldModules {
    modules: BTreeSet<Name>,
    unread: usize,
}

impl SoldModules {
    /// Those of the entries of a folder. Entries with errors are counted, and nothing else.
    pub fn load(folder: &Path) -> Self {
        let entries = plugins::load(&RegistryFiles::folder(folder)).unwrap_or_default();
        let unread = entries.iter().filter(|entry| entry.plugin.is_err()).count();
        let plugins = entries.iter().filter_map(|entry| entry.plugin.as_ref().ok());
        Self {
            unread,
            ..plugins.collect()
        }
    }

    /// How many entries cannot be read. Their plugins may have any module.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// Those of `modules` that no plugin has.
    pub fn unsold<'m>(&self, modules: &'m Modules) -> Vec<&'m Name> {
        modules.keys().filter(|module| !self.has(module)).collect()
    }

    /// Whether a plugin has this module.
    pub fn has(&self, module: &Name) -> bool {
        self.modules.contains(module)
    }

    /// ` (did you mean "forms"?)`, or nothing if no module has a similar name.
    pub fn did_you_mean(&self, module: &Name) -> String {
        did_you_mean(module.as_str(), self.modules.iter().map(Name::as_str))
    }
}

impl<'p> FromIterator<&'p Plugin> for SoldModules {
    fn from_iter<I: IntoIterator<Item = &'p Plugin>>(plugins: I) -> Self {
        Self {
            modules: plugins.into_iter().map(|plugin| plugin.module.clone()).collect(),
            unread: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_sold_if_a_plugin_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::write(plugins.join("acme-forms.toml"), "module = 'forms'\n").unwrap();
        std::fs::write(plugins.join("broken.toml"), "x = 1\n").unwrap();
        let sold = SoldModules::load(folder.path());
        let name = |text: &str| -> Name { text.parse().unwrap() };
        let modules: Modules = ["forms", "froms", "acme-forms"]
            .map(|module| (name(module), Vec::new()))
            .into();
        assert_eq!(sold.unsold(&modules), [&name("acme-forms"), &name("froms")]);
        assert_eq!(sold.did_you_mean(&name("froms")), " (did you mean \"forms\"?)");
        assert_eq!(sold.unread(), 1);
    }
}
