//! Step 4: entry + release → manifest. Pure: no clock, no files, no git.
//!
//! What the vendor's entry says comes first, then the plugin's header, then its readme, as on WordPress.org.

use url::Url;

use super::readme::Readme;
use super::source_files::{Changelog, SourceFiles};
use super::{changelog, html};
use crate::model::manifest::{Manifest, Sections};
use crate::model::plugin::Plugin;
use crate::model::version::Version;

/// How much HTML of the readme's FAQ and of its Installation a manifest carries each, in bytes: every site fetches it.
const SECTION_HTML: usize = 8 << 10;

/// A release, ready to be described.
pub struct Facts<'a> {
    /// The version it is published under.
    pub version: &'a Version,
    /// The version in the tag's name.
    pub tag_version: &'a Version,
    /// The tag's name.
    pub tag: &'a str,
    /// Seconds since 1970.
    pub time: i64,
    /// The annotated tag's message.
    pub message: Option<&'a [u8]>,
    /// What the plugin's files say.
    pub files: &'a SourceFiles,
}

/// The manifest of one release.
pub fn manifest(plugin: &Plugin, release: &Facts<'_>) -> Manifest {
    let SourceFiles { header, readme, .. } = release.files;
    let fields = readme.as_ref().map(|readme| &readme.fields);
    let version = release.version.to_string();
    let download_url = download_url(plugin, release);
    let homepage = first([&plugin.homepage, web_address(&header.plugin_uri)]);
    let description = first([fields.map_or("", |fields| &fields.short_description), &header.description]);
    let long_description = readme.as_ref().map(|readme| html::from_markdown(&readme.description));
    let long_description =
        long_description.filter(|html| !html.is_empty()).unwrap_or_else(|| html::from_markdown(&description));
    let (changelog, changelog_html) = changelog(release);
    Manifest {
        author: first([&plugin.author, &header.author]),
        author_homepage: first([&plugin.author_homepage, web_address(&header.author_uri)]),
        autoupdate: false,
        banners: plugin.banners.clone(),
        changelog,
        description,
        download_link: download_url.clone(),
        package: download_url.clone(),
        download_url,
        url: homepage.clone(),
        homepage,
        icons: plugin.icons.clone(),
        last_updated: utc(release.time),
        name: first([&plugin.name, &header.name, fields.map_or("", |fields| &fields.name)]),
        new_version: version.clone(),
        requires: first([&header.requires, fields.map_or("", |fields| &fields.requires)]),
        requires_php: first([&header.requires_php, fields.map_or("", |fields| &fields.requires_php)]),
        sections: Sections {
            changelog: changelog_html,
            description: long_description.to_string(),
            faq: section(fields, "faq"),
            installation: section(fields, "installation"),
        },
        slug: plugin.slug.clone(),
        tag: release.tag.to_owned(),
        tested: first([&header.tested, fields.map_or("", |fields| &fields.tested)]),
        translations: [],
        upgrade_notice: of_version(release, |version| {
            fields.map(|fields| fields.upgrade_notice(version)).filter(|notice| !notice.is_empty())
        }),
        version,
    }
}

/// A section of the readme that the CMS has a tab for, as sanitized HTML; empty where there is none.
fn section(readme: Option<&Readme>, name: &str) -> String {
    let markdown = readme.and_then(|readme| readme.sections.get(name)).map_or("", String::as_str);
    html::from_markdown_up_to(markdown, SECTION_HTML)
}

/// The first that says something.
fn first<const N: usize>(texts: [&str; N]) -> String {
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

/// SECURITY: an address from a plugin's header becomes a link in an admin's browser; `javascript:` must not.
fn web_address(text: &str) -> &str {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => text,
        _ => "",
    }
}

fn download_url(plugin: &Plugin, release: &Facts<'_>) -> String {
    // Slugs and versions need no encoding, and an encoded tag has no brace that a later replacement could find.
    plugin
        .download_url
        .replace("{slug}", plugin.slug.as_str())
        .replace("{version}", release.version.as_str())
        .replace("{tag}", &percent_encoded(release.tag))
}

/// Everything but RFC 3986's unreserved characters (section 2.3) is encoded, `/` too.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// The changelogs that may tell of the release: the readme's, then those in files of their own.
fn changelogs<'a>(release: &'a Facts<'_>) -> impl Iterator<Item = &'a Changelog> {
    let readme = release.files.readme.as_ref().map(|readme| &readme.changelog);
    readme.into_iter().chain(release.files.changelogs.iter().map(AsRef::as_ref))
}

/// Asks for the published version, then for the version as the tag writes it.
fn of_version(release: &Facts<'_>, ask: impl Fn(&Version) -> Option<String>) -> String {
    ask(release.version).or_else(|| ask(release.tag_version)).unwrap_or_default()
}

/// This version's entry as plain text, else what the tag's message tells; and as HTML the changelog that knows this
/// version, else the first that has anything to show.
fn changelog(release: &Facts<'_>) -> (String, String) {
    let entry = |known: &Changelog| of_version(release, |version| changelog::of_version(&known.text, version));
    let told = changelogs(release).map(|known| (entry(known), known)).find(|(entry, _)| !entry.is_empty());
    if let Some((text, known)) = told {
        return (text, known.html().to_owned());
    }
    let message = html::decode(release.message.unwrap_or_default());
    let text = changelog::from_tag_message(&message, release.tag_version);
    let shown = changelogs(release).map(Changelog::html).find(|html| !html.trim().is_empty());
    (text.unwrap_or_default(), shown.unwrap_or_default().to_owned())
}

/// `2026-11-20 10:17:03`; empty for a time outside the years 1970 to 9999.
fn utc(seconds: i64) -> String {
    const END_OF_9999: i64 = 253_402_300_799;
    let time = Some(seconds).filter(|seconds| (0..=END_OF_9999).contains(seconds));
    let time = time.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
    time.map(|time| time.format("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}
