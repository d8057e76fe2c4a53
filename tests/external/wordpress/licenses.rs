//! From an archive and a key to a licensed site, and what an administrator reads if the license is not valid.

use chrono::{Days, Utc};

use super::front::Front;
use super::site::{CORES, Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, active_site, licensed};
use crate::support::License;
use crate::support::instance::shared_keys;

#[test]
fn a_key_that_is_entered_binds_the_license_to_the_site() {
    for core in CORES {
        let (license, table) = licensed();
        let vendor = Vendor::new(&[table]);
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");

        let page = site.press("acme-forms", "activate", &license.key.to_lowercase().replace('-', " "));
        assert_eq!(page.notices(), [ACTIVE]);
        assert!(
            page.text().contains("Valid through December 31, 2099"),
            "{}",
            page.text()
        );
        assert!(!page.html.contains(&license.key), "the key is not shown again");

        let seen = site.vendor_sees("acme-forms");
        let [active, forms, pdf, export, maps] = ["active", "forms", "pdf", "export", "maps"].map(|said| &seen[said]);
        assert_eq!([active, forms, pdf, export, maps], [true, true, true, false, false]);
        assert_eq!(
            (&seen["queries"], &seen["requests"]),
            (&0.into(), &0.into()),
            "asking costs nothing"
        );

        let asked = vendor.front.take_asked();
        let validations: Vec<_> = asked
            .iter()
            .filter(|asked| asked.is_validation())
            .map(super::front::Asked::json)
            .collect();
        assert_eq!(validations.len(), 1);
        assert_eq!(validations[0]["site_url"], format!("http://{HOST}"));
        assert_eq!(validations[0]["plugin_version"], "1.0.0");
        assert_eq!(validations[0]["plugin"], "acme-forms");
        let [wordpress, php] = ["wp_version", "php_version"].map(|field| validations[0][field].as_str().unwrap());
        assert!(wordpress.contains('.') && php.contains('.'), "{wordpress} {php}");
        assert_eq!(validations[0]["nonce"].as_str().unwrap().len(), 32, "128 bits");
        assert_eq!(
            vendor.server.validate(&license, "other.example").json()["bound_domain"],
            HOST
        );
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn an_administrator_reads_what_is_wrong_with_a_license() {
    let all: Vec<License> = (0..6).map(|_| License::new()).collect();
    let [elsewhere, expired, suspended, revoked, unknown, good] = &all[..] else {
        unreachable!()
    };
    let yesterday = Utc::now().date_naive() - Days::new(1);
    let vendor = Vendor::new(&[
        elsewhere.toml(""),
        expired.toml_with(&yesterday.to_string(), "", "forms = []"),
        suspended.toml("status = \"suspended\""),
        revoked.toml("status = \"revoked\""),
        good.toml(""),
    ]);
    vendor.server.validate(elsewhere, "https://other.example/shop");
    let day = yesterday.format("%B %-d, %Y");
    let rows = [
        (
            unknown,
            "unknown_license",
            "Unknown key",
            "This license key is not known. Please compare it with the one you were sent.".into(),
        ),
        (
            elsewhere,
            "bound_elsewhere",
            "In use on another site",
            "This license is in use on another site (other.example). \
             Deactivate it there, on the license page of that site, or use another license. \
             If you do not have that site any more, ask the vendor to release it."
                .into(),
        ),
        (
            expired,
            "expired",
            "Expired",
            format!("This license has expired ({day}). Renew it to get updates again."),
        ),
        (
            suspended,
            "suspended",
            "Suspended",
            "This license is suspended. Please contact the vendor.".into(),
        ),
        (
            revoked,
            "revoked",
            "Revoked",
            "This license was revoked. Please contact the vendor.".into(),
        ),
    ];
    for core in CORES {
        let mut site = Site::new(core, HOST, &vendor.front);
        site.install("acme-forms", &vendor.archive("1.0.0"));
        for (license, condition, state, sentence) in &rows {
            let page = site.press("acme-forms", "activate", &license.key);
            assert_eq!(page.notices(), [sentence.as_str()]);
            assert!(page.text().contains(&format!("Status {state} ")), "{}", page.text());
            let seen = site.vendor_sees("acme-forms");
            assert_eq!(
                (&seen["active"], &seen["condition"]),
                (&false.into(), &(*condition).into())
            );
            // Told until it is dismissed, and with the way to the page that helps.
            let told = format!("Acme Forms: {sentence} License");
            let page = site.admin.get("/wp-admin/tools.php");
            assert_eq!(page.notices(), [told]);
            site.admin.get(&page.dismissal());
            assert_eq!(site.admin.get("/wp-admin/tools.php").notices(), [""; 0]);
        }
        let page = site.press("acme-forms", "activate", &good.key);
        assert_eq!(page.notices(), [ACTIVE]);
        // A key that is no good does not replace one that is.
        let page = site.press("acme-forms", "activate", &unknown.key);
        assert!(page.notices()[0].contains("This license key is not known."));
        assert_eq!(site.vendor_sees("acme-forms")["active"], true);

        let page = site.press("acme-forms", "remove", "");
        assert!(
            page.text().contains("Deactivate the license on this site?"),
            "{}",
            page.text()
        );
        assert_eq!(site.vendor_sees("acme-forms")["active"], true, "a question first");
        let page = site.press("acme-forms", "remove_really", "");
        assert!(
            page.notices()[0].contains("was removed from this site"),
            "{:?}",
            page.notices()
        );
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn a_typing_error_is_pointed_at_before_anything_is_asked() {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[table]);
    let mut site = Site::new(Core::Npm, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let mut groups: Vec<String> = license.key.split('-').map(str::to_owned).collect();
    let wrong = if groups[2].starts_with('7') { "8" } else { "7" };
    groups[2].replace_range(..1, wrong);
    let mistyped = groups.join("-");
    let scrambled = license.key.chars().rev().collect::<String>();
    groups[3].push('Q');
    let malformed = "A license key has five groups of five letters or digits.";
    for (typed, expected) in [
        (
            mistyped.as_str(),
            "There is a typing error in the license key. Please look at this group again: 3.".to_owned(),
        ),
        (&scrambled, "There is a typing error in the license key.".to_owned()),
        (
            &groups.join("-"),
            format!("{malformed} Please look at this group again: 4."),
        ),
        (
            &format!("{}'\"><b>", license.key),
            format!("{malformed} Please look at this group again: 5."),
        ),
        ("U".repeat(200).as_str(), malformed.to_owned()),
        (" - ", "Please enter a license key.".to_owned()),
        ("", "Please enter a license key.".to_owned()),
    ] {
        assert_eq!(
            site.press("acme-forms", "activate", typed).notices(),
            [expected],
            "{typed}"
        );
    }
    assert_eq!(vendor.front.take_asked().len(), 0);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "no_key");

    // Without the form's nonce, and for who may not change settings, nothing happens.
    let target = site.license_page("acme-forms");
    let forged = site
        .admin
        .post(&target, &[("license_key", &license.key), ("do", "activate")]);
    assert_eq!(forged.status, 403, "{}", forged.text());
    site.run("wp_update_user(['ID' => 1, 'role' => 'editor']);");
    assert_eq!(site.admin.get(&target).status, 403);
    assert_eq!(vendor.front.take_asked().len(), 0);
}

#[test]
fn a_vendor_says_it_in_other_words_and_other_languages() {
    let (license, table) = licensed();
    // Sentences of the vendor's own, and a translation in the plugin's text domain.
    let changed = |text: String| {
        let own = "'texts' => function () { return [ 'ok' => __( 'Thank you for {plugin}.', 'acme-forms' ) ]; },";
        let text = text.replace(
            "'text_domain' => 'acme-forms'",
            &format!("{own}\n'text_domain' => 'acme-forms'"),
        );
        let translated = "add_filter( 'gettext_acme-forms', function ( $text ) { \
            return [ 'Thank you for {plugin}.' => 'Danke für {plugin}.', 'Check now' => 'Jetzt prüfen' ][ $text ] ?? $text; } );";
        text.replace(
            "acme_forms_license()->run();",
            &format!("{translated}\nacme_forms_license()->run();"),
        )
    };
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], changed);
    let mut site = Site::new(Core::Debian, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let page = site.press("acme-forms", "activate", &license.key);
    assert_eq!(page.notices(), ["Danke für Acme Forms."]);
    assert!(
        page.text().contains("Jetzt prüfen Go back to an earlier version…"),
        "{}",
        page.text()
    );
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_vendor_says_who_may_change_the_license_and_which_archive_it_is() {
    let (license, table) = licensed();
    let build_id = "0b8f7c1e-6f0a-4a53-9d0e-3f2a6c5b4d7e";
    let domain = "'text_domain' => 'acme-forms'";
    let settings = format!("'capability' => 'edit_pages', 'build_id' => '{build_id}', {domain}");
    let set = |text: String| text.replace(domain, &settings);
    let vendor = Vendor::of("acme-forms", Front::new(), shared_keys(), &[table], set);
    let mut site = active_site(Core::Npm, &vendor, HOST, &license.key);
    site.pass(61);
    site.admin.get("/wp-admin/update-core.php?force-check=1");
    let asked = vendor.front.take_asked();
    let (validations, updates): (Vec<_>, Vec<_>) = asked.iter().partition(|asked| asked.is_validation());
    assert_eq!(validations[0].json()["build_id"], build_id);
    assert!(
        updates.last().unwrap().target.contains(&format!("build_id={build_id}")),
        "{updates:?}"
    );

    site.run("wp_update_user(['ID' => 1, 'role' => 'editor']);");
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
    site.run("wp_update_user(['ID' => 1, 'role' => 'author']);");
    assert_eq!(site.admin.get(&site.license_page("acme-forms")).status, 403);
}
