//! Secrets appear in no log, file, error, metric or body: one license key, one token of a download and one key for
//! downloads are used everywhere and searched for everywhere.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use countersign_model::license_key::LicenseKey;
use serde_json::json;

use crate::deliveries::none_waits;
use crate::hosted::{SECRET, hosting, link_of, put_secret};
use crate::management::{Shop, forms, token};
use crate::support::instance::{LATEST, question, sha256};
use crate::support::issued::license_of;
use crate::support::server::{countersign, updates};
use crate::support::shop::{add_shop, deliver_text, invoice};
use crate::support::stored::{files_in, has};
use crate::support::{Instance, License, Server, eventually, get, request};

/// The texts that would give the key away: as it is written, without dashes, in lower case, and its random part.
fn traces(license: &License) -> Vec<String> {
    let bare = license.key.replace('-', "");
    vec![
        license.key.clone(),
        license.key.to_lowercase(),
        bare.to_lowercase(),
        bare[..20].to_owned(),
        bare,
    ]
}

fn assert_clean(place: &str, bytes: &[u8], licenses: &[&License]) {
    for trace in licenses.iter().flat_map(|license| traces(license)) {
        assert!(
            !has(bytes, trace.as_bytes()),
            "a license key is in {place}: {}",
            String::from_utf8_lossy(bytes)
        );
    }
}

fn assert_no_file_has_it(folder: &Path, licenses: &[&License]) {
    let files = files_in(folder);
    for (file, content) in &files {
        assert_clean(&file.display().to_string(), content, licenses);
    }
    assert!(files.len() > 8, "the store's files too");
}

#[test]
fn no_route_log_or_file_has_a_license_key() {
    let all: Vec<License> = (0..3).map(|_| License::new()).collect();
    let [good, expired, unknown] = &all[..] else {
        unreachable!()
    };
    let canaries = [good, expired, unknown];
    let instance = Instance::with_licenses(&[good.toml(""), expired.toml_with("2001-01-01", "", "forms = []")]);
    let server = Server::start_with(&instance, &["--request-timeout-seconds", "1"]);
    let address = server.address;
    let mut bodies = Vec::new();
    for license in canaries {
        let key = &license.key;
        for question in [
            question(license, "a.com"),
            question(license, "b.com"),
            question(license, "ftp://a.com"),
            json!({ "license_key": key }),
            json!({ "license_key": [key], "site_url": "a.com" }),
            json!({ "license_key": { key: key }, "site_url": key }),
            json!({ "license_key": key, "site_url": "a.com", "build_id": key }),
            json!({ "license_key": key, "site_url": "a.com", "release_hash": key }),
            json!({ "license_key": key, "site_url": "a.com", "plugin_version": key }),
            json!({ "license_key": key, "site_url": "a.com", "plugin_version": format!("1.0-{}", key.to_lowercase()) }),
            json!({ "license_key": format!("{}U", &key[..28]), "site_url": "a.com" }),
            json!({ "license_key": format!("{key}{key}{key}{key}{key}"), "site_url": "a.com" }),
            json!([key]),
        ] {
            bodies.push(server.ask(&question));
        }
        for raw in [
            format!("{{\"license_key\":\"{key}\",\"license_key\":\"{key}\"}}"),
            key.clone(),
            format!("{{\"{key}\""),
        ] {
            bodies.push(request(
                address,
                "POST",
                "/api/v1/validate-license",
                &[],
                raw.as_bytes(),
            ));
            bodies.push(request(
                address,
                "POST",
                "/api/v1/validate-license",
                &[("Content-Type", "text/plain")],
                raw.as_bytes(),
            ));
        }
        let targets =
            ["acme-forms", "acme-maps", "acme-bare", "nothing", key].map(|slug| updates(slug, license, "a.com", ""));
        for target in targets.iter().map(String::as_str).chain([
            format!("/{key}").as_str(),
            format!("/keys/{key}.pem").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&license_key={key}").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url={key}@").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url=a.com&build_id={key}").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url=a.com&current_version={key}").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url={key}").as_str(),
            format!("/index.html?license_key={key}").as_str(),
            format!("/index.html?license_key={key}&{}", "x".repeat(4096)).as_str(),
        ]) {
            bodies.push(get(address, target));
            bodies.push(request(
                address,
                "PUT",
                target,
                &[("Authorization", &format!("License {key}"))],
                b"",
            ));
            bodies.push(request(
                address,
                "GET",
                target,
                &[("Authorization", &format!("License {key}"))],
                b"",
            ));
            bodies.push(request(
                address,
                "GET",
                target,
                &[("X-Key", &format!("{key}{}", "x".repeat(8192)))],
                b"",
            ));
        }
    }
    assert!(bodies.len() > 100);
    for response in &bodies {
        assert_clean("an answer", &response.body, &canaries);
        assert_clean(
            "an answer's headers",
            format!("{:?}", response.headers).as_bytes(),
            &canaries,
        );
    }
    for site_url in [good.key.clone(), format!("https://{}.example", good.key)] {
        let refused = server.ask(&json!({ "license_key": good.key, "site_url": site_url }));
        assert_eq!(refused.json()["reason"], "license_key");
        assert_clean("a refused site", &refused.body, &canaries);
    }
    let broken = format!("{0} = 1\n[[license]]\nid = \"{0}\"\n[{0}]\n", good.key);
    instance.write("registry/plugins/broken.toml", &broken);
    crate::support::eventually_within("the reload is logged", std::time::Duration::from_secs(20), || {
        server.log().contains("not reloaded")
    });
    for target in ["/readyz", "/metrics"] {
        for target in [
            target.to_owned(),
            format!("{target}?license_key={0}&{0}", good.key),
            format!("{target}/{}", good.key),
        ] {
            let response = request(server.admin, "GET", &target, &[("X-Key", &good.key)], b"");
            assert_clean(&target, &response.body, &canaries);
            assert_clean(&target, format!("{:?}", response.headers).as_bytes(), &canaries);
        }
    }
    let metrics = get(server.admin, "/metrics").text();
    for secret in [&good.id[..12], &unknown.id[..12], "a.com", "127.0.0.1", "acme"] {
        assert!(!metrics.contains(secret), "a label holds what a client sends: {secret}");
    }
    fs::remove_file(instance.file("registry/plugins/broken.toml")).unwrap();
    let log = server.log();
    assert!(
        log.contains("validated") && log.contains(&good.id[..12]),
        "the log names the license by its id"
    );
    assert_clean("the log", log.as_bytes(), &canaries);
    server.stop();
    assert_no_file_has_it(instance.path(), &canaries);
}

#[test]
fn no_answer_log_metric_or_file_has_a_release_secret() {
    const SECRET: &str = "canary-of-the-release-secret";
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = 2")]);
    let server = Server::start(&instance);
    let mut guarded = question(&license, "a.com");
    guarded["release_hash"] = sha256(SECRET).into();
    assert_eq!(server.ask(&guarded).code(), "ok");
    server.validate(&license, "b.com");
    let key = &license.key;
    let mut said = Vec::new();
    for body in [
        json!({ "license_key": key, "site_url": "b.com", "release_hash": SECRET }),
        json!({ "license_key": key, "site_url": "c.com", "release_secret": SECRET }),
        json!({ "license_key": key, "site_url": "a.com", "release_secret": format!("{SECRET}-") }),
        json!({ "license_key": key, "site_url": "a.com", "release_secret": [SECRET] }),
        json!({ "license_key": key, "site_url": "a.com", "release_secret": SECRET.repeat(9) }),
        json!({ "license_key": key, "site_url": "b.com", "release_secret": SECRET }),
        json!({ "license_key": key, "site_url": "a.com", "release_secret": SECRET }),
    ] {
        for path in ["/api/v1/validate-license", "/api/v1/release-site"] {
            let answer = request(server.address, "POST", path, &[], body.to_string().as_bytes());
            said.push(answer.text() + &format!("{:?}", answer.headers));
        }
    }
    assert!(said.iter().any(|said| said.contains("\"released\"")), "{said:?}");
    said.push(get(server.admin, "/metrics").text());
    said.push(server.log());
    assert!(server.log().contains("not released"));
    server.stop();
    let files = files_in(instance.path());
    said.extend(
        files
            .values()
            .map(|content| String::from_utf8_lossy(content).into_owned()),
    );
    assert!(said.iter().all(|said| !said.contains(SECRET)));
}

#[test]
fn a_license_key_in_escapes_or_in_other_letters_is_stored_nowhere() {
    let license = License::new();
    let key = &license.key;
    let escape = |text: &str| {
        text.chars()
            .map(|letter| format!("\\u{:04x}", u32::from(letter)))
            .collect::<String>()
    };
    let dashed = key.replace('-', "\\u2013");
    let soft = key.replace('-', "\\u00ad");
    let wide: String = key
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .map(|letter| format!("\\u{:04x}", u32::from(letter) + 0xfee0))
        .collect();
    let shop = Shop::open(&[]);
    let mails = token(&shop.instance, "mails", &["licenses:write", "keys:read"]);
    let send = |method: &str, target: &str, body: &str| {
        let headers = [
            ("Authorization", mails.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", &sha256(body)),
            ("If-Match", "*"),
        ];
        request(shop.server.address, method, target, &headers, body.as_bytes())
    };
    let post = |target: &str, body: &str| send("POST", target, body);
    let issued = license_of(&shop.issue("first", &forms()));
    let of_issued = format!("/api/v1/licenses/{}", issued.id);
    let fields = |text: &str| {
        [
            format!("{{\"modules\":{{\"forms\":[]}},\"expires\":\"never\",\"reference\":\"order {text}\"}}"),
            format!("{{\"modules\":{{\"{text}\":[]}},\"expires\":\"never\"}}"),
            format!("{{\"modules\":{{\"forms\":[\"{text}\"]}},\"expires\":\"never\"}}"),
            format!("{{\"modules\":{{\"forms\":[]}},\"expires\":\"never\",\"hosts\":[\"{text}.com\"]}}"),
            format!("{{\"modules\":{{\"forms\":[]}},\"expires\":\"never\",\"hosts\":[\"https://a.{text}.com/x\"]}}"),
        ]
    };
    let separated = |separator: &str| key.replace('-', separator);
    for written in [
        key.clone(),
        escape(key),
        escape(&key.to_lowercase()),
        dashed.clone(),
        separated("&#45;"),
        separated("=2D"),
        separated("<wbr>"),
        separated("\\\\u2013"),
        separated("&amp;ndash;"),
        separated("%252D"),
    ] {
        for body in fields(&written) {
            let answer = post("/api/v1/licenses", &body);
            assert!(
                answer.status == 400 && answer.text().contains("license key"),
                "{body}: {}",
                answer.text()
            );
            assert_clean(&body, &answer.body, &[&license]);
        }
        for (method, step, body) in [
            ("PATCH", "", format!("{{\"modules\":{{\"forms\":[\"{written}\"]}}}}")),
            ("PATCH", "", format!("{{\"modules\":{{\"{written}\":[]}}}}")),
            ("PATCH", "", format!("{{\"{written}\":1}}")),
            ("PATCH", "", format!("{{\"expires\":\"{written}\"}}")),
            ("POST", "/release", format!("{{\"host\":\"{written}.com\"}}")),
            ("POST", "/resend", format!("{{\"address\":\"{written}@example.com\"}}")),
            ("POST", "/resend", format!("{{\"address\":\"jane@{written}.com\"}}")),
        ] {
            let answer = send(method, &format!("{of_issued}{step}"), &body);
            assert!(
                answer.status == 400 && answer.text().contains("license key"),
                "{method} {step} {body}: {}",
                answer.text()
            );
            assert_clean(&body, &answer.body, &[&license]);
        }
    }
    for written in [&soft, &wide] {
        for body in &fields(written)[3..] {
            let answer = post("/api/v1/licenses", body);
            assert!(
                answer.status == 400 && answer.text().contains("license key"),
                "{body}: {}",
                answer.text()
            );
        }
    }
    // What a site says in place of its address or version.
    let key = &issued.key;
    for (site, version) in [
        (&soft, "1"),
        (&wide, "1"),
        (&"b".to_owned(), &*dashed),
        (&"c".to_owned(), &*escape(key)),
    ] {
        let body =
            format!("{{\"license_key\":\"{key}\",\"site_url\":\"{site}.com\",\"plugin_version\":\"{version}\"}}");
        post("/api/v1/validate-license", &body);
    }
    assert!(shop.server.log().contains("validated"));
    let refused = countersign(&shop.instance)
        .args(["token", "create", &license.key])
        .args(["--scope", "licenses:read"])
        .output();
    assert_eq!(refused.unwrap().status.code(), Some(2));
    for (file, content) in files_in(shop.instance.path()) {
        let text = String::from_utf8_lossy(&content).into_owned();
        assert!(!LicenseKey::is_in(&text), "{}: {text}", file.display());
    }
    let log = shop.server.log();
    assert!(!LicenseKey::is_in(&log), "{log}");
}

#[test]
fn a_license_key_in_a_delivery_or_an_export_is_stored_nowhere() {
    let license = License::new();
    let instance = Instance::new();
    add_shop(&instance);
    let server = Server::start_with(&instance, &["--foreign-keys", "true"]);
    let escapes: String = license
        .key
        .chars()
        .map(|letter| format!("\\u{:04x}", u32::from(letter)))
        .collect();
    let written = [
        license.key.clone(),
        escapes,
        license.key.replace('-', "\\u2013"),
        license.key.replace('-', "&#45;"),
        license.key.replace('-', "=2D"),
    ];
    // The last one is a sale.
    let mut number = 0;
    for written in written.iter().chain([&String::new()]) {
        // In the id of the event, the invoice, the subscription and the customer, and in the buyer's address.
        for place in ["evt_", "in_1", "sub_1", "cus_1", "CANARY-jane"] {
            number += 1;
            let mut sale = invoice("in_1", "subscription_create", "price_small", 1, 30);
            sale["customer"] = json!("cus_1");
            let event = json!({ "id": format!("evt_{number}"), "type": "invoice.paid", "created": 1_700_000_000 + number,
                "livemode": true, "data": { "object": sale } });
            let status = deliver_text(
                &server,
                &event.to_string().replacen(place, &format!("{place}{written}"), 1),
            );
            assert!(matches!(status, 200 | 400), "{place}: {status}");
        }
    }
    let folder = instance.file("store/deliveries");
    eventually("every delivery is applied or parked", || none_waits(&instance));
    let ledger = || fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    assert_eq!(ledger().matches("\"event\":\"license\"").count(), 1, "{}", ledger());
    let listed = countersign(&instance)
        .args(["shop", "parked", "list"])
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(!LicenseKey::is_in(&listed), "{listed}");

    let foreign = sha256("a key of another system");
    let day = "2099-12-31";
    // The export is outside the instance.
    let outside = tempfile::tempdir().unwrap();
    let import = |row: &str| {
        let file = outside.path().join("export.csv");
        let header = "key,status,expires,sites,reference,hosts,modules";
        fs::write(&file, format!("{header}\n{row}\n")).unwrap();
        let ran = countersign(&instance)
            .args(["license", "import", "--from", "csv"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        (ran.status.code(), said)
    };
    for cell in &written {
        for (row, reason) in [
            (
                format!("{foreign},active,{day},1,order {cell},,forms"),
                "it has a license key",
            ),
            (
                format!("{foreign},active,{day},1,,{cell}.com,forms"),
                "one of its sites is",
            ),
            (format!("{foreign},active,{day},1,,,{cell}"), "it has a license key"),
            (
                format!("{foreign},active,{day},1,,,forms={cell}"),
                "it has a license key",
            ),
            (format!("{foreign},{cell},{day},1,,,forms"), "expected active"),
            (format!("{foreign},active,{cell},1,,,forms"), "expected a date"),
        ] {
            let (code, said) = import(&row);
            assert!(
                code == Some(3) && said.contains("1 not taken") && said.contains(reason),
                "{row}: {said}"
            );
            assert!(!LicenseKey::is_in(&said), "{row}: {said}");
        }
    }
    let taken = import(&format!("{foreign},active,{day},1,order 7,a.com,forms"));
    assert_eq!(taken.0, Some(0), "{}", taken.1);
    for (file, content) in files_in(instance.path()) {
        let text = String::from_utf8_lossy(&content).into_owned();
        // Behind the first line of a parked delivery is what its shop sent.
        let text = match file.starts_with(&folder) {
            true => text.lines().next().unwrap(),
            false => &text,
        };
        assert!(!LicenseKey::is_in(text), "{}: {text}", file.display());
    }
    let log = server.log();
    assert!(!LicenseKey::is_in(&log), "{log}");
}

#[test]
fn no_command_prints_or_stores_a_license_key_but_the_one_that_issues_it() {
    let all: Vec<License> = (0..2).map(|_| License::new()).collect();
    let [good, unknown] = &all[..] else { unreachable!() };
    let canaries = [good, unknown];
    let instance = Instance::issuing(&[good.toml("")]);
    let server = Server::start(&instance);
    let statement = server.validate(good, "a.com");
    server.stop();
    fs::write(instance.file("statement.json"), &statement.body).unwrap();
    let printed = |arguments: &[&str]| {
        let output = countersign(&instance)
            .args(arguments)
            .env("RUST_LOG", "trace")
            .env("COUNTERSIGN_LOG", "trace")
            .output()
            .unwrap();
        assert_clean(&format!("{} (stdout)", arguments[0]), &output.stdout, &canaries);
        assert_clean(&format!("{} (stderr)", arguments[0]), &output.stderr, &canaries);
        output
    };
    for key in canaries.map(|license| license.key.as_str()) {
        let mistyped = format!("{}U", &key[..28]);
        for key in [key, &mistyped] {
            for arguments in [
                &["license", "show", key][..],
                &["license", "show", key, "--json"],
                &["license", "renew", key, "--expires", "2098-01-01"],
                &["license", "renew", key, "--expires", "tomorrow"],
                &["license", "release", key, "--host", "a.com"],
                &["license", "release", key, "--host", "no host"],
                &["license", "release", key, "--all"],
                &["license", "vouch", key, "--reason", key],
                &["license", "vouch", key, "--until", key],
                &["license", "unvouch", key],
                &["license", "suspend", key],
                &["license", "suspend", key],
                &["license", "resume", key],
                &["license", "revoke", key],
                &["license", "resume", key],
                &["license", "list", "--module", key],
                &["license", "issue", "--module", "forms", "--note", "x", "--expires", key],
                &["license", "issue", "--module", "forms", &format!("--expires={key}")],
                &[
                    "license",
                    "issue",
                    "--module",
                    "forms",
                    "--expires=never",
                    "--request",
                    key,
                ],
                &[
                    "license",
                    "issue",
                    "--module",
                    "forms",
                    "--expires=never",
                    "--note",
                    key,
                ],
                &["license", "show", "0123456789abcdef", key],
                &["build", "--plugin", key],
                &["verify", key, "--key", key],
                &["verify", "statement.json", "--key", key],
            ] {
                let place = arguments[..2].join(" ");
                let output = printed(arguments);
                assert_ne!(output.status.code(), Some(101), "{place} panicked");
            }
        }
    }
    printed(&["license", "list"]);
    printed(&["license", "list", "--json"]);
    printed(&["keys", "list"]);
    printed(&["keys", "publish"]);
    assert_no_file_has_it(instance.path(), &canaries);

    let issued = countersign(&instance)
        .args([
            "license",
            "issue",
            "--module",
            "forms",
            "--expires",
            "2099-01-01",
            "--json",
        ])
        .output()
        .unwrap();
    let issued: serde_json::Value = serde_json::from_slice(&issued.stdout).unwrap();
    let issued = License {
        key: issued["license_key"].as_str().unwrap().to_owned(),
        id: issued["id"].as_str().unwrap().to_owned(),
    };
    assert_no_file_has_it(instance.path(), &[&issued]);
    let listed = printed(&["license", "show", &issued.id]);
    assert_clean("license show", &listed.stdout, &[&issued]);
}

#[test]
fn no_log_metric_or_file_has_the_token_of_a_download_or_the_key_for_downloads() {
    let license = License::new();
    let (instance, packages) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], true)]);
    let server = Server::start_with(&instance, &["--downloads-per-link", "2"]);
    let address = server.address;
    server.validate(&license, "a.com");
    let link = link_of(&server, "acme-forms", &license, "a.com");
    let token = link.split('/').nth(6).unwrap();
    assert_eq!(token.len(), 60);
    let secrets = Secrets::of_downloads(token);

    // A download, a part, a wrong link of each kind, and the limit.
    let broken = link.replacen(&token[..8], "AAAAAAAA", 1);
    let other = link.replacen("acme-forms", "acme-maps", 1);
    let older = link.replacen(LATEST, "0.9.0", 1);
    let expired = packages[0].link(&SECRET, &license, "a.com", "2026-01-01".parse().unwrap());
    let stranger = packages[0].link(&SECRET, &license, "b.com", chrono::Utc::now().date_naive());
    let longer = format!("{link}/{token}?{token}={token}");
    let mut statuses = std::collections::BTreeSet::new();
    for target in [&link, &link, &broken, &other, &older, &expired, &stranger, &longer] {
        for (method, header) in [
            ("GET", ("Range", "bytes=0-99")),
            ("GET", ("Referer", target.as_str())),
            ("GET", ("If-None-Match", token)),
            ("POST", ("X-Token", token)),
        ] {
            let answer = request(address, method, target, &[header], b"");
            secrets.assert_not_in("an answer's headers", format!("{:?}", answer.headers).as_bytes());
            if answer.status >= 400 {
                secrets.assert_not_in("a problem", &answer.body);
            }
            statuses.insert(answer.status);
        }
    }
    for status in [200, 206, 403, 404, 405, 410, 429] {
        assert!(statuses.contains(&status), "{status}: {statuses:?}");
    }
    for target in ["/readyz", "/metrics", "/metrics?token="] {
        let answer = get(
            server.admin,
            &format!("{target}{}", if target.ends_with('=') { token } else { "" }),
        );
        secrets.assert_not_in(target, &answer.body);
    }
    // The key is replaced while the server runs, and by one that is none.
    put_secret(&instance, "keys/downloads.key", &SECRET[..31]);
    crate::support::eventually_within("the reload is logged", std::time::Duration::from_secs(20), || {
        server.log().contains("not reloaded")
    });
    put_secret(&instance, "keys/downloads.key", &SECRET);
    let log = server.log();
    assert!(log.contains("validated"), "the log is the whole one: {log}");
    secrets.assert_not_in("the log", log.as_bytes());
    server.stop();

    fs::write(instance.file("leaked.zip"), &packages[0].bytes).unwrap();
    for arguments in [
        &["trace", "leaked.zip"][..],
        &["trace", token],
        &["review"],
        &["usage", "acme-forms"],
        &["keys", "list"],
        &["keys", "list", "--json"],
        &["doctor"],
        &["bindings", "export"],
    ] {
        let output = countersign(&instance)
            .args(arguments)
            .current_dir(instance.path())
            .env("RUST_LOG", "trace")
            .env("COUNTERSIGN_LOG", "trace")
            .output()
            .unwrap();
        let key = Secrets::of_downloads("no token: a message may name its argument");
        let secrets = if arguments[1..] == [token] { &key } else { &secrets };
        secrets.assert_not_in(&format!("{} (stdout)", arguments[0]), &output.stdout);
        secrets.assert_not_in(&format!("{} (stderr)", arguments[0]), &output.stderr);
    }
    fs::remove_file(instance.file("keys/downloads.key")).unwrap();
    for (file, content) in files_in(instance.path()) {
        secrets.assert_not_in(&file.display().to_string(), &content);
    }
}

/// The texts that would give a token or the key for downloads away.
struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    fn of_downloads(token: &str) -> Self {
        let hex = SECRET.map(|byte| format!("{byte:02x}")).concat();
        let base64 = STANDARD.encode(SECRET);
        // The part that proves it: a MAC of 16 bytes.
        let mac = &token[token.len() - 20..];
        Self(vec![
            SECRET[..16].to_vec(),
            hex[..32].to_owned().into_bytes(),
            hex[..32].to_uppercase().into_bytes(),
            base64.as_bytes()[..20].to_vec(),
            format!("{:?}", &SECRET[..8])
                .trim_matches(['[', ']'])
                .as_bytes()
                .to_vec(),
            mac.as_bytes().to_vec(),
        ])
    }

    fn assert_not_in(&self, place: &str, bytes: &[u8]) {
        for secret in &self.0 {
            assert!(
                !has(bytes, secret),
                "a secret of downloads is in {place}: {}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
}

#[test]
fn no_route_log_or_file_has_a_token_or_the_key_of_an_issued_license() {
    let shop = Shop::open(&[]);
    const ORDER: &str = "canary-order-of-jane";
    let mut body = forms();
    body["reference"] = json!(ORDER);
    let license = license_of(&shop.issue("order-of-anna", &body));
    let token = shop.bearer.trim_start_matches("Bearer ");
    let server = &shop.server;
    let mut bodies = vec![get(server.admin, "/metrics"), get(server.admin, "/readyz")];
    // In every place where a token does not belong, too.
    let placed = format!("{{\"reference\":\"{token}\"");
    for (method, target, authorization) in [
        ("GET", "/api/v1/licenses?limit=9".to_owned(), shop.bearer.as_str()),
        ("GET", format!("/api/v1/licenses/{}", license.id), &shop.bearer),
        ("GET", format!("/api/v1/licenses?cursor={token}"), &shop.bearer),
        ("GET", format!("/api/v1/licenses/{token}"), &shop.bearer),
        ("GET", format!("/api/v1/licenses/{}", license.key), &shop.bearer),
        (
            "GET",
            format!("/api/v1/licenses?reference={}", license.key),
            &shop.bearer,
        ),
        ("POST", format!("/api/v1/licenses/{}/{token}", license.id), &shop.bearer),
        ("POST", "/api/v1/licenses".to_owned(), token),
        ("POST", "/api/v1/licenses".to_owned(), &shop.bearer[..70]),
        ("DELETE", format!("/{token}"), &shop.bearer),
        ("GET", "/api/v1/updates/acme-forms".to_owned(), &shop.bearer),
    ] {
        let headers = [("Authorization", authorization), ("Idempotency-Key", token)];
        bodies.push(request(server.address, method, &target, &headers, placed.as_bytes()));
    }
    for arguments in [
        &["token", "list"][..],
        &["token", "revoke", token],
        &["license", "show", &license.id],
        &["license", "list", "--json"],
        &["bindings", "export"],
        &["doctor"],
    ] {
        let output = countersign(&shop.instance).args(arguments).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        // An argument that is rejected is quoted to who typed it.
        if !arguments.contains(&token) {
            assert!(
                !String::from_utf8_lossy(&printed).contains(&token[4..]),
                "{arguments:?}"
            );
        }
        assert_clean(&format!("{arguments:?}"), &printed, &[&license]);
        let shows_orders = arguments[0] == "license";
        let has_order = String::from_utf8_lossy(&printed).contains(ORDER);
        assert_eq!(has_order, shows_orders, "{arguments:?}");
    }
    // The test looks at what the API refuses, not at what it shows to a holder of the token.
    let missing = shop.instance.file("store/texts.jsonl");
    fs::rename(&missing, shop.instance.file("aside")).unwrap();
    let refused = shop.issue("another", &body);
    assert_eq!(refused.status, 503);
    fs::rename(shop.instance.file("aside"), &missing).unwrap();
    bodies.push(refused);
    bodies.retain(|body| !(body.status == 200 && body.text().contains("\"source\"")));
    bodies.push(get(server.admin, "/metrics"));
    let forgotten = countersign(&shop.instance)
        .args(["license", "forget", "--reference", &format!("{ORDER}-2")])
        .output()
        .unwrap();
    assert_eq!(forgotten.status.code(), Some(3));
    assert!(!String::from_utf8_lossy(&forgotten.stderr).contains(ORDER));
    let log = server.log();
    for (place, text) in bodies
        .iter()
        .map(|body| ("a body", body.text()))
        .chain([("the log", log.clone())])
    {
        assert!(!text.contains(&token[4..]), "{place}: {text}");
        assert!(!text.contains("order-of-anna"), "{place}: {text}");
        assert!(!text.contains(ORDER), "{place}: {text}");
        assert_clean(place, text.as_bytes(), &[&license]);
    }
    assert_no_file_has_it(shop.instance.path(), &[&license]);
    let secret = fs::read(shop.instance.file("keys/issuing.key")).unwrap();
    let hex = const_hex::encode(&secret);
    for (file, content) in files_in(shop.instance.path()) {
        let has = |trace: &[u8]| has(&content, trace);
        assert!(!has(&token.as_bytes()[4..]), "the token is in {}", file.display());
        let is_kept = file.ends_with("store/texts.jsonl");
        assert_eq!(has(ORDER.as_bytes()), is_kept, "the order is in {}", file.display());
        let is_key = file.ends_with("keys/issuing.key");
        assert!(is_key || !has(&secret) && !has(hex.as_bytes()), "{}", file.display());
    }
}
