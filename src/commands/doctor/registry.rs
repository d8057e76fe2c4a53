//! Checks the registry: whether it can be read, and what in it is probably a mistake; whether the shops and modules of offers exist,
//! and whether local repositories of plugins can be read.
//!
//! Remote repositories are only listed, because `doctor` does not fetch.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::build::{can_be_read, counted};
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::shop::offers::offer_warnings;
use crate::serve::reload::drop_guard::DropGuard;
use countersign_files::time_limit;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::plugin::{Plugin, RepositoryLocation};
use countersign_model::text::ErrorChain;
use countersign_registry::{Registry, RegistryError};
use countersign_settings::config::{Config, Paths};

/// The findings about a registry, or about each of its errors.
pub(super) fn findings(
    registry: &Result<Registry, RegistryError>,
    issued: &[IssuedLicense],
    paths: &Paths,
) -> Vec<Finding> {
    let registry = match registry {
        Ok(registry) => registry,
        Err(error) => {
            let diagnostics = error.to_string();
            return diagnostics
                .lines()
                .map(|diagnostic| broken("registry", diagnostic, None))
                .collect();
        }
    };
    let plugins = counted(registry.plugin_count(), "plugin");
    let licenses = counted(registry.license_count(), "license");
    let mut findings = vec![ok("registry", format!("{plugins}, {licenses} in files"))];
    findings.extend(releases_in_the_future(registry, Utc::now()));
    findings.extend(dropped_licenses(registry, issued, paths));
    findings.extend(signing(registry));
    findings
}

/// The server accepts such a time: a site bound before then gets it as the time of its binding.
fn releases_in_the_future(registry: &Registry, now: DateTime<Utc>) -> Option<Finding> {
    let latest = |license: &License| {
        let released = &license.details.released;
        released
            .hosts
            .values()
            .copied()
            .chain(released.all)
            .max()
            .filter(|time| *time > now)
    };
    let mut ahead = registry
        .licenses()
        .filter_map(|license| Some((latest(license)?, license)));
    let (time, first) = ahead.next()?;
    let place = registry
        .place(&first.id)
        .map_or(String::new(), |(file, line)| format!(", {}:{line}", file.display()));
    let licenses = counted(1 + ahead.count(), "license");
    let finding = format!(
        "{licenses} with a release time in the future: {} ({time:?}{place})",
        first.id.log_tag()
    );
    Some(warning(
        "registry",
        finding,
        "compare the clocks of this machine and the server; correct a mistyped time by hand",
    ))
}

/// The next start makes the same check, and fails.
fn dropped_licenses(registry: &Registry, issued: &[IssuedLicense], paths: &Paths) -> Option<Finding> {
    let is_in_ledger = |id: &LicenseId| issued.binary_search_by_key(id, |issued| issued.license.id).is_ok();
    let guard = DropGuard::new(&paths.store);
    let error = guard.check_start(registry, is_in_ledger).err()?;
    let hint = error.hint();
    Some(broken("registry", format!("a server does not start: {error}"), hint))
}

/// One finding for each probable mistake.
pub(super) fn offer_findings(registry: &Registry, config: &Config) -> Vec<Finding> {
    let warnings = offer_warnings(registry.offers(), &registry.sold_modules(), &config.shops);
    let findings = warnings.into_iter();
    findings.map(|found| warning("offer", found.text, found.hint)).collect()
}

/// Time limit to open a repository, which usually takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// One finding for each folder that is not a repository, and one for all the others.
pub(super) fn repository_findings(registry: &Registry) -> Vec<Finding> {
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

/// Who signs releases: plugins whose packages nobody signs, and keys whose loss would leave the sites behind. The findings are
/// by slug. There are none of plugins without signatures where no plugin has any: then the vendor does not sign.
fn signing(registry: &Registry) -> Vec<Finding> {
    let mut plugins: Vec<_> = registry.plugins().collect();
    plugins.sort_by(|a, b| a.slug.cmp(&b.slug));
    let somebody_signs = plugins.iter().any(|plugin| plugin.signing.is_some());
    plugins
        .into_iter()
        .filter_map(|plugin| signing_of(plugin, somebody_signs))
        .collect()
}

fn signing_of(plugin: &Plugin, somebody_signs: bool) -> Option<Finding> {
    let slug = &plugin.slug;
    let Some(signing) = &plugin.signing else {
        let is_hosted = plugin.package.is_some() && plugin.source.is_some();
        return (is_hosted && somebody_signs).then(|| {
            warning(
                "signing",
                format!("{slug}: its packages are hosted here, and nobody signs its releases"),
                "add [signing] to its entry",
            )
        });
    };
    let keys = signing.keys.len();
    if keys == 1 {
        return Some(warning(
            "signing",
            format!("{slug}: only one key may sign its releases"),
            "add a second key, and keep it in a safe: if the only one is lost, sites install no update any more",
        ));
    }
    (keys == signing.threshold).then(|| {
        warning(
            "signing",
            format!("{slug}: a release needs the signatures of all {keys} keys"),
            "add a key more than the threshold, and keep it in a safe: if one is lost, sites install no update any more",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea";
    const BERT: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID1AF8PoQ4lakrcKp00bfrycmCzPLsSWjMDNVfEq9GYM";

    fn reported(entries: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plugins", "licenses"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for (slug, text) in entries {
            std::fs::write(folder.path().join(format!("plugins/{slug}.toml")), text).unwrap();
        }
        let found = signing(&Registry::load(folder.path()).unwrap());
        found.iter().map(|finding| format!("{finding:?}")).collect()
    }

    #[test]
    fn keys_that_must_not_be_lost_and_plugins_that_nobody_signs_are_warned_of() {
        let source = "repository = '../../src'\n";
        let elsewhere = "download_url = 'https://a.example/{version}.zip'\n";
        let signed = |keys: &str, threshold| format!("{source}[signing]\nkeys = [{keys}]\nthreshold = {threshold}\n");
        let both = format!("'{ANNA}', '{BERT}'");
        assert_eq!(reported(&[("acme", source), ("beta", elsewhere)]), [""; 0]);
        assert_eq!(
            reported(&[("acme", &signed(&both, 1)), ("beta", elsewhere), ("gamma", "\n")]),
            [""; 0]
        );
        let found = reported(&[
            ("acme", &signed(&format!("'{ANNA}'"), 1)),
            ("beta", source),
            ("gamma", &signed(&both, 2)),
        ]);
        assert_eq!(found.len(), 3);
        assert!(
            found[0].contains("acme: only one key may sign its releases"),
            "{found:?}"
        );
        assert!(
            found[1].contains("beta: its packages are hosted here, and nobody signs"),
            "{found:?}"
        );
        assert!(
            found[2].contains("gamma: a release needs the signatures of all 2 keys"),
            "{found:?}"
        );
    }
}
