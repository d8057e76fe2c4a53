//! Checks the published releases and packages. Of a plugin with nothing to offer, or whose newest tag is not published, it says
//! what a build says.

use std::path::Path;
use std::time::Duration;

use crate::build::counted;
use crate::build::{PluginReport, PluginState, ReleaseOutcome};
use crate::commands::build;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::serve::reload::drop_guard::DropGuard;
use crate::serve::reload::error::{LoadError, PUBLIC_URL_HINT};
use countersign_model::slug::Slug;
use countersign_model::text::ErrorChain;
use countersign_package::catalog::{self, Catalog, CatalogError, ReleaseIndex};
use countersign_registry::Registry;
use countersign_settings::config::{Config, Paths, ServeConfig};

/// Time limit to read the repository of a plugin.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most plugins whose repositories are read.
const MOST_READ: usize = 32;

/// A finding for the releases, one for the packages where there are any, one for each plugin without a release, and one for
/// each whose newest tag is not published.
pub(super) fn findings(config: &Config, registry: Option<&Registry>) -> Vec<Finding> {
    const BUILD: &str = "run `countersign build`";
    let folder = &config.paths.releases;
    let mut findings = Vec::new();
    match catalog::verify_all(folder) {
        Err(error @ CatalogError::NoIndex { .. }) => findings.push(warning("catalog", error.to_string(), BUILD)),
        Err(error) => {
            let error = ErrorChain(&error).first_line();
            findings.push(broken("catalog", error, Some(BUILD.to_owned())));
        }
        Ok(count) => {
            let text = format!("{}, every digest verified", counted(count, "release"));
            findings.push(ok("catalog", text));
            let index = ReleaseIndex::read(folder).ok().flatten().unwrap_or_default();
            let has_latest = |slug: &Slug| {
                index
                    .plugins
                    .get(slug)
                    .is_some_and(|releases| releases.latest.is_some())
            };
            let with_source = registry.into_iter().flat_map(Registry::plugins);
            let with_source = with_source.filter(|plugin| plugin.source.is_some());
            let (with, without): (Vec<&Slug>, Vec<&Slug>) = with_source
                .map(|plugin| &plugin.slug)
                .partition(|slug| has_latest(slug));
            findings.extend(registry.and_then(|registry| dropped_releases(registry, &config.paths)));
            let read = without.iter().chain(&with).take(MOST_READ).map(|&slug| slug.clone());
            let report = build::dry_run(config, read.collect(), PATIENCE).ok();
            let of = |slug: &Slug| {
                let mut plugins = report.iter().flat_map(|report| &report.plugins);
                plugins.find(|plugin| plugin.slug.as_ref() == Some(slug))
            };
            findings.extend(without.iter().map(|slug| nothing_to_offer(slug, of(slug))));
            findings.extend(with.iter().filter_map(|slug| newest_not_published(slug, of(slug)?)));
        }
    }
    findings.extend(packages(folder));
    findings
}

/// Why a plugin with a source has nothing to offer, as a build says it.
fn nothing_to_offer(slug: &Slug, report: Option<&PluginReport>) -> Finding {
    let build = format!("run `countersign build --plugin {slug}`");
    let details = correct_it(slug);
    let (reason, hint) = match report {
        None => (String::new(), build),
        Some(report) => match (&report.state, report.missing_newest()) {
            (PluginState::Broken(problems), _) => (problems.join("; "), details),
            (PluginState::NoSource, _) => (String::new(), build),
            // A build publishes something.
            (PluginState::Read, _) if report.releases.latest.is_some() => (String::new(), build),
            (PluginState::Read, Some((tag, reason))) => (format!("tag {tag}: {reason}"), details),
            (PluginState::Read, None) => of_tags(slug, report).unwrap_or((String::new(), build)),
        },
    };
    let reason = if reason.is_empty() {
        reason
    } else {
        format!(": {reason}")
    };
    warning(
        "catalog",
        format!("{slug} has a source and nothing to offer{reason}"),
        &hint,
    )
}

/// Why the newest tag of a plugin with releases is not published, in the words of a build. `registry` reports repositories that
/// cannot be read.
fn newest_not_published(slug: &Slug, report: &PluginReport) -> Option<Finding> {
    let (tag, reason) = report.missing_newest()?;
    let finding = format!("{slug} offers an older release than its newest tag: tag {tag}: {reason}");
    Some(warning("catalog", finding, &correct_it(slug)))
}

fn correct_it(slug: &Slug) -> String {
    format!("correct it; `countersign build --plugin {slug}` lists every tag")
}

/// The reason and the hint where no stable version was refused.
fn of_tags(slug: &Slug, report: &PluginReport) -> Option<(String, String)> {
    if report.tags.is_empty() {
        let hint = "tag a release, such as 1.0.0, and fetch the tags into the repository that the entry names";
        return Some(("its repository has no tags".to_owned(), hint.to_owned()));
    }
    if report
        .tags
        .iter()
        .any(|tag| matches!(tag.outcome, ReleaseOutcome::AwaitsPackage))
    {
        let hint = format!("hand it over: `countersign package add {slug} VERSION FILE`");
        return Some(("a tag awaits its package".to_owned(), hint));
    }
    if report
        .tags
        .iter()
        .any(|tag| matches!(tag.outcome, ReleaseOutcome::AwaitsSignatures { .. }))
    {
        let hint = format!("sign it: `countersign sign {slug} VERSION`");
        return Some(("a tag awaits signatures".to_owned(), hint));
    }
    let tag = report.tags.first()?;
    let reason = match &tag.outcome {
        ReleaseOutcome::Skipped(reason) | ReleaseOutcome::Failed(reason) => format!("tag {}: {reason}", tag.tag),
        _ => "it has pre-releases only".to_owned(),
    };
    Some((reason, format!("`countersign build --plugin {slug}` lists every tag")))
}

/// The next start makes the same check, and offers no updates.
fn dropped_releases(registry: &Registry, paths: &Paths) -> Option<Finding> {
    let catalog = Catalog::load(&paths.releases).ok()?;
    let guard = DropGuard::new(&paths.store);
    let error = guard.check_releases(&catalog, &paths.releases, registry).err()?;
    let hint = error.hint();
    Some(broken("catalog", format!("a server takes none of it: {error}"), hint))
}

/// The packages, where there are any; `releases` tells of an index that cannot be read.
fn packages(folder: &Path) -> Option<Finding> {
    match catalog::verify_packages(folder, |_| ()) {
        Ok(0) | Err(CatalogError::NoIndex { .. } | CatalogError::Index { .. }) => None,
        Ok(count) => {
            let finding = format!("{}, every size and digest verified", counted(count, "package"));
            Some(ok("packages", finding))
        }
        Err(error) => Some(broken(
            "packages",
            ErrorChain(&error).first_line(),
            Some("run `countersign build`, which packs it again".to_owned()),
        )),
    }
}

/// Checks the base URL of links to packages: the server's public URL. `doctor` does not see the server's flags.
pub(super) fn links(serve: &ServeConfig) -> Finding {
    let Some(url) = serve.links_begin_with() else {
        let error = LoadError::NoPublicUrl;
        return broken(
            "links",
            format!("a server does not start: {error}"),
            Some(PUBLIC_URL_HINT.to_owned()),
        );
    };
    match url.port_wordpress_refuses() {
        Some(port) => warning(
            "links",
            format!("links to packages begin with {url}, and WordPress downloads nothing from port {port}"),
            "use port 80, 443 or 8080 in public_url",
        ),
        None => ok("links", format!("links to packages begin with {url}")),
    }
}
