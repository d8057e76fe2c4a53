//! Clients that vendors have already: WordPress' own filter with a few lines of a vendor's, and the field shapes that
//! plugin-update-checker 5 and the EDD updater read.

use serde_json::Value;

use super::site::{CORES, Site};
use super::vendor::Vendor;
use super::{HOST, licensed};
use crate::support::Response;

/// The code block of docs/wordpress.md that begins with this line.
fn documented(first_line: &str) -> String {
    let page = include_str!("../../../docs/wordpress.md");
    let start = page.find(first_line).unwrap_or_else(|| panic!("docs/wordpress.md has {first_line}"));
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
        assert!(text.contains("Acme Forms You have version 0.9 installed. Update to 1.0.0."), "{text}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

fn answer(current_version: &str) -> Response {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    vendor.server.validate(&license, HOST);
    vendor.server.updates(&license, HOST, &format!("&current_version={current_version}&slug=acme-forms&php=8.2"))
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
    for field in ["author", "author_homepage", "requires", "tested", "requires_php", "upgrade_notice", "last_updated"] {
        assert!(is_text(&manifest[field]), "{field}: {manifest}");
    }
    for field in ["sections", "icons", "banners"] {
        assert!(is_map(&manifest[field]), "{field}: {manifest}");
    }
    assert!(is_filled(&manifest["sections"]["changelog"]));
    assert_eq!(manifest["translations"], serde_json::json!([]));
}

#[test]
fn the_edd_updater_finds_the_fields_it_reads() {
    let manifest = answer("").json();
    for field in ["new_version", "name", "slug", "package", "download_link", "url", "homepage"] {
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
