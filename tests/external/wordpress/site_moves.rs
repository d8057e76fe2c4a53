//! A customer deactivates the license on one site, so that another one can use it; and what happens where that fails.

use serde_json::Value;

use super::front::{Answer, Front, response};
use super::site::{CORES, Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, active_site, licensed};
use crate::support::instance::shared_keys;
use crate::support::server::countersign;

const SECRET: &str = "countersign_acme-forms_secret";

/// The lines of the vendor's ledger about releases.
fn released(vendor: &Vendor) -> Vec<Value> {
    let ledger = std::fs::read_to_string(vendor.instance.file("store/ledger.jsonl")).unwrap();
    let lines = ledger.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == "released").collect()
}

#[test]
fn a_license_that_is_deactivated_on_one_site_is_active_on_another() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut old = active_site(Core::Debian, &vendor, HOST, &license.key);
    let kept = format!(
        "global $wpdb; echo $wpdb->get_var(\"SELECT autoload FROM $wpdb->options WHERE option_name = '{SECRET}'\");"
    );
    assert!(["no", "off"].contains(&&*old.run(&kept)), "no page loads the secret");
    let secret = old.run(&format!("echo get_option('{SECRET}');"));
    let mut new = Site::new(Core::Newest, "new.example", &vendor.front);
    new.install("acme-forms", &vendor.archive("1.0.0"));
    assert!(new.press("acme-forms", "activate", &license.key).notices()[0].contains("in use on another site"));

    let page = old.press("acme-forms", "remove", "");
    assert!(
        page.text().contains("Deactivate the license on this site?"),
        "{}",
        page.text()
    );
    vendor.front.take_asked();
    let page = old.press("acme-forms", "remove_really", "");
    assert!(
        page.notices()[0].contains("It can be used on another site now."),
        "{:?}",
        page.notices()
    );
    let asked = vendor.front.take_asked();
    let release = asked
        .iter()
        .find(|asked| asked.target == "/api/v1/release-site")
        .unwrap()
        .json();
    assert_eq!(release["release_secret"], *secret);
    assert_eq!(old.vendor_sees("acme-forms")["condition"], "no_key");
    assert_eq!(
        old.run(&format!("var_export(get_option('{SECRET}'));")),
        "false",
        "the next binding gets another one"
    );
    let lines = released(&vendor);
    assert_eq!(
        (lines.len(), &lines[0]["how"], &lines[0]["host"]),
        (1, &"secret".into(), &HOST.into())
    );

    assert_eq!(new.press("acme-forms", "check", "").notices(), [ACTIVE]);
    assert!(old.press("acme-forms", "activate", &license.key).notices()[0].contains("in use on another site"));
    for site in [&old, &new] {
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn without_a_signed_answer_the_license_stays_until_a_person_removes_it_all_the_same() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    let json = [("Content-Type", "application/json")];
    let forged = r#"{"code":"released","signature":"AAAA","status":"released"}"#;
    for answer in [
        Answer::Nothing,
        Answer::Fixed(response(200, &json, "{}")),
        Answer::Fixed(response(200, &json, forged)),
        Answer::Fixed(response(503, &json, "{}")),
    ] {
        vendor.front.answer_with(answer);
        let page = site.press("acme-forms", "remove_really", "");
        assert!(
            page.notices()[0].contains("did not release this site"),
            "{:?}",
            page.notices()
        );
        assert!(page.html.contains("value=\"remove_only\""));
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    }
    // A signed answer that says something else releases nothing either.
    vendor.front.answer_with(Answer::Forward);
    site.run(&format!("update_option('{SECRET}', str_repeat('0', 64));"));
    let page = site.press("acme-forms", "remove_really", "");
    assert!(
        page.notices()[0].contains("Only the site itself can give up its license"),
        "{:?}",
        page.notices()
    );
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert!(released(&vendor).is_empty());

    // Whose secret is lost is released by the vendor.
    let output = countersign(&vendor.instance)
        .args(["license", "release", &license.id])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    crate::support::eventually("the release is in force", || {
        vendor.server.updates(&license, HOST, "").code() == "license_not_bound"
    });
    let page = site.press("acme-forms", "remove_really", "");
    assert!(
        page.notices()[0].contains("It can be used on another site now"),
        "{:?}",
        page.notices()
    );
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");

    site.press("acme-forms", "activate", &license.key);
    vendor.front.answer_with(Answer::Nothing);
    let page = site.press("acme-forms", "remove_only", "");
    assert!(
        page.notices()[0].contains("was removed from this site"),
        "{:?}",
        page.notices()
    );
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_plugin_that_is_deleted_gives_its_seat_back_and_installed_again_it_did_not_move() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = Site::new(core, HOST, &vendor.front);
        // More often than a license may move in a month.
        for _ in 0..7 {
            site.install("acme-forms", &vendor.archive("1.0.0"));
            assert_eq!(
                site.press("acme-forms", "activate", &license.key).notices(),
                [ACTIVE],
                "{core:?}"
            );
            site.delete("acme-forms");
            assert_eq!(site.traces("acme-forms"), "", "{core:?}");
        }
        let lines = released(&vendor);
        assert!(lines.iter().all(|line| line["how"] == "secret" && line["host"] == HOST));
        assert_eq!(lines.len(), 7);
        assert_eq!(vendor.server.validate(&license, "new.example").code(), "ok");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn where_the_server_is_silent_a_deleted_plugin_keeps_its_secret_for_when_it_is_installed_again() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    let mut took = Vec::new();
    for answer in [
        Answer::Nothing,
        Answer::Fixed(response(200, &[], "<p>Please log in.")),
        Answer::Drip("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"),
    ] {
        vendor.front.answer_with(answer);
        let began = std::time::Instant::now();
        site.delete("acme-forms");
        took.push(began.elapsed());
        assert_eq!(site.traces("acme-forms"), SECRET);
        vendor.front.answer_with(Answer::Forward);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
    }
    // Five seconds each for the server, and the rest for WordPress on a machine that may be busy.
    let shortest = took.iter().min().unwrap();
    assert!(*shortest < std::time::Duration::from_secs(15), "{took:?}");
    assert_eq!(released(&vendor).len(), 0);
    let page = site.press("acme-forms", "remove_really", "");
    assert!(
        page.notices()[0].contains("It can be used on another site now."),
        "{:?}",
        page.notices()
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_copy_that_is_deleted_gives_nobodys_seat_back() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    site.run("update_option('home', 'http://copy.example');");
    std::fs::write(site.file("any-host"), "").unwrap();
    site.host = "copy.example".into();
    site.admin = site.visitor();
    site.admin.log_in();
    vendor.front.take_asked();
    site.delete("acme-forms");
    let asked = vendor.front.take_asked();
    assert!(
        asked.iter().all(|asked| asked.target != "/api/v1/release-site"),
        "{asked:?}"
    );
    assert_eq!(site.traces("acme-forms"), "");
    assert_eq!(released(&vendor).len(), 0);
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn of_plugins_that_share_a_license_the_last_one_gives_the_seat_back() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    // Another plugin of the same vendor.
    let front = Front::new();
    let own = front.url();
    let shared = vendor.front.url();
    let maps = Vendor::of("acme-maps", front, shared_keys(), &[licensed().1], |text| {
        text.replace(&own, &shared)
    });
    let secret_of_maps = "countersign_acme-maps_secret";
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    site.install("acme-maps", &maps.archive("1.0.0"));
    assert_eq!(site.press("acme-maps", "activate", &license.key).notices(), [ACTIVE]);
    assert_eq!(
        site.run(&format!(
            "var_export(get_option('{SECRET}') === get_option('{secret_of_maps}'));"
        )),
        "true"
    );
    // The one that came first goes first, and its secret is not lost.
    site.delete("acme-forms");
    assert_eq!(released(&vendor).len(), 0);
    assert_eq!(site.press("acme-maps", "check", "").notices(), [ACTIVE]);
    site.delete("acme-maps");
    assert_eq!(released(&vendor).len(), 1);
    assert_eq!(site.traces("acme-forms"), "");

    site.install("acme-maps", &maps.archive("1.0.0"));
    site.press("acme-maps", "activate", &license.key);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    site.delete("acme-maps");
    let page = site.press("acme-forms", "remove_really", "");
    assert!(
        page.notices()[0].contains("It can be used on another site now."),
        "{:?}",
        page.notices()
    );
    assert_eq!(released(&vendor).len(), 2);
    assert_eq!(site.complaints(), [""; 0]);
}
