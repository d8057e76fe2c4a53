//! Update manifests: the JSON of one release, byte for byte as it will be served.

use std::collections::BTreeMap;

use crate::plugin::PluginKind;
use crate::slug::Slug;
use crate::version::Version;

/// One release as the CMS reads it: the seven fields of the interface (section 2.6), and those that common updater
/// clients expect, so that they can read the same bytes.
///
/// Fields are sorted by name, so the bytes are reproducible.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are the interface's, documented there")]
pub struct Manifest {
    pub author: String,
    pub author_homepage: String,
    pub autoupdate: bool,
    pub banners: BTreeMap<String, String>,
    /// Plain text.
    pub changelog: String,
    /// Plain text.
    pub description: String,
    /// The page of a theme, by the name under which plugin-update-checker requires it; absent for a plugin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details_url: String,
    pub download_link: String,
    pub download_url: String,
    pub homepage: String,
    pub icons: BTreeMap<String, String>,
    /// The tag's time in UTC, `2026-11-20 10:17:03`.
    pub last_updated: String,
    pub name: String,
    pub new_version: String,
    pub package: String,
    /// Proves a signed release to the client; `None` for all others, whose bytes have no such member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseProof>,
    pub requires: String,
    pub requires_php: String,
    /// Slugs of plugins that a site must have; absent if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires_plugins: Vec<String>,
    pub sections: Sections,
    /// Whether it is a security release; absent if not. Nothing rests on it that only a signature could protect: it is not signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub security: bool,
    pub slug: Slug,
    pub tag: String,
    pub tested: String,
    pub translations: [(); 0],
    /// Absent for a plugin.
    #[serde(rename = "type", default, skip_serializing_if = "PluginKind::is_plugin")]
    pub kind: PluginKind,
    pub upgrade_notice: String,
    pub url: String,
    pub version: String,
}

/// Sanitized HTML for the CMS's details window.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are the CMS's")]
pub struct Sections {
    pub changelog: String,
    pub description: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub faq: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub installation: String,
}

/// What a site with an expired license learns of the latest release.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LatestRelease {
    /// Its version.
    pub version: Version,
    /// Whether this release, or one between the site's own and this one, is a security release.
    pub security: bool,
}

/// Whether the release with this upgrade notice is a security release: the notice begins with "Security", in any case.
pub fn is_security_notice(notice: &str) -> bool {
    let first_word = notice.split(|letter: char| !letter.is_ascii_alphanumeric()).next();
    first_word.is_some_and(|word| word.eq_ignore_ascii_case("security"))
}

/// What people signed of a release.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseProof {
    /// Armored SSH signatures of the statement.
    pub signatures: Vec<String>,
    /// The release statement's bytes in base64.
    pub statement: String,
}

impl Manifest {
    /// The bytes to store, hash and serve: compact JSON with sorted keys and a final newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        // The sections are nearly all of it.
        let Sections {
            changelog,
            description,
            faq,
            installation,
        } = &self.sections;
        let sections = [changelog, description, faq, installation]
            .map(String::len)
            .iter()
            .sum::<usize>();
        let mut bytes = Vec::with_capacity(sections * 9 / 8 + 4096);
        // Strings, maps of strings and a bool always serialize.
        let _ = serde_json::to_writer(&mut bytes, self);
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use crate::manifest::is_security_notice;

    #[test]
    fn a_release_is_a_security_release_where_its_upgrade_notice_begins_with_that_word() {
        for notice in ["Security", "Security fix.", "security: update now", "SECURITY RELEASE"] {
            assert!(is_security_notice(notice), "{notice}");
        }
        for notice in ["", "A security fix.", "Securities", "Secur", "Save first. Security."] {
            assert!(!is_security_notice(notice), "{notice}");
        }
    }
}
