//! A tagged and built release arrives in WordPress through its own pages, and nothing else does.

use super::browser::plain;
use super::front::{Answer, response};
use super::site::{CORES, Core, Kind, RESTORING, Site};
use super::vendor::Vendor;
use super::{HOST, active_site, licensed};

pub const PLUGIN: &str = "acme-forms/acme-forms.php";

/// A site with Acme Forms 1.0.0 and an active license.
pub fn licensed_site(core: Core) -> (Vendor, Site) {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let site = active_site(core, &vendor, HOST, &license.key);
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    vendor.front.take_asked();
    (vendor, site)
}

impl Site {
    /// Presses "Check again" on the page of updates, which looks once a minute.
    pub fn check_again(&mut self) -> String {
        self.pass(61);
        self.admin.get("/wp-admin/update-core.php?force-check=1").text()
    }

    /// Presses "update now" in the plugin's row, which its script sends to admin-ajax.php.
    pub fn update_now(&mut self) -> serde_json::Value {
        let page = self.admin.get(&self.list());
        let nonce = page.between("var _wpUpdatesSettings", "\"ajax_nonce\":\"", "\"");
        let action = format!("update-{}", self.kind());
        let form = [
            ("action", action.as_str()),
            ("plugin", PLUGIN),
            ("slug", "acme-forms"),
            ("_ajax_nonce", &nonce),
        ];
        let answer = self.admin.post("/wp-admin/admin-ajax.php", &form);
        serde_json::from_str(&answer.html).unwrap_or_else(|_| panic!("{}", answer.html))
    }

    /// The plugin's row on the page of plugins, with the row of its update if it has one; of a theme, what is said of its update.
    pub fn row(&mut self) -> (String, bool) {
        if self.kind() == Kind::Theme {
            let theme = self.theme("acme-forms").expect("the theme is there");
            let update = theme["update"].as_str().unwrap_or_default();
            return (plain(update), theme["hasUpdate"] == true);
        }
        let page = self.admin.get("/wp-admin/plugins.php");
        let rows = page.between(&format!("data-plugin=\"{PLUGIN}\""), "", "</tbody>");
        (
            format!("<{}", rows.replace("</tr>", " ")),
            page.html.contains("id=\"acme-forms-update\""),
        )
    }
}

#[test]
fn a_tag_becomes_an_update_that_installs_and_leaves_the_plugin_active() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        assert!(site.check_again().contains("Your plugins are all up to date."));
        let (row, update) = site.row();
        assert!(
            !update && row.contains("Enable auto-updates"),
            "the switch is there without an update: {row}"
        );

        vendor.release("1.1.0", |text| text);
        let text = site.check_again();
        let expected = "You have version 1.0.0 installed. Update to 1.1.0. View version 1.1.0 details.";
        assert!(text.contains(&format!("Acme Forms {expected}")), "{text}");
        let (row, update) = site.row();
        assert!(
            update && row.contains("There is a new version of Acme Forms available."),
            "{row}"
        );

        let window = "/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms&section=changelog";
        let window = site.admin.get(window).text();
        for expected in [
            "1.1.0",
            "Forms can be exported.",
            "The first release.",
            "Requires WordPress Version: 6.0",
        ] {
            assert!(window.contains(expected), "{expected} in {window}");
        }

        let answer = site.update_now();
        assert_eq!(answer["success"], true, "{answer}");
        let (row, update) = site.row();
        assert!(
            !update && row.contains("Version 1.1.0") && row.contains("Deactivate"),
            "{row}"
        );
        assert!(site.check_again().contains("Your plugins are all up to date."));
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);

        let asked = vendor.front.take_asked();
        let updates: Vec<_> = asked.iter().filter(|asked| !asked.is_validation()).collect();
        assert!(
            updates.iter().all(|asked| !asked.target.contains("license_key")),
            "{updates:?}"
        );
        assert!(
            updates
                .iter()
                .all(|asked| asked.header("authorization").unwrap().starts_with("License "))
        );
        assert!(
            updates.last().unwrap().target.ends_with("&current_version=1.1.0"),
            "{updates:?}"
        );
        assert_eq!(site.complaints(), [""; 0]);
        let outside = site.outside();
        assert!(
            outside.iter().all(|url| url.contains("//api.wordpress.org/")),
            "{outside:?}"
        );
    }
}

#[test]
fn an_automatic_update_installs_in_the_background() {
    let (vendor, mut site) = licensed_site(Core::Npm);
    let page = site.admin.get("/wp-admin/plugins.php");
    let nonce = page.between("var _wpUpdatesSettings", "\"ajax_nonce\":\"", "\"");
    let form = [
        ("action", "toggle-auto-updates"),
        ("type", "plugin"),
        ("asset", PLUGIN),
        ("state", "enable"),
        ("_ajax_nonce", &nonce),
    ];
    let answer = site.admin.post("/wp-admin/admin-ajax.php", &form);
    assert_eq!(answer.html, "{\"success\":true}");
    vendor.release("1.1.0", |text| text);
    site.pass(13 * 3600);
    site.cron();
    let (row, update) = site.row();
    assert!(
        !update && row.contains("Version 1.1.0") && row.contains("Disable auto-updates"),
        "{row}"
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn an_automatic_update_that_is_fatal_is_taken_back_also_where_the_folder_has_another_name_than_the_server_knows() {
    for core in RESTORING {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms-pro", &vendor.archive_in("acme-forms-pro/", "1.0.0"));
        site.press("acme-forms", "activate", &license.key);
        site.run("update_site_option('auto_update_plugins', ['acme-forms-pro/acme-forms.php']);");
        // Debian's WordPress has PHPMailer in another package.
        site.neighbour("add_filter('pre_wp_mail', '__return_true');");
        vendor.release("1.1.0", |text| {
            text.replace("acme_forms_license()->run();", "acme_forms_license()->is_not_there();")
        });
        site.check_again();
        // WordPress backs the folder up and restores by this name.
        let offer = "get_site_transient('update_plugins')->response['acme-forms-pro/acme-forms.php']";
        assert_eq!(site.run(&format!("echo {offer}->slug;")), "acme-forms-pro");
        for name in ["acme-forms-pro", "acme-forms"] {
            let window = format!("/wp-admin/plugin-install.php?tab=plugin-information&plugin={name}&section=changelog");
            let window = site.admin.get(&window).text();
            assert!(
                window.contains("1.1.0") && window.contains("Forms can be exported."),
                "{name}: {window}"
            );
        }

        site.pass(13 * 3600);
        site.cron();
        let log = std::fs::read_to_string(site.file("debug.log")).unwrap();
        assert!(
            log.contains("contained a fatal error. The previously installed version has been restored."),
            "{log}"
        );
        let main = std::fs::read_to_string(site.file("wp-content/plugins/acme-forms-pro/acme-forms.php")).unwrap();
        assert!(main.contains("Version: 1.0.0"), "the version that runs is back");
        let visit = site.visitor().get("/");
        assert_eq!((visit.status, visit.text().as_str()), (200, "A page. Your message"));
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    }
}

#[test]
fn an_update_that_this_wordpress_is_too_old_for_is_held_back_and_one_for_another_php_is_explained() {
    let (vendor, mut site) = licensed_site(Core::Debian);
    vendor.release("1.1.0", |text| {
        text.replace("Requires at least: 6.0", "Requires at least: 99.1")
    });
    assert!(site.check_again().contains("Your plugins are all up to date."));
    let page = site.admin.get(&site.license_page("acme-forms")).text();
    assert!(
        page.contains("Version 1.1.0 is out, and needs WordPress 99.1."),
        "{page}"
    );

    vendor.release("1.2.0", |text| text.replace("Requires PHP: 7.4", "Requires PHP: 99.0"));
    site.check_again();
    let (row, update) = site.row();
    assert!(
        update && row.contains("but it does not work with your version of PHP"),
        "{row}"
    );
    let answer = site.update_now();
    assert_eq!(answer["data"]["errorMessage"], "The update needs PHP 99.0.", "{answer}");
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
}

#[test]
fn only_the_download_that_the_manifest_names_is_installed_and_only_over_https() {
    let (vendor, mut site) = licensed_site(Core::Npm);
    vendor.release("1.1.0", |text| text);
    site.check_again();
    // WordPress looks once more on the next page.
    assert!(site.row().1);

    // Something on the site sends the download elsewhere.
    let elsewhere = format!("{}/downloads/acme-forms-1.0.0.zip", vendor.front.url());
    let patched = format!(
        "$updates = get_site_transient('update_plugins'); $updates->response['{PLUGIN}']->package = '{elsewhere}'; \
         set_site_transient('update_plugins', $updates);"
    );
    site.run(&patched);
    let answer = site.update_now();
    let refused = "The download was refused: it is not the one the license server named.";
    assert_eq!(answer["data"]["errorMessage"], refused, "{answer}");

    // The download's own server sends it on, without https.
    site.check_again();
    let elsewhere = format!(
        "://0.0.0.0:{}/downloads/acme-forms-1.0.0.zip",
        vendor.front.address.port()
    );
    let insecure = response(302, &[("Location", &format!("http{elsewhere}"))], "");
    vendor.front.put("/downloads/acme-forms-1.1.0.zip", insecure);
    assert_eq!(site.update_now()["success"], false);
    let outside: Vec<_> = site
        .outside()
        .into_iter()
        .filter(|line| !line.contains("//api.wordpress.org/"))
        .collect();
    assert_eq!(outside, [format!("https{elsewhere}")]);

    // The manifest itself names an address without https.
    let insecure = |_: &super::front::Asked, mut answer: crate::support::Response| {
        answer.body = answer
            .text()
            .replace("http://127.0.0.1", "http://downloads.example")
            .into_bytes();
        answer
    };
    vendor.front.answer_with(Answer::Made(std::sync::Arc::new(insecure)));
    let text = site.check_again();
    assert!(text.contains("Acme Forms"), "{text}");
    assert_eq!(site.update_now()["success"], false);
    assert!(
        site.row()
            .0
            .contains("Automatic update is unavailable for this plugin.")
    );
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert!(site.row().0.contains("Version 1.0.0"));
}

#[test]
fn a_manifest_that_is_no_longer_kept_is_asked_for_again_when_its_download_begins() {
    let (vendor, mut site) = licensed_site(Core::Npm);
    vendor.release("1.1.0", |text| text);
    site.check_again();
    assert!(site.row().1);
    let evict = "delete_site_transient('countersign_acme-forms');";
    site.run(evict);
    vendor.front.answer_with(Answer::Nothing);
    let answer = site.update_now();
    let message = answer["data"]["errorMessage"].as_str().unwrap();
    assert!(
        message.starts_with("The license server gave no usable answer about the download (cURL error"),
        "{message}"
    );
    vendor.front.answer_with(Answer::Forward);
    site.run(&format!(
        "{evict} delete_site_transient('countersign_acme-forms_pause');"
    ));
    assert_eq!(site.update_now()["success"], true);
    assert!(site.row().0.contains("Version 1.1.0"));
}

#[test]
fn an_archive_with_another_folder_updates_the_plugin_where_it_is_and_one_without_is_refused() {
    for core in CORES {
        let (vendor, mut site) = licensed_site(core);
        vendor.release("1.1.0", |text| text);
        for (prefix, whole) in [("", false), ("acme-forms/trunk/", false), ("acme-forms-1.1.0/", true)] {
            vendor.put_online_in(prefix, "1.1.0");
            site.check_again();
            let answer = site.update_now();
            assert_eq!(answer["success"], whole, "{prefix}: {answer}");
            if !whole {
                let refused = "The update was refused: its archive does not have Acme Forms in one folder.";
                assert_eq!(answer["data"]["errorMessage"], refused, "{prefix}: {answer}");
            }
            assert!(site.left_unpacked().is_empty(), "{prefix}: {:?}", site.left_unpacked());
            let (row, _) = site.row();
            let version = if whole { "Version 1.1.0" } else { "Version 1.0.0" };
            assert!(row.contains(version) && row.contains("Deactivate"), "{prefix}: {row}");
            assert_eq!(site.vendor_sees("acme-forms")["active"], true, "{prefix}");
        }
        assert_eq!(site.complaints(), [""; 0]);
    }
}
