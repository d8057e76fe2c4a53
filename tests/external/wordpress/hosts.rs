//! A site whose address comes from each request: a forged host does not change its license, but a person can move it.

use super::front::{Answer, Asked, Front};
use super::site::{CORES, Core, Site};
use super::vendor::{Vendor, with_settings};
use super::{ACTIVE, HOST, LICENSE};
use crate::support::License;
use crate::support::instance::shared_keys;

const FORGED: &str = "forged.example";
const DAY: i64 = 86_400;

/// A site with `define('WP_HOME', 'http://' . $_SERVER['HTTP_HOST'])` and a license for two sites.
fn site_of_any_host(core: Core, settings: &str) -> (License, Vendor, Site) {
    let license = License::new();
    let tables = [license.toml("sites = 2")];
    let vendor = Vendor::of(
        "acme-forms",
        Front::new(),
        shared_keys(),
        &tables,
        with_settings(settings),
    );
    let mut site = Site::new(core, HOST, &vendor.front);
    std::fs::write(site.file("any-host"), "").unwrap();
    site.install("acme-forms", &vendor.archive("1.0.0"));
    vendor.front.take_asked();
    (license, vendor, site)
}

impl Site {
    /// Two days of visits and of WP-Cron, every request with this host.
    fn visited_as(&mut self, host: &str) {
        let before = std::mem::replace(&mut self.host, host.to_owned());
        for _ in 0..2 {
            self.pass(DAY);
            assert_eq!(self.visitor().get("/").status, 200);
            self.pass(61);
            self.cron();
        }
        self.host = before;
    }
}

/// The sites that were named in questions since the last call.
fn sites(vendor: &Vendor) -> Vec<String> {
    let site_of = |asked: Asked| match asked.is_validation() {
        true => asked.json()["site_url"].as_str().unwrap().to_owned(),
        false => asked.target,
    };
    vendor.front.take_asked().into_iter().map(site_of).collect()
}

#[test]
fn a_forged_host_neither_validates_nor_activates_nor_deactivates() {
    for core in CORES {
        let (license, vendor, mut site) = site_of_any_host(core, "'build_id' => ''");
        assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
        sites(&vendor);
        site.visited_as(FORGED);
        assert_eq!(sites(&vendor), [""; 0], "{core:?}");
        site.host = FORGED.into();
        let call = |code: &str| format!("echo acme_forms_license()->{code};");
        assert_eq!(site.run(&call("deactivate()")), "moved");
        assert_eq!(site.run(&call(&format!("activate('{}')", license.key))), "moved");
        site.host = HOST.into();
        assert_eq!(sites(&vendor), [""; 0], "{core:?}");
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");

        site.visited_as(HOST);
        let asked = sites(&vendor);
        assert!(asked.contains(&format!("http://{HOST}")), "{asked:?}");
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
        // The second seat is free still.
        assert_eq!(vendor.server.validate(&license, "second.example").json()["code"], "ok");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_forged_host_binds_no_key_that_still_waits_for_an_answer() {
    let (license, vendor, mut site) = site_of_any_host(Core::Newest, "'build_id' => ''");
    vendor.front.answer_with(Answer::Nothing);
    site.press("acme-forms", "activate", &license.key);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "pending");
    vendor.front.answer_with(Answer::Forward);
    sites(&vendor);
    site.visited_as(FORGED);
    assert_eq!(sites(&vendor), [""; 0]);
    site.visited_as(HOST);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
}

#[test]
fn a_forged_host_binds_no_key_of_wp_config() {
    let (license, vendor, mut site) = site_of_any_host(Core::Debian, "'key_constant' => 'ACME_FORMS_KEY'");
    let constants = serde_json::json!({ "ACME_FORMS_KEY": license.key }).to_string();
    std::fs::write(site.file("constants.json"), constants).unwrap();
    site.visited_as(FORGED);
    assert_eq!(sites(&vendor), [""; 0]);
    // The address that WordPress was installed with needs nobody's leave.
    site.visited_as(HOST);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    site.visited_as(FORGED);
    assert!(sites(&vendor).iter().all(|asked| !asked.contains(FORGED)));
}

#[test]
fn a_site_that_moved_takes_its_license_along_when_a_person_says_so() {
    for core in CORES {
        let (license, vendor, mut site) = site_of_any_host(core, "'build_id' => ''");
        site.press("acme-forms", "activate", &license.key);
        site.host = "new.example".into();
        site.admin = site.visitor();
        site.admin.log_in();
        sites(&vendor);
        let moved = "This license was activated on customer.example, and this site is new.example now. If the site has moved, \
                     use the license here.";
        let told = format!("Acme Forms: {moved} License");
        // The dashboard that follows a login has told it already.
        site.run(&format!("{LICENSE} $license->tell('');"));
        assert_eq!(site.admin.get("/wp-admin/tools.php").notices(), [told]);
        assert_eq!(site.admin.get("/wp-admin/tools.php").notices(), [""; 0], "told once");
        let page = site.admin.get(&site.license_page("acme-forms"));
        assert_eq!(page.notices(), [moved]);
        assert!(page.text().contains("Use the license here"), "{}", page.text());
        assert_eq!(site.press("acme-forms", "check", "").notices(), [moved]);
        assert_eq!(sites(&vendor), [""; 0]);

        assert_eq!(site.press("acme-forms", "move", "").notices(), [ACTIVE]);
        assert_eq!(sites(&vendor)[0], "http://new.example");
        let page = site.admin.get(&site.license_page("acme-forms"));
        assert!(!page.text().contains("Use the license here"), "{}", page.text());
        // From now on the old address is the other one.
        site.visited_as(HOST);
        assert_eq!(sites(&vendor), [""; 0]);
        site.visited_as("new.example");
        assert!(sites(&vendor).contains(&"http://new.example".to_owned()));
        assert_eq!(site.complaints(), [""; 0]);
    }
}
