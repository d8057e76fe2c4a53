//! First copies: what a buyer gets before a site is bound, by the link of the mail and by the key, and what a stranger gets.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{Days, NaiveDate, Utc};
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use countersign_model::first_copy_link::FirstCopyLink;
use countersign_package::archive::Archive;
use countersign_package::mark::search;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::hosted::{Hosted, HostedPlugin, SECRET, hosting, put_secret};
use crate::support::http::{Client, Response};
use crate::support::instance::{LATEST, question};
use crate::support::server::countersign;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::support::{Instance, License, Server, eventually, get, request};

/// So that requests can come from any network.
const PROXY: [&str; 2] = ["--proxies", "127.0.0.1/32"];

const FORMS: &[HostedPlugin<'_>] = &[("acme-forms", &[LATEST, "1.1.0"], true)];

fn today() -> NaiveDate {
    Utc::now().date_naive()
}

/// A command that works, and what it prints.
fn run(instance: &Instance, arguments: &[&str]) -> String {
    let output = countersign(instance).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn run_json(instance: &Instance, arguments: &[&str]) -> Value {
    serde_json::from_str(&run(instance, &[arguments, &["--json"]].concat())).unwrap()
}

/// The path of the page of a license whose mail is of `day`.
fn page_of(license: &License, day: NaiveDate) -> String {
    let id = license.id.parse().unwrap();
    let token = FirstCopyLink::new(&id, day).token(&DownloadKey::new(&SECRET)).unwrap();
    format!("/first-copy/{token}")
}

fn post(server: &Server, target: &str) -> Response {
    post_from(server, target, "203.0.113.1")
}

/// A button of the page, as a browser of this network presses it.
fn post_from(server: &Server, target: &str, network: &str) -> Response {
    let headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", "null"),
        ("X-Forwarded-For", network),
    ];
    request(server.address, "POST", target, &headers, b"")
}

/// A package by the key.
fn by_key(server: &Server, license: &License, target: &str, more: &[(&str, &str)]) -> Response {
    let credentials = format!("License {}", license.key);
    let headers = [&[("Authorization", credentials.as_str())], more].concat();
    request(
        server.address,
        "GET",
        &format!("/api/v1/packages/{target}"),
        &headers,
        b"",
    )
}

fn head(server: &Server, target: &str, more: &str) -> Response {
    let mut client = Client::connect(server.address);
    client
        .send(format!("HEAD {target} HTTP/1.1\r\nHost: test\r\n{more}\r\n").as_bytes())
        .unwrap();
    client.receive_head().unwrap()
}

/// The package with the mark of a first copy.
fn marked(package: &Hosted, license: &License, day: NaiveDate) -> Vec<u8> {
    let key = DownloadKey::new(&SECRET);
    let id = BuildId::first_copy(&key, &license.id.parse().unwrap(), day, package.slug, package.version).unwrap();
    let mut bytes = package.bytes.clone();
    package.mark.unwrap().patch(id.encrypt(&key)).apply(0, &mut bytes);
    bytes
}

/// An instance that may issue licenses, and one that it issued.
fn issued(plugins: &[HostedPlugin<'_>]) -> (Instance, Vec<Hosted>, License) {
    let (instance, packages) = hosting(&["# none\n".to_owned()], plugins);
    instance.write_issuing_secrets();
    let license = new_license(&instance);
    (instance, packages, license)
}

fn new_license(instance: &Instance) -> License {
    let issued = run_json(
        instance,
        &["license", "issue", "--module", "forms", "--expires", "never"],
    );
    license_of(&issued)
}

fn license_of(issued: &Value) -> License {
    License {
        id: issued["id"].as_str().unwrap().to_owned(),
        key: issued["license_key"].as_str().unwrap().to_owned(),
    }
}

/// How many first copies of a license `review` knows, where it lists the license.
fn reviewed(instance: &Instance, license: &License) -> Option<Value> {
    let found = run_json(instance, &["review"])["many_first_copies"].clone();
    let mut listed = found.as_array().unwrap().iter();
    listed.find(|found| found["license"] == license.id.as_str()).cloned()
}

#[test]
fn a_buyer_gets_the_plugin_by_the_link_and_a_button_before_any_site_is_bound() {
    let (instance, packages, license) =
        issued(&[("acme-forms", &[LATEST, "1.1.0"], true), ("acme-pdf", &["2.0.0"], true)]);
    let server = Server::start_with(&instance, &PROXY);
    let link = page_of(&license, today());
    let page = get(server.address, &link);
    assert_eq!(page.status, 200, "{}", page.text());
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-robots-tag", "noindex"),
        ("x-content-type-options", "nosniff"),
        (
            "content-security-policy",
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    let text = page.text();
    let token = link.rsplit('/').next().unwrap();
    assert!(
        text.contains(&format!("<form method=\"post\" action=\"{token}/acme-forms\">")),
        "{text}"
    );
    assert!(
        text.contains("Version 1.2.0") && !text.contains("acme-pdf"),
        "what is not covered has no button: {text}"
    );
    assert!(!text.contains("<script") && !text.contains("style=\""), "{text}");
    let style = get(server.address, "/first-copy/style.css");
    assert_eq!(
        (style.status, style.header("content-type")),
        (200, Some("text/css; charset=utf-8"))
    );

    let copy = post(&server, &format!("{link}/acme-forms"));
    assert_eq!(copy.status, 200);
    assert_eq!(copy.body, marked(&packages[0], &license, today()));
    Archive::check(&copy.body[..]).unwrap();
    for (name, value) in [
        ("content-type", "application/zip"),
        ("content-disposition", "attachment; filename=\"acme-forms-1.2.0.zip\""),
        ("cache-control", "private, no-store, no-transform"),
        ("referrer-policy", "no-referrer"),
    ] {
        assert_eq!(copy.header(name), Some(value), "{name}");
    }
    assert_eq!(post(&server, &format!("{link}/acme-pdf")).status, 403);
    assert_eq!(post(&server, &format!("{link}/acme-none")).status, 404);
    assert_eq!(post(&server, &link).status, 200, "without a plugin it is the page");
}

#[test]
fn a_scanner_that_opens_every_link_and_asks_for_every_head_consumes_nothing() {
    let (instance, _, license) = issued(FORMS);
    let server = Server::start_with(&instance, &PROXY);
    let link = page_of(&license, today());
    let button = format!("{link}/acme-forms");
    let credentials = format!("Authorization: License {}\r\n", license.key);
    for _ in 0..30 {
        for target in [&link, &button, "/first-copy/style.css"] {
            assert_eq!(get(server.address, target).status, 200, "{target}");
            assert_eq!(head(&server, target, "").status, 200, "{target}");
        }
        let about = head(&server, "/api/v1/packages/acme-forms", &credentials);
        assert_eq!(
            (about.status, about.header("content-type")),
            (200, Some("application/zip"))
        );
        assert!(about.header("etag").is_some());
    }
    // A button that a link checker GETs is the page.
    assert!(
        get(server.address, &button)
            .text()
            .contains("<form method=\"post\" action=\"../")
    );
    for copy in 1..=20 {
        assert_eq!(post(&server, &button).status, 200, "{copy}");
    }
    assert_eq!(post(&server, &button).status, 429);
    assert_eq!(
        head(&server, "/api/v1/packages/acme-forms", &credentials).status,
        200,
        "it does not count"
    );
}

#[test]
fn who_finds_a_key_on_a_forum_gets_twenty_packages_and_then_none() {
    let (instance, packages, license) = issued(FORMS);
    let server = Server::start(&instance);
    for copy in 0..20 {
        let target = ["acme-forms", "acme-forms/1.1.0"][copy % 2];
        let answer = by_key(&server, &license, target, &[]);
        assert_eq!(answer.status, 200, "{copy}");
        assert_eq!(answer.body, marked(&packages[copy % 2], &license, today()));
    }
    let refused = by_key(&server, &license, "acme-forms", &[]);
    assert_eq!(
        (refused.status, refused.code()),
        (429, "too_many_first_copies".to_owned())
    );
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((13 * 86_400..=14 * 86_400).contains(&seconds), "{seconds}");
    // The page says so in words, and so does review.
    let button = format!("{}/acme-forms", page_of(&license, today()));
    let page = post(&server, &button);
    assert_eq!((page.status, page.header("retry-after").is_some()), (429, true));
    assert!(
        page.text().contains("This license gave too many downloads"),
        "{}",
        page.text()
    );
    eventually("review lists the license", || reviewed(&instance, &license).is_some());
    let found = reviewed(&instance, &license).unwrap();
    assert_eq!((&found["packages"], &found["networks"]), (&json!(20), &json!(1)));
    assert!(found["refused"].is_string(), "{found}");
    let text = run(&instance, &["review"]);
    assert!(
        text.contains("FIRST COPIES") && text.contains(&license.id[..12]),
        "{text}"
    );

    // A bound site is not limited by it.
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    for _ in 0..5 {
        let answer = by_key(&server, &license, "acme-forms?site_url=https://a.com", &[]);
        assert_eq!(answer.body, packages[0].marked_for(&license, "a.com", today()));
    }
    // What was written survives a restart.
    server.stop();
    let server = Server::start(&instance);
    assert_eq!(by_key(&server, &license, "acme-forms", &[]).status, 429);
    assert_eq!(reviewed(&instance, &license).unwrap()["packages"], 20);
}

#[test]
fn a_license_serves_three_networks_a_day_and_no_address_is_kept() {
    let (instance, _, license) = issued(FORMS);
    let server = Server::start_with(&instance, &PROXY);
    let button = format!("{}/acme-forms", page_of(&license, today()));
    for network in [
        "203.0.113.1",
        "203.0.113.2",
        "2001:db8:1:1::7",
        "2001:db8:1:1:2::8",
        "203.0.113.1",
    ] {
        assert_eq!(post_from(&server, &button, network).status, 200, "{network}");
    }
    let refused = post_from(&server, &button, "203.0.113.3");
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("3 networks today"), "{}", refused.text());
    let by_key = by_key(&server, &license, "acme-forms", &[("X-Forwarded-For", "203.0.113.4")]);
    assert_eq!(
        (by_key.status, by_key.code()),
        (429, "too_many_first_copies".to_owned())
    );
    assert!(by_key.header("retry-after").unwrap().parse::<u64>().unwrap() <= 86_400);
    eventually("review lists the license", || reviewed(&instance, &license).is_some());
    assert_eq!(reviewed(&instance, &license).unwrap()["networks"], 3);
    // Nothing that is kept names a network.
    server.stop();
    for file in ["store/index/db", "store/ledger.jsonl"] {
        let bytes = fs::read(instance.file(file)).unwrap_or_default();
        assert!(!bytes.windows(9).any(|part| part == b"203.0.113"), "{file}");
    }
}

#[test]
fn what_happened_between_the_mail_and_the_button_has_its_own_sentence() {
    let (instance, _, license) = issued(FORMS);
    let server = Server::start_with(&instance, &PROXY);
    let link = page_of(&license, today());
    let button = format!("{link}/acme-forms");
    let said = |status: u16, sentence: &str| {
        for answer in [get(server.address, &link), post(&server, &button)] {
            assert_eq!(answer.status, status, "{sentence}: {}", answer.text());
            assert!(answer.text().contains(sentence), "{sentence}: {}", answer.text());
            assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
            assert!(!answer.text().contains("<form"), "{}", answer.text());
        }
    };
    assert_eq!(post(&server, &button).status, 200);
    run(&instance, &["license", "suspend", &license.id]);
    said(403, "This license is suspended");
    run(&instance, &["license", "resume", &license.id]);
    assert_eq!(post(&server, &button).status, 200);
    let new = run_json(&instance, &["license", "rekey", &license.id]);
    said(403, "This license has a new key");
    let new = license_of(&new);
    let new_button = format!("{}/acme-forms", page_of(&new, today()));
    assert_eq!(post(&server, &new_button).status, 200);
    run(&instance, &["license", "revoke", &new.id]);
    let revoked = post(&server, &new_button);
    assert!(
        revoked.status == 403 && revoked.text().contains("This license was revoked"),
        "{}",
        revoked.text()
    );
}

#[test]
fn a_license_whose_payment_is_in_dispute_says_that_the_payment_does_not_stand() {
    let (instance, _) = hosting(&["# none\n".to_owned()], FORMS);
    add_shop(&instance);
    let server = Server::start_with(&instance, &PROXY);
    let sale = invoice("in_1", "subscription_create", "price_small", 1, 60);
    assert_eq!(deliver(&server, "invoice.paid", 1, &sale), 200);
    let sold = || run_json(&instance, &["license", "list"]);
    eventually("the sale is applied", || {
        sold().as_array().is_some_and(|sold| sold.len() == 1)
    });
    let id = sold()[0]["id"].as_str().unwrap().to_owned();
    let license = License { key: String::new(), id };
    let link = page_of(&license, today());
    let button = format!("{link}/acme-forms");
    assert_eq!(post(&server, &button).status, 200);
    let payment = json!({ "invoice": "in_1", "payment": { "payment_intent": "pi_1" } });
    assert_eq!(deliver(&server, "invoice_payment.paid", 2, &payment), 200);
    let dispute = json!({ "id": "dp_1", "payment_intent": "pi_1", "status": "needs_response" });
    assert_eq!(deliver(&server, "charge.dispute.created", 3, &dispute), 200);
    eventually("the license is suspended", || get(server.address, &link).status == 403);
    let text = post(&server, &button).text();
    assert!(text.contains("The payment for this license does not stand"), "{text}");
}

#[test]
fn an_expired_license_and_an_old_link_say_what_to_do() {
    let [expired, valid] = [License::new(), License::new()];
    let tables = [
        expired.toml_with("2026-01-31", "", "forms = []"),
        valid.toml_with("2099-12-31", "", "forms = []"),
    ];
    let (instance, _) = hosting(&tables, FORMS);
    let server = Server::start_with(&instance, &PROXY);
    let link = page_of(&expired, today());
    for answer in [get(server.address, &link), post(&server, &format!("{link}/acme-forms"))] {
        assert_eq!(answer.status, 403);
        let text = answer.text();
        assert!(text.contains("Its last day was 31 January 2026"), "{text}");
    }
    // 14 days at least, and the fifteenth midnight ends it.
    let ago = |days| today().checked_sub_days(Days::new(days)).unwrap();
    for (days, status) in [(0, 200), (14, 200), (15, 410), (400, 410)] {
        let link = page_of(&valid, ago(days));
        let page = get(server.address, &link);
        assert_eq!(page.status, status, "{days}");
        assert_eq!(post(&server, &format!("{link}/acme-forms")).status, status, "{days}");
        assert_eq!(page.text().contains("have its key mailed to you again"), status == 410);
    }
    assert_eq!(page_of(&valid, today()), page_of(&valid, today()), "the same all day");
}

#[test]
fn a_token_that_was_changed_in_any_byte_or_is_for_something_else_is_unknown() {
    let (instance, packages, license) = issued(FORMS);
    let server = Server::start_with(&instance, &PROXY);
    let link = page_of(&license, today());
    let token = link.rsplit('/').next().unwrap();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).unwrap();
    let unknown = |token: &str| {
        for answer in [
            get(server.address, &format!("/first-copy/{token}")),
            post(&server, &format!("/first-copy/{token}/acme-forms")),
        ] {
            assert_eq!(answer.status, 404, "{token}");
            assert!(answer.text().contains("This link is not valid"), "{}", answer.text());
        }
    };
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        unknown(&BASE64_URL_SAFE_NO_PAD.encode(changed));
    }
    for other in ["", "x", &token[1..], &format!("{token}A")] {
        assert_eq!(
            get(server.address, &format!("/first-copy/{other}")).status,
            404,
            "{other}"
        );
    }
    // The token of a site's link is no token of a page, and the other way round.
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let of_site = packages[0].link(&SECRET, &license, "a.com", today());
    assert_eq!(get(server.address, &of_site).status, 200);
    let site_token = of_site.split('/').nth(6).unwrap();
    unknown(site_token);
    let crossed = of_site.replace(site_token, token);
    assert_eq!(get(server.address, &crossed).code(), "not_found");
    // Another license's link gives that license's copy: it says its own license.
    let other = new_license(&instance);
    let copy = post(&server, &format!("{}/acme-forms", page_of(&other, today())));
    assert_eq!(copy.body, marked(&packages[0], &other, today()));
    // The key of links was replaced: the link is too old, and no guess.
    put_secret(&instance, "keys/retired/downloads-1.key", &SECRET);
    put_secret(&instance, "keys/downloads.key", &[9; 32]);
    eventually("the new key is in force", || get(server.address, &link).status == 410);
}

#[test]
fn a_withheld_version_is_not_given_and_the_newest_that_is_not_is() {
    let license = License::new();
    let plugins: &[HostedPlugin<'_>] = &[("acme-forms", &["1.2.0", "1.1.0", "1.3.0-beta.1"], true)];
    let (instance, packages) = hosting(&[license.toml("")], plugins);
    let entry = "module = \"forms\"\nrepository = \"../../src\"\nwithhold = [\"1.2.0\"]\n";
    instance.write("registry/plugins/acme-forms.toml", entry);
    let server = Server::start(&instance);
    let newest = by_key(&server, &license, "acme-forms", &[]);
    assert_eq!(newest.body, marked(&packages[1], &license, today()));
    for (target, status) in [
        ("acme-forms/1.1.0", 200),
        ("acme-forms/1.2.0", 404),
        ("acme-forms/1.3.0-beta.1", 404),
        ("acme-forms/9.9.9", 404),
    ] {
        assert_eq!(by_key(&server, &license, target, &[]).status, status, "{target}");
    }
    let page = get(server.address, &page_of(&license, today())).text();
    assert!(
        page.contains("Version 1.1.0") && !page.contains("1.2.0") && !page.contains("beta"),
        "{page}"
    );
}

#[test]
fn trace_names_a_first_copy_and_review_takes_it_for_its_licenses_own() {
    let (instance, _, license) = issued(FORMS);
    let other = new_license(&instance);
    let server = Server::start(&instance);
    let copy = by_key(&server, &license, "acme-forms", &[]).body;
    let zip = instance.file("copy.zip");
    fs::write(&zip, &copy).unwrap();
    let zip = zip.to_str().unwrap();
    let traced = &run_json(&instance, &["trace", zip])[0];
    assert_eq!(
        (&traced["origin"], &traced["first_copy"]),
        (&json!("given"), &json!(true))
    );
    assert_eq!(
        (&traced["day"], &traced["licenses"][0]["id"]),
        (&json!(today()), &json!(license.id))
    );
    let text = run(&instance, &["trace", zip]);
    assert!(
        text.contains("site       first copy (or a host whose tag is the same: 1 in a million)"),
        "{text}"
    );
    let archive = Archive::open(std::path::Path::new(zip)).unwrap();
    let id: Uuid = search::in_archive(&archive).unwrap()[0].id;
    // The site that installed it says so, and so does the site of another license.
    for (license, host) in [(&license, "own.com"), (&other, "other.com")] {
        let mut question = question(license, host);
        question["build_id"] = json!(id);
        assert_eq!(server.ask(&question).code(), "ok");
    }
    let odd = || run_json(&instance, &["review"])["odd_reports"].clone();
    eventually("the report is written", || odd().as_array().unwrap().len() == 1);
    assert_eq!(
        (&odd()[0]["host"], &odd()[0]["oddity"]),
        (&json!("other.com"), &json!("other_license"))
    );
    for (copy, count) in [("own", 1.0), ("moved", 1.0)] {
        let series = format!("countersign_reported_copies_total{{copy=\"{copy}\"}}");
        assert_eq!(server.metric(&series), Some(count), "{copy}");
    }
}

#[test]
fn a_first_copy_is_resumed_and_a_part_counts_as_a_part() {
    let (instance, packages, license) = issued(FORMS);
    let server = Server::start(&instance);
    let whole = marked(&packages[0], &license, today());
    let half = whole.len() / 2;
    let first = by_key(
        &server,
        &license,
        "acme-forms",
        &[("Range", &format!("bytes=0-{}", half - 1))],
    );
    let tag = first.header("etag").unwrap().to_owned();
    let rest = by_key(
        &server,
        &license,
        "acme-forms",
        &[("Range", &format!("bytes={half}-")), ("If-Range", &tag)],
    );
    assert_eq!((first.status, rest.status), (206, 206));
    assert_eq!([first.body, rest.body].concat(), whole);
    let known = by_key(&server, &license, "acme-forms", &[("If-None-Match", &tag)]);
    assert_eq!(known.status, 304);
    let given = (0..30).take_while(|_| by_key(&server, &license, "acme-forms", &[]).status == 200);
    assert!(
        (18..=19).contains(&given.count()),
        "two halves are one package, or a little more"
    );
}

#[test]
fn a_package_without_a_mark_is_the_published_file() {
    let license = License::new();
    let (instance, packages) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], false)]);
    let server = Server::start_with(&instance, &PROXY);
    assert_eq!(by_key(&server, &license, "acme-forms", &[]).body, packages[0].bytes);
    let copy = post(&server, &format!("{}/acme-forms", page_of(&license, today())));
    assert_eq!(copy.body, packages[0].bytes);
}

#[test]
fn a_package_by_the_key_asks_what_an_update_asks() {
    let license = License::new();
    let tables = [license.toml("")];
    let (instance, packages) = hosting(
        &tables,
        &[("acme-forms", &[LATEST], true), ("acme-pdf", &["2.0.0"], true)],
    );
    let server = Server::start_with(&instance, &["--failures-per-minute", "5"]);
    let code = |target: &str| {
        let answer = by_key(&server, &license, target, &[]);
        (
            answer.status,
            if answer.status == 200 {
                String::new()
            } else {
                answer.code()
            },
        )
    };
    assert_eq!(code("acme-pdf"), (403, "plugin_not_covered".to_owned()));
    assert_eq!(code("acme-none"), (404, "unknown_plugin".to_owned()));
    assert_eq!(code("acme-forms?site_url=a.com"), (403, "license_not_bound".to_owned()));
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(code("acme-forms?site_url=b.com"), (403, "bound_elsewhere".to_owned()));
    assert_eq!(
        code("acme-forms?site_url=a%20b"),
        (422, "malformed_site_url".to_owned())
    );
    assert_eq!(code("acme-forms/1.2.0?site_url=a.com"), (200, String::new()));
    let in_query = get(
        server.address,
        &format!("/api/v1/packages/acme-forms?license_key={}", license.key),
    );
    assert_eq!(
        in_query.body,
        marked(&packages[0], &license, today()),
        "as an update request"
    );
    assert_eq!(
        get(server.address, "/api/v1/packages/acme-forms").code(),
        "missing_field"
    );
    let post = request(server.address, "POST", "/api/v1/packages/acme-forms", &[], b"");
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    // Wrong keys are guesses, and so are wrong links.
    let stranger = License::new();
    assert_eq!(by_key(&server, &stranger, "acme-forms", &[]).code(), "unknown_license");
    for _ in 0..4 {
        get(server.address, "/first-copy/guess");
    }
    eventually("the address is refused", || {
        get(server.address, "/first-copy/guess").status == 429
    });
}

#[test]
fn a_vendor_who_mails_packages_turns_first_copies_off() {
    let (instance, packages, license) = issued(FORMS);
    instance.write("countersign.toml", "serve.first_copies = \"off\"\n");
    let server = Server::start(&instance);
    let page = get(server.address, &page_of(&license, today()));
    assert_eq!(page.status, 404);
    assert!(page.text().contains("No downloads here"), "{}", page.text());
    assert_eq!(
        post(&server, &format!("{}/acme-forms", page_of(&license, today()))).status,
        404
    );
    let refused = by_key(&server, &license, "acme-forms", &[]);
    assert_eq!(
        (refused.code(), &refused.json()["field"]),
        ("missing_field".to_owned(), &json!("site_url"))
    );
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let answer = by_key(&server, &license, "acme-forms?site_url=a.com", &[]);
    assert_eq!(answer.body, packages[0].marked_for(&license, "a.com", today()));
    let issued = run_json(
        &instance,
        &["license", "issue", "--module", "forms", "--expires", "never"],
    );
    assert!(issued.get("download_page").is_none(), "{issued}");
}

#[test]
fn whoever_issues_a_license_gets_the_page() {
    let (instance, _, license) = issued(FORMS);
    instance.write(
        "countersign.toml",
        "serve.public_url = \"https://licenses.example/x\"\n",
    );
    let page = format!("https://licenses.example/x{}", page_of(&license, today()));
    let issue = [
        "license",
        "issue",
        "--module",
        "forms",
        "--expires",
        "never",
        "--request",
        "7",
    ];
    let without_server = run_json(&instance, &issue);
    let server = Server::start(&instance);
    let with_server = run_json(&instance, &issue);
    assert_eq!(without_server["download_page"], with_server["download_page"]);
    let link = with_server["download_page"].as_str().unwrap();
    assert_eq!((link.len(), &link[..38]), (page.len(), &page[..38]));
    let button = format!(
        "{}/acme-forms",
        link.strip_prefix("https://licenses.example/x").unwrap()
    );
    assert_eq!(post(&server, &button).status, 200);
    let output = countersign(&instance).args(issue).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().trim(),
        with_server["license_key"]
    );
    assert!(String::from_utf8(output.stderr).unwrap().contains(link));
    let other = [
        "license",
        "issue",
        "--module",
        "maps",
        "--expires",
        "never",
        "--any-module",
    ];
    let maps = run_json(&instance, &other);
    assert!(maps.get("download_page").is_none(), "nothing of it is here: {maps}");
}

#[test]
fn no_key_and_no_token_is_in_a_log() {
    let (instance, _, license) = issued(FORMS);
    let server = Server::start_with(&instance, &PROXY);
    let link = page_of(&license, today());
    let token = link.rsplit('/').next().unwrap();
    let old = page_of(&license, today().checked_sub_days(Days::new(30)).unwrap());
    for target in [&link, &old, &format!("{link}x")] {
        get(server.address, target);
        post(&server, &format!("{target}/acme-forms"));
    }
    for _ in 0..22 {
        by_key(&server, &license, "acme-forms", &[]);
    }
    let log = server.log();
    assert!(
        log.contains("gave a first copy") && log.contains("gave as many first copies as it may"),
        "{log}"
    );
    for secret in [token, old.rsplit('/').next().unwrap(), &license.key, "203.0.113.1"] {
        assert!(!log.contains(secret), "{secret}");
    }
    let metrics = get(server.admin, "/metrics").text();
    assert!(metrics.contains("operation=\"first_copies\"") && metrics.contains("code=\"too_many_first_copies\""));
    assert!(!metrics.contains(token) && !metrics.contains(&license.key));
}
