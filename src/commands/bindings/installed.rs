//! `countersign bindings installed`: counts which versions sites run. `build` and `sign` take what it prints.

use crate::commands::installed::{self, NotKnown};
use crate::commands::output::Table;
use crate::commands::{Exit, Failure, output};
use countersign_model::installed::InstalledVersions;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document, which `build --installed` takes
    #[arg(long)]
    json: bool,
}

/// Counts, and prints the counts.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let found = installed::from_store(config).map_err(failure)?;
    output::print(&if args.json { output::json(&found)? } else { text(&found) })
}

fn text(found: &InstalledVersions) -> String {
    if found.plugins.is_empty() {
        return "No site has reported a version yet.\n".to_owned();
    }
    let mut table = Table::new(["PLUGIN", "VERSION", "SITES"]);
    for plugin in &found.plugins {
        for version in &plugin.versions {
            table.row([&plugin.slug, &version.version, &version.sites]);
        }
    }
    table.to_string()
}

fn failure(error: NotKnown) -> Failure {
    match error {
        NotKnown::Store(error) => super::messages::failure(error),
        NotKnown::NoStore => Failure::input(error).hint("a server creates the store at its first start"),
        NotKnown::Reports(error) => error.into(),
    }
}
