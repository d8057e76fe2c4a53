//! `countersign package list`: the packages that are published, and the archives that wait for their tag.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::build::package_folder::{HandedOver, PackageFolder};
use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::ReleaseIndex;
use countersign_settings::config::Paths;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// One release with a package, or an archive for it.
#[derive(Debug, Serialize)]
struct Row {
    plugin: Slug,
    version: Version,
    /// Bytes of the published package; of the archive where none is published.
    size: u64,
    state: PackageState,
}

/// Whether sites can get a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PackageState {
    Published,
    /// No build has published it yet: there is no tag of its version, or the tag was not built since.
    Waiting,
}

/// Reads the index and the folder, and prints what is in them.
pub(super) fn run(args: &Args, paths: &Paths) -> Result<Exit, Failure> {
    let index = ReleaseIndex::read(&paths.releases).map_err(Failure::input)?;
    let archives = PackageFolder::new(&paths.packages).list();
    let archives = archives.map_err(|error| Failure::environment(format!("{}: {error}", paths.packages.display())))?;
    let rows = rows(&index.unwrap_or_default(), archives);
    output::print(&if args.json { output::json(&rows)? } else { text(&rows) })
}

/// By plugin, the newest version first.
fn rows(index: &ReleaseIndex, archives: Vec<HandedOver>) -> Vec<Row> {
    let mut by_plugin: BTreeMap<&Slug, Vec<Row>> = BTreeMap::new();
    for (slug, plugin) in &index.plugins {
        let published = plugin.releases.iter().filter_map(|release| {
            Some(Row {
                plugin: slug.clone(),
                version: release.version.clone(),
                size: release.package.as_ref()?.size,
                state: PackageState::Published,
            })
        });
        by_plugin.entry(slug).or_default().extend(published);
    }
    for archive in &archives {
        let rows = by_plugin.entry(&archive.slug).or_default();
        if !rows.iter().any(|row| row.version == archive.version) {
            rows.push(Row {
                plugin: archive.slug.clone(),
                version: archive.version.clone(),
                size: archive.size,
                state: PackageState::Waiting,
            });
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for mut of_plugin in by_plugin.into_values() {
        of_plugin.sort_by(|a, b| b.version.cmp_php(&a.version));
        rows.extend(of_plugin);
    }
    rows
}

fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "No packages.\n".to_owned();
    }
    let mut table = Table::new(["PLUGIN", "VERSION", "SIZE", "STATE"]);
    for Row {
        plugin,
        version,
        size,
        state,
    } in rows
    {
        let state = match state {
            PackageState::Published => "published",
            PackageState::Waiting => "waiting",
        };
        table.row([plugin, version, size, &state]);
    }
    table.to_string()
}
