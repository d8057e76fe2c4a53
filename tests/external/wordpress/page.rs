//! The license page and its notices, as a person sees them.

use super::site::{Core, Site};
use super::updates::licensed_site;
use super::vendor::{Vendor, with_settings};
use super::{ACTIVE, HOST, licensed};
use crate::support::instance::shared_keys;

#[test]
fn a_notice_waits_for_a_page_that_shows_it() {
    let (_license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    for core in [Core::Debian, Core::Newest] {
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        site.run("$kept = get_option('countersign_acme-forms'); $kept['told'] = ''; update_option('countersign_acme-forms', $kept);");
        let editor = site.admin.get("/wp-admin/post-new.php");
        assert!(
            editor.status == 200 && editor.html.contains("block-editor"),
            "{}",
            editor.text()
        );
        site.admin
            .get("/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms&TB_iframe=true");
        let told = site.admin.get("/wp-admin/tools.php").notices();
        assert_eq!(
            told,
            ["Acme Forms: Enter your license key to get updates and support. License"],
            "{core:?}"
        );
        assert_eq!(site.admin.get("/wp-admin/tools.php").notices(), [""; 0]);
    }
}

#[test]
fn what_was_typed_stays_in_its_field_and_is_stored_nowhere() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let mistyped = format!("{}X'\"><b>", license.key);
    let page = site.press("acme-forms", "activate", &mistyped);
    let shown = mistyped
        .replace('\'', "&#039;")
        .replace('"', "&quot;")
        .replace('>', "&gt;")
        .replace('<', "&lt;");
    assert!(
        page.html.contains(&format!("value=\"{shown}\"")),
        "{}",
        page.from("license_key")
    );
    let stored = site.run(&format!(
        "global $wpdb; foreach ([$wpdb->options => 'option_value', $wpdb->usermeta => 'meta_value'] as $table => $column) \
         echo $wpdb->get_var(\"SELECT count(*) FROM $table WHERE $column LIKE '%{}%'\");",
        license.key
    ));
    assert_eq!(stored, "00");
    // A key that works is not shown again.
    let page = site.press("acme-forms", "activate", &license.key);
    assert!(page.notices() == [ACTIVE] && !page.html.contains(&license.key));
    // One that is refused while another works is.
    let other = crate::support::License::new();
    let page = site.press("acme-forms", "activate", &other.key);
    assert!(
        page.html.contains(&format!("value=\"{}\"", other.key)),
        "{}",
        page.text()
    );
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn an_address_that_somebody_made_says_nothing_of_the_license() {
    let (_license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let target = site.license_page("acme-forms");
    let honest = site.admin.get(&target).notices();
    for spoofed in [
        "outcome=ok",
        "outcome=deactivated",
        "outcome=ok&at=1&proof=",
        "outcome=revoked&proof[]=x&at[]=1",
    ] {
        assert_eq!(
            site.admin.get(&format!("{target}&{spoofed}")).notices(),
            honest,
            "{spoofed}"
        );
    }
    let now = site.run("echo time();");
    assert_eq!(
        site.admin
            .get(&format!("{target}&outcome=ok&at={now}&proof={now}"))
            .notices(),
        honest
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_page_says_each_thing_once_by_its_name_and_asks_before_it_removes() {
    let (license, table) = licensed();
    let names = with_settings("'names' => [ 'forms' => 'Forms & Fields' ]");
    let vendor = Vendor::of("acme-forms", super::front::Front::new(), shared_keys(), &[table], names);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let target = site.license_page("acme-forms");
    assert!(
        site.admin
            .get(&target)
            .from("<form method=\"post\"")
            .contains("button-primary")
    );

    let page = site.press("acme-forms", "activate", &license.key);
    assert_eq!(page.text().matches(ACTIVE).count(), 1, "{}", page.text());
    assert!(
        page.text().contains("Status Active Covers Forms &amp; Fields")
            || page.text().contains("Status Active Covers Forms & Fields")
    );
    assert!(
        !page.from("<form method=\"post\"").contains("button-primary"),
        "nothing is left to do"
    );
    let page = site.admin.get(&target);
    assert_eq!(
        (page.notices().len(), page.text().matches(ACTIVE).count()),
        (0, 0),
        "{}",
        page.text()
    );

    let page = site.press("acme-forms", "remove", "");
    assert!(
        page.text().contains("Deactivate the license on this site?"),
        "{}",
        page.text()
    );
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    let page = site.press("acme-forms", "remove_really", "");
    assert!(page.notices()[0].contains("was removed from this site"));
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn the_details_can_be_viewed_after_an_update_without_javascript() {
    for core in [Core::Debian, Core::Newest] {
        let (vendor, mut site) = licensed_site(core);
        vendor.release("1.1.0", |text| text);
        site.check_again();
        let page = site.admin.get("/wp-admin/plugins.php");
        let link = page.between("id=\"acme-forms-update\"", "update.php?action=upgrade-plugin", "\"");
        let updated = site
            .admin
            .get(&format!("/wp-admin/update.php?action=upgrade-plugin{link}"));
        assert!(
            updated.text().contains("Plugin updated successfully."),
            "{}",
            updated.text()
        );
        let iframe = updated.between("<iframe", "src=\"", "\"");
        site.admin.get(&format!("/wp-admin/{iframe}"));
        let (row, _) = site.row();
        assert!(
            row.contains("Version 1.1.0") && row.contains("View details"),
            "{core:?}: {row}"
        );
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_site_that_becomes_a_network_keeps_its_license() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::network(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    // As a single site left it: an option of what is the main site now.
    site.run(
        "update_blog_option(1, 'countersign_acme-forms', get_site_option('countersign_acme-forms')); \
         delete_site_option('countersign_acme-forms');",
    );
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
    site.press("acme-forms", "remove_really", "");
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");
    assert_eq!(site.complaints(), [""; 0]);
}
