//! Releases in steps, the way back and security releases, as the server itself answers them.

use chrono::{Days, Utc};

use super::site::{Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, licensed};
use crate::support::{License, eventually};

/// A site with version 1.0.0 of a package that the server hosts.
fn hosted_site(table: String, key: &str) -> (Vendor, Site) {
    let vendor = Vendor::hosting(&[table]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.package("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", key).notices(), [ACTIVE]);
    site.automate();
    (vendor, site)
}

/// The readme says that a version is a security release.
fn security(version: &str) -> impl Fn(String) -> String {
    let section = format!("== Upgrade Notice ==\n\n= {version} =\nSecurity: forms leak.\n\n== Changelog ==");
    move |text| text.replace("== Changelog ==", &section)
}

#[test]
fn a_site_waits_for_its_step_of_a_release_unless_its_owner_presses_the_button() {
    let (license, table) = licensed();
    let (vendor, mut site) = hosted_site(table, &license.key);
    vendor.add_to_entry("\n[rollout]\nsteps = [\"0h 1%\", \"240h 100%\"]\n");
    vendor.release_to("stable&holds=1", "1.1.0", |text| text);
    site.check_again();
    let (row, update) = site.row();
    assert!(
        update && row.contains("Automatic updates install it here from"),
        "{row}"
    );
    site.pass(13 * 3600);
    site.cron();
    assert_eq!(site.version(), "1.0.0");
    assert_eq!(site.update_now()["success"], true);
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn the_server_lets_a_site_go_back_and_not_below_a_security_release() {
    let (license, table) = licensed();
    let (vendor, mut site) = hosted_site(table, &license.key);
    vendor.release("1.1.0", security("1.1.0"));
    vendor.release("1.2.0", |text| text);
    site.check_again();
    assert_eq!(site.update_now()["success"], true);
    let page = site.press("acme-forms", "back", "");
    assert!(
        page.html.contains("value=\"1.1.0\"") && !page.html.contains("value=\"1.0.0\""),
        "{}",
        page.html
    );
    let notices = site.press_with("back_really", "version", "1.0.0").notices();
    assert!(
        notices[0].starts_with("The license server offers no earlier version"),
        "{notices:?}"
    );
    assert_eq!(site.version(), "1.2.0");
    let notices = site.press_with("back_really", "version", "1.1.0").notices();
    assert!(
        notices[0].starts_with("The earlier version is installed."),
        "{notices:?}"
    );
    assert_eq!(site.version(), "1.1.0");
    site.pass(13 * 3600);
    site.cron();
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn the_server_gives_a_security_release_to_an_expired_site() {
    let license = License::new();
    let (vendor, mut site) = hosted_site(license.toml(""), &license.key);
    vendor.add_to_entry("\n[security]\nexpired = \"deliver\"\nlines = \"major\"\n");
    vendor.release("1.1.0", security("1.1.0"));
    vendor.release("1.2.0", |text| text);
    let yesterday = Utc::now().date_naive() - Days::new(1);
    vendor
        .instance
        .write_licenses(&[license.toml_with(&yesterday.to_string(), "", "forms = []")]);
    eventually("the server knows", || {
        vendor.server.validate(&license, HOST).json()["code"] == "expired"
    });
    site.press("acme-forms", "check", "");
    site.check_again();
    let (row, update) = site.row();
    assert!(
        update && row.contains("It installs although the license has expired."),
        "{row}"
    );
    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}
