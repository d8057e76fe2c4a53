//! Other clients: WordPress' own filter with a few lines of a vendor's code, and the fields that
//! plugin-update-checker 5 and the EDD updater read.

use std::process::Command;

use serde_json::Value;

use super::site::{CORES, Core, Site};
use super::vendor::Vendor;
use super::{HOST, licensed};
use crate::support::{Response, request};

/// The code block of docs/other-clients.md that begins with this line.
fn documented(first_line: &str) -> String {
    let page = include_str!("../../../docs/other-clients.md");
    let start = page
        .find(first_line)
        .unwrap_or_else(|| panic!("docs/other-clients.md has {first_line}"));
    page[start..].split("```").next().unwrap().to_owned()
}

#[test]
fn wordpress_own_filter_reads_the_manifest_with_no_code_of_ours() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        vendor.server.validate(&license, HOST);
        let mut site = Site::new(core, HOST, &vendor.front);
        let code = documented("add_filter( 'update_plugins_licenses.example.com'")
            .replace("update_plugins_licenses.example.com", "update_plugins_127.0.0.1")
            .replace("https://licenses.example.com", &vendor.front.url());
        let main = format!(
            "<?php\n/*\nPlugin Name: Acme Forms\nVersion: 0.9\nUpdate URI: {}/acme-forms\n*/\nconst ACME_KEY = '{}';\n{code}",
            vendor.front.url(),
            license.key
        );
        std::fs::create_dir(site.file("wp-content/plugins/acme-forms")).unwrap();
        std::fs::write(site.file("wp-content/plugins/acme-forms/acme-forms.php"), main).unwrap();
        site.run(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; activate_plugin('acme-forms/acme-forms.php');",
        );
        site.pass(61);
        let text = site.admin.get("/wp-admin/update-core.php?force-check=1").text();
        assert!(
            text.contains("Acme Forms You have version 0.9 installed. Update to 1.0.0."),
            "{text}"
        );
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn clients_that_do_not_know_held_get_the_release_before_or_the_new_one_as_the_entry_says() {
    for (others, expected) in [("hide", "1.0.0"), ("offer", "1.1.0")] {
        for core in [CORES[0], Core::Newest] {
            let (license, table) = licensed();
            let vendor = Vendor::new(&[table]);
            vendor.server.validate(&license, HOST);
            vendor.roll_out(&format!("others = \"{others}\""));
            vendor.release_in_steps("1.1.0", |text| text);

            // WordPress and its own filter.
            let mut site = Site::new(core, HOST, &vendor.front);
            let code = documented("add_filter( 'update_plugins_licenses.example.com'")
                .replace("update_plugins_licenses.example.com", "update_plugins_127.0.0.1")
                .replace("https://licenses.example.com", &vendor.front.url());
            let main = format!(
                "<?php\n/*\nPlugin Name: Acme Forms\nVersion: 0.9\nUpdate URI: {}/acme-forms\n*/\nconst ACME_KEY = '{}';\n{code}",
                vendor.front.url(),
                license.key
            );
            std::fs::create_dir(site.file("wp-content/plugins/acme-forms")).unwrap();
            std::fs::write(site.file("wp-content/plugins/acme-forms/acme-forms.php"), main).unwrap();
            site.run(
                "require_once ABSPATH . 'wp-admin/includes/plugin.php'; activate_plugin('acme-forms/acme-forms.php');",
            );
            site.automate();
            let text = site.check_again();
            let offer = format!("Acme Forms You have version 0.9 installed. Update to {expected}.");
            assert!(text.contains(&offer), "{others}: {text}");
            site.pass(13 * 3600);
            site.cron();
            assert_eq!(site.version(), expected, "{others}: no automatic update waits");

            // EDD's updater, behind the filter of the page.
            let code = documented("add_filter( 'pre_http_request'")
                .replace("https://licenses.example.com", &vendor.front.url());
            let ask = format!(
                "$answer = wp_remote_post( '{}/api/v1/updates/acme-forms/', [ 'timeout' => 15, 'body' => [ 'edd_action' => \
                 'get_version', 'license' => '{}', 'item_name' => 'Acme Forms', 'slug' => 'acme-forms', 'url' => home_url() ] ] ); \
                 echo json_decode( wp_remote_retrieve_body( $answer ) )->new_version;",
                vendor.front.url(),
                license.key
            );
            assert_eq!(site.run(&format!("{code}\n{ask}")).trim(), expected, "{others}");

            // What plugin-update-checker 5 sends. A site that has the release before is offered nothing, or the new one.
            let header = format!("License {}", license.key);
            for (installed, offered) in [
                ("0.9", Some(expected)),
                ("1.0.0", Some(expected).filter(|_| others == "offer")),
            ] {
                let sent = format!("installed_version={installed}&php=8.2.29&locale=en_US&checking_for_updates=1");
                let target = format!("/api/v1/updates/acme-forms?site_url=http%3A%2F%2F{HOST}&{sent}");
                let headers = [("Authorization", header.as_str())];
                let answer = request(vendor.server.address, "GET", &target, &headers, b"");
                let found = answer.json()["version"].as_str().map(str::to_owned);
                let newer = found.filter(|found| found != installed);
                assert_eq!(newer.as_deref(), offered, "{others} {installed}");
            }
        }
    }
}

/// Acme Forms in this version, with plugin-update-checker and the code of the page.
fn install_update_checker(site: &Site, version: &str, key: &str, vendor: &str) {
    let copy = std::env::var_os("COUNTERSIGN_PUC").expect("COUNTERSIGN_PUC names a folder with plugin-update-checker");
    let plugin = site.file("wp-content/plugins/acme-forms");
    std::fs::create_dir(&plugin).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(copy)
        .arg(plugin.join("checker"))
        .status();
    assert!(copied.unwrap().success());
    let code = documented("$acme_updates = PucFactory").replace("https://licenses.example.com", vendor);
    let main = format!(
        "<?php\n/*\nPlugin Name: Acme Forms\nVersion: {version}\n*/\n\
         use YahnisElsts\\PluginUpdateChecker\\v5\\PucFactory;\n\
         require __DIR__ . '/checker/plugin-update-checker.php';\nconst ACME_KEY = '{key}';\n{code}"
    );
    std::fs::write(plugin.join("acme-forms.php"), main).unwrap();
    site.run("require_once ABSPATH . 'wp-admin/includes/plugin.php'; activate_plugin('acme-forms/acme-forms.php');");
}

#[test]
#[ignore = "needs a copy of plugin-update-checker"]
fn plugin_update_checker_gets_the_release_before_or_the_new_one_as_the_entry_says() {
    for (others, expected) in [("hide", "1.0.0"), ("offer", "1.1.0")] {
        for core in [CORES[0], Core::Newest] {
            for installed in ["0.9", "1.0.0"] {
                let (license, table) = licensed();
                let vendor = Vendor::new(&[table]);
                vendor.server.validate(&license, HOST);
                vendor.roll_out(&format!("others = \"{others}\""));
                vendor.release_in_steps("1.1.0", |text| text);
                let mut site = Site::new(core, HOST, &vendor.front);
                install_update_checker(&site, installed, &license.key, &vendor.front.url());
                site.automate();
                let text = site.check_again();
                let offer = format!("Acme Forms You have version {installed} installed. Update to {expected}.");
                assert_eq!(
                    text.contains(&offer),
                    installed != expected,
                    "{others} {installed}: {text}"
                );
                site.pass(13 * 3600);
                site.cron();
                assert_eq!(
                    site.version(),
                    expected,
                    "{others} {installed}: no automatic update waits"
                );
                assert_eq!(site.complaints(), [""; 0]);
            }
        }
    }
}

fn answer(current_version: &str) -> Response {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    vendor.server.validate(&license, HOST);
    vendor.server.updates(
        &license,
        HOST,
        &format!("&current_version={current_version}&slug=acme-forms&php=8.2"),
    )
}

fn is_text(value: &Value) -> bool {
    value.is_string()
}

fn is_filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// A map of texts; an array would become a list in PHP.
fn is_map(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.values().all(Value::is_string))
}

#[test]
fn plugin_update_checker_5_finds_the_fields_it_reads() {
    let manifest = answer("").json();
    for field in ["name", "version", "slug", "download_url", "homepage"] {
        assert!(is_filled(&manifest[field]), "{field}: {manifest}");
    }
    for field in [
        "author",
        "author_homepage",
        "requires",
        "tested",
        "requires_php",
        "upgrade_notice",
        "last_updated",
    ] {
        assert!(is_text(&manifest[field]), "{field}: {manifest}");
    }
    for field in ["sections", "icons", "banners"] {
        assert!(is_map(&manifest[field]), "{field}: {manifest}");
    }
    assert!(is_filled(&manifest["sections"]["changelog"]));
    assert_eq!(manifest["translations"], serde_json::json!([]));
}

/// A site of a bound license, a vendor, and the page's code for it with the vendor's address.
fn site_with(first_line: &str) -> (Vendor, Site, String, String) {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    vendor.server.validate(&license, HOST);
    let site = Site::new(CORES[0], HOST, &vendor.front);
    let code = documented(first_line).replace("https://licenses.example.com", &vendor.front.url());
    (vendor, site, code, license.key)
}

#[test]
fn the_edd_updater_gets_its_answer_through_the_filter_of_the_page_and_the_key_in_the_header() {
    let (vendor, site, code, key) = site_with("add_filter( 'pre_http_request'");
    let address = format!("{}/api/v1/updates/acme-forms/", vendor.front.url());
    // What the class does: a POST with names of its own, and an answer with `sections` in it.
    let ask = format!(
        "$answer = wp_remote_post( '{address}', [ 'timeout' => 15, 'body' => [ 'edd_action' => 'get_version', \
         'license' => '{key}', 'item_name' => 'Acme Forms', 'slug' => 'acme-forms', 'url' => home_url() ] ] ); \
         $read = json_decode( wp_remote_retrieve_body( $answer ) ); \
         echo wp_remote_retrieve_response_code( $answer ), ' ', isset( $read->sections ) ? $read->new_version : 'none';"
    );
    assert_eq!(site.run(&ask).trim(), "404 none", "without the filter");
    assert_eq!(site.run(&format!("{code}\n{ask}")).trim(), "200 1.0.0");
    let unlicensed = ask.replace(&key, "nobody");
    assert!(
        site.run(&format!("{code}\n{unlicensed}")).trim().ends_with(" none"),
        "a refusal is no offer"
    );
    // Somebody else's request is let alone.
    let other = ask.replace("/api/v1/updates/acme-forms/", "/healthz/");
    assert_eq!(site.run(&format!("{code}\n{other}")), site.run(&other));
}

#[test]
fn plugin_update_checker_5_is_answered_with_the_parameters_it_sends_and_the_key_in_the_header() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    vendor.server.validate(&license, HOST);
    let header = format!("License {}", license.key);
    let sent = "installed_version=0.9&php=8.2.29&locale=en_US&checking_for_updates=1";
    let target = format!("/api/v1/updates/acme-forms?site_url=http%3A%2F%2F{HOST}&{sent}");
    let answer = request(
        vendor.server.address,
        "GET",
        &target,
        &[("Authorization", header.as_str())],
        b"",
    );
    assert_eq!((answer.status, answer.json()["version"].as_str()), (200, Some("1.0.0")));
}

#[test]
fn the_edd_updater_finds_the_fields_it_reads() {
    let manifest = answer("").json();
    for field in [
        "new_version",
        "name",
        "slug",
        "package",
        "download_link",
        "url",
        "homepage",
    ] {
        assert!(is_filled(&manifest[field]), "{field}: {manifest}");
    }
    // It goes by these two: without sections it takes an answer for none, and sections, icons and banners are maps or
    // serialized PHP, never lists.
    for field in ["sections", "icons", "banners"] {
        assert!(is_map(&manifest[field]), "{field}: {manifest}");
    }
    // Nobody is offered anything by an answer without them.
    assert_eq!(answer("1.0.0").text(), "{}");
}
