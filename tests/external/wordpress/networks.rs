//! Networks of sites: one license for all or one for each, with requests, schedules and settings on every site.

use countersign_model::digest::Digest;
use serde_json::json;

use super::front::{Asked, Front};
use super::site::{CORES, Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, LICENSE, licensed};
use crate::support::instance::shared_keys;
use crate::support::{License, post_json};

/// Where the sites of a network are.
const PATHS: [&str; 3] = ["/", "/second/", "/third/"];

const HOUR: i64 = 3_600;

/// A network of three sites, and a vendor whose plugin has these settings, too.
fn network(settings: &str) -> (License, Vendor, Site) {
    let (license, table) = licensed();
    let domain = "'text_domain' => 'acme-forms'";
    let set = |text: String| text.replace(domain, &format!("{settings} {domain}"));
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], set);
    let site = Site::network(Core::Debian, HOST, &vendor.front);
    for path in &PATHS[1..] {
        site.run(&format!(
            "wp_insert_site(['domain' => '{HOST}', 'path' => '{path}', 'network_id' => 1]);"
        ));
    }
    (license, vendor, site)
}

/// Which questions were asked about the license since the last call.
fn validations(vendor: &Vendor) -> Vec<Asked> {
    vendor
        .front
        .take_asked()
        .into_iter()
        .filter(Asked::is_validation)
        .collect()
}

impl Site {
    fn visit_all(&self) {
        for path in PATHS {
            assert_eq!(self.visitor().get(path).status, 200, "{path}");
        }
    }

    fn cron_of_all(&self) {
        for path in PATHS {
            assert_eq!(self.visitor().get(&format!("{path}?cron")).status, 200, "{path}");
        }
    }

    /// What the client keeps, site by site: `option` and `event`, then what it keeps for the network.
    fn kept(&self) -> String {
        self.run(
            "global $wpdb; $like = \"LIKE '%countersign%'\"; foreach ([1, 2, 3] as $blog) { switch_to_blog($blog); \
             echo $wpdb->get_var(\"SELECT count(*) FROM $wpdb->options WHERE option_name $like\") ? 'option ' : '', \
             wp_next_scheduled('countersign_acme-forms') ? 'event' : '', ';'; } \
             echo $wpdb->get_var(\"SELECT count(*) FROM $wpdb->sitemeta WHERE meta_key $like\") ? 'network' : '';",
        )
    }
}

#[test]
fn a_network_has_one_license_for_all_its_sites() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = Site::network(core, HOST, &vendor.front);
        site.run(&format!(
            "wp_insert_site(['domain' => '{HOST}', 'path' => '/second/', 'network_id' => 1]);"
        ));
        site.install("acme-forms", &vendor.archive("1.0.0"));
        assert_eq!(site.press("acme-forms", "activate", &license.key).notices()[0], ACTIVE);
        let second = site.visitor().get("/second/?vendor=acme_forms_license").html;
        assert!(second.contains("\"active\":true"), "{second}");
        let asked = vendor.front.take_asked();
        let sites: Vec<_> = asked
            .iter()
            .filter(|asked| asked.is_validation())
            .map(super::front::Asked::json)
            .collect();
        assert_eq!(sites.len(), 1);
        assert_eq!(sites[0]["site_url"], format!("http://{HOST}/"));
        // The page is the network's, not a site's.
        assert_ne!(
            site.admin
                .get("/wp-admin/options-general.php?page=acme-forms-license")
                .status,
            200
        );
        assert_ne!(
            site.admin
                .get("/second/wp-admin/options-general.php?page=acme-forms-license")
                .status,
            200
        );

        // Sites plan nothing of their own, no matter who visits them.
        let planned = "switch_to_blog(2); echo wp_next_scheduled('countersign_acme-forms') ? 'planned' : 'nothing';";
        assert_eq!(site.run(planned), "nothing");
        site.pass(25 * 3600);
        site.cron();
        assert_eq!(
            vendor
                .front
                .take_asked()
                .iter()
                .filter(|asked| asked.is_validation())
                .count(),
            1
        );
        assert_eq!(site.complaints(), [""; 0]);

        let uninstalled = "Acme\\Forms\\License\\Client::uninstall('acme-forms'); \
            echo json_encode([get_site_option('countersign_acme-forms'), wp_next_scheduled('countersign_acme-forms'), \
            get_site_option('countersign_acme-forms_secret')]);";
        assert_eq!(site.run(uninstalled), "[false,false,false]");
        assert_eq!(
            vendor.server.validate(&license, "other.example").code(),
            "ok",
            "the seat is free"
        );
    }
}

#[test]
fn the_sites_of_a_network_that_share_a_license_share_its_lock() {
    let (license, vendor, mut site) = network("");
    site.install("acme-forms", &vendor.archive("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    let locked = "require ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; \
        WP_Upgrader::create_lock('countersign_acme-forms'); switch_to_blog(2);";
    let unlocked = "restore_current_blog(); WP_Upgrader::release_lock('countersign_acme-forms'); switch_to_blog(2);";
    let validate = "echo $license->validate(), ' ';";
    assert_eq!(
        site.run(&format!("{LICENSE} {locked} {validate} {unlocked} {validate}")),
        "busy ok "
    );
}

#[test]
fn a_network_that_activates_the_plugin_site_by_site_asks_once_for_all() {
    let (license, vendor, mut site) = network("");
    site.upload("acme-forms", &vendor.archive("1.0.0"));
    let plugins = "update_option('active_plugins', ['acme-forms/acme-forms.php']);";
    site.run(&format!(
        "foreach ([1, 2, 3] as $blog) {{ switch_to_blog($blog); {plugins} }}"
    ));
    assert_eq!(
        site.run(&format!("{LICENSE} echo $license->activate('{}');", license.key)),
        "ok"
    );
    site.visit_all();
    assert_eq!(site.kept(), "event;event;event;network");
    vendor.front.take_asked();
    for _ in 0..2 {
        site.pass(25 * HOUR);
        site.cron_of_all();
        site.visit_all();
        site.cron_of_all();
        assert_eq!(validations(&vendor).len(), 1);
    }
    assert_eq!(site.kept(), "event;event;event;network");

    site.run(&format!("{LICENSE} $license->deactivate();"));
    site.visit_all();
    site.pass(25 * HOUR);
    site.cron_of_all();
    assert_eq!(validations(&vendor).len(), 0);
    assert_eq!(site.kept(), ";;;network");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn each_site_of_a_network_may_have_a_license_of_its_own() {
    let (license, vendor, mut site) = network("'network' => false,");
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let activate = format!(
        "switch_to_blog(2); {LICENSE} echo $license->activate('{}');",
        license.key
    );
    assert_eq!(site.run(&activate), "ok");
    let asked = validations(&vendor);
    assert_eq!(
        (asked.len(), &asked[0].json()["site_url"]),
        (1, &format!("http://{HOST}/second").into())
    );
    let conditions = PATHS.map(|path| {
        let page = site.visitor().get(&format!("{path}?vendor=acme_forms_license"));
        serde_json::from_str::<serde_json::Value>(&page.html).unwrap()["condition"].clone()
    });
    assert_eq!(conditions, ["no_key", "active", "no_key"]);
    assert_eq!(site.kept(), ";option event;;");

    // A visit repairs what a damaged list of events lost.
    site.run("switch_to_blog(2); wp_clear_scheduled_hook('countersign_acme-forms');");
    site.visit_all();
    assert_eq!(site.kept(), ";option event;;");
    site.pass(25 * HOUR);
    site.cron_of_all();
    assert_eq!(validations(&vendor).len(), 1);
    site.visit_all();

    site.run("Acme\\Forms\\License\\Client::uninstall('acme-forms');");
    assert_eq!(site.kept(), ";;;");
    assert_eq!(
        vendor.server.validate(&license, "other.example").code(),
        "ok",
        "the seat is free"
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_network_that_moved_takes_its_license_along_when_a_person_says_so() {
    let (license, vendor, mut site) = network("");
    site.install("acme-forms", &vendor.archive("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
    let option = |name: &str| format!("echo get_site_option('countersign_acme-forms_secret{name}');");
    let old = site.run(&option(""));
    // It was activated at another address, and the server knows that one.
    let hash = Digest::of(old.as_bytes()).to_string();
    let mut leave = json!({ "license_key": license.key, "site_url": HOST, "release_secret": old });
    leave["new_site_url"] = "old.example".into();
    leave["release_hash"] = hash.into();
    assert_eq!(
        post_json(vendor.server.address, "/api/v1/release-site", &leave).json()["code"],
        "ok"
    );
    site.run(
        "$memory = get_site_option('countersign_acme-forms'); $memory['host'] = 'old.example'; \
         $memory['statement']['domain'] = 'old.example'; update_site_option('countersign_acme-forms', $memory);",
    );
    validations(&vendor);
    site.visit_all();
    site.pass(25 * HOUR);
    site.cron_of_all();
    assert!(validations(&vendor).is_empty(), "nobody has said anything yet");
    let page = site.admin.get(&site.license_page("acme-forms"));
    assert!(page.text().contains("and old.example loses it"), "{}", page.text());
    assert_eq!(site.press("acme-forms", "move", "").notices(), [ACTIVE]);
    assert_ne!(site.run(&option("")), old);
    assert_eq!(site.run(&option("_next")), "");
    assert_eq!(
        vendor.server.validate(&license, "old.example").json()["code"],
        "bound_elsewhere"
    );
    assert_eq!(vendor.server.validate(&license, HOST).json()["code"], "ok");
    assert_eq!(site.complaints(), [""; 0]);
}
