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
        let editor = site.admin.get("/wp-admin/post-new.php");
        assert!(
            editor.status == 200 && editor.html.contains("block-editor"),
            "{}",
            editor.text()
        );
        site.admin
            .get("/wp-admin/plugin-install.php?tab=plugin-information&plugin=acme-forms&TB_iframe=true");
        let told = ["Acme Forms: Enter your license key to get updates and support. License"];
        let tools = "/wp-admin/tools.php?a=1&b=2";
        for _ in 0..2 {
            assert_eq!(site.admin.get(tools).notices(), told, "{core:?}: until it is dismissed");
        }
        let page = site.admin.get(tools);
        let back = site.admin.get(&page.dismissal());
        assert!(back.path.ends_with(tools), "{}", back.path);
        assert_eq!(back.notices(), [""; 0]);
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn each_administrator_dismisses_a_notice_for_himself_and_the_next_condition_is_told_anew() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    for (name, role) in [("second", "administrator"), ("author", "author")] {
        site.run(&format!(
            "wp_insert_user(['user_login' => '{name}', 'user_pass' => 'password', 'role' => '{role}']);"
        ));
    }
    let mut second = site.visitor();
    second.log_in_as("second");
    let mut author = site.visitor();
    author.log_in_as("author");
    let told = ["Acme Forms: Enter your license key to get updates and support. License"];
    let tools = "/wp-admin/tools.php";
    let dismissal = site.admin.get(tools).dismissal();
    assert_eq!(author.get(tools).notices(), [""; 0]);
    assert_eq!(author.get(&dismissal).status, 403, "the nonce is another user's");
    site.admin.get(&dismissal);
    assert_eq!(site.admin.get(tools).notices(), [""; 0]);
    assert_eq!(second.get(tools).notices(), told);

    // When the same condition comes again, everybody sees the notice again.
    site.press("acme-forms", "activate", &license.key);
    assert_eq!(second.get(tools).notices(), [""; 0]);
    site.press("acme-forms", "remove_really", "");
    assert_eq!(site.admin.get(tools).notices(), told);
    assert_eq!(second.get(tools).notices(), told);
    let dismissal = site.admin.get(tools).dismissal();
    site.admin.get(&dismissal);
    site.delete("acme-forms");
    assert_eq!(site.traces("acme-forms"), "");
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn an_error_belongs_to_its_field() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let tied = |page: &super::browser::Page| {
        let field = page.between("<input type=\"text\" id=\"acme-forms-license-key\"", "", ">");
        let message = page.html.contains("id=\"acme-forms-license-message\" role=\"alert\"");
        let marks = [
            "aria-invalid=\"true\"",
            "autofocus",
            "-hint acme-forms-license-message\"",
        ];
        (message, marks.map(|mark| field.contains(mark)))
    };
    let unknown = crate::support::License::new();
    for typed in ["", "AAAAA", &unknown.key] {
        let page = site.press("acme-forms", "activate", typed);
        assert_eq!(tied(&page), (true, [true; 3]), "{typed}");
    }
    // What is wrong is not in the field.
    vendor.front.answer_with(super::front::Answer::Nothing);
    let page = site.press("acme-forms", "activate", &license.key);
    assert_eq!(tied(&page), (true, [false; 3]));
    vendor.front.answer_with(super::front::Answer::Forward);
    let page = site.press("acme-forms", "activate", &license.key);
    assert_eq!(tied(&page), (false, [false; 3]));
    assert!(page.text().contains("Last confirmed"), "{}", page.text());
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn nothing_is_confirmed_of_a_license_that_is_not_active() {
    let license = crate::support::License::new();
    let vendor = Vendor::new(&[license.toml("status = \"suspended\"")]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let page = site.press("acme-forms", "activate", &license.key);
    assert!(page.text().contains("Last answer"), "{}", page.text());
    assert!(!page.text().contains("onfirmed"), "{}", page.text());
}

#[test]
fn site_health_and_the_guide_to_a_privacy_policy_speak_of_the_license_and_not_of_its_key() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    for core in [Core::Debian, Core::Newest] {
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        let test = "require_once ABSPATH . 'wp-admin/includes/admin.php'; wp_set_current_user(1); \
             $tests = apply_filters('site_status_tests', ['direct' => [], 'async' => []])['direct']; \
             $result = $tests['countersign_acme-forms']['test'](); echo $result['status'], ': ', $result['label'];";
        assert_eq!(site.run(test), "recommended: The license of Acme Forms needs attention");
        site.press("acme-forms", "activate", &license.key);
        assert_eq!(site.run(test), "good: The license of Acme Forms is active");
        // Its page asks MySQL for its version, which these sites do not have.
        let shown = "require_once ABSPATH . 'wp-admin/includes/admin.php'; wp_set_current_user(1); \
             $section = apply_filters('debug_information', [])['countersign_acme-forms']; echo $section['label'], ': '; \
             foreach ($section['fields'] as $field) echo $field['label'], ' ', $field['value'], ' (', $field['debug'], '); ';";
        let shown = site.run(shown);
        for expected in [
            "Acme Forms License: Status Active (active); Valid through December 31, 2099 (2099-12-31); ",
            &format!("License server {0} ({0}); ", vendor.front.url()),
            "Activated on customer.example (customer.example); This site customer.example",
        ] {
            assert!(shown.contains(expected), "{core:?}: {shown}");
        }
        for part in license.key.split('-') {
            assert!(!shown.contains(part), "{core:?}: a part of the key");
        }
        let guide = site.admin.get("/wp-admin/options-privacy.php?tab=policyguide").text();
        let says = "The license of Acme Forms is checked by its vendor's server (127.0.0.1).";
        assert!(
            guide.contains(says) || guide.contains(&says.replace('\'', "’")),
            "{core:?}: {guide}"
        );
        assert_eq!(site.complaints(), [""; 0]);
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

#[test]
fn one_signature_that_is_needed_is_one() {
    let (_license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let refused = |needed: u8| {
        site.run(&format!(
            "{} $config = (function () {{ return $this->config; }})->call($license); \
             $updates = new Acme\\Forms\\License\\Updates($config, $license); \
             $reason = new Acme\\Forms\\License\\Refused('release_signatures', ['{{good}}' => '0', '{{needed}}' => '{needed}']); \
             echo (function () use ($reason) {{ return $this->refuse($reason, '1.1.0')->get_error_message(); }})->call($updates);",
            super::LICENSE
        ))
    };
    let one = refused(1);
    assert!(
        one.contains("It needs 1 good signature of the vendor&#039;s release keys, and has none."),
        "{one}"
    );
    assert!(one.ends_with("acme-forms 1.0.0 1.1.0 release_signatures 0 1"), "{one}");
    assert!(refused(2).contains("It needs 2 good signatures of the vendor&#039;s release keys, and has 0."));
}
