//! How many sites run which version of each plugin, as sites report it.
//!
//! An operator saves it for CI, where no store is: `countersign bindings installed --json`.

use serde::{Deserialize, Serialize};

use crate::slug::Slug;
use crate::version::Version;

/// The versions that sites run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledVersions {
    /// Plugins of which a site reported a version, by slug.
    pub plugins: Vec<InstalledPlugin>,
}

/// One plugin on the sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledPlugin {
    /// The plugin.
    pub slug: Slug,
    /// Its versions, the newest first.
    pub versions: Vec<InstalledVersion>,
}

/// One version on the sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledVersion {
    /// The version.
    pub version: Version,
    /// The number of sites that reported it last.
    pub sites: u64,
}

impl InstalledVersions {
    /// Counts sites, each of which runs one version of a plugin.
    pub fn count(sites: impl IntoIterator<Item = (Slug, Version)>) -> Self {
        let mut found: Vec<_> = sites.into_iter().collect();
        // The text decides between versions that PHP finds equal, so that equal ones are adjacent.
        found.sort_by(|(a, version), (b, other)| {
            let newest_first = other
                .cmp_php(version)
                .then_with(|| version.as_str().cmp(other.as_str()));
            a.cmp(b).then(newest_first)
        });
        let mut plugins: Vec<InstalledPlugin> = Vec::new();
        for same in found.chunk_by(|a, b| a == b) {
            let (slug, version) = &same[0];
            if plugins.last().is_none_or(|last| last.slug != *slug) {
                plugins.push(InstalledPlugin {
                    slug: slug.clone(),
                    versions: Vec::new(),
                });
            }
            if let Some(plugin) = plugins.last_mut() {
                plugin.versions.push(InstalledVersion {
                    version: version.clone(),
                    sites: same.len() as u64,
                });
            }
        }
        Self { plugins }
    }

    /// The versions of a plugin; `None` if no site reported one, for then nothing is known of its sites.
    pub fn of(&self, slug: &Slug) -> Option<&[InstalledVersion]> {
        let plugin = self.plugins.iter().find(|plugin| plugin.slug == *slug)?;
        Some(&plugin.versions)
            .filter(|versions| !versions.is_empty())
            .map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_counted_by_plugin_and_version_the_newest_first() {
        let site = |slug: &str, version: &str| (slug.parse().unwrap(), version.parse().unwrap());
        let found = InstalledVersions::count([
            site("acme-maps", "1.0"),
            site("acme-forms", "1.9.0"),
            site("acme-forms", "1.10.0"),
            site("acme-forms", "1.9.0"),
        ]);
        let document = serde_json::to_value(&found).unwrap();
        let expected = serde_json::json!({ "plugins": [
            { "slug": "acme-forms", "versions": [
                { "version": "1.10.0", "sites": 1 }, { "version": "1.9.0", "sites": 2 },
            ] },
            { "slug": "acme-maps", "versions": [{ "version": "1.0", "sites": 1 }] },
        ] });
        assert_eq!(document, expected);
        assert_eq!(serde_json::from_value::<InstalledVersions>(document).unwrap(), found);
        assert_eq!(found.of(&"acme-maps".parse().unwrap()).unwrap()[0].sites, 1);
        assert_eq!(found.of(&"acme-shop".parse().unwrap()), None);
    }
}
