//! What the products of an export cover: by `--map`, or by the plugin entries with their names and numbers.

use std::collections::BTreeMap;
use std::str::FromStr;

use countersign_model::edd_items::EddName;
use countersign_model::license::Modules;
use countersign_registry::Registry;
use countersign_shops::import::exported_license::ExportedLicense;

use crate::commands::license::arguments::ModuleArg;

/// A product and what it covers: `Acme Pro=forms=pdf,api;maps`, `12=forms`, or of one of its prices `Acme Pro#2=forms`.
#[derive(Clone, Debug)]
pub(super) struct ProductArg {
    name: EddName,
    id: Option<u64>,
    price: Option<String>,
    modules: Modules,
}

impl FromStr for ProductArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected a product and its modules, such as 'Acme Pro=forms=pdf,api;maps'".to_owned();
        let (product, modules) = text.split_once('=').ok_or_else(expected)?;
        // A name may have this sign, too: C#.
        let is_price =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let (product, price) = match product.trim().rsplit_once('#') {
            Some((product, price)) if is_price(price) => (product, Some(price.to_ascii_lowercase())),
            _ => (product, None),
        };
        let parts = modules.split(';').map(str::trim).filter(|part| !part.is_empty());
        let modules: Modules = parts
            .map(|part| {
                let module: ModuleArg = part.parse().map_err(|_| expected())?;
                Ok((module.module, module.features))
            })
            .collect::<Result<_, String>>()?;
        match modules.is_empty() {
            true => Err(expected()),
            false => Ok(Self {
                name: EddName::new(product).ok_or_else(expected)?,
                id: product.trim().parse().ok(),
                price,
                modules,
            }),
        }
    }
}

/// What each product covers.
pub(super) struct Products {
    given: Vec<ProductArg>,
    by_name: BTreeMap<EddName, Modules>,
    by_id: BTreeMap<u64, Modules>,
}

/// What a license covers.
pub(super) struct Covered {
    pub modules: Modules,
    /// Whether its price decided that.
    pub is_by_price: bool,
}

impl Products {
    /// Those of the registry's plugins, and before them those `given`.
    pub(super) fn new(registry: &Registry, given: &[ProductArg]) -> Self {
        let mut by_name: BTreeMap<EddName, Modules> = BTreeMap::new();
        let mut by_id: BTreeMap<u64, Modules> = BTreeMap::new();
        for plugin in registry.plugins() {
            // A bundle is in the entry of each plugin that it has.
            let module = || (plugin.module.clone(), Vec::new());
            for name in &plugin.edd.names {
                by_name.entry(name.clone()).or_default().extend([module()]);
            }
            for id in &plugin.edd.ids {
                by_id.entry(*id).or_default().extend([module()]);
            }
        }
        Self {
            given: given.to_vec(),
            by_name,
            by_id,
        }
    }

    /// What a license covers; `None` if its product is unknown.
    pub(super) fn covered(&self, license: &ExportedLicense) -> Option<Covered> {
        let plain = |modules: &Modules| Covered {
            modules: modules.clone(),
            is_by_price: false,
        };
        if !license.modules.is_empty() {
            return Some(plain(&license.modules));
        }
        let is_product = |given: &&ProductArg| {
            license.product.as_ref() == Some(&given.name) || license.product_id.is_some_and(|id| given.id == Some(id))
        };
        let price = license.price.as_ref().map(|price| price.to_ascii_lowercase());
        let of_price = |price: Option<&String>| {
            let mut given = self.given.iter().rev().filter(is_product);
            given.find(|given| given.price.as_ref() == price)
        };
        if let Some(given) = price.as_ref().and_then(|price| of_price(Some(price))) {
            return Some(Covered {
                modules: given.modules.clone(),
                is_by_price: true,
            });
        }
        let given = of_price(None).map(|given| &given.modules);
        let by_id = || license.product_id.and_then(|id| self.by_id.get(&id));
        let by_name = || license.product.as_ref().and_then(|name| self.by_name.get(name));
        given.or_else(by_id).or_else(by_name).map(plain)
    }
}
