//! Unusual hosting and other plugins: missing PHP extensions, filters and overwrites of other plugins, and caches.

use super::front::{Answer, response};
use super::site::{CORES, Core, Site};
use super::updates::licensed_site;
use super::vendor::Vendor;
use super::{ACTIVE, HOST, licensed};

const NO_ANSWER: &str =
    "The license server gave no answer that can be trusted. Nothing was lost; please try again later.";

impl Site {
    /// Puts a plugin beside the others, which WordPress loads before them.
    pub fn neighbour(&self, code: &str) {
        std::fs::write(
            self.file("wp-content/mu-plugins/neighbour.php"),
            format!("<?php {code}"),
        )
        .unwrap();
    }
}

#[test]
fn a_php_without_openssl_is_named_as_the_reason() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::without(
        Core::Newest,
        HOST,
        &vendor.front,
        "openssl_verify,openssl_pkey_get_public",
    );
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let page = site.press("acme-forms", "activate", &license.key);
    assert_eq!(page.notices(), [NO_ANSWER]);
    assert!(
        page.text()
            .contains("Last attempt PHP has no OpenSSL here, so nothing can be verified"),
        "{}",
        page.text()
    );
}

#[test]
fn a_php_without_ctype_reads_when_to_come_back() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::without(Core::Debian, HOST, &vendor.front, "ctype_digit");
    site.install("acme-forms", &vendor.archive("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", &license.key).notices(), [ACTIVE]);
    vendor
        .front
        .answer_with(Answer::Fixed(response(429, &[("Retry-After", "7200")], "")));
    let page = site.press("acme-forms", "check", "");
    assert_eq!((page.status, page.notices()), (200, vec![NO_ANSWER.to_owned()]));
    let later = "The license server asked to wait a little. Please try again later.";
    assert_eq!(site.press("acme-forms", "check", "").notices(), [later]);
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_neighbour_that_lets_all_requests_follow_redirects_sends_the_key_nowhere_else() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        site.neighbour("add_filter('http_request_args', fn($options) => ['redirection' => 5] + $options, 99);");
        let elsewhere = format!("http://localhost:{}/api/v1/elsewhere", vendor.front.address.port());
        for status in [301, 307] {
            vendor
                .front
                .answer_with(Answer::Fixed(response(status, &[("Location", &elsewhere)], "")));
            assert_eq!(site.press("acme-forms", "check", "").notices(), [NO_ANSWER]);
            site.run("delete_site_transient('countersign_acme-forms_pause');");
            site.check_again();
            let asked = vendor.front.take_asked();
            assert!(asked.len() >= 2, "{asked:?}");
            assert!(
                asked.iter().all(|asked| !asked.target.contains("elsewhere")),
                "{core:?} {status}: {asked:?}"
            );
        }
    }
}

#[test]
fn whatever_stands_where_a_manifest_was_kept_breaks_no_page() {
    let (vendor, mut site) = licensed_site(Core::Newest);
    vendor.release("1.1.0", |text| text);
    site.check_again();
    for kept in [
        "'x'",
        "1",
        "true",
        "new stdClass",
        "['1.0.0' => 'x']",
        "['1.0.0' => new stdClass]",
        "['1.0.0' => ['version' => []], '' => 1]",
        "(object) ['1.0.0' => ['version' => '1.1.0']]",
    ] {
        let keep = format!("set_site_transient('countersign_acme-forms', {kept});");
        let window = "/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms&section=changelog";
        for page in ["/wp-admin/plugins.php", window, &site.license_page("acme-forms")] {
            site.run(&keep);
            assert_eq!(
                site.admin.get(page).status,
                200,
                "{kept}: {page}: {:?}",
                site.complaints()
            );
        }
    }
    site.check_again();
    assert_eq!(site.update_now()["success"], true);
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_cache_that_kept_that_there_is_no_lock_does_not_keep_one_that_was_left() {
    let (_vendor, site) = licensed_site(Core::Newest);
    for cached in [
        "'notoptions', ['countersign_acme-forms.lock' => true]",
        "'countersign_acme-forms.lock', time() + 9",
    ] {
        let outcome = site.run(&format!(
            "global $wpdb; $wpdb->replace($wpdb->options, \
             ['option_name' => 'countersign_acme-forms.lock', 'option_value' => time() - 3600, 'autoload' => 'no']); \
             get_option('x'); [$key, $value] = [{cached}]; wp_cache_set($key, $value, 'options'); {} echo $license->validate();",
            super::LICENSE
        ));
        assert_eq!(outcome, "ok", "{cached}");
    }
}

#[test]
fn a_neighbour_that_downloads_by_itself_installs_no_other_version() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        vendor.release("1.1.0", |text| text);
        let package = site.file("neighbour.zip");
        site.neighbour(&format!(
            "add_filter('upgrader_pre_download', function () {{ $copy = wp_tempnam('x'); copy('{}', $copy); return $copy; }}, 1);",
            package.display()
        ));
        std::fs::write(&package, vendor.archive("1.0.0")).unwrap();
        site.check_again();
        let refused = "The update was refused: its archive has version 1.0.0, and version 1.1.0 was offered.";
        assert_eq!(site.update_now()["data"]["errorMessage"], refused, "{core:?}");
        assert!(site.left_unpacked().is_empty(), "{core:?}: {:?}", site.left_unpacked());
        // Where nobody knows any more what was offered, it is newer than what is installed.
        site.run("delete_site_transient('countersign_acme-forms'); delete_site_transient('update_plugins');");
        let upgrade = "add_filter('update_plugins_127.0.0.1', '__return_false', 99); \
                       require ABSPATH . 'wp-admin/includes/admin.php'; require ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; \
                       $upgrader = new Plugin_Upgrader(new Automatic_Upgrader_Skin); $upgrader->init(); \
                       $done = $upgrader->run(['package' => 'x', 'destination' => WP_PLUGIN_DIR, 'clear_destination' => true, \
                       'hook_extra' => ['plugin' => 'acme-forms/acme-forms.php']]); \
                       echo is_wp_error($done) ? $done->get_error_message() : 'installed';";
        let older = "The update was refused: its archive has version 1.0.0, and version 1.0.0 is installed.";
        assert_eq!(site.run(upgrade), older, "{core:?}");
        assert!(site.left_unpacked().is_empty(), "{core:?}: {:?}", site.left_unpacked());
        std::fs::write(&package, vendor.archive("1.1.0")).unwrap();
        site.check_again();
        assert_eq!(site.update_now()["success"], true, "{core:?}");
        assert!(site.row().0.contains("Version 1.1.0"));
        assert_eq!(site.complaints(), [""; 0]);
    }
}

/// Lets the database refuse, or take again, what the client writes.
fn refuse_writes(site: &Site, table: &str, column: &str, refuse: bool) {
    let what = |event: &str| match refuse {
        true => format!(
            "CREATE TRIGGER refuse_{event} BEFORE {event} ON {table} WHEN NEW.{column} = 'countersign_acme-forms' \
             BEGIN SELECT RAISE(ABORT, 'full'); END"
        ),
        false => format!("DROP TRIGGER refuse_{event}"),
    };
    let insert = what("INSERT");
    let update = what("UPDATE");
    site.run(&format!(
        "$db = new PDO('sqlite:' . SITE . '/wordpress.sqlite'); $db->exec(\"{insert}\"); $db->exec(\"{update}\");"
    ));
}

/// Lets the database refuse, or take again, whatever is written to the site's options, as a full one does.
fn refuse_all_writes(site: &Site, refuse: bool) {
    let statements = ["INSERT", "UPDATE", "DELETE"].map(|event| match refuse {
        true => format!(
            "CREATE TRIGGER refuse_{event} BEFORE {event} ON wp_options BEGIN SELECT RAISE(ABORT, 'full'); END;"
        ),
        false => format!("DROP TRIGGER refuse_{event};"),
    });
    site.run(&format!(
        "$db = new PDO('sqlite:' . SITE . '/wordpress.sqlite'); $db->exec(\"{}\");",
        statements.concat()
    ));
}

const NOT_SAVED: &str = "WordPress could not save the license in its database, so nothing was changed. \
                         Please try again, or ask whoever hosts the site.";

#[test]
fn a_database_that_cannot_be_written_is_the_reason_also_beside_a_lock_that_a_dead_process_left() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        refuse_all_writes(&site, true);
        let page = site.press("acme-forms", "activate", &license.key);
        assert_eq!(page.notices(), [NOT_SAVED], "{core:?}");
        refuse_all_writes(&site, false);
        let page = site.press("acme-forms", "activate", &license.key);
        assert_eq!(page.notices(), [ACTIVE], "{core:?}");

        site.run("add_option('countersign_acme-forms.lock', time() - 100, '', 'no');");
        refuse_all_writes(&site, true);
        for button in ["check", "remove_really"] {
            let page = site.press("acme-forms", button, "");
            assert_eq!(
                (page.status, page.notices()),
                (200, vec![NOT_SAVED.to_owned()]),
                "{core:?} {button}"
            );
        }
        assert_eq!(site.vendor_sees("acme-forms")["active"], true, "{core:?}");
        refuse_all_writes(&site, false);
        assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE], "{core:?}");
    }
}

#[test]
fn a_license_that_the_database_does_not_take_is_not_called_active() {
    for core in CORES {
        for network in [false, true] {
            let (license, table) = licensed();
            let vendor = Vendor::new(&[table]);
            let mut site = match network {
                true => Site::network(core, HOST, &vendor.front),
                false => Site::new(core, HOST, &vendor.front),
            };
            let (table, column) = if network {
                ("wp_sitemeta", "meta_key")
            } else {
                ("wp_options", "option_name")
            };
            site.install("acme-forms", &vendor.archive("1.0.0"));
            refuse_writes(&site, table, column, true);
            assert_eq!(
                site.press("acme-forms", "activate", &license.key).notices(),
                [NOT_SAVED],
                "{core:?} {network}"
            );
            assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");
            refuse_writes(&site, table, column, false);
            assert_eq!(
                site.press("acme-forms", "activate", &license.key).notices(),
                [ACTIVE],
                "{core:?} {network}"
            );
            refuse_writes(&site, table, column, true);
            site.pass(1);
            assert_eq!(
                site.press("acme-forms", "check", "").notices(),
                [NOT_SAVED],
                "{core:?} {network}"
            );
            assert_eq!(
                site.press("acme-forms", "remove_really", "").notices(),
                [NOT_SAVED],
                "{core:?} {network}"
            );
            assert_eq!(site.vendor_sees("acme-forms")["active"], true);
            refuse_writes(&site, table, column, false);
            assert!(site.press("acme-forms", "remove_really", "").notices()[0].contains("was removed"));
        }
    }
}
