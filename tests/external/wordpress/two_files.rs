//! The client's two files: which requests load the second, and a site where that is not the right one.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::front::Front;
use super::neighbours::maps;
use super::site::{CORES, Core, Site};
use super::vendor::{CLIENT_FILES, Vendor, with_settings};
use super::{ACTIVE, HOST, active_site, licensed};
use crate::support::instance::shared_keys;
use crate::support::{License, eventually};

const SMALL: &str = "countersign-client.php";
const BOTH: &str = "countersign-client.php countersign-client-admin.php";

/// What an administrator reads where the second file is not the right one.
pub(super) const INCOMPLETE: &str = "Acme Forms: The file acme-forms/countersign-client-admin.php is missing, damaged or of another \
    version. Please upload Acme Forms again. Until then, its license is not checked, and it gets no updates.";

impl Site {
    /// What requests have loaded of a client since the last call, in any order: an address, and names of files.
    fn loaded(&self) -> BTreeSet<String> {
        let [log, old, new] = ["loaded.log", "loaded.old", "loaded.new"].map(|name| self.file(name));
        // There is a log at any time, so that a request which ends meanwhile is in this one or in the next.
        let _ = fs::remove_file(&old);
        let _ = fs::hard_link(&log, &old);
        fs::write(&new, "").unwrap();
        fs::rename(&new, &log).unwrap();
        let loaded = fs::read_to_string(&old).unwrap_or_default();
        loaded.lines().map(str::to_owned).collect()
    }

    pub(super) fn second_file(&self) -> PathBuf {
        self.file("wp-content/plugins/acme-forms").join(CLIENT_FILES[1])
    }
}

fn read(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/wordpress");
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn requests_of_visitors_load_the_small_file_only() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::of(
            "acme-forms",
            Front::new(),
            shared_keys(),
            &[table],
            with_settings("'key_constant' => 'ACME_FORMS_KEY', 'key_from' => 'acme_forms_former_key'"),
        );
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        let constant = serde_json::json!({ "ACME_FORMS_KEY": license.key }).to_string();
        for (key, constants) in [("stored", ""), ("constant", &constant)] {
            if constants.is_empty() {
                site.press("acme-forms", "activate", &license.key);
            }
            fs::write(site.file("constants.json"), constants).unwrap();
            // What WordPress has planned for now, updates among it, is done.
            site.cron();
            site.loaded();
            let visits = [
                "/",
                "/?feed=rss2",
                "/?rest_route=/wp/v2/posts",
                "/wp-login.php",
                "/wp-admin/admin-ajax.php?action=none",
                "/wp-cron.php?doing_wp_cron",
            ];
            for visit in visits {
                site.visitor().get(visit);
            }
            assert_eq!(site.vendor_sees("acme-forms")["active"], true);
            let mut expected: BTreeSet<_> = visits.iter().map(|visit| format!("{visit} {SMALL}")).collect();
            expected.insert(format!("/?vendor=acme_forms_license {SMALL}"));
            assert_eq!(site.loaded(), expected, "{core:?}: {key}");
        }

        // A user without a say in plugins is a visitor, although logged in.
        site.run("wp_insert_user(['user_login' => 'reader', 'user_pass' => 'password', 'role' => 'subscriber']);");
        let mut reader = site.visitor();
        reader.log_in_as("reader");
        site.loaded();
        reader.get("/wp-admin/admin-ajax.php?action=none");
        reader.get("/");
        let expected = ["/ ", "/wp-admin/admin-ajax.php?action=none "].map(|visit| format!("{visit}{SMALL}"));
        assert_eq!(site.loaded(), expected.into(), "{core:?}");

        // Who manages something loads both.
        site.admin.get("/wp-admin/admin-ajax.php?action=none");
        site.admin.get("/wp-admin/plugins.php");
        let expected = ["/wp-admin/admin-ajax.php?action=none ", "/wp-admin/plugins.php "];
        assert_eq!(
            site.loaded(),
            expected.map(|visit| format!("{visit}{BOTH}")).into(),
            "{core:?}"
        );
        site.pass(25 * 3600);
        site.cron();
        assert_eq!(site.loaded(), [format!("/wp-cron.php {BOTH}")].into(), "{core:?}");
        assert_eq!(site.complaints(), [""; 0]);

        let mut network = Site::network(core, HOST, &vendor.front);
        network.install("acme-forms", &vendor.archive("1.0.0"));
        network.press("acme-forms", "activate", &license.key);
        network.loaded();
        assert_eq!(network.vendor_sees("acme-forms")["active"], true);
        let expected = format!("/?vendor=acme_forms_license {SMALL}");
        assert_eq!(network.loaded(), [expected].into(), "{core:?}");
    }
}

#[test]
fn a_former_key_is_taken_over_by_one_hook_and_not_looked_for_again() {
    let (license, table) = licensed();
    let change = with_settings("'key_from' => 'acme_forms_former_key'");
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], change);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.run(&format!("update_option('acme_forms_former_key', '{}');", license.key));
    let hooks = "echo count(array_filter(array_merge(...$GLOBALS['wp_filter']['init']->callbacks), \
                 function ($hook) { return 'take_over' === ($hook['function'][1] ?? ''); }));";
    site.install("acme-forms", &vendor.archive("1.0.0"));
    for area in ["", "define('WP_ADMIN', true);"] {
        assert_eq!(site.run_behind(area, hooks), "1", "{area}");
    }
    site.loaded();
    site.visitor().get("/");
    site.visitor().get("/");
    assert_eq!(site.loaded(), [format!("/ {SMALL}")].into());
    site.pass(301);
    site.cron();
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn what_another_request_manages_loads_the_second_file() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = active_site(core, &vendor, HOST, &license.key);
        vendor.release("1.1.0", |text| text);

        // An application that looks after many sites: no page of wp-admin.
        let said = site.run(
            "$loaded = function () { echo class_exists('Acme\\\\Forms\\\\License\\\\License', false) ? 'both ' : 'small '; }; \
             $loaded(); require_once ABSPATH . 'wp-admin/includes/admin.php'; \
             require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; $loaded(); \
             delete_site_transient('update_plugins'); wp_update_plugins(); $loaded(); \
             echo true === (new Plugin_Upgrader(new Automatic_Upgrader_Skin()))->upgrade('acme-forms/acme-forms.php') ? 'done ' : 'not '; \
             echo get_plugin_data(WP_PLUGIN_DIR . '/acme-forms/acme-forms.php')['Version']; \
             activate_plugin('acme-forms/acme-forms.php');",
        );
        assert_eq!(said, "small small both done 1.1.0", "{core:?}");

        // WP-Cron at the end of a visitor's request.
        let asked = || {
            let asked = vendor.front.take_asked();
            asked.iter().filter(|asked| asked.is_validation()).count()
        };
        asked();
        fs::write(site.file("alternate-cron"), "").unwrap();
        site.visitor().get("/");
        assert_eq!(asked(), 0, "{core:?}: it is not due");
        site.pass(25 * 3600);
        site.loaded();
        site.visitor().get("/");
        eventually("the license is validated", || asked() == 1);
        eventually("the request is over", || site.loaded().contains(&format!("/ {BOTH}")));
        fs::remove_file(site.file("alternate-cron")).unwrap();
        assert_eq!(site.complaints(), [""; 0]);
    }
}

/// What is wrong with the second file, and what there is instead of it.
fn wrong_files(right: &str) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("missing", None),
        ("empty", Some(String::new())),
        ("half of it", Some(right[..right.len() / 2].to_owned())),
        ("cut in its head", Some(right[..300].to_owned())),
        (
            "another version",
            Some(right.replace(
                concat!("'", env!("CARGO_PKG_VERSION"), "' === Client::VERSION"),
                "'9.9.9' === Client::VERSION",
            )),
        ),
        (
            "the namespace as it came",
            Some(right.replace("namespace Acme\\Forms\\License;", "namespace Countersign\\Client;")),
        ),
    ]
}

#[test]
fn a_site_whose_second_file_is_not_the_right_one_goes_on_and_says_what_to_upload() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = active_site(core, &vendor, HOST, &license.key);
        let right = fs::read_to_string(site.second_file()).unwrap();
        for (what, wrong) in wrong_files(&right) {
            match wrong {
                Some(text) => fs::write(site.second_file(), text).unwrap(),
                None => fs::remove_file(site.second_file()).unwrap(),
            }
            let what = format!("{core:?}: {what}");
            assert_eq!(site.visitor().get("/").status, 200, "{what}");
            assert_eq!(site.vendor_sees("acme-forms")["active"], true, "{what}");
            assert_eq!(site.complaints(), [""; 0], "{what}: a visitor's page is without errors");
            site.cron();
            for page in ["/wp-admin/", "/wp-admin/plugins.php", "/wp-admin/update-core.php"] {
                let page = site.admin.get(page);
                assert_eq!(page.status, 200, "{what}");
                assert!(
                    page.notices().contains(&INCOMPLETE.to_owned()),
                    "{what}: {:?}",
                    page.notices()
                );
            }
            let said = site.run(&format!(
                "$license = acme_forms_license(); $said = [$license->activate('{}'), $license->activate('no key'), \
                 $license->deactivate(), $license->remove(), $license->move(), $license->copy(), $license->condition()]; \
                 Acme\\Forms\\License\\Client::uninstall('acme-forms'); wp_update_plugins(); echo implode(' ', $said);",
                license.key
            ));
            assert_eq!(
                said, "incomplete key_malformed incomplete incomplete incomplete incomplete active",
                "{what}"
            );
            let complaints = site.complaints();
            let told = |line: &String| line.contains("countersign-client-admin.php cannot be used: ");
            assert!(
                !complaints.is_empty() && complaints.iter().all(told),
                "{what}: {complaints:?}"
            );
            fs::remove_file(site.file("debug.log")).unwrap();

            // Uploading the plugin again is all that is needed, and nothing was lost.
            fs::write(site.second_file(), &right).unwrap();
            assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE], "{what}");
            assert_eq!(site.complaints(), [""; 0], "{what}");
        }
    }
}

#[test]
fn a_second_file_of_another_version_is_replaced_by_uploading_the_plugin_again() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    fs::remove_file(site.second_file()).unwrap();
    let page = site.admin.get("/wp-admin/plugins.php");
    assert!(page.notices().contains(&INCOMPLETE.to_owned()));
    fs::write(site.file("plugin.zip"), vendor.archive("1.0.0")).unwrap();
    let said = site.run(
        "require_once ABSPATH . 'wp-admin/includes/admin.php'; \
         require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; \
         echo (new Plugin_Upgrader(new Automatic_Upgrader_Skin()))->install(SITE . '/plugin.zip', ['overwrite_package' => true]) ? 'installed' : 'not';",
    );
    assert_eq!(said, "installed");
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
}

/// Installs both plugins, and gives each its license.
fn both(site: &mut Site, plugins: [(&str, &License, &Vendor); 2]) {
    for (slug, _, vendor) in plugins {
        site.install(slug, &vendor.archive("1.0.0"));
    }
    for (slug, license, _) in plugins {
        site.press(slug, "activate", &license.key);
    }
    for (slug, _, _) in plugins {
        assert_eq!(site.vendor_sees(slug)["active"], true, "{slug}");
    }
}

#[test]
fn a_second_file_in_the_namespace_of_another_plugin_breaks_neither() {
    // Maps has changed the namespace in its first file, and Forms in none: the second file of Maps is one of Forms.
    let came = |text: String| text.replace("namespace Acme\\Forms\\License;", "namespace Countersign\\Client;");
    let forms_change =
        |text: String| came(text).replace("\\Acme\\Forms\\License\\Client", "\\Countersign\\Client\\Client");
    let maps_change = |text: String| match text.contains("final class License ") {
        true => text.replace("namespace Acme\\Maps\\License;", "namespace Countersign\\Client;"),
        false => text,
    };
    let (license, table) = licensed();
    let forms = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], forms_change);
    let (_, maps) = maps(Front::new(), maps_change);
    let mut site = Site::new(Core::Newest, HOST, &forms.front);
    site.install("acme-forms", &forms.archive("1.0.0"));
    site.install("acme-maps", &maps.archive("1.0.0"));
    let page = site.press("acme-forms", "activate", &license.key);
    assert!(page.notices().contains(&ACTIVE.to_owned()), "{:?}", page.notices());
    let page = site.admin.get("/wp-admin/plugins.php");
    let told = INCOMPLETE
        .replace("Acme Forms", "Acme Maps")
        .replace("acme-forms", "acme-maps");
    assert!(page.notices().contains(&told), "{:?}", page.notices());
    // Whichever is loaded first.
    site.run("update_option('active_plugins', ['acme-maps/acme-maps.php', 'acme-forms/acme-forms.php']);");
    let page = site.admin.get("/wp-admin/plugins.php");
    assert!(
        page.status == 200 && page.notices().contains(&told),
        "{:?}",
        page.notices()
    );
    let page = site.press("acme-forms", "check", "");
    assert!(page.notices().contains(&ACTIVE.to_owned()), "{:?}", page.notices());
    assert!(site.complaints().iter().all(|line| !line.contains("Fatal")));
}

/// The client as it was in one file, made of the two.
fn in_one_file(text: String) -> String {
    if text.contains("final class Loader ") {
        let rest = read(CLIENT_FILES[1]);
        let rest = &rest[rest.find(") :\n").unwrap() + 4..rest.rfind("endif;").unwrap()];
        let loads_nothing =
            "if ( class_exists( License::class, false ) ) {\nreturn '';\n}\nif ( ! is_readable( self::FILE ) ) {";
        let version = format!("public const VERSION = '{}';", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&version), "{text}");
        return text
            .replace(&version, "")
            .replace("if ( ! is_readable( self::FILE ) ) {", loads_nothing)
            .replace(
                "elseif ( ! defined( __NAMESPACE__ . '\\Client::VERSION' ) && ",
                &format!("{rest}\nelseif ( "),
            );
    }
    // There was no such file.
    match text.contains("final class License ") {
        true => "<?php".to_owned(),
        false => text,
    }
}

#[test]
fn a_client_of_one_file_and_one_of_two_share_a_namespace_and_break_nothing() {
    for (old, order) in [("acme-forms", "the old one first"), ("acme-maps", "the new one first")] {
        let is_old = |slug: &str| old == slug;
        let forms_is_old = is_old("acme-forms");
        let forms_change = move |text: String| if forms_is_old { in_one_file(text) } else { text };
        let maps_change = move |text: String| {
            let text = text.replace("Acme\\Maps\\License", "Acme\\Forms\\License");
            if forms_is_old { text } else { in_one_file(text) }
        };
        let (forms_license, table) = licensed();
        let forms = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], forms_change);
        let (maps_license, maps) = maps(Front::new(), maps_change);
        let mut site = Site::new(Core::Newest, HOST, &forms.front);
        both(
            &mut site,
            [
                ("acme-forms", &forms_license, &forms),
                ("acme-maps", &maps_license, &maps),
            ],
        );
        forms.release("1.1.0", forms_change);
        assert!(
            site.check_again().contains("Acme Forms You have version 1.0.0"),
            "{order}"
        );
        assert_eq!(site.update_now()["success"], true, "{order}");
        site.pass(25 * 3600);
        site.cron();
        for slug in ["acme-forms", "acme-maps"] {
            assert_eq!(site.vendor_sees(slug)["condition"], "active", "{order}");
        }
        for page in ["/", "/wp-admin/plugins.php", "/wp-admin/site-health.php"] {
            assert_eq!(site.admin.get(page).status, 200, "{order}: {page}");
        }
        site.delete("acme-maps");
        let complaints = site.complaints();
        let told = "acme-maps: this class is from another plugin: give the namespace a name of your own";
        assert!(
            complaints.iter().all(|line| line.contains(told)),
            "{order}: {complaints:?}"
        );
    }
}
