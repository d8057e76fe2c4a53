//! A list of releases by plugin and version: those in force, or those that builds have removed.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize, Serializer};

use crate::slug::Slug;
use crate::version::Version;

/// Releases; each once. As JSON, an object: plugin → array of versions, both sorted as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReleaseList(BTreeMap<Slug, Versions>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
struct Versions(HashSet<Version>);

impl Serialize for Versions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sorted: Vec<_> = self.0.iter().map(Version::as_str).collect();
        sorted.sort_unstable();
        sorted.serialize(serializer)
    }
}

impl ReleaseList {
    /// Adds a release.
    pub fn add(&mut self, slug: &Slug, version: &Version) {
        self.0.entry(slug.clone()).or_default().0.insert(version.clone());
    }

    /// Whether the release is in the list, written like this.
    pub fn has(&self, slug: &Slug, version: &Version) -> bool {
        self.0.get(slug).is_some_and(|versions| versions.0.contains(version))
    }

    /// The releases, by plugin; the versions of a plugin in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&Slug, &Version)> {
        self.0
            .iter()
            .flat_map(|(slug, versions)| versions.0.iter().map(move |version| (slug, version)))
    }

    /// The number of releases.
    pub fn count(&self) -> usize {
        self.0.values().map(|versions| versions.0.len()).sum()
    }

    /// Leaves only the releases for which `keeps` says so.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Slug, &Version) -> bool) {
        for (slug, versions) in &mut self.0 {
            versions.0.retain(|version| keeps(slug, version));
        }
        self.0.retain(|_, versions| !versions.0.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_written_sorted_and_read_back() {
        let text = r#"{"acme-forms":["1.0","1.10","1.9"],"acme-maps":["2.0"]}"#;
        let list: ReleaseList = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&list).unwrap(), text);
        let forms: Slug = "acme-forms".parse().unwrap();
        assert_eq!((list.count(), list.iter().count()), (4, 4));
        assert!(list.has(&forms, &"1.10".parse().unwrap()) && !list.has(&forms, &"1.1".parse().unwrap()));
        let mut fewer = list.clone();
        fewer.retain(|slug, _| *slug != forms);
        assert_eq!(serde_json::to_string(&fewer).unwrap(), r#"{"acme-maps":["2.0"]}"#);
        assert!(serde_json::from_str::<ReleaseList>(r#"{"../x":["1.0"]}"#).is_err());
        assert!(serde_json::from_str::<ReleaseList>(r#"{"acme":["../x"]}"#).is_err());
    }
}
