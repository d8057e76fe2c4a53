//! EDD's own updaters, unmodified, in a real WordPress: the class `EDD_SL_Plugin_Updater`, and its successor `edd-sl-sdk`.
//!
//! No package registry has them, so these tests need copies. `COUNTERSIGN_EDD` names a folder that has one folder for each
//! version, with `EDD_SL_Plugin_Updater.php`, or with `edd-sl-sdk.php` and all files of the SDK. Tried with versions 1.6.14,
//! 1.8.0, 1.9.2 and 1.9.4 of the class, and with 1.0.3 of the SDK.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::HOST;
use super::edd::{Edd, KEY, answering, edd, forward, license, old_shop, set};
use super::front::{Answer, response};
use super::site::{Core, Site};
use super::vendor::Vendor;
use crate::support::eventually;

/// The oldest and the newest WordPress.
const ENDS: [Core; 2] = [Core::Debian, Core::Newest];

const HOUR: i64 = 3_600;

/// Longer than the updaters keep an answer.
const CACHED: i64 = 3 * HOUR + 61;

/// Which generation a copy is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    /// The class; the plugin's own code activates.
    Class,
    /// The SDK; it activates by itself.
    Sdk,
}

struct Updater {
    folder: PathBuf,
    generation: Generation,
}

/// The copies, by the names of their folders.
fn updaters() -> Vec<Updater> {
    let folder = std::env::var_os("COUNTERSIGN_EDD").expect("COUNTERSIGN_EDD names a folder with EDD's updaters");
    let mut folders: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    let updaters: Vec<_> = folders.into_iter().filter_map(updater).collect();
    assert!(!updaters.is_empty(), "COUNTERSIGN_EDD has no updater");
    updaters
}

fn updater(folder: PathBuf) -> Option<Updater> {
    let generation = match folder.join("edd-sl-sdk.php").exists() {
        true => Generation::Sdk,
        false if folder.join("EDD_SL_Plugin_Updater.php").exists() => Generation::Class,
        false => return None,
    };
    Some(Updater { folder, generation })
}

impl Updater {
    /// Puts Acme Forms 0.9 with this updater on a site, as EDD's examples do it.
    fn install(&self, site: &Site, shop: &str) {
        let plugin = site.file("wp-content/plugins/acme-forms");
        fs::create_dir(&plugin).unwrap();
        copy(&self.folder, &plugin.join("edd"));
        let code = match self.generation {
            Generation::Class => include_str!("../../tools/wordpress/edd-class.php"),
            Generation::Sdk => include_str!("../../tools/wordpress/edd-sdk.php"),
        };
        fs::write(
            plugin.join("acme-forms.php"),
            code.replace("https://shop.example", shop),
        )
        .unwrap();
        site.run(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; activate_plugin('acme-forms/acme-forms.php');",
        );
    }

    /// Activates the old key, and says what the site then has stored.
    fn activate(&self, site: &mut Site) -> Value {
        match self.generation {
            Generation::Class => {
                site.run(&format!(
                    "update_option('acme-forms_license_key', '{KEY}'); acme_edd('activate_license');"
                ));
            }
            Generation::Sdk => {
                // What its script sends when somebody presses the button in its window.
                let window =
                    "/wp-admin/admin-ajax.php?action=edd_sdk_get_notice_acme-forms&template=license-control&name=Acme";
                let window: Value = serde_json::from_str(&site.admin.get(window).html).unwrap();
                let html = window["data"].as_str().unwrap_or_else(|| panic!("{window}"));
                let attribute = |name: &str| {
                    let rest = html.split(&format!("data-{name}=\"")).nth(1).unwrap();
                    rest.split('"').next().unwrap().to_owned()
                };
                let [token, timestamp, nonce] = ["token", "timestamp", "nonce"].map(attribute);
                let form = [
                    ("action", "edd_sl_sdk_activate_acme-forms"),
                    ("license", KEY),
                    ("token", &token),
                    ("timestamp", &timestamp),
                    ("nonce", &nonce),
                ];
                let answer = site.admin.post("/wp-admin/admin-ajax.php", &form);
                assert!(answer.html.contains("\"success\":true"), "{}", answer.html);
            }
        }
        status(site)
    }

    /// Asks about the license in the background, as the updaters' plugins do it.
    fn check_license(&self, site: &Site) {
        match self.generation {
            Generation::Class => site.run("acme_edd('check_license');"),
            Generation::Sdk => {
                site.run("define('DOING_CRON', true); do_action('edd_sl_sdk_weekly_license_check_acme-forms');")
            }
        };
    }
}

/// What the site has stored about its license.
fn status(site: &Site) -> Value {
    let said = site.run("echo wp_json_encode(get_option('acme-forms_license'));");
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// What PHP complains of, without the notices that an updater for an older PHP causes.
fn complaints(site: &Site) -> Vec<String> {
    let all = site.complaints().into_iter();
    all.filter(|line| !line.contains("PHP Deprecated:")).collect()
}

/// The row of the plugin on the updates page, and the details window.
fn pages(site: &mut Site) -> [String; 2] {
    let updates = site.check_again();
    let window = "/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms&section=changelog";
    [updates, site.admin.get(window).text()]
}

/// What the updates page says.
fn offer(version: &str) -> String {
    format!("Acme Forms You have version 0.9 installed. Update to {version}.")
}

/// An updater on a site: its key is activated, its update offered, shown and installed.
fn updates(updater: &Updater, core: Core, edd: &Edd, shop: &str) {
    let mut site = Site::new(core, HOST, &edd.front);
    updater.install(&site, shop);
    assert_eq!(updater.activate(&mut site)["license"], "valid");
    let [text, window] = pages(&mut site);
    assert!(text.contains(&offer("1.0.0")), "{text}");
    for expected in ["1.0.0", "The first release."] {
        assert!(window.contains(expected), "{expected} in {window}");
    }

    // The server does not answer: the license is what it was, and the update is there again an hour later.
    edd.front
        .answer_with(Answer::Fixed(response(503, &[("Retry-After", "60")], "")));
    site.pass(CACHED);
    site.check_again();
    updater.check_license(&site);
    assert_eq!(status(&site)["license"], "valid");
    edd.front.answer_with(Answer::Forward);
    site.pass(HOUR + 61);
    let text = site.check_again();
    assert!(text.contains(&offer("1.0.0")), "{text}");

    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    let (row, update) = site.row();
    assert!(!update && row.contains("Version 1.0.0"), "{row}");
    // The new version has our client, which takes the key over.
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert_eq!(complaints(&site), [""; 0]);
}

/// Tries each updater on the oldest and the newest WordPress with `test`, and names the one that fails.
fn each(make: impl Fn() -> Edd, test: impl Fn(&Updater, Core, &Edd)) {
    for updater in updaters() {
        for core in ENDS {
            eprintln!("{} in {core:?}", updater.folder.display());
            // A server of its own: the license is for one site.
            test(&updater, core, &make());
        }
    }
}

/// The client of the new version finds the key where the updaters' plugins keep it.
const SUCCESSOR: &str = "'foreign_keys' => true, 'key_from' => 'acme-forms_license_key',";

#[test]
#[ignore = "needs copies of EDD's updaters"]
fn edds_own_updaters_update_from_the_server() {
    each(
        || edd(SUCCESSOR),
        |updater, core, edd| {
            updates(updater, core, edd, &edd.front.url());
        },
    );
}

#[test]
#[ignore = "needs copies of EDD's updaters"]
fn edds_own_updaters_update_through_the_old_shop() {
    each(
        || edd(SUCCESSOR),
        |updater, core, edd| {
            let shop = old_shop(edd);
            // It is reached by the port that its PHP listens on, and would lead others to its own address.
            fs::write(shop.file("any-host"), "").unwrap();
            forward(&shop, edd);
            updates(updater, core, edd, &shop.url());
            assert_eq!(shop.complaints(), [""; 0]);
        },
    );
}

#[test]
#[ignore = "needs copies of EDD's updaters"]
fn edds_own_updaters_install_nothing_for_an_expired_license() {
    each(
        || edd(""),
        |updater, core, edd| {
            let mut site = Site::new(core, HOST, &edd.front);
            updater.install(&site, &edd.front.url());
            updater.activate(&mut site);
            edd.instance
                .write_licenses(&[license().toml_with("2020-12-31", "", "forms = []")]);
            eventually("the license is over", || {
                updater.check_license(&site);
                status(&site)["license"] == "expired"
            });
            let [text, window] = pages(&mut site);
            assert!(!window.contains("Install Update Now"), "{window}");
            let answer = site.update_now();
            assert_eq!(answer["success"], false, "{answer}");
            let (row, _) = site.row();
            assert!(row.contains("Version 0.9"), "{row} {text}");
            assert_eq!(complaints(&site), [""; 0]);
        },
    );
}

#[test]
#[ignore = "needs copies of EDD's updaters"]
fn edds_own_updaters_get_the_release_before_or_the_new_one_as_the_entry_says() {
    for (others, expected) in [("hide", "1.0.0"), ("offer", "1.1.0")] {
        let stepwise = || {
            let vendor = Vendor::hosting_with(&[license().toml("")], set(SUCCESSOR));
            vendor.roll_out(&format!("others = \"{others}\""));
            vendor.release_in_steps("1.1.0", set(SUCCESSOR));
            answering(vendor)
        };
        each(stepwise, |updater, core, edd| {
            let mut site = Site::new(core, HOST, &edd.front);
            updater.install(&site, &edd.front.url());
            assert_eq!(updater.activate(&mut site)["license"], "valid");
            site.automate();
            let text = site.check_again();
            assert!(text.contains(&offer(expected)), "{others}: {text}");
            site.pass(13 * HOUR);
            site.cron();
            // The class names its plugin since 1.9 only: before that, WordPress updates nothing by itself.
            if site.version() == "0.9" {
                let answer = site.update_now();
                assert_eq!(answer["success"], true, "{answer}");
            }
            assert_eq!(site.version(), expected, "{others}: no update waits");
            assert_eq!(complaints(&site), [""; 0]);
        });
    }
}
