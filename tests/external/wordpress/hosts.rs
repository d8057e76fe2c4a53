//! A site whose address comes from each request: a forged host does not change its license, but a person can move it.

use std::sync::Arc;

use chrono::{Days, Utc};
use countersign_model::digest::Digest;

use super::front::{Answer, Asked, Front, response};
use super::site::{CORES, Core, Site};
use super::vendor::{Vendor, with_settings};
use super::{ACTIVE, HOST, active_site, licensed};
use crate::support::instance::shared_keys;
use crate::support::server::countersign;
use crate::support::{License, eventually};

const MOVED: &str = "This license was activated on customer.example, and this site is new.example now. Please say on the \
                     license page whether the site has moved or is a copy.";
const SECRET: &str = "echo get_option('countersign_acme-forms_secret');";
const NEXT: &str = "echo get_option('countersign_acme-forms_secret_next');";
const FORGED: &str = "forged.example";
const DAY: i64 = 86_400;

/// The sites that gave their place back with a secret, by the vendor's ledger.
fn released(vendor: &Vendor) -> Vec<String> {
    let ledger = std::fs::read_to_string(vendor.instance.file("store/ledger.jsonl")).unwrap();
    let lines = ledger
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let released = lines.filter(|line| line["event"] == "released" && line["how"] == "secret");
    released.map(|line| line["host"].as_str().unwrap().to_owned()).collect()
}

/// A site with `define('WP_HOME', 'http://' . $_SERVER['HTTP_HOST'])` and a license for two sites.
fn site_of_any_host(core: Core, settings: &str) -> (License, Vendor, Site) {
    site_of_license(core, settings, "sites = 2")
}

fn site_of_license(core: Core, settings: &str, fields: &str) -> (License, Vendor, Site) {
    let license = License::new();
    let tables = [license.toml(fields)];
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

impl Site {
    /// Its files and its database are at another host now.
    pub fn moved_to(&mut self, host: &str) {
        self.host = host.into();
        self.admin = self.visitor();
        self.admin.log_in();
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
        site.moved_to("new.example");
        sites(&vendor);
        let moved = |notices: Vec<String>, before: &str| {
            let [notice] = &notices[..] else {
                panic!("{core:?}: {notices:?}")
            };
            notice.starts_with(&format!(
                "{before}{MOVED} Until you do, the license server is not asked"
            ))
        };
        assert!(moved(site.admin.get("/wp-admin/tools.php").notices(), "Acme Forms: "));
        let page = site.admin.get(&site.license_page("acme-forms"));
        assert!(moved(page.notices(), ""));
        for answer in [
            "The site has moved here",
            "This is a copy",
            "and customer.example loses it",
        ] {
            assert!(page.text().contains(answer), "{}", page.text());
        }
        assert!(moved(site.press("acme-forms", "check", "").notices(), ""));
        assert!(!page.html.contains("value=\"remove\""), "first the answer");
        assert!(moved(site.press("acme-forms", "remove_really", "").notices(), ""));
        // The key does not say whether it has moved.
        assert!(moved(site.press("acme-forms", "activate", &license.key).notices(), ""));
        assert_eq!(sites(&vendor), [""; 0]);

        let secret = site.run(SECRET);
        assert_eq!(site.press("acme-forms", "move", "").notices(), [ACTIVE]);
        let asked = vendor.front.take_asked();
        let moves: Vec<_> = asked
            .iter()
            .filter(|asked| asked.target == "/api/v1/release-site")
            .collect();
        let [step] = moves[..] else { panic!("{asked:?}") };
        let step = step.json();
        assert_eq!(
            [&step["site_url"], &step["new_site_url"]],
            ["https://customer.example", "http://new.example"]
        );
        assert_eq!(step["release_secret"], *secret);
        assert!(!asked.iter().any(Asked::is_validation), "one step does all: {asked:?}");
        let new = site.run(SECRET);
        assert_ne!(new, secret, "the new place has a secret of its own");
        assert_eq!(step["release_hash"], Digest::of(new.as_bytes()).to_string());
        assert_eq!(site.run(NEXT), "", "and no other one");
        assert_eq!(released(&vendor), [HOST]);
        let page = site.admin.get(&site.license_page("acme-forms"));
        assert!(!page.text().contains("This is a copy"), "{}", page.text());
        // From now on the old address is the other one.
        site.visited_as(HOST);
        assert_eq!(sites(&vendor), [""; 0]);
        site.visited_as("new.example");
        assert!(sites(&vendor).contains(&"http://new.example".to_owned()));
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_moved_site_frees_its_only_seat_itself_and_tries_again_where_the_server_is_silent() {
    let (license, vendor, mut site) = site_of_license(Core::Newest, "'build_id' => ''", "");
    site.press("acme-forms", "activate", &license.key);
    site.moved_to("new.example");
    vendor.front.answer_with(Answer::Nothing);
    let page = site.press("acme-forms", "move", "");
    assert!(
        page.notices()[0].contains("gave no answer that can be trusted"),
        "{:?}",
        page.notices()
    );
    assert!(page.text().contains("The site has moved here"), "{}", page.text());
    let secrets = (site.run(SECRET), site.run(NEXT));
    assert!(released(&vendor).is_empty());
    // The server did it, and its answer was lost.
    vendor
        .front
        .answer_with(Answer::Made(Arc::new(|_, _| response(502, &[], ""))));
    let page = site.press("acme-forms", "move", "");
    assert!(
        page.notices()[0].contains("gave no answer that can be trusted"),
        "{:?}",
        page.notices()
    );
    assert_eq!(released(&vendor), [HOST]);
    assert_eq!((site.run(SECRET), site.run(NEXT)), secrets, "none is lost");
    vendor.front.answer_with(Answer::Forward);
    assert_eq!(site.press("acme-forms", "move", "").notices(), [ACTIVE]);
    assert_eq!((site.run(SECRET), site.run(NEXT)), (secrets.1, String::new()));
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    assert_eq!(
        vendor.server.validate(&license, HOST).json()["bound_domain"],
        "new.example"
    );
    assert_eq!(released(&vendor), [HOST], "it moved once");
    // The secret is the one that the server knows.
    let page = site.press("acme-forms", "remove_really", "");
    assert!(
        page.notices()[0].contains("It can be used on another site now."),
        "{:?}",
        page.notices()
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_moved_site_whose_old_place_the_vendor_freed_takes_one_that_is_free() {
    let (license, vendor, mut site) = site_of_license(Core::Newest, "'build_id' => ''", "");
    site.press("acme-forms", "activate", &license.key);
    let freed = countersign(&vendor.instance)
        .args(["license", "release", &license.id])
        .output()
        .unwrap();
    assert!(freed.status.success(), "{}", String::from_utf8_lossy(&freed.stderr));
    site.moved_to("new.example");
    assert_eq!(site.press("acme-forms", "move", "").notices(), [ACTIVE]);
    let page = site.press("acme-forms", "remove_really", "");
    assert!(page.notices()[0].contains("It can be used on another site now."));
    assert_eq!(site.complaints(), [""; 0]);
}

/// Another WordPress whose database has what the client keeps in this one's.
fn clone_of(site: &Site, host: &str, vendor: &Vendor) -> Site {
    let names = "['countersign_acme-forms', 'countersign_acme-forms_secret']";
    let kept = site.run(&format!(
        "echo base64_encode(serialize(array_map('get_option', {names})));"
    ));
    let mut clone = Site::new(Core::Newest, host, &vendor.front);
    clone.install("acme-forms", &vendor.archive("1.0.0"));
    clone.run(&format!(
        "$kept = unserialize(base64_decode('{kept}')); foreach ({names} as $at => $name) {{ delete_option($name); \
         add_option($name, $kept[$at]); }}"
    ));
    clone
}

#[test]
fn a_clone_does_nothing_by_itself_and_what_a_wrong_click_took_comes_back_by_a_click() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    let mut clone = clone_of(&site, "clone.example", &vendor);
    vendor.front.take_asked();
    // WP-Cron, visitors and an administrator, for two days.
    clone.visited_as("clone.example");
    for page in ["/wp-admin/", "/wp-admin/plugins.php", "/wp-admin/update-core.php"] {
        assert!(clone.admin.get(page).text().contains("is clone.example now"), "{page}");
    }
    let page = clone.admin.get(&clone.license_page("acme-forms"));
    assert!(
        page.text().contains("Choose this if customer.example goes on"),
        "{}",
        page.text()
    );
    let asked = vendor.front.take_asked();
    assert!(
        asked
            .iter()
            .all(|asked| !asked.is_validation() && asked.target != "/api/v1/release-site"),
        "{asked:?}"
    );
    assert!(released(&vendor).is_empty());
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);

    // The wrong button. The site itself goes on asking for days, and takes nothing back by itself.
    assert_eq!(clone.press("acme-forms", "move", "").notices(), [ACTIVE]);
    site.visited_as(HOST);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "bound_elsewhere");
    assert_eq!(clone.press("acme-forms", "check", "").notices(), [ACTIVE]);
    let page = site.admin.get(&site.license_page("acme-forms"));
    for said in ["(clone.example)", "Was that a mistake?", "Use the license here again"] {
        assert!(page.text().contains(said), "{}", page.text());
    }
    let old = site.run(SECRET);
    // An answer that is lost costs nothing.
    vendor
        .front
        .answer_with(Answer::Made(Arc::new(|_, _| response(502, &[], ""))));
    assert!(site.press("acme-forms", "take_back", "").notices()[0].contains("gave no answer that can be trusted"));
    vendor.front.answer_with(Answer::Forward);
    assert_eq!(site.press("acme-forms", "take_back", "").notices(), [ACTIVE]);
    assert_ne!(site.run(SECRET), old);
    assert_eq!(site.run(NEXT), "");
    assert!(clone.press("acme-forms", "check", "").notices()[0].contains("in use on another site (customer.example)"));
    let page = clone.press("acme-forms", "take_back", "");
    assert!(
        page.notices()[0].contains("The license stays on the other site, and nothing was changed."),
        "{:?}",
        page.notices()
    );
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
    // With its new secret the site goes when it wants.
    let page = site.press("acme-forms", "remove_really", "");
    assert!(
        page.notices()[0].contains("It can be used on another site now."),
        "{:?}",
        page.notices()
    );
    for site in [&site, &clone] {
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_copy_takes_a_seat_and_a_secret_of_its_own_and_leaves_the_other_site_alone() {
    for (fields, notice, condition) in [
        ("sites = 2", ACTIVE, "active"),
        (
            "",
            "This license is in use on another site (customer.example).",
            "bound_elsewhere",
        ),
    ] {
        let (license, vendor, mut site) = site_of_license(Core::Newest, "'build_id' => ''", fields);
        site.press("acme-forms", "activate", &license.key);
        let secret = site.run(SECRET);
        site.moved_to("new.example");
        sites(&vendor);
        let page = site.press("acme-forms", "copy", "");
        assert!(page.notices()[0].starts_with(notice), "{:?}", page.notices());
        assert_eq!(sites(&vendor)[0], "http://new.example");
        assert_ne!(site.run(SECRET), secret);
        assert_eq!(site.vendor_sees("acme-forms")["condition"], condition);
        assert!(
            !site
                .admin
                .get(&site.license_page("acme-forms"))
                .text()
                .contains("This is a copy")
        );
        // What the copy gives back is its own place.
        site.press("acme-forms", "remove_really", "");
        assert_eq!(vendor.server.validate(&license, HOST).json()["code"], "ok");
        assert!(released(&vendor).iter().all(|host| host == "new.example"));
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_moved_site_without_its_secret_says_why_the_old_seat_stays() {
    let (license, vendor, mut site) = site_of_license(Core::Newest, "'build_id' => ''", "");
    site.press("acme-forms", "activate", &license.key);
    site.run("delete_option('countersign_acme-forms_secret');");
    site.moved_to("new.example");
    // The license works until its grace is over, and when that was, the refusal still takes no way back.
    for _ in 0..2 {
        let page = site.press("acme-forms", "move", "");
        let said = &page.notices()[0];
        assert!(
            said.starts_with("The license is still on customer.example, and nothing was changed: Only the site itself can give up its license"),
            "{said}"
        );
        assert!(page.text().contains("The site has moved here"), "{}", page.text());
        site.pass(4 * DAY);
    }
    assert!(released(&vendor).is_empty());
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn the_notice_of_a_moved_site_says_its_licenses_own_condition_too() {
    let today = Utc::now().date_naive();
    let soon = today + Days::new(5);
    for (fields, expires, condition, own) in [
        (
            "",
            today - Days::new(1),
            "expired",
            "This license has expired (".to_owned(),
        ),
        (
            "status = \"suspended\"",
            today + Days::new(300),
            "suspended",
            "This license is suspended. Please contact the vendor.".to_owned(),
        ),
        (
            "",
            soon,
            "active",
            format!("The license is valid through {}.", soon.format("%B %-d, %Y")),
        ),
    ] {
        let (license, vendor, mut site) = site_of_license(Core::Newest, "'build_id' => ''", "");
        site.press("acme-forms", "activate", &license.key);
        let table = license.toml_with(&expires.to_string(), fields, "forms = []");
        vendor.instance.write_licenses(&[table]);
        eventually("the server knows", || {
            vendor.server.validate(&license, HOST).json()["expires"] == expires.to_string()
        });
        site.pass(25 * 3_600);
        site.cron();
        assert_eq!(site.vendor_sees("acme-forms")["condition"], condition);
        site.moved_to("new.example");
        let notices = site.admin.get("/wp-admin/tools.php").notices();
        let is_both = notices.len() == 1 && notices[0].contains(MOVED) && notices[0].contains(&own);
        assert!(is_both, "{condition}: {notices:?}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn every_administrator_of_a_moved_site_hears_when_its_license_ends_and_that_it_has_ended() {
    let (license, _vendor, mut site) = site_of_any_host(Core::Newest, "'build_id' => ''");
    site.press("acme-forms", "activate", &license.key);
    site.run("wp_insert_user(['user_login' => 'second', 'user_pass' => 'password', 'role' => 'administrator']);");
    site.moved_to("new.example");
    let mut second = site.visitor();
    second.log_in_as("second");
    let tools = "/wp-admin/tools.php";
    let page = site.admin.get(tools);
    let until = site
        .run("$memory = get_option('countersign_acme-forms'); echo wp_date('F j, Y', $memory['seen'] + 72 * 3600);");
    let notice = page.notices()[0].clone();
    assert!(
        notice.starts_with(&format!("Acme Forms: {MOVED} Until you do")) && notice.contains(&until),
        "{until}: {notice}"
    );
    site.admin.get(&page.dismissal());
    assert_eq!(site.admin.get(tools).notices(), [""; 0]);
    assert_eq!(second.get(tools).notices(), [notice]);

    // Nobody is asked, and the license ends: another condition, and another notice.
    site.pass(3 * DAY + 3_600);
    site.cron();
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "grace_over");
    for browser in [&mut site.admin, &mut second] {
        let notices = browser.get(tools).notices();
        assert!(
            notices.len() == 1 && notices[0].contains("counts as not active now"),
            "{notices:?}"
        );
    }
    assert_eq!(site.complaints(), [""; 0]);
}
