//! Manifests of releases: their bytes, the name of the plugin in them, and where their links belong.
//!
//! [`Catalog::load`](crate::catalog::Catalog::load) finds once where each link belongs. For each answer, the server inserts its links
//! there.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::catalog::error::CatalogError;
use crate::catalog::index::{MAX_MANIFEST, Release, Releases, manifest_path};
use countersign_files::regular_file;
use countersign_model::channel::Channel;
use countersign_model::digest::Digest;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// A published manifest, verified, for the vendor to compare with what a build would publish.
///
/// Not for the server: a site gets a manifest from the [`Catalog`](crate::catalog::Catalog), with an entitlement.
pub fn published_manifest(releases: &Path, slug: &Slug, release: &Release) -> Result<Vec<u8>, CatalogError> {
    read_manifest(releases, slug, &release.version, &release.sha256)
}

/// The bytes of a manifest that has this digest.
pub(super) fn read_manifest(
    releases: &Path,
    slug: &Slug,
    version: &Version,
    digest: &Digest,
) -> Result<Vec<u8>, CatalogError> {
    let path = manifest_path(releases, slug, version);
    let bytes = regular_file::read(&path, MAX_MANIFEST).map_err(|source| CatalogError::Read {
        path: path.clone(),
        source,
    })?;
    if Digest::of(&bytes) == *digest {
        Ok(bytes)
    } else {
        Err(CatalogError::Differs { path })
    }
}

/// The used field of a manifest.
#[derive(Deserialize)]
struct NamedManifest {
    name: String,
}

/// The plugin's name; `None` if no release is published, or its manifest cannot be read.
pub fn published_name(folder: &Path, slug: &Slug, releases: &Releases) -> Option<String> {
    releases.check_latest(slug, folder).ok()?;
    let latest = releases.of_channel(Channel::Stable).next()?;
    name_in(&read_manifest(folder, slug, &latest.version, &latest.sha256).ok()?)
}

/// The name in a manifest.
pub(super) fn name_in(manifest: &[u8]) -> Option<String> {
    let NamedManifest { name } = serde_json::from_slice(manifest).ok()?;
    (!name.is_empty()).then_some(name)
}

/// The byte offsets between the quotation marks of the empty `download_link`, `download_url` and `package`, in the
/// order in which the manifest has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlaces(pub [usize; 3]);

/// The members that hold a link, as JSON.
#[derive(Deserialize)]
struct Links<'a> {
    #[serde(borrow)]
    download_link: &'a RawValue,
    #[serde(borrow)]
    download_url: &'a RawValue,
    #[serde(borrow)]
    package: &'a RawValue,
}

impl LinkPlaces {
    /// The places in a manifest; `None` if it is not a manifest, or if one of the three is not `""`.
    ///
    /// The manifest is parsed, because a changelog may contain the same text.
    pub fn of(manifest: &[u8]) -> Option<Self> {
        // The parser would also accept a list of three texts.
        let text = std::str::from_utf8(manifest)
            .ok()
            .filter(|text| text.starts_with('{'))?;
        let links: Links<'_> = serde_json::from_str(text).ok()?;
        let place = |raw: &RawValue| {
            let value = raw.get();
            // After the quotation mark.
            (value == "\"\"").then(|| value.as_ptr() as usize - text.as_ptr() as usize + 1)
        };
        let mut places = [
            place(links.download_link)?,
            place(links.download_url)?,
            place(links.package)?,
        ];
        places.sort_unstable();
        Some(Self(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_members_and_not_of_a_text_that_looks_like_one() {
        let manifest = concat!(
            r#"{"changelog":"\"package\":\"\"","download_link":"","download_url": "" ,"#,
            r#""sections":{"package":""},"package":""}"#,
            "\n"
        );
        let LinkPlaces(places) = LinkPlaces::of(manifest.as_bytes()).unwrap();
        let mut filled = manifest.to_owned();
        places.iter().rev().for_each(|at| filled.insert_str(*at, "LINK"));
        let expected = concat!(
            r#"{"changelog":"\"package\":\"\"","download_link":"LINK","download_url": "LINK" ,"#,
            r#""sections":{"package":""},"package":"LINK"}"#,
            "\n"
        );
        assert_eq!(filled, expected);
    }

    #[test]
    fn a_manifest_whose_links_are_missing_doubled_or_filled_has_no_places() {
        let of = |text: &str| LinkPlaces::of(text.as_bytes());
        assert!(of(r#"{"download_link":"","download_url":"","package":""}"#).is_some());
        for other in [
            r#"{"download_link":"","download_url":""}"#,
            r#"{"download_link":"","download_url":"","package":"x"}"#,
            r#"{"download_link":"","download_url":"","package":null}"#,
            r#"{"download_link":"","download_url":"","package":"","package":""}"#,
            r#"["","",""]"#,
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(LinkPlaces::of(b"\xff"), None);
    }
}
