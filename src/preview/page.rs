//! The page: what [`Look`] found, put into the templates in `templates/`, which escape everything that does not say it is
//! HTML already.

use askama::Template;

use super::compare::Change;
use super::look::{Look, Pick, Sight, Wish, origin_name, remarks};
use super::markup;
use super::site::{Level, Row, Site};
use super::snapshot::{Previewed, Snapshot};
use super::subject::Subject;
use crate::build::{Outcome, Remark, State};
use crate::model::manifest::Manifest;

/// What the address asks for.
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// The plugin's slug; the first plugin where there is none.
    pub plugin: Option<String>,
    /// The version and the site.
    pub wish: Wish,
    /// The tab of the details window.
    pub tab: Tab,
}

/// A tab of the details window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Tab {
    #[default]
    Description,
    Changelog,
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    stamp: &'a str,
    title: String,
    problems: &'a [String],
    assumptions: Vec<String>,
    plugins: Vec<PluginLink>,
    versions: Vec<VersionLink>,
    left_out: Vec<LeftOut>,
    body: Body<'a>,
}

struct PluginLink {
    name: String,
    address: String,
    is_current: bool,
    is_broken: bool,
}

struct VersionLink {
    version: String,
    origin: &'static str,
    date: String,
    badge: &'static str,
    warnings: usize,
    address: String,
    is_current: bool,
}

struct LeftOut {
    tag: String,
    reason: String,
    failed: bool,
}

enum Body<'a> {
    /// There is no plugin, or none of that name.
    Nothing(&'static str),
    /// Nothing can be read of the plugin.
    Broken {
        name: String,
        lines: Vec<String>,
    },
    /// The version would be no release.
    Refused {
        name: String,
        origin: &'static str,
        remark: &'a Remark,
    },
    Version(Box<VersionBody<'a>>),
}

struct VersionBody<'a> {
    name: &'a str,
    manifest: &'a Manifest,
    origin: &'static str,
    published: &'static str,
    site: Site,
    sight: Sight<'a>,
    question: String,
    icon: Option<Picture>,
    banner: Option<Picture>,
    unused_artwork: bool,
    tab: Tab,
    description: String,
    changelog: String,
    json: String,
    updated: String,
    cms_versions: Vec<String>,
    php_versions: Vec<String>,
}

/// A picture the manifest names, with what the repository has of it.
struct Picture {
    /// Where the CMS gets it.
    url: String,
    /// Where this page gets it.
    local: Option<String>,
}

/// The whole page. `stamp` names the snapshot.
pub fn render(snapshot: &Snapshot, subject: &Subject, address: &Address, stamp: &str) -> Result<String, askama::Error> {
    let plugin = match &address.plugin {
        Some(slug) => snapshot.plugin(slug),
        None => snapshot.plugins.first(),
    };
    let look = plugin.and_then(|plugin| Look::at(plugin, subject.releases.as_deref(), &address.wish));
    let pick = look.as_ref().map(|look| look.pick.clone());
    let versions = plugin.map(|plugin| versions(plugin, address, pick.as_ref())).unwrap_or_default();
    let left_out = plugin.map(|plugin| left_out(plugin)).unwrap_or_default();
    let body = body(plugin.map(|plugin| &**plugin), look, address);
    let title = match &body {
        Body::Version(body) => format!("{} {}", body.name, body.manifest.version),
        Body::Broken { name, .. } | Body::Refused { name, .. } => name.clone(),
        Body::Nothing(_) => "Nothing to show".to_owned(),
    };
    let page = Page {
        stamp,
        title,
        problems: &snapshot.problems,
        assumptions: subject.assumptions(),
        plugins: snapshot
            .plugins
            .iter()
            .map(|known| plugin_link(known, plugin.is_some_and(|plugin| std::ptr::eq(&**plugin, &**known))))
            .collect(),
        versions,
        left_out,
        body,
    };
    page.render()
}

fn body<'a>(plugin: Option<&'a Previewed>, look: Option<Look<'a>>, address: &Address) -> Body<'a> {
    let Some(plugin) = plugin else {
        return Body::Nothing(if address.plugin.is_some() {
            "There is no such plugin."
        } else {
            "There is no plugin."
        });
    };
    let name = name(plugin);
    if let State::Broken(lines) = &plugin.draft.tagged.report.state {
        return Body::Broken { name, lines: lines.clone() };
    }
    match look {
        None if plugin.draft.tagged.report.state == State::NoSource => {
            Body::Nothing("The entry names no repository: nothing is published of this plugin.")
        }
        None if address.wish.version.is_some() => Body::Nothing("There is no such version."),
        None => Body::Nothing("The repository has no release, and nothing that could become one."),
        Some(Look { pick, release: Err(remark), .. }) => Body::Refused { name, origin: origin(&pick), remark },
        Some(Look { pick, release: Ok(sight), site }) => {
            Body::Version(Box::new(VersionBody::of(plugin, &pick, sight, site, address.tab)))
        }
    }
}

impl<'a> VersionBody<'a> {
    fn of(plugin: &'a Previewed, pick: &Pick, sight: Sight<'a>, site: Site, tab: Tab) -> Self {
        let manifest = &sight.release.manifest;
        let slug = manifest.slug.as_str();
        let artwork = &plugin.draft.artwork;
        let published = match &sight.comparison {
            None => "Not published",
            Some(comparison) if comparison.with != sight.release.version => "Not published",
            Some(comparison) if comparison.differences.as_ref().is_ok_and(Vec::is_empty) => "Published as it is",
            Some(_) => "Published otherwise",
        };
        let query =
            |name, value: &str| url::form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish();
        let question = if site.current.is_empty() {
            format!("/api/v1/updates/{slug}")
        } else {
            format!("/api/v1/updates/{slug}?{}", query("current_version", &site.current))
        };
        let own = |known: &[&str], own: [&str; 2]| {
            let mut all: Vec<String> = known.iter().map(ToString::to_string).collect();
            all.extend(own.into_iter().filter(|version| !version.is_empty()).map(str::to_owned));
            all.sort_by(|a, b| crate::model::version::php_version_compare(b, a));
            all.dedup();
            all
        };
        Self {
            name: if manifest.name.is_empty() { slug } else { &manifest.name },
            origin: origin(pick),
            published,
            question,
            icon: picture(slug, &manifest.icons, &["svg", "2x", "1x", "default"], artwork, "icon"),
            banner: picture(slug, &manifest.banners, &["high", "low"], artwork, "banner"),
            unused_artwork: manifest.banners.is_empty() && manifest.icons.is_empty() && !artwork.is_empty(),
            tab,
            description: markup::for_page(&manifest.sections.description),
            changelog: markup::for_page(&manifest.sections.changelog),
            json: serde_json::to_string_pretty(manifest).unwrap_or_default(),
            updated: date(&manifest.last_updated, "%-d %B %Y"),
            cms_versions: own(
                &["6.9", "6.8.3", "6.8", "6.7", "6.6", "6.0", "5.9"],
                [&manifest.tested, &manifest.requires],
            ),
            php_versions: own(&["8.4", "8.3", "8.2", "8.1", "8.0", "7.4", "7.2", "5.6"], [&manifest.requires_php, ""]),
            manifest,
            site,
            sight,
        }
    }

    /// What stands for an icon that is not here.
    fn initial(&self) -> String {
        self.name.chars().take(1).collect()
    }

    /// Enough of the digest to tell two manifests apart.
    fn digest_start(&self) -> String {
        self.sight.digest.to_string().chars().take(12).collect()
    }

    fn is_next(&self) -> bool {
        self.origin != TAG
    }
}

/// What a tagged version is called beside `Working tree` and `HEAD`.
const TAG: &str = "Tag";

fn origin(pick: &Pick) -> &'static str {
    use crate::build::draft::Origin;
    match pick {
        Pick::Next(Origin::WorkingTree) => "Working tree",
        Pick::Next(Origin::Head) => "HEAD",
        Pick::Tagged(_) => TAG,
    }
}

fn name(plugin: &Previewed) -> String {
    let entry = &plugin.entry;
    let said = entry.plugin.as_ref().ok().map(|plugin| plugin.name.clone()).filter(|name| !name.is_empty());
    let newest = || {
        let next = plugin.draft.next.iter().find_map(|next| next.release.as_ref().ok());
        let release = next.or(plugin.draft.tagged.releases.first())?;
        Some(release.manifest.name.clone()).filter(|name| !name.is_empty())
    };
    let file = || entry.slug.as_ref().map_or_else(|| entry.file.display().to_string(), ToString::to_string);
    said.or_else(newest).unwrap_or_else(file)
}

fn plugin_link(plugin: &Previewed, is_current: bool) -> PluginLink {
    PluginLink {
        name: name(plugin),
        address: plugin.entry.slug.as_ref().map(|slug| format!("/plugins/{slug}")).unwrap_or_default(),
        is_current,
        is_broken: matches!(plugin.draft.tagged.report.state, State::Broken(_)),
    }
}

fn versions(plugin: &Previewed, address: &Address, current: Option<&Pick>) -> Vec<VersionLink> {
    let Some(slug) = &plugin.entry.slug else { return Vec::new() };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    // The site stays the same when the version changes; what it has installed does not follow from the version.
    for (name, value) in [("cms", &address.wish.cms), ("php", &address.wish.php), ("current", &address.wish.current)] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    if address.tab == Tab::Changelog {
        query.append_pair("tab", "changelog");
    }
    let query = query.finish();
    let query = if query.is_empty() { query } else { format!("?{query}") };
    let link = |pick: &Pick| format!("/plugins/{slug}/{}{query}", pick.key());
    let next = plugin.draft.next.iter().map(|next| {
        let pick = Pick::Next(next.origin);
        let release = next.release.as_ref().ok();
        VersionLink {
            version: release.map(|release| release.version.to_string()).unwrap_or_default(),
            origin: origin_name(next),
            date: String::new(),
            badge: match next {
                next if next.release.is_err() => "no release",
                next if next.is_released => "as tagged",
                _ => "next",
            },
            warnings: release.map_or(1, |release| remarks(release).len()),
            address: link(&pick),
            is_current: current == Some(&pick),
        }
    });
    let report = &plugin.draft.tagged.report;
    let tagged = plugin.draft.tagged.releases.iter().map(|release| {
        let pick = Pick::Tagged(release.version.clone());
        VersionLink {
            version: release.version.to_string(),
            origin: TAG,
            date: date(&release.manifest.last_updated, "%-d %b %Y"),
            badge: match &release.version {
                version if report.added.contains(version) && plugin.published.is_some() => "not published",
                version if report.changed.contains(version) => "changed",
                version if report.releases.latest.as_ref() == Some(version) => "latest",
                _ => "",
            },
            warnings: remarks(release).len(),
            address: link(&pick),
            is_current: current == Some(&pick),
        }
    });
    next.chain(tagged).collect()
}

/// Tags that give no release of their own.
fn left_out(plugin: &Previewed) -> Vec<LeftOut> {
    let tags = plugin.draft.tagged.report.tags.iter();
    tags.filter_map(|tag| {
        let (reason, failed) = match &tag.outcome {
            Outcome::Skipped(reason) => (reason, false),
            Outcome::Failed(reason) => (reason, true),
            Outcome::Built | Outcome::Unchanged => return None,
        };
        Some(LeftOut { tag: tag.tag.clone(), reason: reason.to_string(), failed })
    })
    .collect()
}

/// The best picture that the manifest names, in the order of `sizes`.
fn picture(
    slug: &str,
    named: &std::collections::BTreeMap<String, String>,
    sizes: &[&str],
    artwork: &[String],
    kind: &str,
) -> Option<Picture> {
    let url = sizes.iter().find_map(|size| named.get(*size))?.clone();
    let local = artwork.iter().find(|name| name.starts_with(kind)).map(|name| format!("/art/{slug}/{name}"));
    Some(Picture { url, local })
}

/// `2026-03-02 12:00:00` → `2 March 2026`; empty where the manifest tells no time.
fn date(time: &str, format: &str) -> String {
    let parsed = chrono::NaiveDateTime::parse_from_str(time, "%Y-%m-%d %H:%M:%S");
    parsed.map(|time| time.format(format).to_string()).unwrap_or_default()
}
