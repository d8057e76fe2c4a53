//! A license shortly before and after its end: what an administrator sees, when, and how to renew.

use chrono::{Days, Utc};

use super::front::{Answer, Front, response};
use super::site::{CORES, Core};
use super::vendor::{Vendor, with_settings};
use super::{ACTIVE, HOST, active_site};
use crate::support::License;
use crate::support::eventually;
use crate::support::instance::shared_keys;

const DAY: i64 = 86_400;
const RENEW: &str = "https://acme.example/renew";

fn vendor(license: &License, days: u64) -> Vendor {
    let last = (Utc::now().date_naive() + Days::new(days)).to_string();
    let settings = format!("'renew_url' => '{RENEW}', 'account_url' => 'https://acme.example/account'");
    let tables = [license.toml_with(&last, "", "forms = []")];
    Vendor::of(
        "acme-forms",
        Front::new(),
        shared_keys(),
        &tables,
        with_settings(&settings),
    )
}

#[test]
fn a_license_that_ends_is_told_of_thirty_seven_and_one_days_before() {
    let license = License::new();
    let vendor = vendor(&license, 40);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    let mut told = Vec::new();
    for days in 0..=40 {
        site.set_clock(days * DAY);
        site.cron();
        if days % 10 == 5 {
            // A browser is logged in for a fortnight; the dashboard it comes to would show a notice, too.
            site.admin.log_in();
        }
        for _ in 0..2 {
            let page = site.admin.get("/wp-admin/tools.php");
            for notice in page.notices() {
                assert!(
                    notice.contains("Renew it in time to keep getting updates. License | Renew the license"),
                    "{notice}"
                );
                assert!(page.html.contains(&format!("<a href=\"{RENEW}\">")));
                told.push(40 - days);
                site.admin.get(&page.dismissal());
            }
        }
    }
    assert_eq!(told, [30, 7, 1]);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    let page = site.admin.get(&site.license_page("acme-forms"));
    assert!(page.text().contains("Renew it in time"), "{}", page.text());
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_white_label_site_shows_no_part_of_the_key_and_no_page_of_the_vendor() {
    let license = License::new();
    let vendor = vendor(&license, 5);
    let mut site = active_site(Core::Newest, &vendor, HOST, &license.key);
    let end = &license.key[license.key.len() - 5..];
    let shown = |html: &str| {
        [
            html.contains(end),
            html.contains(RENEW),
            html.contains("https://acme.example/account"),
        ]
    };
    let page = site.admin.get(&site.license_page("acme-forms"));
    assert_eq!(shown(&page.html), [true; 3], "{}", page.html);
    let last = (Utc::now().date_naive() + Days::new(5)).to_string();
    let table = license.toml_with(&last, "white_label = true", "forms = []");
    vendor.instance.write_licenses(&[table]);
    eventually("the server knows", || {
        vendor.server.validate(&license, HOST).json()["white_label"] == true
    });
    site.pass(25 * 3600);
    site.cron();
    let page = site.admin.get(&site.license_page("acme-forms"));
    assert_eq!(shown(&page.html), [false; 3], "{}", page.html);
    assert!(page.text().contains("Use another key"), "{}", page.text());
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    for notice in site.admin.get("/wp-admin/tools.php").notices() {
        assert!(!notice.contains("Renew the license"), "{notice}");
    }
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn an_expired_site_hears_which_version_it_is_missing_and_where_to_renew() {
    for core in [Core::Debian, Core::Newest] {
        let license = License::new();
        let vendor = vendor(&license, 1);
        let mut site = active_site(core, &vendor, HOST, &license.key);
        let yesterday = Utc::now().date_naive() - Days::new(1);
        vendor
            .instance
            .write_licenses(&[license.toml_with(&yesterday.to_string(), "", "forms = []")]);
        eventually("the server knows", || {
            vendor.server.validate(&license, HOST).json()["code"] == "expired"
        });

        site.pass(25 * 3600);
        site.cron();
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "expired");
        let expired = format!(
            "This license has expired ({}). Renew it to get updates again.",
            yesterday.format("%B %-d, %Y")
        );
        let told = site.admin.get("/wp-admin/tools.php").notices();
        assert_eq!(told, [format!("Acme Forms: {expired} License | Renew the license")]);

        for (version, notice, security) in [
            ("1.1.0", "Save first.", false),
            ("1.2.0", "Security: forms leak.", true),
            ("1.3.0", "", true),
        ] {
            let section = format!("== Upgrade Notice ==\n\n= {version} =\n{notice}\n\n== Changelog ==");
            vendor.release(version, |text| match notice {
                "" => text,
                _ => text.replace("== Changelog ==", &section),
            });
            let text = site.check_again();
            assert!(
                text.contains(&format!("Update to {version}.")) && text.contains(&expired),
                "{core:?}: {text}"
            );
            // 1.3.0 is no security release itself; the one that the site lacks lies before it.
            let mends = "The update mends the security of Acme Forms.";
            assert_eq!(text.contains(mends), security, "{version}: {text}");
            let (row, update) = site.row();
            assert_eq!(row.contains(mends), security, "{version}: {row}");
            assert!(
                !row.contains("is a security release") && !text.contains("is a security release"),
                "{version}"
            );
            assert!(
                update && row.contains("Automatic update is unavailable") && row.contains(&expired),
                "{row}"
            );
            assert!(
                row.contains(&format!("<a href=\"{RENEW}\">Renew the license</a>")),
                "{row}"
            );
            let page = site.admin.get(&site.license_page("acme-forms")).text();
            let is_out = if security {
                "is out and mends the security of Acme Forms."
            } else {
                "is out."
            };
            assert!(page.contains(&format!("Update Version {version} {is_out}")), "{page}");
        }
        let answer = site.update_now();
        assert_eq!(answer["data"]["errorMessage"], format!("{expired} {RENEW}"), "{answer}");
        assert!(site.row().0.contains("Version 1.0.0"));

        // Renewed, all is well again.
        vendor.instance.write_licenses(&[license.toml("")]);
        eventually("the server knows", || {
            vendor.server.validate(&license, HOST).json()["code"] == "ok"
        });
        assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
        site.check_again();
        assert_eq!(site.update_now()["success"], true);
        assert_eq!(site.complaints(), [""; 0]);
    }
}

#[test]
fn an_expired_site_that_cannot_read_the_latest_version_hears_that_it_has_expired() {
    for core in CORES {
        let license = License::new();
        let vendor = vendor(&license, 1);
        let mut site = active_site(core, &vendor, HOST, &license.key);
        let yesterday = Utc::now().date_naive() - Days::new(1);
        vendor
            .instance
            .write_licenses(&[license.toml_with(&yesterday.to_string(), "", "forms = []")]);
        eventually("the server knows", || {
            vendor.server.validate(&license, HOST).json()["code"] == "expired"
        });
        site.press("acme-forms", "check", "");
        let page = site.admin.get("/wp-admin/tools.php");
        site.admin.get(&page.dismissal());
        let expired = format!(
            "This license has expired ({}). Renew it to get updates again.",
            yesterday.format("%B %-d, %Y")
        );
        for latest in [
            r#"{"version":"<b>9.9"}"#,
            r#"{"version":9}"#,
            r#"{"version":null}"#,
            r#"{"version":{"a":{"b":{"c":1}}}}"#,
            "{}",
            "[]",
            r#""9.9""#,
            "9",
        ] {
            let body = format!(r#"{{"status":403,"code":"license_expired","latest":{latest}}}"#);
            vendor.front.answer_with(Answer::Fixed(response(
                403,
                &[("Content-Type", "application/problem+json")],
                body,
            )));
            let text = site.check_again();
            assert!(
                text.contains(&expired) && !text.contains("9.9"),
                "{core:?} {latest}: {text}"
            );
            let told = site.admin.get("/wp-admin/plugins.php").notices();
            assert_eq!(
                told,
                [format!("Acme Forms: {expired} Renew the license")],
                "{core:?} {latest}"
            );
            let page = site.admin.get(&site.license_page("acme-forms")).text();
            assert!(page.contains(&expired) && !page.contains("cannot be used"), "{page}");
        }
        // Where there is no newer version, there is nothing to say.
        let none = r#"{"status":403,"code":"license_expired"}"#;
        vendor.front.answer_with(Answer::Fixed(response(403, &[], none)));
        assert!(!site.check_again().contains(&expired));
        assert_eq!(site.complaints(), [""; 0]);
    }
}
