//! Checks who signs releases: plugins whose packages nobody signs, and keys whose loss would leave the sites behind.

use crate::commands::doctor::finding::{Finding, warning};
use countersign_model::plugin::Plugin;
use countersign_registry::Registry;

/// The findings about every plugin with packages of its own, by slug. Says nothing of plugins without signatures where no
/// plugin has any: then the vendor does not sign.
pub(super) fn findings(registry: &Registry) -> Vec<Finding> {
    let mut plugins: Vec<_> = registry.plugins().collect();
    plugins.sort_by(|a, b| a.slug.cmp(&b.slug));
    let somebody_signs = plugins.iter().any(|plugin| plugin.signing.is_some());
    plugins
        .into_iter()
        .filter_map(|plugin| finding(plugin, somebody_signs))
        .collect()
}

fn finding(plugin: &Plugin, somebody_signs: bool) -> Option<Finding> {
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
        let found = findings(&Registry::load(folder.path()).unwrap());
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
