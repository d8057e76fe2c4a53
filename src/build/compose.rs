//! Step 4: entry + release → manifest. Pure: no clock, no files, no git.
//!
//! The vendor's entry comes first, then the header of the plugin or the theme, then its readme, as on
//! WordPress.org.

use url::Url;

use crate::build::report::outcome::Reason;
use crate::build::source::changelog::{self, ChangelogText};
use crate::build::source::html;
use crate::build::source::readme::Readme;
use crate::build::source::source_files::{Changelog, SourceFiles};
use crate::build::version_check::same_version;
use countersign_model::manifest::{Manifest, Sections, is_security_notice};
use countersign_model::plugin::{Plugin, PluginKind};
use countersign_model::version::Version;

/// The most HTML of the readme's FAQ and Installation in a manifest, in bytes each, because every site fetches it.
const SECTION_HTML: usize = 8 << 10;

/// A release to be described.
pub(super) struct Facts<'a> {
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
    /// The content of the plugin's files.
    pub files: &'a SourceFiles,
}

/// The manifest of a release, and remarks about it.
pub(super) fn manifest(plugin: &Plugin, release: &Facts<'_>) -> (Manifest, Option<Reason>) {
    let SourceFiles { header, readme, .. } = release.files;
    let fields = readme.as_ref().map(|readme| &readme.fields);
    let version = release.version.to_string();
    let download_url = download_url(plugin, release);
    let homepage = first([&plugin.homepage, web_address(&header.plugin_uri)]);
    let short = fields.map_or("", |fields| &*fields.short_description);
    // WordPress.org shows the one in the stylesheet of a theme.
    let [preferred, other] = match plugin.kind {
        PluginKind::Plugin => [short, &header.description],
        PluginKind::Theme => [&header.description, short],
    };
    let description = first([preferred, other, fields.map_or("", |fields| &fields.first_text)]);
    let described = readme.as_ref().filter(|readme| !readme.fields.first_text.is_empty());
    let long_description = described.map(|readme| html::from_markdown(&readme.description));
    let long_description = long_description
        .filter(|html| !html.is_empty())
        .unwrap_or_else(|| html::from_markdown(&description));
    let notice = |version: &Version| {
        fields
            .map(|fields| fields.upgrade_notice(version))
            .filter(|notice| !notice.is_empty())
    };
    let upgrade_notice = of_version(release, notice)
        .or_else(|| notice(&of_three_numbers(release.version)?))
        .unwrap_or_default();
    let notes = release_notes(release);
    let changelog = notes.entry.closed_text(&homepage);
    let shown = notes.shown.closed_html(&homepage);
    let manifest = Manifest {
        author: first([&plugin.author, &header.author]),
        author_homepage: first([&plugin.author_homepage, web_address(&header.author_uri)]),
        autoupdate: false,
        banners: plugin.banners.clone(),
        description,
        details_url: match plugin.kind {
            PluginKind::Plugin => String::new(),
            PluginKind::Theme => homepage.clone(),
        },
        download_link: download_url.clone(),
        package: download_url.clone(),
        download_url,
        url: homepage.clone(),
        icons: plugin.icons.clone(),
        last_updated: utc(release.time),
        name: first([&plugin.name, &header.name, fields.map_or("", |fields| &fields.name)]),
        new_version: version.clone(),
        release: None,
        requires: first([&header.requires, fields.map_or("", |fields| &fields.requires)]),
        requires_plugins: header.requires_plugins.clone(),
        requires_php: first([&header.requires_php, fields.map_or("", |fields| &fields.requires_php)]),
        sections: Sections {
            // What a site shows is never less than what is known.
            changelog: if shown.trim().is_empty() {
                html::from_plain_text(&changelog)
            } else {
                shown
            },
            description: long_description.to_string(),
            faq: section(fields, "faq"),
            installation: section(fields, "installation"),
        },
        changelog,
        homepage,
        security: plugin.security.names(release.version) || is_security_notice(&upgrade_notice),
        slug: plugin.slug.clone(),
        kind: plugin.kind,
        tag: release.tag.to_owned(),
        tested: first([&header.tested, fields.map_or("", |fields| &fields.tested)]),
        translations: [],
        upgrade_notice,
        version,
    };
    (manifest, notes.note)
}

/// A section of the readme for a tab of the CMS, as sanitized HTML; empty if it is missing.
fn section(readme: Option<&Readme>, name: &str) -> String {
    let markdown = readme
        .and_then(|readme| readme.sections.get(name))
        .map_or("", String::as_str);
    html::from_markdown_up_to(markdown, SECTION_HTML)
}

/// The first non-empty value.
fn first<const N: usize>(texts: [&str; N]) -> String {
    texts
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// SECURITY: a URL from a plugin's header becomes a link in an admin's browser; `javascript:` must not.
fn web_address(text: &str) -> &str {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => text,
        _ => "",
    }
}

fn download_url(plugin: &Plugin, release: &Facts<'_>) -> String {
    // Slugs and versions need no encoding. An encoded tag has no brace that a later replacement could find.
    plugin
        .download_url
        .replace("{slug}", plugin.slug.as_str())
        .replace("{version}", release.version.as_str())
        .replace("{tag}", &percent_encoded(release.tag))
}

/// Encodes everything but RFC 3986's unreserved characters (section 2.3), also `/`.
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

/// The changelogs that may have the release: the readme's, then those in separate files.
fn changelogs<'a>(release: &'a Facts<'_>) -> impl Iterator<Item = &'a Changelog> {
    let readme = release.files.readme.as_ref().map(|readme| &readme.changelog);
    readme
        .into_iter()
        .chain(release.files.changelogs.iter().map(AsRef::as_ref))
}

/// Looks for the published version, then for the version as in the tag.
fn of_version<T>(release: &Facts<'_>, ask: impl Fn(&Version) -> Option<T>) -> Option<T> {
    ask(release.version).or_else(|| ask(release.tag_version))
}

/// The version with three numbers, where only zeros follow them: 1.2.3 of 1.2.3.0.
fn of_three_numbers(version: &Version) -> Option<Version> {
    let (numbers, suffix) = version.as_str().split_at(version.numbers().len());
    let (end, _) = numbers.match_indices('.').nth(2)?;
    let are_zeros = numbers[end..].bytes().all(|byte| matches!(byte, b'.' | b'0'));
    are_zeros.then(|| format!("{}{suffix}", &numbers[..end]).parse().ok())?
}

/// What the changelogs say about a release.
#[derive(Default)]
struct ReleaseNotes {
    /// The entry of this release.
    entry: ChangelogText,
    /// The latest entries, as HTML.
    shown: ChangelogText,
    note: Option<Reason>,
}

/// This version's entry, else the tag's message, else a link. A pre-release whose header has the final version gets
/// the final version's entry, and 1.2.3.0 that of 1.2.3. The HTML is from the changelog that has this version, else from the first that is not
/// empty.
fn release_notes(release: &Facts<'_>) -> ReleaseNotes {
    let known = |of: &dyn Fn(&Changelog) -> Option<ChangelogText>| {
        changelogs(release)
            .filter_map(|changelog| Some((of(changelog)?, changelog)))
            .collect::<Vec<_>>()
    };
    let own = known(&|known| of_version(release, |version| changelog::of_version(known.markdown(), version)));
    let found = |(entry, changelog): (ChangelogText, &Changelog)| ReleaseNotes {
        entry,
        shown: changelog.html().clone(),
        note: None,
    };
    let (pointers, entries): (Vec<_>, Vec<_>) = own.into_iter().partition(|(entry, _)| entry.is_pointer);
    if let Some(entry) = entries.into_iter().next() {
        return found(entry);
    }
    let message = html::decode(release.message.unwrap_or_default());
    let message = changelog::from_tag_message(&message, release.tag_version).filter(|text| !text.is_pointer);
    if let Some(entry) = message {
        return ReleaseNotes {
            entry,
            shown: shown(release),
            note: None,
        };
    }
    if let Some(pointer) = pointers.into_iter().next() {
        return found(pointer);
    }
    let of_other = |other: Version| {
        let entry = known(&|known| changelog::of_version(known.markdown(), &other))
            .into_iter()
            .next()?;
        Some(ReleaseNotes {
            note: Some(Reason::ChangelogOf(other)),
            ..found(entry)
        })
    };
    final_version(release)
        .into_iter()
        .chain(of_three_numbers(release.version))
        .find_map(of_other)
        .unwrap_or_else(|| ReleaseNotes {
            shown: shown(release),
            ..ReleaseNotes::default()
        })
}

/// The first changelog with content; one that is only a link comes last.
fn shown(release: &Facts<'_>) -> ChangelogText {
    let shown = |is_pointer| {
        let mut texts = changelogs(release).map(Changelog::html);
        texts.find(|text| text.is_pointer == is_pointer && !text.text.trim().is_empty())
    };
    shown(false).or_else(|| shown(true)).cloned().unwrap_or_default()
}

/// The final version of a pre-release, if its header already has that.
fn final_version(release: &Facts<'_>) -> Option<Version> {
    let last: Version = release.files.header.version.parse().ok()?;
    let tagged = release.tag_version;
    let becomes = tagged.is_prerelease() && !last.is_prerelease() && same_version(tagged.numbers(), last.as_str());
    becomes.then_some(last)
}

/// `2026-11-20 10:17:03`; empty for a time outside the years 1970 to 9999.
fn utc(seconds: i64) -> String {
    const END_OF_9999: i64 = 253_402_300_799;
    let time = Some(seconds).filter(|seconds| (0..=END_OF_9999).contains(seconds));
    let time = time.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
    time.map(|time| time.format("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}
