//! A license server that fails in every possible way: the site is not harmed, and its license lasts for its grace
//! period.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::front::{Answer, Asked, response};
use super::site::{Core, Site};
use super::vendor::Vendor;
use super::{ACTIVE, HOST, active_site, licensed};
use crate::support::instance::{Keys, new_keys, shared_keys};
use crate::support::vectors::Signer;
use crate::support::{License, Response, request};

const HOUR: i64 = 3_600;

/// How long a slow server takes: nobody waits for its answer.
const SLOW: Duration = Duration::from_secs(60);

/// What a page may take that asks the server for five seconds, or looks for updates for three, on a busy machine. One that
/// waits for a slow server's answer takes twice as long.
const ASKED: Duration = Duration::from_secs(30);

/// What a page may take that asks nothing. One that asks a slow server takes more.
const UNASKED: Duration = Duration::from_secs(5);

/// A site with an active license and 72 hours of grace.
fn licensed_site(core: Core) -> (License, Vendor, Site) {
    licensed_site_beside(core, &[])
}

/// The same, with more licenses on the server.
fn licensed_site_beside(core: Core, others: &[String]) -> (License, Vendor, Site) {
    let (license, table) = licensed();
    let vendor = Vendor::new(&[&[table], others].concat());
    let mut site = Site::new(core, HOST, &vendor.front);
    site.install("acme-forms", &vendor.archive("1.0.0"));
    let page = site.press("acme-forms", "activate", &license.key);
    assert_eq!(page.notices(), [ACTIVE]);
    (license, vendor, site)
}

/// One row: what is wrong, what the site gets, and why the client says that this is no answer.
type Row = (&'static str, Answer, &'static str);

/// Changes the server's own answers to validations.
fn changed(change: impl Fn(&Asked, Response) -> Response + Send + Sync + 'static) -> Answer {
    let change = move |asked: &Asked, answer: Response| {
        if asked.is_validation() {
            change(asked, answer)
        } else {
            answer
        }
    };
    Answer::Made(Arc::new(change))
}

fn fixed(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    Answer::Fixed(response(status, headers, body))
}

/// The server's answer with other members, signed again: as genuine as can be, but for what was changed.
fn signed_with(keys: &Keys, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Answer {
    let signer = Signer::new(keys);
    changed(move |_, answer| {
        let mut statement = answer.json();
        change(&mut statement);
        response(200, &[("Content-Type", "application/json")], signer.sign(statement))
    })
}

/// What the server says of another license, to the same question.
fn refusal_of(other: &License, vendor: &Vendor) -> Answer {
    let server = vendor.server.address;
    let key = other.key.clone();
    changed(move |asked, _| {
        let mut question = asked.json();
        question["license_key"] = json!(key);
        let json = [("Content-Type", "application/json")];
        let answer = request(
            server,
            "POST",
            "/api/v1/validate-license",
            &json,
            question.to_string().as_bytes(),
        );
        assert_eq!(answer.json()["status"], "revoked");
        answer
    })
}

fn rows(license: &License, revoked: &License, vendor: &Vendor) -> Vec<Row> {
    let old = vendor.server.validate(license, HOST);
    let problem = |code: &str| json!({ "type": "about:blank", "title": "No", "status": 403, "code": code }).to_string();
    let page = "<!DOCTYPE html><title>Welcome to Airport WiFi</title><form>Accept our terms</form>";
    vec![
        ("down", Answer::Nothing, "cURL error"),
        ("slow", Answer::Late(SLOW), "cURL error 28"),
        ("403", fixed(403, &[], &problem("license_revoked")), "HTTP status 403"),
        ("404", fixed(404, &[], ""), "HTTP status 404"),
        (
            "429",
            fixed(429, &[("Retry-After", "7200")], &problem("too_many_requests")),
            "HTTP status 429",
        ),
        ("500", fixed(500, &[], ""), "HTTP status 500"),
        (
            "a redirect",
            fixed(302, &[("Location", "/api/v1/elsewhere")], ""),
            "HTTP status 302",
        ),
        (
            "HTML",
            fixed(200, &[("Content-Type", "text/html")], page),
            "no signature",
        ),
        (
            "truncated JSON",
            changed(|_, mut answer| {
                answer.body.truncate(answer.body.len() - 20);
                answer
            }),
            "the signature is wrong",
        ),
        (
            "an old statement replayed",
            changed(move |_, _| old.clone()),
            "it has another nonce",
        ),
        (
            "an older statement",
            signed_with(shared_keys(), |statement| {
                statement["issued_at"] = json!("2026-01-01T00:00:00.000Z");
            }),
            "it is older than the last one",
        ),
        (
            "another key's signature",
            signed_with(&new_keys(2048), |_| {}),
            "the signature is wrong",
        ),
        (
            "another site's statement",
            signed_with(shared_keys(), |statement| {
                statement["site_url"] = json!("http://other.example");
                statement["domain"] = json!("other.example");
            }),
            "it has another site_url",
        ),
        (
            "another host's statement",
            signed_with(shared_keys(), |statement| statement["domain"] = json!("other.example")),
            "it has another domain",
        ),
        (
            "a changed byte",
            changed(|_, mut answer| {
                answer.body = answer.text().replace("\"expires\":\"2099", "\"expires\":\"2098").into();
                answer
            }),
            "the signature is wrong",
        ),
        (
            "a changed verdict",
            changed(|_, mut answer| {
                answer.body = answer
                    .text()
                    .replace("\"status\":\"active\"", "\"status\":\"revoked\"")
                    .into();
                answer
            }),
            "the signature is wrong",
        ),
        (
            "a wrong nonce",
            signed_with(shared_keys(), |statement| statement["nonce"] = json!("0".repeat(32))),
            "it has another nonce",
        ),
        (
            "the signed refusal of a revoked license",
            refusal_of(revoked, vendor),
            "it has another license_id",
        ),
        (
            "no nonce",
            signed_with(shared_keys(), |statement| {
                statement.as_object_mut().unwrap().remove("nonce");
            }),
            "it has another nonce",
        ),
    ]
}

fn endure(core: Core) {
    let revoked = License::new();
    let (license, vendor, mut site) = licensed_site_beside(core, &[revoked.toml("status = \"revoked\"")]);
    let no_answer = "The license server gave no answer that can be trusted. Nothing was lost; please try again later.";
    for (row, answer, trouble) in rows(&license, &revoked, &vendor) {
        site.run("delete_site_transient('countersign_acme-forms_pause');");
        let updates_fail = !matches!(answer, Answer::Made(_));
        vendor.front.answer_with(answer);
        let page = site.press("acme-forms", "check", "");
        assert_eq!(page.notices(), [no_answer], "{row}");
        assert!(
            page.text().contains(&format!("Last attempt {trouble}")),
            "{row}: {}",
            page.text()
        );
        assert!(
            page.took < ASKED,
            "{row}: a person waits five seconds at most, not {:?}",
            page.took
        );
        assert_eq!(site.vendor_sees("acme-forms")["active"], true, "{row}");

        site.pass(71 * HOUR);
        site.cron();
        let seen = site.vendor_sees("acme-forms");
        assert_eq!(
            (&seen["active"], &seen["condition"]),
            (&true.into(), &"grace".into()),
            "{row}"
        );
        let told = site.admin.get("/wp-admin/tools.php").notices();
        assert!(
            told.len() == 1 && told[0].contains("Everything works until"),
            "{row}: {told:?}"
        );
        // The page that looks for updates waits three seconds once, and then asks nobody.
        let updates = site.admin.get("/wp-admin/update-core.php?force-check=1");
        assert!(
            updates.status == 200 && updates.took < ASKED,
            "{row}: {:?}",
            updates.took
        );
        vendor.front.take_asked();
        site.pass(61);
        assert_eq!(
            site.admin.get("/wp-admin/update-core.php?force-check=1").status,
            200,
            "{row}"
        );
        assert!(!updates_fail || vendor.front.take_asked().is_empty(), "{row}");

        site.pass(2 * HOUR);
        let seen = site.vendor_sees("acme-forms");
        assert_eq!(
            (&seen["active"], &seen["condition"]),
            (&false.into(), &"grace_over".into()),
            "{row}"
        );
        let told = site.admin.get("/wp-admin/tools.php").notices();
        assert!(
            told.len() == 1 && told[0].contains("counts as not active now"),
            "{row}: {told:?}"
        );
        let visit = site.visitor().get("/");
        assert_eq!(
            (visit.status, visit.text().as_str()),
            (200, "A page. Your message"),
            "{row}"
        );
        // Another server than a slow one makes nobody wait.
        assert!(
            row != "slow" || visit.took < UNASKED,
            "{row}: a visitor waits for nobody, not {:?}",
            visit.took
        );

        vendor.front.answer_with(Answer::Forward);
        site.set_clock(0);
        assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE], "{row}");
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "active", "{row}");
    }
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn no_kind_of_no_answer_harms_a_site_or_its_license_within_its_grace_in_debians_wordpress() {
    endure(Core::Debian);
}

#[test]
fn no_kind_of_no_answer_harms_a_site_or_its_license_within_its_grace_in_a_newer_wordpress() {
    endure(Core::Npm);
}

#[test]
fn a_clock_that_is_set_back_wins_no_time() {
    let (_license, vendor, mut site) = licensed_site(Core::Npm);
    let active = |site: &Site| site.vendor_sees("acme-forms")["active"] == true;
    vendor.front.answer_with(Answer::Nothing);

    site.set_clock(48 * HOUR);
    site.admin.get("/wp-admin/tools.php");
    site.set_clock(47 * HOUR);
    assert!(active(&site), "a correction by an hour costs an hour");
    site.admin.get("/wp-admin/tools.php");
    site.set_clock(69 * HOUR);
    assert!(active(&site), "48 + 1 + 22 hours");
    site.set_clock(71 * HOUR);
    assert!(!active(&site), "48 + 1 + 24 hours, and the clock says 71");
    site.set_clock(-30 * 24 * HOUR);
    assert!(!active(&site), "a month back");

    // What is planned for when the wrong clock gets there is not waited for.
    vendor.front.answer_with(Answer::Forward);
    site.visitor().get("/");
    vendor.front.take_asked();
    site.pass(61);
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
    assert!(active(&site));
}

#[test]
fn a_license_that_a_corrected_clock_took_away_is_back_within_minutes() {
    let (_license, vendor, mut site) = licensed_site(Core::Debian);
    for seen_by_an_administrator in [false, true] {
        site.set_clock(7 * 24 * HOUR);
        assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
        site.set_clock(0);
        if seen_by_an_administrator {
            site.admin.get("/wp-admin/tools.php");
        }
        assert_eq!(site.vendor_sees("acme-forms")["active"], false);
        vendor.front.take_asked();
        site.set_clock(61);
        for _ in 0..2 {
            site.cron();
            site.visitor().get("/");
        }
        assert_eq!(
            vendor
                .front
                .take_asked()
                .iter()
                .filter(|asked| asked.is_validation())
                .count(),
            1
        );
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    }
}

#[test]
fn a_grace_period_of_no_hours_lasts_from_one_validation_to_the_next() {
    let license = License::new();
    let vendor = Vendor::new(&[license.toml("grace_period_hours = 0")]);
    let mut site = active_site(Core::Npm, &vendor, HOST, &license.key);
    for _ in 0..2 {
        site.pass(HOUR + 600);
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
        site.cron();
    }
    assert_eq!(
        vendor
            .front
            .take_asked()
            .iter()
            .filter(|asked| asked.is_validation())
            .count(),
        3
    );
    vendor.front.answer_with(Answer::Nothing);
    site.pass(2 * HOUR + 60);
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "grace_over");
}

#[test]
fn what_another_version_or_a_damaged_database_left_is_not_a_statement_and_a_new_one_is_fetched() {
    let (_license, _vendor, mut site) = licensed_site(Core::Debian);
    for damage in [
        "['statement']['grace_period_hours'] = 'x'",
        "['statement']['modules'] = [['forms']]",
        "['statement']['expires'] = ['2099']",
        "['statement']['bound_domain'] = 1",
        "['statement']['issued_at'] = 'x'",
        "['statement'] = []",
        "['statement'] = 'x'",
    ] {
        let name = "countersign_acme-forms";
        site.run(&format!(
            "$kept = get_option('{name}'); $kept{damage}; update_option('{name}', $kept);"
        ));
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "pending", "{damage}");
        assert_eq!(site.admin.get(&site.license_page("acme-forms")).status, 200, "{damage}");
        site.pass(61);
        site.cron();
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "active", "{damage}");
    }
    assert_eq!(site.complaints(), [""; 0]);
}

#[test]
fn a_signed_refusal_acts_at_once_and_a_signed_return_too() {
    let (license, vendor, mut site) = licensed_site(Core::Npm);
    for (status, condition) in [("suspended", "suspended"), ("active", "active"), ("revoked", "revoked")] {
        vendor
            .instance
            .write_licenses(&[license.toml(&format!("status = \"{status}\""))]);
        crate::support::eventually("the server knows", || {
            vendor.server.validate(&license, HOST).json()["status"] == status
        });
        site.pass(25 * HOUR);
        site.cron();
        assert_eq!(site.vendor_sees("acme-forms")["condition"], condition);
    }
    assert_eq!(site.vendor_sees("acme-forms")["active"], false);
}

#[test]
fn an_update_that_is_refused_changes_nothing_and_asks_for_a_signed_answer_soon() {
    let (license, vendor, mut site) = licensed_site(Core::Npm);
    vendor
        .instance
        .write_licenses(&[license.toml("status = \"suspended\"")]);
    crate::support::eventually("the server knows", || {
        vendor.server.validate(&license, HOST).json()["status"] == "suspended"
    });
    site.pass(2 * HOUR);
    site.admin.get("/wp-admin/update-core.php?force-check=1");
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    site.pass(120);
    site.cron();
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "suspended");
}

#[test]
fn a_license_is_validated_daily_in_the_background_with_a_fresh_nonce_and_some_jitter() {
    let (_license, vendor, mut site) = licensed_site(Core::Debian);
    let next = |site: &Site| {
        site.run("echo wp_next_scheduled('countersign_acme-forms') - time();")
            .parse::<i64>()
            .unwrap()
    };
    let planned = next(&site);
    assert!((18 * HOUR - 60..=24 * HOUR).contains(&planned), "{planned} seconds");
    let mut nonces = vec![vendor.front.take_asked()[0].json()["nonce"].clone()];
    for _ in 0..3 {
        site.pass(24 * HOUR + 60);
        site.cron();
        site.cron();
        let asked = vendor.front.take_asked();
        let validations: Vec<_> = asked.iter().filter(|asked| asked.is_validation()).collect();
        assert_eq!(validations.len(), 1, "once a day");
        nonces.push(validations[0].json()["nonce"].clone());
        assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
    }
    nonces.sort_by_key(Value::to_string);
    nonces.dedup();
    assert_eq!(nonces.len(), 4);
}

#[test]
fn one_process_asks_at_a_time_and_one_that_died_is_not_waited_for() {
    let (_license, vendor, mut site) = licensed_site(Core::Npm);
    site.run(
        "require ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; WP_Upgrader::create_lock('countersign_acme-forms');",
    );
    vendor.front.take_asked();
    let page = site.press("acme-forms", "check", "");
    assert_eq!(
        page.notices(),
        ["The license is being checked at this moment. Please try again in a minute."]
    );
    assert_eq!(vendor.front.take_asked().len(), 0);
    site.pass(61);
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
}

#[test]
fn a_lock_that_a_clock_far_ahead_left_is_broken() {
    let (_license, _vendor, mut site) = licensed_site(Core::Debian);
    site.run("add_option('countersign_acme-forms.lock', time() + 9 * DAY_IN_SECONDS, '', 'no');");
    assert_eq!(site.press("acme-forms", "check", "").notices(), [ACTIVE]);
}

#[test]
fn where_wp_cron_does_not_run_an_administrators_page_catches_up() {
    let (_license, vendor, mut site) = licensed_site(Core::Npm);
    vendor.front.take_asked();
    for (hours, expected) in [(40, 0), (20, 1), (20, 0)] {
        site.pass(hours * HOUR);
        site.admin.get("/wp-admin/tools.php");
        let asked = vendor.front.take_asked();
        assert_eq!(
            asked.iter().filter(|asked| asked.is_validation()).count(),
            expected,
            "{hours} hours later"
        );
    }
}

#[test]
fn a_server_that_wants_to_be_left_alone_is() {
    let (_license, vendor, mut site) = licensed_site(Core::Npm);
    vendor.front.answer_with(fixed(429, &[("Retry-After", "7200")], ""));
    site.press("acme-forms", "check", "");
    vendor.front.answer_with(Answer::Forward);
    vendor.front.take_asked();
    site.pass(HOUR);
    site.cron();
    let page = site.press("acme-forms", "check", "");
    assert_eq!(
        page.notices(),
        ["The license server asked to wait a little. Please try again later."]
    );
    assert!(!vendor.front.take_asked().iter().any(Asked::is_validation));
    site.pass(2 * HOUR);
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
    assert_eq!(site.vendor_sees("acme-forms")["condition"], "active");
}
