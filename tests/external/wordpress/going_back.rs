//! Going back to an earlier version, and security releases for expired licenses.

use std::sync::Arc;

use chrono::{Days, Utc};
use serde_json::json;

use super::front::{Answer, response};
use super::site::{Core, Site};
use super::updates::licensed_site;
use super::vendor::Vendor;
use super::{ACTIVE, HOST, active_site, licensed};
use crate::support::{License, eventually};

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// The manifest of a version as the server answers it.
fn manifest(vendor_url: &str, version: &str) -> serde_json::Value {
    json!({
        "slug": "acme-forms", "version": version, "requires": "6.0", "requires_php": "7.4",
        "package": format!("{vendor_url}/downloads/acme-forms-{version}.zip"),
    })
}

/// A server that lets sites go back to these versions.
pub fn back_to(vendor: &Vendor, versions: &'static [&'static str]) -> Answer {
    let url = vendor.front.url();
    Answer::Made(Arc::new(move |asked, answer| {
        let path = asked.target.split('?').next().unwrap();
        let Some(wanted) = path.strip_prefix("/api/v1/releases/acme-forms") else {
            return answer;
        };
        let body = match wanted.strip_prefix('/') {
            None => {
                let listed =
                    |version| json!({ "version": version, "last_updated": "2026-11-20 10:17:03", "security": false });
                json!({ "releases": versions.iter().map(listed).collect::<Vec<_>>() })
            }
            Some(version) if versions.contains(&version) => manifest(&url, version),
            Some(_) => {
                let problem = json!({ "code": "release_not_available", "detail": "This site may not go back to it." });
                return response(404, &JSON, problem.to_string());
            }
        };
        response(200, &JSON, body.to_string())
    }))
}

/// A site with version 1.1.0, after 1.0.0, whose server lets it go back to these versions.
fn updated_site(core: Core, versions: &'static [&'static str]) -> (Vendor, Site) {
    let (vendor, mut site) = licensed_site(core);
    site.automate();
    vendor.release("1.1.0", |text| text);
    site.check_again();
    assert_eq!(site.update_now()["success"], true);
    vendor.front.answer_with(back_to(&vendor, versions));
    (vendor, site)
}

#[test]
fn a_person_takes_a_site_back_and_it_stays_there_until_something_newer_than_what_was_fled_is_out() {
    for core in [Core::Debian, Core::Restoring, Core::Newest] {
        let (vendor, mut site) = updated_site(core, &["1.0.0"]);
        let page = site.press("acme-forms", "back", "");
        let question = "Data that version 1.1.0 has changed stays changed.";
        let text = page.text();
        assert!(text.contains("1.0.0 (November 20, 2026 10:17 am)"), "{text}");
        assert!(text.contains(question), "{text}");
        assert_eq!(site.version(), "1.1.0", "only asked");

        let page = site.press_with("back_really", "version", "1.0.0");
        let done = "The earlier version is installed. Automatic updates wait for a version that is newer than 1.1.0.";
        assert_eq!(page.notices(), [done]);
        assert_eq!(site.version(), "1.0.0");
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
        let (row, update) = site.row();
        let fled = "You went back from version 1.1.0, so automatic updates wait for a newer one. You can update now.";
        assert!(update && row.contains(fled) && row.contains("Deactivate"), "{row}");

        for _ in 0..2 {
            site.pass(13 * 3600);
            site.cron();
            assert_eq!(site.version(), "1.0.0", "{core:?}");
        }
        vendor.release("1.2.0", |text| text);
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.2.0", "{core:?}");
        assert_eq!(site.complaints(), [""; 0]);
        assert!(site.left_unpacked().is_empty());
    }
}

#[test]
fn a_release_that_breaks_the_site_and_is_fatal_at_activation_is_taken_back_by_the_button() {
    for core in [Core::Debian, Core::Restoring, Core::Newest] {
        let (license, table) = licensed();
        let vendor = Vendor::hosting(&[table]);
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.package("1.0.0"));
        assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
        let run = "acme_forms_license()->run();";
        let broken = format!(
            "{run}\nregister_activation_hook( __FILE__, 'acme_forms_missing' );\n\
             add_action( 'template_redirect', function () {{ acme_forms_missing(); }} );"
        );
        vendor.release("1.1.0", |text| text.replace(run, &broken));
        site.check_again();
        // A page that a person loads asks nobody whether the site still runs.
        assert_eq!(site.update_now()["success"], true);
        assert_eq!(site.version(), "1.1.0");
        assert_eq!(site.visitor().get("/").status, 500, "{core:?}");

        // The server itself lists the release, and gives its package.
        let text = site.press("acme-forms", "back", "").text();
        assert!(text.contains("1.0.0 ("), "{text}");
        let page = site.press_with("back_really", "version", "1.0.0");
        let done = "The earlier version is installed. Automatic updates wait for a version that is newer than 1.1.0.";
        assert_eq!(page.notices(), [done], "{core:?}");
        assert_eq!(site.version(), "1.0.0");
        assert_eq!(site.visitor().get("/").status, 200, "{core:?}");
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
        let (row, update) = site.row();
        assert!(update && row.contains("You went back from version 1.1.0"), "{row}");
        // It can be activated, which the broken one could not.
        let activate = "require_once ABSPATH . 'wp-admin/includes/plugin.php'; $plugin = 'acme-forms/acme-forms.php'; \
                        deactivate_plugins($plugin); echo is_wp_error(activate_plugin($plugin)) ? 'error' : 'active';";
        assert_eq!(site.run(activate), "active");
    }
}

#[test]
fn nothing_but_the_chosen_version_is_installed_in_the_place_of_a_newer_one() {
    let (vendor, mut site) = updated_site(Core::Newest, &["1.0.0", "1.2.0"]);
    let text = site.press("acme-forms", "back", "").text();
    assert!(!text.contains("1.2.0"), "an older one only: {text}");

    // What the server does not list, such as what is below a security release.
    let page = site.press_with("back_really", "version", "0.9.0");
    let refused = "The license server offers no earlier version at the moment: This site may not go back to it.";
    assert_eq!(page.notices(), [refused]);
    let page = site.press_with("back_really", "version", "1.2.0");
    let refused = "The download was refused: it is not the one the license server named.";
    assert_eq!(page.notices(), [refused]);

    // The archive has another version than its name.
    vendor.put_archive_online("1.0.0", vendor.archive("1.1.0"));
    let page = site.press_with("back_really", "version", "1.0.0");
    let refused = "The update was refused: its archive has version 1.1.0, and version 1.0.0 was offered.";
    assert_eq!(page.notices(), [refused]);
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.run("echo get_site_option('countersign_acme-forms_fled');"), "");
    let update =
        "echo isset(get_site_transient('update_plugins')->response['acme-forms/acme-forms.php']) ? 'old' : '';";
    assert_eq!(site.run(update), "", "WordPress never keeps the older one as an update");
    assert!(site.left_unpacked().is_empty(), "{:?}", site.left_unpacked());

    // Who may not update plugins has no button, and no way around it.
    std::fs::write(site.file("constants.json"), r#"{"DISALLOW_FILE_MODS":true}"#).unwrap();
    let target = site.license_page("acme-forms");
    let page = site.admin.get(&target);
    assert!(!page.html.contains("value=\"back\""), "{}", page.html);
    vendor.put_archive_online("1.0.0", vendor.archive("1.0.0"));
    assert_eq!(site.press_with("back_really", "version", "1.0.0").status, 403);
    std::fs::write(site.file("constants.json"), "{}").unwrap();
    let forged = [("_wpnonce", "0123456789"), ("do", "back_really"), ("version", "1.0.0")];
    assert_eq!(site.admin.post(&target, &forged).status, 403);
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_network_goes_back_as_one_and_from_its_own_page() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    vendor.release("1.1.0", |text| text);
    let mut site = Site::network(Core::Debian, HOST, &vendor.front);
    site.run(&format!(
        "wp_insert_site(['domain' => '{HOST}', 'path' => '/second/', 'network_id' => 1]);"
    ));
    site.install("acme-forms", &vendor.archive("1.1.0"));
    assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
    vendor.front.answer_with(back_to(&vendor, &["1.0.0"]));
    let page = site.press_with("back_really", "version", "1.0.0");
    assert!(
        page.notices()[0].starts_with("The earlier version is installed."),
        "{}",
        page.text()
    );
    assert_eq!(site.version(), "1.0.0");
    for path in ["/", "/second/"] {
        let seen = site.visitor().get(&format!("{path}?vendor=acme_forms_license")).html;
        assert!(seen.contains("\"active\":true"), "{path}: {seen}");
    }
    let fled = "switch_to_blog(2); echo get_site_option('countersign_acme-forms_fled');";
    assert_eq!(site.run(fled), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn an_expired_site_gets_the_security_release_that_its_vendor_gives_to_it_and_nothing_else() {
    let license = License::new();
    let vendor = Vendor::new(&[license.toml("")]);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    let yesterday = Utc::now().date_naive() - Days::new(1);
    vendor
        .instance
        .write_licenses(&[license.toml_with(&yesterday.to_string(), "", "forms = []")]);
    eventually("the server knows", || {
        vendor.server.validate(&license, HOST).json()["code"] == "expired"
    });
    site.press("acme-forms", "check", "");
    let notice = "== Upgrade Notice ==\n\n= 1.1.0 =\nSecurity: forms leak.\n\n== Changelog ==";
    vendor.release("1.1.0", |text| text.replace("== Changelog ==", notice));
    vendor.release("1.2.0", |text| text);

    // An older server does not know the question.
    site.check_again();
    let (row, update) = site.row();
    assert!(update && row.contains("Automatic update is unavailable"), "{row}");
    assert_eq!(site.update_now()["success"], false);

    let url = vendor.front.url();
    let given = manifest(&url, "1.1.0");
    vendor.front.answer_with(Answer::Made(Arc::new(move |asked, answer| {
        if asked.target.starts_with("/api/v1/security-updates/acme-forms?") {
            return response(200, &JSON, given.to_string());
        }
        answer
    })));
    let text = site.check_again();
    let sentence = "It installs although the license has expired.";
    assert!(text.contains("Update to 1.1.0.") && text.contains(sentence), "{text}");
    let (row, update) = site.row();
    assert!(update && row.contains(sentence) && row.contains("update now"), "{row}");
    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "expired");

    // There is nothing more for it: 1.2.0 is no security release.
    vendor.front.answer_with(Answer::Forward);
    site.check_again();
    assert_eq!(site.update_now()["success"], false);
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}
