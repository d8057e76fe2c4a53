//! Releases in the field: what a site does with a release that is given out step by step.

use serde_json::json;

use super::browser::Page;
use super::front::{Answer, Asked, Front, response};
use super::manifests::changed;
use super::site::{CORES, Core, Site};
use super::updates::{PLUGIN, licensed_site};
use super::vendor::{Vendor, with_settings};
use super::{ACTIVE, HOST, active_site, licensed};
use crate::support::License;
use crate::support::instance::shared_keys;

impl Site {
    /// Turns automatic updates of the plugin on, as its owner does.
    pub fn automate(&self) {
        let kind = self.kind();
        let id = kind.id();
        self.run(&format!("update_site_option('auto_update_{kind}s', ['{id}']);"));
        // Debian's WordPress has PHPMailer in another package.
        self.neighbour("add_filter('pre_wp_mail', '__return_true');");
    }

    /// Has WordPress do its automatic updates now, without looking for new ones.
    fn update_by_itself(&self) {
        self.run("wp_schedule_single_event(1, 'wp_maybe_auto_update');");
        self.cron();
    }

    /// The version that is on the disk.
    pub fn version(&self) -> String {
        version_in(&self.own(self.kind().main_file()))
    }

    /// The same of another plugin.
    fn version_of(&self, slug: &str) -> String {
        version_in(&self.file(&format!("wp-content/plugins/{slug}/{slug}.php")))
    }
}

/// The version in a header.
fn version_in(file: &std::path::Path) -> String {
    let main = std::fs::read_to_string(file).unwrap();
    let line = main.split("Version: ").nth(1).expect("a header");
    line.lines().next().unwrap().trim().to_owned()
}

#[test]
fn a_release_that_needs_another_plugin_waits_for_it_and_its_row_names_it() {
    for core in [Core::Debian, Core::Newest] {
        let (vendor, mut site) = licensed_site(core);
        site.automate();
        let header = "Requires PHP: 7.4\n * Requires Plugins: acme-base";
        vendor.release("1.1.0", |text| text.replace("Requires PHP: 7.4", header));
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.0.0", "{core:?}");
        let (row, update) = site.row();
        let sentence =
            "Version 1.1.0 needs plugins that are not active here: acme-base. Automatic updates wait for them.";
        assert!(update && row.contains(sentence), "{row}");
        let details = "require_once ABSPATH . 'wp-admin/includes/plugin-install.php'; \
             echo implode(' ', plugins_api('plugin_information', (object) ['slug' => 'acme-forms'])->requires_plugins);";
        assert_eq!(site.run(details), "acme-base");

        let base = site.file("wp-content/plugins/acme-base");
        std::fs::create_dir(&base).unwrap();
        std::fs::write(base.join("acme-base.php"), "<?php /* Plugin Name: Acme Base */").unwrap();
        site.run("update_option('active_plugins', [...get_option('active_plugins'), 'acme-base/acme-base.php']);");
        let (row, update) = site.row();
        assert!(update && !row.contains("needs plugins"), "{row}");
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.1.0", "{core:?}");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn of_two_plugins_of_one_vendor_the_held_one_waits_and_the_other_does_not() {
    for core in [Core::Npm, Core::Newest] {
        let license = License::new();
        let table = license.toml_with("2099-12-31", "", "forms = []\nmaps = []");
        let vendor = Vendor::new(&[table]);
        let maps = vendor.publish_beside("acme-maps", &["1.0.0"]);
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        site.install("acme-maps", &maps);
        for slug in ["acme-forms", "acme-maps"] {
            let page = site.press(slug, "activate", &license.key);
            assert!(page.notices().contains(&ACTIVE.to_owned()), "{:?}", page.notices());
        }
        site.automate();
        site.run(
            "update_site_option('auto_update_plugins', ['acme-forms/acme-forms.php', 'acme-maps/acme-maps.php']);",
        );
        vendor.roll_out("");
        vendor.release_in_steps("1.1.0", |text| text);
        vendor.publish_beside("acme-maps", &["1.0.0", "1.1.0"]);
        let text = site.check_again();
        assert!(text.contains("Acme Forms You have version 1.0.0"), "{text}");
        for _ in 0..2 {
            site.pass(13 * 3600);
            site.cron();
        }
        assert_eq!(site.version_of("acme-maps"), "1.1.0", "{core:?}");
        assert_eq!(site.version(), "1.0.0", "{core:?}");
        let (row, update) = site.row();
        let sentence = "Automatic updates install it here from";
        assert!(
            update && row.contains(sentence) && row.contains("Disable auto-updates"),
            "{row}"
        );
        assert_eq!(site.complaints(), [""; 0]);
    }
}

/// A site with an active license, whose plugin has these settings, too.
fn site_with(core: Core, settings: &str) -> (Vendor, Site) {
    let (license, table) = licensed();
    let vendor = Vendor::of(
        "acme-forms",
        Front::new(),
        shared_keys(),
        &[table],
        with_settings(settings),
    );
    let site = active_site(core, &vendor, HOST, &license.key);
    (vendor, site)
}

/// The questions about releases since the last call.
fn questions(vendor: &Vendor) -> Vec<Asked> {
    let asked = vendor.front.take_asked().into_iter();
    asked.filter(|asked| !asked.is_validation()).collect()
}

#[test]
fn a_held_site_is_not_updated_by_itself_while_its_owner_may_press_the_button_and_keeps_the_switch() {
    for core in CORES.into_iter().chain([Core::Restoring]) {
        let (vendor, mut site) = licensed_site(core);
        site.automate();
        vendor.release("1.1.0", |text| text);
        let until = "2099-11-29T10:00:00Z";
        vendor
            .front
            .answer_with(changed(json!({ "held": true, "held_until": until })));
        site.check_again();
        let (row, update) = site.row();
        let sentence = "Automatic updates install it here from November 29, 2099 10:00 am on. You can update now.";
        assert!(update && row.contains(sentence), "{row}");
        assert!(row.contains("Disable auto-updates"), "{row}");
        for _ in 0..2 {
            site.pass(13 * 3600);
            site.cron();
            assert_eq!(site.version(), "1.0.0", "{core:?}");
        }
        let asked = questions(&vendor);
        assert!(
            asked
                .iter()
                .all(|asked| asked.target.contains("&holds=1&") || asked.target.contains("?holds=1&")),
            "{asked:?}"
        );
        assert!(asked.iter().all(|asked| !asked.target.contains("wave=")), "{asked:?}");

        vendor.front.answer_with(changed(json!({ "held": true })));
        site.check_again();
        let (row, _) = site.row();
        let sentence = "Automatic updates do not install it here yet. You can update now.";
        assert!(row.contains(sentence) && row.contains("Disable auto-updates"), "{row}");
        assert_eq!(site.update_now()["success"], true);
        assert_eq!(site.version(), "1.1.0");
        assert!(site.row().0.contains("Disable auto-updates"));
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_release_that_was_paused_or_withheld_after_a_site_heard_of_it_is_not_installed_at_the_next_run() {
    let (vendor, mut site) = licensed_site(Core::Newest);
    site.automate();
    vendor.release("1.1.0", |text| text);
    site.check_again();
    assert!(site.row().1);
    questions(&vendor);

    vendor.front.answer_with(changed(json!({ "held": true })));
    site.pass(11 * 60);
    site.update_by_itself();
    assert_eq!(site.version(), "1.0.0");
    let nothing = Answer::Fixed(response(200, &[("Content-Type", "application/json")], "{}"));
    vendor.front.answer_with(nothing);
    site.pass(11 * 60);
    site.update_by_itself();
    assert_eq!(site.version(), "1.0.0");
    let log = std::fs::read_to_string(site.file("debug.log")).unwrap_or_default();
    assert!(!log.contains("Plugin 'Acme Forms' failed"), "nothing was tried: {log}");

    // WordPress itself looks again after hours.
    vendor.front.answer_with(Answer::Forward);
    site.pass(13 * 3600);
    site.cron();
    assert_eq!(site.version(), "1.1.0");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn an_automatic_update_asks_again_where_the_answer_is_older_than_ten_minutes_and_decides_for_its_own_plugin_only() {
    let (vendor, mut site) = licensed_site(Core::Npm);
    vendor.release("1.1.0", |text| text);
    vendor.front.answer_with(changed(json!({ "held": true })));
    site.check_again();
    let filter = |update: &str, plugin: &str, version: &str| {
        questions(&vendor);
        let item = format!("(object) ['plugin' => '{plugin}', 'new_version' => '{version}']");
        let said = site.run(&format!(
            "echo json_encode(apply_filters('auto_update_plugin', {update}, {item}));"
        ));
        (said, questions(&vendor).len())
    };
    let said = |said: &str, asked: usize| (said.to_owned(), asked);
    assert_eq!(filter("true", PLUGIN, "1.1.0"), said("false", 0));
    assert_eq!(
        filter("null", PLUGIN, "1.1.0"),
        said("null", 0),
        "the switch is the owner's"
    );
    assert_eq!(filter("false", PLUGIN, "1.1.0"), said("false", 0));
    assert_eq!(filter("true", "other/other.php", "1.1.0"), said("true", 0));
    assert_eq!(
        filter("true", PLUGIN, "1.0.0"),
        said("true", 0),
        "there is nothing to hold"
    );
    let age = |minutes: i64| {
        site.run(&format!(
            "$kept = get_site_transient('countersign_acme-forms'); $kept['1.0.0']['asked'] = time() - {minutes} * 60; \
             set_site_transient('countersign_acme-forms', $kept, 86400);"
        ));
    };
    age(9);
    assert_eq!(filter("true", PLUGIN, "1.1.0"), said("false", 0));
    vendor.front.answer_with(Answer::Forward);
    age(11);
    assert_eq!(filter("true", PLUGIN, "1.1.0"), said("true", 1));
    // Without an answer, the last one counts.
    vendor.front.answer_with(Answer::Nothing);
    age(11);
    assert_eq!(filter("true", PLUGIN, "1.1.0"), said("true", 1));
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_site_says_which_step_of_a_release_it_wishes_for() {
    let (vendor, site) = site_with(Core::Debian, "'wave' => 'first', 'wave_constant' => 'ACME_FORMS_WAVE'");
    let wish = |constants: &str| {
        std::fs::write(site.file("constants.json"), constants).unwrap();
        questions(&vendor);
        site.run("delete_site_transient('update_plugins'); wp_update_plugins();");
        let asked = questions(&vendor);
        let query = asked.last().expect("a question").target.split('?').nth(1).unwrap();
        let wave = query.split('&').find_map(|member| member.strip_prefix("wave="));
        wave.map(str::to_owned)
    };
    assert_eq!(wish("{}").as_deref(), Some("first"));
    assert_eq!(wish(r#"{"ACME_FORMS_WAVE":"last"}"#).as_deref(), Some("last"));
    assert_eq!(wish(r#"{"ACME_FORMS_WAVE":""}"#), None);
    site.neighbour("add_filter('countersign_acme-forms_wave', fn($wave) => 'last');");
    assert_eq!(wish("{}").as_deref(), Some("last"));
    site.neighbour("add_filter('countersign_acme-forms_wave', fn($wave) => 'second');");
    assert_eq!(wish("{}"), None);
}

impl Site {
    /// Chooses a channel on the license page.
    fn choose(&mut self, channel: &str) -> Page {
        self.press_with("change_channel", "channel", channel)
    }

    /// Presses a button of the license page with another field.
    pub fn press_with(&mut self, button: &str, field: &str, value: &str) -> Page {
        let target = self.license_page("acme-forms");
        let page = self.admin.get(&target);
        let nonce = page.between("<form method=\"post\"", "name=\"_wpnonce\" value=\"", "\"");
        self.admin
            .post(&target, &[("_wpnonce", &nonce), (field, value), ("do", button)])
    }
}

/// The channel that the last question asked for.
fn channel_asked(vendor: &Vendor) -> Option<String> {
    let asked = questions(vendor);
    let query = asked.last().expect("a question").target.split('?').nth(1).unwrap();
    let channel = query.split('&').find_map(|member| member.strip_prefix("channel="));
    channel.map(str::to_owned)
}

#[test]
fn a_site_gets_betas_once_it_chose_them_and_no_more_after_it_left() {
    for core in CORES {
        let settings = "'channels' => ['beta']";
        let (vendor, mut site) = site_with(core, settings);
        site.automate();
        vendor.add_to_entry("\n[channels]\nbeta = \"licensed\"\n");
        vendor.release_to("beta", "1.1.0-beta.1", with_settings(settings));
        site.check_again();
        assert_eq!(channel_asked(&vendor), None);
        assert!(!site.row().1);
        let page = site.admin.get(&site.license_page("acme-forms"));
        assert!(
            page.text().contains("Stable releases only Betas, too Change"),
            "{}",
            page.text()
        );

        let page = site.choose("beta");
        assert_eq!(page.notices(), ["This site gets these releases from now on."]);
        assert_eq!(channel_asked(&vendor).as_deref(), Some("beta"));
        assert!(page.html.contains("<option value=\"beta\" selected>"), "{}", page.html);
        assert!(site.row().1, "it is offered at once");
        assert_eq!(site.update_now()["success"], true);
        assert_eq!(site.version(), "1.1.0-beta.1");

        questions(&vendor);
        let page = site.choose("stable");
        let left = "This site gets stable releases from now on. Version 1.1.0-beta.1 stays until a newer one is out, unless you go \
                    back to an earlier version below.";
        assert_eq!(page.notices(), [left]);
        assert_eq!(channel_asked(&vendor), None);
        vendor.release_to("beta", "1.2.0-beta.1", with_settings(settings));
        site.check_again();
        assert!(!site.row().1, "no beta any more");
        vendor.release("1.1.0", with_settings(settings));
        site.pass(13 * 3600);
        site.cron();
        assert_eq!(site.version(), "1.1.0");

        // What the page does not have, nobody chooses.
        site.choose("alpha");
        site.check_again();
        assert_eq!(channel_asked(&vendor), None);
        assert_eq!(site.complaints(), [""; 0]);
        let uninstalled = "Acme\\Forms\\License\\Client::uninstall('acme-forms'); \
                           echo json_encode(get_site_option('countersign_acme-forms_channel'));";
        assert_eq!(site.run(uninstalled), "false");
    }
}

#[test]
fn the_code_of_a_site_names_its_channel_before_a_person_does() {
    let (vendor, mut site) = site_with(
        Core::Debian,
        "'channels' => ['rc', 'beta'], 'channel_constant' => 'ACME_FORMS_CHANNEL'",
    );
    site.choose("rc");
    assert_eq!(channel_asked(&vendor).as_deref(), Some("rc"));
    let ask = "delete_site_transient('update_plugins'); wp_update_plugins();";
    std::fs::write(site.file("constants.json"), r#"{"ACME_FORMS_CHANNEL":"alpha"}"#).unwrap();
    site.run(ask);
    assert_eq!(channel_asked(&vendor).as_deref(), Some("alpha"));
    let page = site.admin.get(&site.license_page("acme-forms"));
    assert!(
        page.text().contains("Alphas, too (set by the code of this site)"),
        "{}",
        page.text()
    );
    assert!(!page.html.contains("name=\"channel\""), "{}", page.html);
    site.neighbour("add_filter('countersign_acme-forms_channel', fn($channel) => 'stable');");
    site.run(ask);
    assert_eq!(channel_asked(&vendor), None);
    site.neighbour("add_filter('countersign_acme-forms_channel', fn($channel) => 'nightly');");
    site.run(ask);
    assert_eq!(
        channel_asked(&vendor).as_deref(),
        Some("rc"),
        "what is no channel names none"
    );
}

#[test]
fn a_network_has_one_channel_that_its_own_page_shows() {
    let (license, table) = licensed();
    let settings = with_settings("'channels' => ['beta']");
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], settings);
    let mut site = Site::network(Core::Debian, HOST, &vendor.front);
    site.run(&format!(
        "wp_insert_site(['domain' => '{HOST}', 'path' => '/second/', 'network_id' => 1]);"
    ));
    site.install("acme-forms", &vendor.archive("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    site.choose("beta");
    let ask = "delete_site_transient('update_plugins'); wp_update_plugins();";
    for switch in ["", "switch_to_blog(2);"] {
        questions(&vendor);
        site.run(&format!("{switch} {ask}"));
        assert_eq!(channel_asked(&vendor).as_deref(), Some("beta"), "{switch}");
    }
}
