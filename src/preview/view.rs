//! One version of one plugin as one site sees it: the content of the page and of the printed preview.
//!
//! [`VersionView::at`] computes it; [`page`](crate::preview::page) makes HTML of it,
//! [`terminal`](crate::preview::terminal) text, [`json`](mod@crate::preview::json) a document.

use std::path::Path;

use crate::build::Remark;
use crate::build::draft::{DraftRelease, Origin};
use crate::preview::compare::{FieldDifference, differences};
use crate::preview::license_states::{self, StateAnswer};
use crate::preview::package::PackagePreview;
use crate::preview::site::{Note, PluginRow, Site, UpdateAnswer};
use crate::preview::snapshot::Previewed;
use countersign_model::digest::Digest;
use countersign_model::manifest::Manifest;
use countersign_model::text::ErrorChain;
use countersign_model::version::Version;
use countersign_package::catalog::{Release, published_manifest};

/// The version to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// An untagged one.
    Next(Origin),
    /// A tagged release.
    Tagged(Version),
}

/// The selection; what it leaves open gets a default that fits the release.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The version, or a name of [`Pick`].
    pub version: Option<String>,
    /// The CMS's version.
    pub cms: Option<String>,
    /// PHP's version.
    pub php: Option<String>,
    /// The plugin's installed version; may be empty.
    pub current: Option<String>,
}

/// One version of a plugin.
#[derive(Debug)]
pub struct VersionView<'a> {
    /// The version.
    pub pick: Pick,
    /// The release, or why there would be none.
    pub release: Result<RenderedRelease<'a>, &'a Remark>,
    /// The site.
    pub site: Site,
}

/// A release as a site sees it.
#[derive(Debug)]
pub struct RenderedRelease<'a> {
    /// The release.
    pub release: &'a DraftRelease,
    /// The manifest as it would be served.
    pub bytes: Vec<u8>,
    /// Digest of these bytes.
    pub digest: Digest,
    /// The row on the plugins screen.
    pub row: PluginRow,
    /// The details window's notes about compatibility.
    pub notes: Vec<Note>,
    /// Whether it is untagged.
    pub is_untagged: bool,
    /// What the site gets once everything shown is published.
    pub answer: UpdateAnswer,
    /// What the site gets today; `None` if nothing is published.
    pub answer_now: Option<UpdateAnswer>,
    /// What sites get by the state of their license.
    pub states: Vec<StateAnswer>,
    /// Remarks about the release.
    pub remarks: Vec<Remark>,
    /// Its package; `None` for a tag, and if packages are not made of the plugin's folder.
    pub package: Option<PackagePreview<'a>>,
    /// The differences from the published release; `None` if nothing is published.
    pub comparison: Option<Comparison>,
}

/// The differences from a published release.
#[derive(Debug)]
pub struct Comparison {
    /// The published version: the same one, or else the latest.
    pub with: Version,
    /// The fields that differ, or why that is unknown.
    pub differences: Result<Vec<FieldDifference>, String>,
}

impl Pick {
    /// Its name in a URL: `working-tree`, `head`, or the version.
    pub fn key(&self) -> String {
        match self {
            Self::Next(Origin::WorkingTree) => "working-tree".into(),
            Self::Next(Origin::Head) => "head".into(),
            Self::Tagged(version) => version.to_string(),
        }
    }

    /// Its name for people.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Next(Origin::WorkingTree) => "Working tree",
            Self::Next(Origin::Head) => "HEAD",
            Self::Tagged(_) => "Tag",
        }
    }

    /// The version with that name; `next` is the first untagged one. Without a name: `next`, else the latest.
    fn find(plugin: &Previewed, name: Option<&str>) -> Option<Self> {
        let next = &plugin.draft.next;
        let tagged = &plugin.draft.tagged;
        let first = || next.first().map(|next| Self::Next(next.origin));
        let newest = || {
            let newest = tagged.releases.first().map(|release| &release.version);
            tagged
                .report
                .releases
                .latest
                .as_ref()
                .or(newest)
                .cloned()
                .map(Self::Tagged)
        };
        match name {
            None | Some("") => first().or_else(newest),
            Some(name) if name.eq_ignore_ascii_case("next") => first(),
            Some(name) => {
                let is_named = |pick: &Self| pick.key().eq_ignore_ascii_case(name);
                next.iter()
                    .map(|next| Self::Next(next.origin))
                    .find(is_named)
                    .or_else(|| {
                        let version: Version = name.parse().ok()?;
                        let same = |release: &&DraftRelease| release.version.cmp_php(&version).is_eq();
                        tagged
                            .releases
                            .iter()
                            .find(same)
                            .map(|release| Self::Tagged(release.version.clone()))
                    })
            }
        }
    }
}

impl<'a> VersionView<'a> {
    /// The view of a selection; `None` if the plugin has no such version.
    pub fn at(plugin: &'a Previewed, releases: Option<&Path>, selection: &Selection) -> Option<Self> {
        let pick = Pick::find(plugin, selection.version.as_deref())?;
        let release = match &pick {
            Pick::Next(origin) => plugin
                .draft
                .next
                .iter()
                .find(|next| next.origin == *origin)
                .map(|next| next.release.as_ref()),
            Pick::Tagged(version) => plugin
                .draft
                .tagged
                .releases
                .iter()
                .find(|release| release.version == *version)
                .map(Ok),
        }?;
        let release = match release {
            Ok(release) => release,
            Err(remark) => {
                return Some(Self {
                    pick,
                    release: Err(remark),
                    site: Site::default(),
                });
            }
        };
        let ease = Site::at_ease_with(&release.manifest, before(plugin, &release.version));
        let or = |selection: &Option<String>, ease: String| {
            selection.clone().map_or(ease, |selection| selection.trim().to_owned())
        };
        let site = Site {
            cms: Some(or(&selection.cms, ease.cms.clone()))
                .filter(|cms| !cms.is_empty())
                .unwrap_or(ease.cms),
            php: Some(or(&selection.php, ease.php.clone()))
                .filter(|php| !php.is_empty())
                .unwrap_or(ease.php),
            current: or(&selection.current, ease.current),
        };
        let rendered = RenderedRelease::of(plugin, releases, &pick, release, &site);
        Some(Self {
            pick,
            release: Ok(rendered),
            site,
        })
    }
}

impl<'a> RenderedRelease<'a> {
    /// That the site is not offered this release, which the row and the window do not show; `None` if it is offered.
    pub fn caveat(&self) -> Option<String> {
        let version = &self.release.version;
        let offered = match &self.answer.version {
            Some(offered) if offered == version => return None,
            Some(offered) => format!("offered {offered}"),
            None if self.row == PluginRow::UpToDate => return None,
            None => "offered nothing".to_owned(),
        };
        Some(format!(
            "This site is {offered}; this is what it would see if {version} were the latest."
        ))
    }

    fn of(plugin: &Previewed, releases: Option<&Path>, pick: &Pick, release: &'a DraftRelease, site: &Site) -> Self {
        let bytes = release.manifest.to_bytes();
        Self {
            digest: Digest::of(&bytes),
            row: site.row(&release.manifest),
            notes: site.notes(&release.manifest),
            is_untagged: plugin
                .draft
                .next
                .iter()
                .any(|next| *pick == Pick::Next(next.origin) && !next.is_released),
            answer: site.answer(latest(plugin, pick, release)),
            answer_now: plugin
                .published
                .as_ref()
                .map(|published| site.answer(published.latest.as_ref())),
            states: license_states::of(plugin, (release, matches!(pick, Pick::Next(_))), site),
            remarks: release.remarks.clone(),
            package: release.package.as_ref().map(|package| {
                let slug = plugin.entry.slug.as_ref();
                PackagePreview::of(package, releases, slug.zip(published_before(plugin, release)))
            }),
            comparison: compare(plugin, releases, release, &bytes),
            bytes,
            release,
        }
    }
}

/// What WordPress opens for the details of a theme.
pub fn details_of_theme(manifest: &Manifest) -> String {
    match &*manifest.url {
        "" => "There is no Theme URI: the link to the details leads to the themes screen itself.".to_owned(),
        url => format!("For the details of a theme, WordPress opens {url} in a frame, and none of the texts here."),
    }
}

/// The release that a site most likely has: the newest older one.
fn before<'a>(plugin: &'a Previewed, version: &Version) -> Option<&'a Version> {
    let releases = plugin.draft.tagged.releases.iter().map(|release| &release.version);
    releases
        .filter(|older| !older.is_prerelease())
        .find(|older| older.cmp_php(version).is_lt())
}

/// The latest release after `release` is published.
fn latest<'a>(plugin: &'a Previewed, pick: &Pick, release: &'a DraftRelease) -> Option<&'a Version> {
    let tagged = plugin.draft.tagged.report.releases.latest.as_ref();
    let next = Some(&release.version).filter(|version| matches!(pick, Pick::Next(_)) && !version.is_prerelease());
    match (tagged, next) {
        (Some(tagged), Some(next)) if tagged.cmp_php(next).is_ge() => Some(tagged),
        (tagged, next) => next.or(tagged),
    }
}

/// The published release of the same version, else the latest.
fn published_before<'a>(plugin: &'a Previewed, release: &DraftRelease) -> Option<&'a Release> {
    let published = plugin.published.as_ref()?;
    let of = |version: &Version| published.releases.iter().find(|known| known.version == *version);
    of(&release.version).or_else(|| of(published.latest.as_ref()?))
}

fn compare(plugin: &Previewed, releases: Option<&Path>, release: &DraftRelease, bytes: &[u8]) -> Option<Comparison> {
    let slug = plugin.entry.slug.as_ref()?;
    let with = published_before(plugin, release)?;
    let old = published_manifest(releases?, slug, with).map_err(|error| ErrorChain(&error).to_string());
    let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"));
    let differences = old.and_then(|old| Ok(differences(&parse(&old)?, &parse(bytes)?)));
    Some(Comparison {
        with: with.version.clone(),
        differences,
    })
}
