//! Packages of real plugins, built by `countersign build` from their repositories, installed by WordPress itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::HOST;
use super::front::Front;
use super::site::{Core, Site};

/// The newest package of each plugin in a folder of releases.
fn newest(releases: &Path) -> BTreeMap<String, PathBuf> {
    let index = std::fs::read(releases.join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let plugins = index["plugins"].as_object().unwrap();
    let latest = plugins.iter().filter_map(|(slug, plugin)| {
        let version = plugin["latest"].as_str()?;
        Some((slug.clone(), releases.join(slug).join(format!("{version}.zip"))))
    });
    latest.collect()
}

/// Tells what WordPress says of each package that it refuses. `COUNTERSIGN_RELEASES` is a folder that `countersign build` wrote.
#[test]
#[ignore = "needs repositories of real plugins"]
fn packages_of_real_plugins_are_installed() {
    let releases = std::env::var_os("COUNTERSIGN_RELEASES").expect("COUNTERSIGN_RELEASES names a folder of releases");
    let front = Front::new();
    let site = Site::new(Core::Newest, HOST, &front);
    let mut refused = Vec::new();
    for (slug, package) in newest(Path::new(&releases)) {
        let said = site.run(&format!(
            "require_once ABSPATH . 'wp-admin/includes/admin.php'; \
             require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; \
             $upgrader = new Plugin_Upgrader(new Automatic_Upgrader_Skin); \
             $installed = $upgrader->install('{}'); \
             $found = true === $installed ? get_plugins('/{slug}') : []; \
             echo true === $installed && $found ? 'installed ' . reset($found)['Version'] : \
                 (is_wp_error($installed) ? $installed->get_error_message() : implode(' ', $upgrader->skin->get_upgrade_messages()));",
            package.display()
        ));
        let version = package.file_stem().unwrap().to_str().unwrap();
        if !said.contains(&format!("installed {version}")) {
            refused.push(format!("{slug} {version}: {said}"));
        }
    }
    assert_eq!(refused, [""; 0]);
}
