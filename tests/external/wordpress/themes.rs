//! A theme with the client: its updates, its license page under Appearance, child themes, networks, and going back.

use std::fs;

use chrono::{Days, Utc};
use serde_json::Value;

use super::front::{Answer, Asked};
use super::going_back::back_to;
use super::site::{Core, Kind, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, licensed};
use crate::support::{License, Response, eventually};

/// The first WordPress that asks themes' own servers for updates, and the newest.
const CORES: [Core; 2] = [Core::Debian, Core::Newest];

/// A site with the theme in version 1.0.0, whose license is active.
fn active_site(core: Core, vendor: &Vendor, license: &License) -> Site {
    let mut site = Site::new(core, HOST, &vendor.front);
    site.install_theme("acme-forms", &vendor.archive("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
    site
}

fn licensed_site(core: Core) -> (Vendor, Site) {
    let (license, table) = licensed();
    let vendor = Vendor::of_kind(Kind::Theme, &[table], |text| text);
    let site = active_site(core, &vendor, &license);
    vendor.front.take_asked();
    (vendor, site)
}

/// Puts a member into each manifest that the server gives out.
fn with_member(vendor: &Vendor, name: &'static str, value: Value) {
    let changed = move |_: &Asked, mut answer: Response| {
        let mut manifest: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if manifest["version"].is_string() {
            manifest[name] = value.clone();
            answer.body = manifest.to_string().into();
        }
        answer
    };
    vendor.front.answer_with(Answer::Made(std::sync::Arc::new(changed)));
}

/// A child theme as a customer makes one, active.
fn adopt_child(site: &mut Site) {
    let child = site.file("wp-content/themes/acme-child");
    fs::create_dir(&child).unwrap();
    let style = "/*\nTheme Name: Child\nTemplate: acme-forms\nVersion: 0.1\n*/";
    fs::write(child.join("style.css"), style).unwrap();
    fs::write(
        child.join("functions.php"),
        "<?php add_action('init', 'acme_forms_license');",
    )
    .unwrap();
    site.activate_theme("acme-child");
}

#[test]
fn a_tag_becomes_an_update_of_the_theme_that_installs_and_leaves_it_active() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        assert!(site.check_again().contains("Your themes are all up to date."));
        let theme = site.theme("acme-forms").unwrap();
        assert_eq!(theme["hasUpdate"], false);
        assert_eq!(theme["autoupdate"]["supported"], true, "the switch is there: {theme}");

        vendor.release("1.1.0", |text| text);
        let text = site.check_again();
        let expected = "Acme Forms You have version 1.0.0 installed. Update to 1.1.0.";
        assert!(text.contains(expected), "{text}");
        let (row, update) = site.row();
        let expected = "There is a new version of Acme Forms available. View version 1.1.0 details or update now";
        assert!(update && row.contains(expected), "{row}");

        // The window that WordPress opens for the details.
        let html = site.theme("acme-forms").unwrap()["update"].as_str().unwrap().to_owned();
        let details = html.split("href=\"").nth(1).unwrap().split('"').next().unwrap();
        let details = details.replace("&#038;", "&").replace("&amp;", "&");
        let details = details.split(HOST).nth(1).expect("a page of this site");
        let window = site.admin.get(details);
        assert_eq!(window.status, 200);
        for expected in [
            "Acme Forms 1.1.0",
            "Description A page for everyone",
            "Changelog",
            "Forms can be exported.",
            "The first release.",
        ] {
            assert!(window.text().contains(expected), "{expected} in {}", window.text());
        }
        let stranger = site.visitor().get(details);
        assert!(
            !stranger.text().contains("Forms can be exported."),
            "{}",
            stranger.text()
        );

        let answer = site.update_now();
        assert_eq!(answer["success"], true, "{answer}");
        assert_eq!(site.version(), "1.1.0");
        let theme = site.theme("acme-forms").unwrap();
        assert_eq!((&theme["active"], &theme["hasUpdate"]), (&true.into(), &false.into()));
        assert!(site.check_again().contains("Your themes are all up to date."));
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
        let asked = vendor.front.take_asked();
        let last = asked.iter().rfind(|asked| !asked.is_validation()).unwrap();
        assert!(last.target.ends_with("&current_version=1.1.0"), "{last:?}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn themes_update_in_bulk_and_by_themselves_also_below_a_child_theme() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        adopt_child(&mut site);
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
        vendor.release("1.1.0", |text| text);
        site.check_again();
        let page = site.admin.get("/wp-admin/update-core.php");
        assert!(!page.text().contains("Child You have version"), "{}", page.text());
        let nonce = page.between("name=\"upgrade-themes\"", "name=\"_wpnonce\" value=\"", "\"");
        let form = [("_wpnonce", nonce.as_str()), ("checked[]", "acme-forms")];
        let page = site
            .admin
            .post("/wp-admin/update-core.php?action=do-theme-upgrade", &form);
        let frame = page.between("<iframe", "src=\"", "\"");
        let done = site.admin.get(&format!("/wp-admin/{frame}")).text();
        assert!(done.contains("Acme Forms updated successfully."), "{done}");
        assert_eq!(site.version(), "1.1.0");

        site.automate();
        vendor.release("1.2.0", |text| text);
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.2.0", "{core:?}");
        let child = site.theme("acme-child").unwrap();
        assert_eq!(child["active"], true);
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_held_theme_is_not_updated_by_itself_and_its_row_says_so() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        site.automate();
        with_member(&vendor, "held", true.into());
        vendor.release("1.1.0", |text| text);
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.0.0", "{core:?}");
        let (row, update) = site.row();
        let held = "Automatic updates do not install it here yet. You can update now.";
        assert!(update && row.contains(held), "{row}");
        assert_eq!(site.update_now()["success"], true);
        assert_eq!(site.version(), "1.1.0");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_theme_with_an_expired_license_learns_of_the_version_and_does_not_get_it() {
    let license = License::new();
    let vendor = Vendor::of_kind(Kind::Theme, &[license.toml("")], |text| text);
    let mut site = active_site(Core::Newest, &vendor, &license);
    let yesterday = Utc::now().date_naive() - Days::new(1);
    let expired = license.toml_with(&yesterday.to_string(), "", "forms = []");
    vendor.instance.write_licenses(&[expired]);
    eventually("the server knows", || {
        vendor.server.validate(&license, HOST).json()["code"] == "expired"
    });
    let page = site.press("acme-forms", "check", "");
    assert!(page.text().contains("This license has expired"), "{}", page.text());
    vendor.release("1.1.0", |text| text);
    site.check_again();
    let (row, update) = site.row();
    let sentences = [
        "Automatic update is unavailable for this theme.",
        "This license has expired",
    ];
    assert!(
        update && sentences.iter().all(|sentence| row.contains(sentence)),
        "{row}"
    );
    let answer = site.update_now();
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(site.version(), "1.0.0");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_theme_goes_back_and_stays_there_until_something_newer_is_out() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        site.automate();
        vendor.release("1.1.0", |text| text);
        site.check_again();
        assert_eq!(site.update_now()["success"], true);
        vendor.front.answer_with(back_to(&vendor, &["1.0.0"]));
        let page = site.press_with("back_really", "version", "1.0.0");
        let done = "The earlier version is installed. Automatic updates wait for a version that is newer than 1.1.0.";
        assert_eq!(page.notices(), [done]);
        assert_eq!(site.version(), "1.0.0");
        assert_eq!(site.theme("acme-forms").unwrap()["active"], true);
        let (row, update) = site.row();
        assert!(update && row.contains("You went back from version 1.1.0"), "{row}");
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.0.0", "{core:?}");
        vendor.release("1.2.0", |text| text);
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.2.0", "{core:?}");
        assert_eq!(site.complaints(), [""; 0]);
        assert!(site.left_unpacked().is_empty());
    }
}

#[test]
fn a_network_has_one_license_for_its_theme_and_a_page_below_its_themes() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::of_kind(Kind::Theme, &[table], |text| text);
        let mut site = Site::network(core, HOST, &vendor.front);
        site.install_theme("acme-forms", &vendor.archive("1.0.0"));
        assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
        vendor.release("1.1.0", |text| text);
        site.pass(61);
        site.admin.get("/wp-admin/network/update-core.php?force-check=1");
        let page = site.admin.get(&site.list());
        let expected = "There is a new version of Acme Forms available. View version 1.1.0 details or update now";
        assert!(page.text().contains(expected), "{}", page.text());
        let link = page.between("data-slug=\"acme-forms\"", "href=\"", "\"");
        assert!(link.contains("themes.php?page=acme-forms-license"), "{link}");
        let answer = site.update_now();
        assert_eq!(answer["success"], true, "{answer}");
        assert_eq!(site.version(), "1.1.0");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_network_whose_main_site_has_another_theme_loads_the_license_for_all_its_sites() {
    let (license, table) = licensed();
    let vendor = Vendor::of_kind(Kind::Theme, &[table], |text| text);
    let mut site = Site::network(Core::Newest, HOST, &vendor.front);
    site.run(&format!(
        "wp_insert_site(['domain' => '{HOST}', 'path' => '/second/', 'network_id' => 1]);"
    ));
    site.install_theme("acme-forms", &vendor.archive("1.0.0"));
    site.activate_theme("plain");
    site.run("switch_to_blog(2); switch_theme('acme-forms');");
    site.neighbour("require_once WP_CONTENT_DIR . '/themes/acme-forms/license.php';");
    assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
    for path in ["/", "/second/"] {
        let seen = site.visitor().get(&format!("{path}?vendor=acme_forms_license"));
        assert!(seen.html.contains("\"active\":true"), "{path}: {}", seen.text());
    }
    vendor.release("1.1.0", |text| text);
    site.pass(61);
    site.admin.get("/wp-admin/network/update-core.php?force-check=1");
    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn who_leaves_the_theme_is_asked_for_no_more_validations_and_who_takes_a_child_of_it_is() {
    let (_vendor, mut site) = licensed_site(Core::Newest);
    let planned = "echo wp_next_scheduled('countersign_acme-forms') ? 'planned' : 'nothing';";
    assert_eq!(site.run(planned), "planned");
    adopt_child(&mut site);
    assert_eq!(site.run(planned), "planned");
    site.activate_theme("plain");
    assert_eq!(site.run(planned), "nothing");
    site.activate_theme("acme-forms");
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert_eq!(site.complaints(), [""; 0]);
}
