//! Customers who have a key of another system: they enter it, or the site has it from the plugin's former client.

use super::front::{Answer, Front};
use super::site::{Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST};
use crate::support::instance::{sha256, shared_keys};
use crate::support::{Instance, License, Server};

/// A key as EDD makes them.
const EDD: &str = "cc22c1ec86304b36883440e2e84cddff";

/// The oldest and the newest WordPress that the client is tested in.
const ENDS: [Core; 2] = [Core::Debian, Core::Newest];

/// The sentence about a key that the server does not know.
const UNKNOWN: &str = "This license key is not known. Please compare it with the one you were sent.";

struct Shop {
    front: Front,
    server: Server,
    archive: Vec<u8>,
    /// Held, because its folder goes with it.
    _instance: Instance,
}

/// A vendor whose server takes foreign keys, and whose client has these settings.
fn shop(licenses: &[&License], settings: &str) -> Shop {
    let tables: Vec<String> = licenses.iter().map(|license| license.toml("sites = 9")).collect();
    let domain = "'text_domain' => 'acme-forms'";
    let set = |text: String| text.replace(domain, &format!("{settings}, {domain}"));
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &tables, set);
    let archive = vendor.archive("1.0.0");
    let (front, instance) = vendor.leave();
    let server = Server::start_in(instance.path(), &["--foreign-keys", "true"]);
    front.forward_to(server.address);
    Shop {
        front,
        server,
        archive,
        _instance: instance,
    }
}

fn foreign(key: &str) -> License {
    License {
        key: key.to_owned(),
        id: sha256(&key.to_lowercase()),
    }
}

/// A key of ours with one wrong symbol in its third group.
fn mistyped(license: &License) -> String {
    let wrong = if license.key[12..].starts_with('7') { "8" } else { "7" };
    format!("{}{wrong}{}", &license.key[..12], &license.key[13..])
}

fn condition(site: &Site) -> serde_json::Value {
    site.vendor_sees("acme-forms")["condition"].clone()
}

/// Gives the site's seat back, as a person does.
fn give_back(site: &mut Site) {
    let page = site.press("acme-forms", "remove_really", "");
    let notice = &page.notices()[0];
    assert!(notice.contains("It can be used on another site now."), "{notice}");
}

/// Forgets what the client knows, as on a site that has it for the first time.
fn blank(site: &Site) {
    site.run("delete_option('countersign_acme-forms');");
}

#[test]
fn a_key_of_another_system_works_and_a_typing_error_in_one_of_ours_is_told() {
    let own = License::new();
    let edd = foreign(EDD);
    // Another system may have made a key that differs from one of ours by a symbol.
    let alike = foreign(&mistyped(&License::new()));
    let shop = shop(&[&own, &edd, &alike], "'foreign_keys' => true");
    for core in ENDS {
        let mut site = Site::new(core, HOST, &shop.front);
        site.install("acme-forms", &shop.archive);
        let page = site.admin.get(&site.license_page("acme-forms"));
        assert!(
            page.text().contains("Exactly as it was sent to you."),
            "{}",
            page.text()
        );

        shop.front.take_asked();
        let too_short = site.press("acme-forms", "activate", &EDD[..15]);
        let strange = site.press("acme-forms", "activate", &format!("{EDD}'\"> <b>"));
        for page in [too_short, strange] {
            assert_eq!(
                page.notices(),
                ["This is not a license key. Please compare it with the one you were sent."]
            );
        }
        assert_eq!(shop.front.take_asked().len(), 0);

        let wrong = site.press("acme-forms", "activate", &mistyped(&own));
        assert_eq!(
            wrong.notices(),
            ["There is a typing error in the license key. Please look at this group again: 3."]
        );
        let unknown = site.press("acme-forms", "activate", &EDD.replacen('c', "d", 1));
        assert_eq!(unknown.notices(), [UNKNOWN]);
        assert_eq!(condition(&site), "no_key", "nothing of it is kept");

        for key in [&own.key, &alike.key, &format!("  {}\t", EDD.to_uppercase())] {
            assert_eq!(site.press("acme-forms", "activate", key).notices(), [ACTIVE], "{key}");
            assert_eq!(condition(&site), "active");
        }
        // A key that is not known does not replace one that works.
        let unknown = site.press("acme-forms", "activate", &EDD.replacen('c', "d", 1));
        assert_eq!(unknown.notices(), [UNKNOWN]);
        assert_eq!(condition(&site), "active");
        site.pass(61);
        site.admin.get("/wp-admin/update-core.php?force-check=1");
        let asked = shop.front.take_asked();
        let credentials = format!("License {}", EDD.to_uppercase());
        assert!(
            asked
                .iter()
                .any(|asked| asked.header("authorization") == Some(&credentials)),
            "{asked:?}"
        );
        give_back(&mut site);
        assert_eq!(site.complaints(), [""; 0]);
    }
    assert!(!shop.server.log().to_lowercase().contains(EDD));
}

#[test]
fn the_key_of_the_former_client_is_taken_over_once() {
    let edd = foreign(EDD);
    let shop = shop(&[&edd], "'foreign_keys' => true, 'key_from' => 'acme_license_key'");
    for core in ENDS {
        let mut site = Site::new(core, HOST, &shop.front);
        site.run(&format!("update_option('acme_license_key', ' {EDD} ');"));
        shop.front.answer_with(Answer::Nothing);
        site.install("acme-forms", &shop.archive);
        site.admin.get("/wp-admin/");
        assert_eq!(condition(&site), "pending", "the server is away");
        shop.front.answer_with(Answer::Forward);
        site.pass(600);
        site.cron();
        assert_eq!(condition(&site), "active");
        assert_eq!(site.vendor_sees("acme-forms")["queries"], 0);

        // A person's word is the last one.
        give_back(&mut site);
        site.admin.get("/wp-admin/");
        assert_eq!(condition(&site), "no_key");
        assert_eq!(
            site.run("echo get_option('acme_license_key');"),
            format!(" {EDD} "),
            "the option is somebody else's"
        );

        // With the server there, the first page of an administrator does it all.
        blank(&site);
        site.admin.get("/wp-admin/");
        assert_eq!(condition(&site), "active");
        give_back(&mut site);
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn nothing_else_in_the_option_of_the_former_client_is_a_key() {
    let edd = foreign(EDD);
    let shop = shop(&[&edd], "'foreign_keys' => true, 'key_from' => 'acme_license_key'");
    for core in ENDS {
        let mut site = Site::new(core, HOST, &shop.front);
        site.install("acme-forms", &shop.archive);
        shop.front.take_asked();
        for value in [
            "''",
            "['key' => '@']",
            "(object) ['key' => '@']",
            "serialize(serialize('@'))",
            "str_repeat('a', 2000000)",
            "'@' . str_repeat('0', 97)",
            "'@ ' . chr(0)",
            "'<b>@ </b>'",
            "42",
            "true",
            "NAN",
        ] {
            let value = value.replace('@', EDD);
            site.run(&format!("update_option('acme_license_key', {value});"));
            blank(&site);
            let page = site.admin.get("/wp-admin/tools.php");
            assert_eq!(page.status, 200, "{value}");
            assert_eq!(condition(&site), "no_key", "{value}");
            // It was looked for once.
            site.run(&format!("update_option('acme_license_key', '{EDD}');"));
            site.admin.get("/wp-admin/tools.php");
            assert_eq!(condition(&site), "no_key", "{value}");
            assert_eq!(site.vendor_sees("acme-forms")["queries"], 0, "{value}");
        }
        let asked = shop.front.take_asked();
        assert_eq!(asked.iter().filter(|asked| asked.is_validation()).count(), 0);
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_function_finds_the_former_key_and_an_error_in_it_breaks_nothing() {
    let edd = foreign(EDD);
    for (function, expected) in [
        (
            "static function () { return get_option( 'acme_settings' )['license']['key']; }",
            "active",
        ),
        ("static function () { throw new Exception( 'acme' ); }", "no_key"),
        ("static function () { return acme_is_gone(); }", "no_key"),
    ] {
        let shop = shop(&[&edd], &format!("'foreign_keys' => true, 'key_from' => {function}"));
        let mut site = Site::new(Core::Newest, HOST, &shop.front);
        site.run(&format!(
            "update_option('acme_settings', ['license' => ['key' => '{EDD}']]);"
        ));
        site.install("acme-forms", &shop.archive);
        site.admin.get("/wp-admin/");
        assert_eq!(condition(&site), expected, "{function}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_network_takes_the_key_of_the_network_or_of_its_main_site() {
    let edd = foreign(EDD);
    let shop = shop(&[&edd], "'foreign_keys' => true, 'key_from' => 'acme_license_key'");
    let mut site = Site::network(Core::Newest, HOST, &shop.front);
    site.install("acme-forms", &shop.archive);
    let other = site.run(&format!(
        "echo wp_insert_site(['domain' => '{HOST}', 'path' => '/other/', 'network_id' => 1]);"
    ));
    for (stored, expected) in [
        (
            format!("update_blog_option({other}, 'acme_license_key', '{EDD}');"),
            "no_key",
        ),
        (format!("update_blog_option(1, 'acme_license_key', '{EDD}');"), "active"),
        (
            format!("delete_blog_option(1, 'acme_license_key'); update_site_option('acme_license_key', '{EDD}');"),
            "active",
        ),
    ] {
        site.run(&format!("{stored} delete_site_option('countersign_acme-forms');"));
        // The other site's page comes first: what it has is not the network's.
        site.visitor().get("/other/");
        site.admin.get("/wp-admin/network/");
        assert_eq!(condition(&site), expected, "{stored}");
    }
    assert_eq!(site.complaints(), [""; 0]);
}
