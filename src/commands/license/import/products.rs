//! What the products of an export cover: by `--map`, or by the plugin entries with their names and numbers.

use std::collections::BTreeMap;
use std::str::FromStr;

use countersign_model::edd_items::EddName;
use countersign_model::license::Modules;
use countersign_registry::Registry;
use countersign_shops::import::exported_license::ExportedLicense;

use crate::commands::license::arguments::ModuleArg;

/// A product and what it covers: `Acme Pro=forms=pdf,api;maps`.
#[derive(Clone, Debug)]
pub(super) struct ProductArg {
    name: EddName,
    modules: Modules,
}

impl FromStr for ProductArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected a product and its modules, such as 'Acme Pro=forms=pdf,api;maps'".to_owned();
        let (name, modules) = text.split_once('=').ok_or_else(expected)?;
        let name = EddName::new(name).ok_or_else(expected)?;
        let parts = modules.split(';').map(str::trim).filter(|part| !part.is_empty());
        let modules: Modules = parts
            .map(|part| {
                let module: ModuleArg = part.parse().map_err(|_| expected())?;
                Ok((module.module, module.features))
            })
            .collect::<Result<_, String>>()?;
        match modules.is_empty() {
            true => Err(expected()),
            false => Ok(Self { name, modules }),
        }
    }
}

/// What each product covers.
pub(super) struct Products {
    by_name: BTreeMap<EddName, Modules>,
    by_id: BTreeMap<u64, Modules>,
}

impl Products {
    /// Those of the registry's plugins, and before them those `given`.
    pub(super) fn new(registry: &Registry, given: &[ProductArg]) -> Self {
        let mut by_name: BTreeMap<EddName, Modules> = BTreeMap::new();
        let mut by_id: BTreeMap<u64, Modules> = BTreeMap::new();
        for plugin in registry.plugins() {
            // A bundle stands in the entry of each plugin that it has.
            let module = || (plugin.module.clone(), Vec::new());
            for name in &plugin.edd.names {
                by_name.entry(name.clone()).or_default().extend([module()]);
            }
            for id in &plugin.edd.ids {
                by_id.entry(*id).or_default().extend([module()]);
            }
        }
        by_name.extend(given.iter().map(|given| (given.name.clone(), given.modules.clone())));
        Self { by_name, by_id }
    }

    /// What a license covers; `None` if its product is unknown.
    pub(super) fn modules(&self, license: &ExportedLicense) -> Option<Modules> {
        if !license.modules.is_empty() {
            return Some(license.modules.clone());
        }
        let by_id = license.product_id.and_then(|id| self.by_id.get(&id));
        let by_name = || license.product.as_ref().and_then(|name| self.by_name.get(name));
        by_id.or_else(by_name).cloned()
    }
}
