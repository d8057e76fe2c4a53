//! Checks that local repositories of plugins can be read. Remote ones are only listed, because `doctor` does not fetch.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::build::{can_be_read, counted};
use crate::commands::doctor::finding::{Finding, ok, warning};
use countersign_files::time_limit;
use countersign_model::plugin::RepositoryLocation;
use countersign_model::text::error_chain::ErrorChain;
use countersign_registry::Registry;

/// Time limit to open a repository, which usually takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// One finding for each folder that is not a repository, and one for all the others.
pub(super) fn findings(registry: &Registry) -> Vec<Finding> {
    let places = registry
        .plugins()
        .filter_map(|plugin| plugin.source.as_ref().map(|source| &source.repository));
    let mut folders = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for place in places {
        match place {
            RepositoryLocation::Folder(folder) => drop(folders.insert(folder)),
            RepositoryLocation::Url(url) => drop(addresses.insert(url)),
        }
    }
    let mut findings = Vec::new();
    let mut readable = 0_usize;
    for folder in folders {
        let hint = "correct `repository` in its plugin's entry, or let this user read the folder";
        let path = folder.clone();
        match time_limit::within(PATIENCE, move || can_be_read(&path)) {
            Ok(Ok(())) => readable += 1,
            Ok(Err(error)) => findings.push(warning("source", ErrorChain(&error).first_line(), hint)),
            Err(error) => findings.push(warning("source", format!("{}: {error}", folder.display()), hint)),
        }
    }
    if readable > 0 {
        findings.push(ok("source", format!("{} can be read", repositories(readable))));
    }
    if !addresses.is_empty() {
        findings.push(ok(
            "source",
            format!(
                "{} not checked here; `countersign build` fetches them",
                repositories(addresses.len())
            ),
        ));
    }
    findings
}

fn repositories(count: usize) -> String {
    counted(count, "repository").replace("repositorys", "repositories")
}
