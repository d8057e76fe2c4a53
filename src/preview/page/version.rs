//! One version, with everything in the form that the template needs.

use std::collections::BTreeMap;

use strum::IntoEnumIterator as _;

use crate::build::source::assets::Artwork;
use crate::preview::markup;
use crate::preview::page::address::{Address, Tab};
use crate::preview::site::{Site, UpdateAnswer};
use crate::preview::snapshot::Previewed;
use crate::preview::view::{Pick, RenderedRelease, details_of_theme};
use countersign_model::channel::Channel;
use countersign_model::manifest::{Manifest, Sections};
use countersign_model::plugin::PluginKind;
use countersign_model::version::php_version_compare;

/// CMS versions to choose from; any other one can be typed.
const CMS: [&str; 7] = ["6.9", "6.8.3", "6.8", "6.7", "6.6", "6.0", "5.9"];

/// PHP versions to choose from.
const PHP: [&str; 8] = ["8.4", "8.3", "8.2", "8.1", "8.0", "7.4", "7.2", "5.6"];

/// A version that is a release, or would be one.
pub(super) struct VersionBody<'a> {
    pub name: &'a str,
    pub manifest: &'a Manifest,
    pub origin: &'static str,
    pub is_next: bool,
    /// The channel; `None` if no site is offered it.
    pub channel: Option<&'static str>,
    pub is_index_broken: bool,
    /// Whether it is published, and unchanged.
    pub published: &'static str,
    pub site: Site,
    pub rendered: RenderedRelease<'a>,
    /// The path and query of the site's request to the server.
    pub question: String,
    pub icon: Option<Picture>,
    pub banner: Option<Picture>,
    /// Whether the repository has images and the manifest names none.
    pub unused_artwork: bool,
    /// The content of the details window.
    pub panels: Vec<Panel>,
    /// The manifest, for people to read.
    pub json: String,
    /// A date; may be empty.
    pub updated: String,
    pub cms_versions: Vec<String>,
    pub php_versions: Vec<String>,
}

/// A tab of the details window with its section.
pub(super) struct Panel {
    pub tab: Tab,
    /// The query for it.
    pub query: String,
    /// Sanitized.
    pub html: String,
    pub is_chosen: bool,
}

/// An image of the manifest, with the repository's file.
pub(super) struct Picture {
    /// Its URL in the manifest.
    pub url: String,
    /// Its URL on this page.
    pub local: Option<String>,
}

impl<'a> VersionBody<'a> {
    /// Makes the view's page.
    pub(super) fn of(
        plugin: &'a Previewed,
        pick: &Pick,
        rendered: RenderedRelease<'a>,
        site: Site,
        address: &Address,
    ) -> Self {
        let manifest = &rendered.release.manifest;
        let slug = manifest.slug.as_str();
        let artwork = &plugin.draft.artwork;
        let published = match &rendered.comparison {
            None if plugin.is_index_broken => "Published: unknown",
            None => "Not published",
            Some(comparison) if comparison.with != rendered.release.version => "Not published",
            Some(comparison) if comparison.differences.as_ref().is_ok_and(Vec::is_empty) => "Published unchanged",
            Some(_) => "Published differently",
        };
        let mut question = format!("/api/v1/updates/{slug}?site_url=https://site.example");
        if !site.current.is_empty() {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            question = format!(
                "{question}&{}",
                query.append_pair("current_version", &site.current).finish()
            );
        }
        Self {
            name: if manifest.name.is_empty() { slug } else { &manifest.name },
            origin: pick.label(),
            is_next: matches!(pick, Pick::Next(_)),
            channel: rendered.release.version.channel().map(Channel::as_str),
            is_index_broken: plugin.is_index_broken,
            published,
            question,
            icon: picture(slug, &manifest.icons, &["svg", "2x", "1x", "default"], artwork, "icon"),
            banner: picture(slug, &manifest.banners, &["high", "low"], artwork, "banner"),
            unused_artwork: manifest.kind == PluginKind::Plugin
                && manifest.banners.is_empty()
                && manifest.icons.is_empty()
                && !artwork.is_empty(),
            panels: panels(&manifest.sections, address),
            json: serde_json::to_string_pretty(manifest).unwrap_or_default(),
            updated: date(&manifest.last_updated, "%-d %B %Y"),
            cms_versions: with_own(&CMS, &[&manifest.tested, &manifest.requires]),
            php_versions: with_own(&PHP, &[&manifest.requires_php]),
            manifest,
            site,
            rendered,
        }
    }

    /// What the site gets today, if that differs.
    pub(super) fn answer_today(&self) -> Option<&UpdateAnswer> {
        self.rendered
            .answer_now
            .as_ref()
            .filter(|today| **today != self.rendered.answer)
    }

    /// Whether it is a theme.
    pub(super) fn is_theme(&self) -> bool {
        self.manifest.kind == PluginKind::Theme
    }

    /// What WordPress opens for the details of a theme.
    pub(super) fn details_of_theme(&self) -> String {
        details_of_theme(self.manifest)
    }

    /// A substitute for a missing icon.
    pub(super) fn initial(&self) -> String {
        self.name.chars().take(1).collect()
    }

    /// Enough of the digest to tell two manifests apart.
    pub(super) fn digest_start(&self) -> String {
        self.rendered.digest.to_string().chars().take(12).collect()
    }
}

/// Description and changelog always, to show that they are missing; the others if the manifest has them.
fn panels(sections: &Sections, address: &Address) -> Vec<Panel> {
    let panel = |tab: Tab| {
        let html = match tab {
            Tab::Description => &sections.description,
            Tab::Installation => &sections.installation,
            Tab::Faq => &sections.faq,
            Tab::Changelog => &sections.changelog,
        };
        let is_shown = !html.is_empty() || matches!(tab, Tab::Description | Tab::Changelog);
        let panel = || Panel {
            tab,
            query: address.query(tab),
            html: markup::for_page(html),
            is_chosen: tab == address.tab,
        };
        is_shown.then(panel)
    };
    let mut panels: Vec<Panel> = Tab::iter().filter_map(panel).collect();
    if !panels.iter().any(|panel| panel.is_chosen) {
        panels[0].is_chosen = true;
    }
    panels
}

/// The usual versions and the manifest's own, newest first.
fn with_own(usual: &[&str], own: &[&str]) -> Vec<String> {
    let mut all: Vec<_> = usual
        .iter()
        .chain(own)
        .filter(|version| !version.is_empty())
        .map(ToString::to_string)
        .collect();
    all.sort_by(|a, b| php_version_compare(b, a));
    all.dedup();
    all
}

/// The best image of the manifest, in the order of `sizes`.
fn picture(
    slug: &str,
    named: &BTreeMap<String, String>,
    sizes: &[&str],
    artwork: &[Artwork],
    kind: &str,
) -> Option<Picture> {
    let url = sizes.iter().find_map(|size| named.get(*size))?.clone();
    let local = artwork.iter().find(|own| own.name.starts_with(kind));
    let local = local.map(|Artwork { name, stamp }| format!("/art/{slug}/{name}?{stamp}"));
    Some(Picture { url, local })
}

/// `2026-03-02 12:00:00` → `2 March 2026`; empty if the manifest has no time.
pub(super) fn date(time: &str, format: &str) -> String {
    let parsed = chrono::NaiveDateTime::parse_from_str(time, "%Y-%m-%d %H:%M:%S");
    parsed.map(|time| time.format(format).to_string()).unwrap_or_default()
}
