//! The management API: a program with a token reads, issues and changes licenses.

use std::fs;
use std::process::Output;
use std::thread;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::commands::bash_offers;
use crate::support::cli_json::Page;
use crate::support::http::request;
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::{Instance, License, Response, Server, eventually};

const LICENSES: &str = "/api/v1/licenses";

/// An instance whose licenses machines may issue, its server, and who asks it.
pub struct Shop {
    pub instance: Instance,
    pub server: Server,
    /// `Bearer` and a token with the scope `licenses:write`.
    pub bearer: String,
    /// A license of a file.
    pub in_file: License,
}

pub fn run(instance: &Instance, arguments: &[&str]) -> Output {
    let output = countersign(instance).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The document that a command prints with `--json`.
pub fn stdout_json(instance: &Instance, arguments: &[&str]) -> Value {
    serde_json::from_slice(&run(instance, &[arguments, &["--json"]].concat()).stdout).unwrap()
}

/// A new token's `Authorization`.
pub fn token(instance: &Instance, name: &str, scopes: &[&str]) -> String {
    let mut arguments = vec!["token", "create", name];
    arguments.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
    let made = String::from_utf8(run(instance, &arguments).stdout).unwrap();
    format!("Bearer {}", made.trim())
}

impl Shop {
    pub fn open(flags: &[&str]) -> Self {
        let in_file = License::new();
        let instance = Instance::with_licenses(&[in_file.toml("")]);
        for key in ["--issuing", "--references"] {
            run(&instance, &["keys", "generate", key]);
        }
        let server = Server::start_with(&instance, flags);
        let bearer = token(&instance, "shop", &["licenses:write"]);
        Self {
            instance,
            server,
            bearer,
            in_file,
        }
    }

    fn send_as(&self, bearer: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut all = vec![("Authorization", bearer), ("Content-Type", "application/json")];
        all.extend(headers);
        request(
            self.server.address,
            method,
            &format!("{LICENSES}{target}"),
            &all,
            body.as_bytes(),
        )
    }

    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &Value) -> Response {
        self.send_as(&self.bearer, method, target, headers, &body.to_string())
    }

    /// Issues a license for this request; the answer has its key.
    pub fn issue(&self, key: &str, body: &Value) -> Response {
        self.send("POST", "", &[("Idempotency-Key", key)], body)
    }

    fn step(&self, id: &str, step: &str, body: &Value) -> Response {
        self.send("POST", &format!("/{id}/{step}"), &[], body)
    }

    fn get(&self, target: &str) -> Response {
        self.send_as(&self.bearer, "GET", target, &[], "")
    }

    /// What the API tells of a license.
    pub fn document(&self, license: &License) -> Value {
        self.get(&format!("/{}", license.id)).json()
    }

    /// The ids of all licenses.
    pub fn ids(&self) -> Vec<String> {
        let list = self.get("?limit=500").json();
        let licenses = list["licenses"].as_array().unwrap().iter();
        licenses
            .map(|license| license["id"].as_str().unwrap().to_owned())
            .collect()
    }

    fn code(&self, license: &License, host: &str) -> String {
        self.server.validate(license, host).code()
    }
}

pub fn forms() -> Value {
    json!({ "modules": { "forms": ["pdf"] }, "expires": "never" })
}

#[track_caller]
fn assert_code(answer: &Response, status: u16, code: &str) {
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (status, code),
        "{}",
        answer.text()
    );
}

#[test]
fn a_host_that_the_vendor_released_is_listed_for_no_license_of_a_file_or_of_the_ledger() {
    let shop = Shop::open(&[]);
    let issued = license_of(&shop.issue("1", &forms()));
    let listed = || {
        let ids = |list: &Value| {
            let mut ids: Vec<_> = list.as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
            ids.sort_by_key(ToString::to_string);
            ids
        };
        let by_command = ids(&stdout_json(&shop.instance, &["license", "list", "--host", "a.com"]));
        let by_api = ids(&shop.get("?host=a.com").json()["licenses"]);
        assert_eq!(by_command, by_api);
        by_command
    };
    let exported = |license: &License| {
        let lines = String::from_utf8(run(&shop.instance, &["bindings", "export"]).stdout).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut own = lines.filter(|line| line["license"] == license.id.as_str());
        own.next().unwrap()["released"].clone()
    };
    let is_shown_released = |license: &License| {
        let shown = stdout_json(&shop.instance, &["license", "show", &license.id]);
        shown["bindings"][0]["released"].clone()
    };
    for license in [&shop.in_file, &issued] {
        assert_eq!(listed(), [] as [Value; 0]);
        assert_eq!(shop.code(license, "a.com"), "ok");
        assert_eq!(listed(), [json!(license.id)]);
        assert_eq!(exported(license), false);
        let release = ["license", "release", &license.id, "--host", "a.com"];
        run(&shop.instance, &release);
        assert_eq!(listed(), [] as [Value; 0], "{}", license.id);
        assert_eq!(
            (exported(license), is_shown_released(license)),
            (json!(true), json!(true))
        );
        // Who asks again is bound again.
        assert_eq!(shop.code(license, "a.com"), "ok");
        assert_eq!(listed(), [json!(license.id)]);
        run(&shop.instance, &release);
    }
    // A program that releases it counts as well.
    assert_eq!(shop.code(&issued, "a.com"), "ok");
    let answer = shop.step(&issued.id, "release", &json!({ "host": "a.com" }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(listed(), [] as [Value; 0]);
    assert_eq!(exported(&issued), true);
}

#[test]
fn the_log_warns_once_for_each_request_that_names_a_module_that_no_plugin_has() {
    let shop = Shop::open(&[]);
    let warnings = || {
        shop.server
            .log()
            .matches("no plugin of the registry has these modules")
            .count()
    };
    let license = license_of(&shop.issue("right", &forms()));
    assert_eq!(warnings(), 0, "{}", shop.server.log());
    let mistyped = json!({ "modules": { "froms": [], "zzz": ["pdf"] }, "expires": "never" });
    assert_eq!(shop.issue("1", &mistyped).status, 201);
    assert_eq!(shop.issue("1", &mistyped).status, 200, "a retry issues nothing");
    assert_eq!(warnings(), 1, "{}", shop.server.log());
    let warning = "modules=\"froms (did you mean \\\"forms\\\"?), zzz\"";
    assert!(shop.server.log().contains(warning), "{}", shop.server.log());
    let body = json!({ "modules": { "froms": [] } });
    let changed = shop.send("PATCH", &format!("/{}", license.id), &[("If-Match", "*")], &body);
    assert_eq!((changed.status, warnings()), (200, 2), "{}", shop.server.log());
}

#[test]
fn the_example_of_the_page_issues_a_module_of_the_instance_in_the_readme() {
    let page = include_str!("../../docs/management-api.md");
    let body = page.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    for module in body["modules"].as_object().unwrap().keys() {
        // The entry names no module, so the plugin's is its slug.
        let entry = format!("> registry/plugins/{module}.toml <<");
        assert!(include_str!("../../README.md").contains(&entry), "{module}");
    }
    let shop = Shop::open(&[]);
    assert_eq!(shop.issue("order-1234-1", &body).status, 201);
}

#[test]
fn a_retry_gets_the_same_key_also_after_a_restart_and_a_rotation_and_another_body_is_a_conflict() {
    let shop = Shop::open(&[]);
    let first = shop.issue("order-1", &forms());
    assert_eq!(first.status, 201, "{}", first.text());
    let license = license_of(&first);
    assert_eq!(first.header("location"), Some(&*format!("{LICENSES}/{}", license.id)));
    assert_eq!(first.header("etag"), Some("\"1\""));
    assert_eq!(first.json()["issued_by"], "token:shop");
    // In force when the answer arrives.
    assert_eq!(shop.code(&license, "a.com"), "ok");

    let again = |shop: &Shop| {
        let again = shop.issue(
            "order-1",
            &json!({ "expires": "9999-12-31", "modules": { "forms": ["pdf"] } }),
        );
        assert_eq!(
            (again.status, license_of(&again).key),
            (200, license.key.clone()),
            "{}",
            again.text()
        );
    };
    again(&shop);
    assert_code(
        &shop.issue(
            "order-1",
            &json!({ "expires": "2099-01-01", "modules": { "forms": [] } }),
        ),
        409,
        "conflict",
    );
    assert_ne!(license_of(&shop.issue("order-2", &forms())).key, license.key);

    // The name of the token, and not the token, is what a retry goes by.
    run(&shop.instance, &["token", "revoke", "shop"]);
    assert_code(&shop.issue("order-1", &forms()), 401, "unauthorized");
    let bearer = token(&shop.instance, "shop", &["licenses:write"]);
    run(&shop.instance, &["keys", "generate", "--issuing", "--rotate"]);
    assert!(shop.server.stop().success());
    let server = Server::start(&shop.instance);
    let shop = Shop {
        server,
        bearer,
        instance: shop.instance,
        in_file: shop.in_file,
    };
    again(&shop);
    let other = token(&shop.instance, "other", &["licenses:write"]);
    let theirs = shop.send_as(
        &other,
        "POST",
        "",
        &[("Idempotency-Key", "order-1")],
        &forms().to_string(),
    );
    assert_eq!(theirs.status, 201, "another token's requests are others");
    let ledger = fs::read_to_string(shop.instance.file("store/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches("\"event\":\"license\"").count(), 3);
    assert!(!ledger.contains("order-1"));
}

#[test]
fn eight_retries_at_once_issue_one_license() {
    let shop = Shop::open(&[]);
    let keys: Vec<_> = thread::scope(|scope| {
        let retries: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| license_of(&shop.issue("order-1", &forms())).key))
            .collect();
        retries.into_iter().map(|retry| retry.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "one key for all");
    assert_eq!(
        shop.get("").json()["licenses"].as_array().unwrap().len(),
        2,
        "with that of the file"
    );
}

#[test]
fn each_step_is_in_force_when_its_answer_arrives() {
    let shop = Shop::open(&[]);
    let license = license_of(&shop.issue("1", &forms()));
    let id = &license.id;
    assert_eq!(shop.code(&license, "a.com"), "ok");
    let standing = |answer: Response, wanted: &str| assert_eq!(answer.json()["standing"], wanted, "{}", answer.text());
    standing(shop.step(id, "suspend", &json!({})), "suspended");
    assert_eq!(shop.code(&license, "a.com"), "suspended");
    standing(shop.step(id, "resume", &json!({})), "active");
    assert_eq!(shop.code(&license, "b.com"), "bound_elsewhere");
    let released = shop.step(id, "release", &json!({}));
    assert_eq!((&released.json()["bound"], released.status), (&json!(0), 200));
    assert_eq!(shop.code(&license, "b.com"), "ok");
    let read = shop.get(&format!("/{id}")).json();
    assert_eq!(
        (&read["hosts"][0]["host"], &read["source"]),
        (&json!("b.com"), &json!("ledger"))
    );
    let renewed = shop.step(id, "renew", &json!({ "expires": "2099-12-31" }));
    assert_eq!(renewed.json()["expires"], "2099-12-31");
    // What is so already is not written again.
    let tag = renewed.header("etag").unwrap().to_owned();
    let same = shop.step(id, "renew", &json!({ "expires": "2099-12-31" }));
    assert_eq!(same.header("etag"), Some(&*tag));

    let patch = |tag: &str, body: Value| shop.send("PATCH", &format!("/{id}"), &[("If-Match", tag)], &body);
    let patched = patch(&tag, json!({ "sites": 2, "grace_period_hours": 24 }));
    assert_eq!((&patched.json()["sites"], patched.status), (&json!(2), 200));
    assert_eq!(shop.code(&license, "c.com"), "ok");
    assert_code(&patch(&tag, json!({ "sites": 3 })), 412, "precondition_failed");
    let unconditional = shop.send("PATCH", &format!("/{id}"), &[], &json!({ "sites": 3 }));
    assert_code(&unconditional, 400, "missing_field");
    assert_eq!(
        patch("*", json!({ "sites": "unlimited", "grace_period_hours": null })).json()["sites"],
        "unlimited"
    );
    // For more than one site, it must be said which.
    assert_code(&shop.step(id, "release", &json!({})), 400, "malformed_request");
    assert_eq!(shop.step(id, "release", &json!({ "host": "b.com" })).json()["bound"], 1);
    // Again, there is nothing to do. A site that never used the license is a mistake.
    assert_eq!(shop.step(id, "release", &json!({ "host": "b.com" })).status, 200);
    let mistyped = shop.step(id, "release", &json!({ "host": "bb.com" }));
    assert_code(&mistyped, 409, "conflict");
    assert!(mistyped.text().contains("never was"), "{}", mistyped.text());

    let rekeyed = shop.send(
        "POST",
        &format!("/{id}/rekey"),
        &[("Idempotency-Key", "lost")],
        &json!({}),
    );
    let new = license_of(&rekeyed);
    assert_eq!((rekeyed.status, &rekeyed.json()["replaces"]), (201, &json!(id)));
    assert_eq!(
        (shop.code(&license, "c.com"), shop.code(&new, "c.com")),
        ("revoked".into(), "ok".into())
    );
    let again = shop.send(
        "POST",
        &format!("/{id}/rekey"),
        &[("Idempotency-Key", "lost")],
        &json!({}),
    );
    assert_eq!((again.status, license_of(&again).key), (200, new.key.clone()));
    let other = shop.send(
        "POST",
        &format!("/{id}/rekey"),
        &[("Idempotency-Key", "more")],
        &json!({}),
    );
    assert_code(&other, 409, "conflict");
    assert_code(&shop.step(id, "resume", &json!({})), 409, "conflict");
}

#[test]
fn only_who_may_read_keys_has_one_mailed_and_only_where_there_is_a_mail_server() {
    let shop = Shop::open(&[]);
    let license = license_of(&shop.issue("1", &forms()));
    let to = json!({ "address": "anna@example.com" }).to_string();
    let target = format!("/{}/resend", license.id);
    let key = [("Idempotency-Key", "again")];
    assert_code(
        &shop.send_as(&shop.bearer, "POST", &target, &key, &to),
        403,
        "insufficient_scope",
    );
    let support = token(&shop.instance, "support", &["licenses:write", "keys:read"]);
    let resend = |headers: &[(&str, &str)], body: &str| shop.send_as(&support, "POST", &target, headers, body);
    assert_code(&resend(&[], &to), 400, "missing_field");
    for bad in [
        "{}",
        "{\"address\":\"anna\"}",
        "{\"address\":\"a@b.example\\r\\nBcc: eve@example.com\"}",
        "{\"address\":null}",
        "{\"address\":\"a@b.example\",\"to\":1}",
    ] {
        let refused = resend(&key, bad);
        assert_code(&refused, 400, "malformed_request");
        assert!(!refused.text().contains("example"), "{}", refused.text());
    }
    let refused = resend(&key, &to);
    assert_code(&refused, 409, "conflict");
    assert!(
        refused.text().contains("sends no mail: `server` in table [mail]"),
        "{}",
        refused.text()
    );
    assert!(!shop.server.log().contains("anna@"), "{}", shop.server.log());
}

#[test]
fn what_is_wrong_with_a_body_names_its_field_and_changes_nothing() {
    let shop = Shop::open(&[]);
    let issued = license_of(&shop.issue("1", &forms()));
    let one = format!("/{}", issued.id);
    for (method, target, body, pointer) in [
        (
            "POST",
            "",
            r#"{"modules":{"forms":["pdf"],"forms":[]},"expires":"never"}"#,
            "#/modules",
        ),
        (
            "POST",
            "",
            r#"{"modules":{"forms":["pdf"],"f\u006frms":[]},"expires":"never"}"#,
            "#/modules",
        ),
        (
            "POST",
            "",
            r#"{"modules":{"forms":[]},"modules":{},"expires":"never"}"#,
            "#/modules",
        ),
        (
            "POST",
            "",
            r#"{"modules":{"forms":["No name"]},"expires":"never"}"#,
            "#/modules",
        ),
        (
            "POST",
            "",
            r#"{"modules":{"No name":[]},"expires":"never"}"#,
            "#/modules",
        ),
        ("POST", "", r#"{"modules":{"forms":[]},"expires":7}"#, "#/expires"),
        (
            "POST",
            "",
            r#"{"modules":{"forms":[]},"expires":"never","hosts":["a.com",7]}"#,
            "#/hosts/1",
        ),
        (
            "PATCH",
            &*one,
            r#"{"modules":{"forms":["pdf"],"forms":[]}}"#,
            "#/modules",
        ),
        ("PATCH", &*one, r#"{"sites":2,"sites":3}"#, "#/sites"),
    ] {
        let headers = [("Idempotency-Key", "2"), ("If-Match", "*")];
        let answer = shop.send_as(&shop.bearer, method, target, &headers, body);
        assert_code(&answer, 400, "malformed_request");
        let errors = answer.json()["errors"].clone();
        assert_eq!(errors[0]["pointer"], pointer, "{body}: {}", answer.text());
        assert!(
            errors[0]["detail"].is_string() && !answer.text().contains("No name"),
            "{errors}"
        );
    }
    let ledger = fs::read_to_string(shop.instance.file("store/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches("\"event\":\"license\"").count(), 1);
}

#[test]
fn a_license_of_a_file_is_shown_and_never_changed() {
    let shop = Shop::open(&[]);
    let id = &shop.in_file.id;
    let shown = shop.get(&format!("/{id}"));
    assert_eq!((&shown.json()["source"], shown.header("etag")), (&json!("file"), None));
    assert!(
        shown.json()["file"].as_str().unwrap().contains(".toml:"),
        "{}",
        shown.text()
    );
    for step in ["suspend", "revoke", "release", "rekey"] {
        let answer = shop.send(
            "POST",
            &format!("/{id}/{step}"),
            &[("Idempotency-Key", "1")],
            &json!({}),
        );
        assert_code(&answer, 409, "conflict");
        assert!(answer.text().contains(".toml:"), "{}", answer.text());
    }
    let patch = shop.send("PATCH", &format!("/{id}"), &[("If-Match", "*")], &json!({ "sites": 9 }));
    assert_code(&patch, 409, "conflict");
    assert_eq!(shop.code(&shop.in_file, "a.com"), "ok");
}

#[test]
fn licenses_are_listed_by_order_host_and_standing_and_page_by_page() {
    let shop = Shop::open(&[]);
    let mut all: Vec<_> = (0..5)
        .map(|number| {
            let mut body = forms();
            body["reference"] = json!(format!("order {}", number / 2));
            license_of(&shop.issue(&number.to_string(), &body))
        })
        .collect();
    assert_eq!(shop.code(&all[0], "a.com"), "ok");
    assert_eq!(shop.code(&shop.in_file, "a.com"), "ok");
    shop.step(&all[3].id, "suspend", &json!({}));
    let ids = |query: &str| {
        let page = shop.get(&format!("?{query}")).json();
        let licenses = page["licenses"].as_array().unwrap_or_else(|| panic!("{page}"));
        let ids: Vec<_> = licenses
            .iter()
            .map(|license| license["id"].as_str().unwrap().to_owned())
            .collect();
        assert!(ids.is_sorted(), "{ids:?}");
        (ids, page["next"].as_str().map(str::to_owned))
    };
    let sorted = |licenses: &[&License]| {
        let mut ids: Vec<_> = licenses.iter().map(|license| license.id.clone()).collect();
        ids.sort();
        (ids, None)
    };
    assert_eq!(ids("reference=order+1"), sorted(&[&all[2], &all[3]]));
    assert_eq!(ids("reference=order+1&status=suspended"), sorted(&[&all[3]]));
    assert_eq!(ids("host=https://a.com/"), sorted(&[&all[0], &shop.in_file]));
    assert_eq!(ids("host=a.com&reference=order+0"), sorted(&[&all[0]]));
    assert_eq!(ids("reference=order+9"), sorted(&[]));

    all.push(shop.in_file.clone());
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let (page, next) = ids(&format!("limit=4{cursor}"));
        paged.extend(page);
        let Some(next) = next else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, sorted(&all.iter().collect::<Vec<_>>()).0);

    // All of them are counted by standing, also that of the file.
    let standing = |name: &str| {
        shop.server
            .metric(&format!("countersign_licenses{{standing=\"{name}\"}}"))
    };
    assert_eq!(
        ["active", "suspended", "revoked"].map(standing),
        [Some(5.0), Some(1.0), Some(0.0)]
    );
    shop.step(&all[1].id, "revoke", &json!({}));
    assert_eq!(
        ["active", "suspended", "revoked"].map(standing),
        [Some(4.0), Some(1.0), Some(1.0)]
    );
    let ledger = fs::read_to_string(shop.instance.file("store/ledger.jsonl")).unwrap();
    assert!(!ledger.contains("order "), "orders are hidden");
}

#[test]
fn without_a_token_there_is_no_such_api_and_no_token_does_more_than_it_may() {
    let instance = Instance::with_licenses(&[License::new().toml("")]);
    for key in ["--issuing", "--references"] {
        run(&instance, &["keys", "generate", key]);
    }
    let server = Server::start(&instance);
    let ask = |bearer: &str| request(server.address, "GET", LICENSES, &[("Authorization", bearer)], b"");
    assert_code(&ask("Bearer x"), 404, "not_found");
    let reader = token(&instance, "reader", &["licenses:read"]);
    assert_eq!(ask(&reader).status, 200);
    let refused = ask("Bearer x");
    assert_code(&refused, 401, "unauthorized");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    let post = |bearer: &str| {
        let headers = [("Authorization", bearer), ("Idempotency-Key", "1")];
        request(
            server.address,
            "POST",
            LICENSES,
            &headers,
            forms().to_string().as_bytes(),
        )
    };
    let lacking = post(&reader);
    assert_code(&lacking, 403, "insufficient_scope");
    assert!(lacking.text().contains("licenses:write"));
    let reports = token(&instance, "reports", &["reports:read", "keys:read"]);
    assert_code(&ask(&reports), 403, "insufficient_scope");
    // The list has the use, to the day. An answer does not wait for the line.
    eventually("both tokens are listed as used", || {
        let listed: Value = serde_json::from_slice(&run(&instance, &["token", "list", "--json"]).stdout).unwrap();
        let tokens = listed.as_array().unwrap();
        tokens.len() == 2 && tokens.iter().all(|token| token["last_used"].is_string())
    });
    run(&instance, &["token", "revoke", "reader"]);
    assert_code(&ask(&reader), 401, "unauthorized");
}

#[test]
fn a_hundred_hostile_calls_are_refused_and_change_nothing() {
    let shop = Shop::open(&["--failures-per-minute", "1000", "--requests-per-minute", "100000"]);
    let license = license_of(&shop.issue("1", &forms()));
    let id = &license.id;
    let secret = shop.bearer.trim_start_matches("Bearer ").to_owned();
    let good = forms().to_string();
    let key = [("Idempotency-Key", "evil")];
    let mut refused = 0;
    let mut no = |answer: Response, statuses: &[u16]| {
        refused += 1;
        assert!(
            statuses.contains(&answer.status),
            "{refused}: {} {}",
            answer.status,
            answer.text()
        );
        assert!(!answer.text().contains(&license.key) && !answer.text().contains(&secret));
    };
    // Tokens that are none.
    let cut = &secret[..secret.len() - 1];
    for bearer in [
        "",
        "Bearer",
        "Bearer ",
        "bearer",
        &secret,
        cut,
        &format!("Bearer {cut}"),
        &format!("Bearer {secret}0"),
        &format!("Bearer {}", secret.to_uppercase()),
        &format!("Bearer  {secret}"),
        &format!("Basic {secret}"),
        &format!("License {secret}"),
        &format!("License {}", license.key),
        &format!("Bearer cst_{}", "0".repeat(64)),
        &format!("Bearer {}", license.key),
        &format!("Bearer {secret}, Bearer {secret}"),
    ] {
        no(shop.send_as(bearer, "GET", "", &[], ""), &[401]);
        no(shop.send_as(bearer, "POST", "", &key, &good), &[401]);
        no(
            shop.send_as(bearer, "POST", &format!("/{id}/revoke"), &[], "{}"),
            &[401],
        );
    }
    no(
        shop.send_as(&shop.bearer, "GET", "", &[("Authorization", &shop.bearer)], ""),
        &[400, 401],
    );
    // Bodies that are none, too large, or say more than they may.
    for body in [
        "",
        "null",
        "[]",
        "{",
        "{}x",
        "\"a\"",
        "{\"modules\":{},\"expires\":\"never\"}",
        "{\"modules\":{\"forms\":[]}}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"2001-02-30\"}",
        "{\"modules\":{\"forms\":[]},\"expires\":1}",
        "{\"modules\":{\"forms\":\"pdf\"},\"expires\":\"never\"}",
        "{\"modules\":{\"a b\":[]},\"expires\":\"never\"}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"id\":\"00\"}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"status\":\"active\"}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"license_key\":\"x\"}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"expires\":\"never\"}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"sites\":0}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"sites\":-1}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"sites\":null}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"grace_period_hours\":65536}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"hosts\":[\"a.com\",\"b.com\"]}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"sites\":2,\"hosts\":[\"a.com\",\"A.com\"]}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"hosts\":[\"not a host\"]}",
        "{\"modules\":{\"forms\":[]},\"expires\":\"never\",\"reference\":\"\"}",
        &format!(
            "{{\"modules\":{{\"forms\":[]}},\"expires\":\"never\",\"reference\":\"{}\"}}",
            "x".repeat(201)
        ),
        &format!(
            "{{\"modules\":{{\"forms\":[]}},\"expires\":\"never\",\"reference\":\"{}\"}}",
            license.key
        ),
        &format!("{{\"modules\":{{\"{}\":[]}},\"expires\":\"never\"}}", license.key),
        &format!(
            "{{\"modules\":{{\"forms\":[]}},\"expires\":\"never\",\"reference\":\"{}\"}}",
            "x".repeat(9_000)
        ),
        &format!(
            "{{\"modules\":{{{}}},\"expires\":\"never\"}}",
            (0..100)
                .map(|n| format!("\"{}{n}\":[]", "m".repeat(50)))
                .collect::<Vec<_>>()
                .join(",")
        ),
    ] {
        no(shop.send_as(&shop.bearer, "POST", "", &key, body), &[400, 413, 422]);
    }
    let headers_of = |name: &'static str, value: &'static str| [("Idempotency-Key", "evil"), (name, value)];
    no(
        shop.send_as(&shop.bearer, "POST", "", &headers_of("Content-Encoding", "gzip"), &good),
        &[415],
    );
    no(shop.send_as(&shop.bearer, "POST", "", &[], &good), &[400]);
    for value in ["", "a b", "\u{fc}", &"x".repeat(256)] {
        no(
            shop.send_as(&shop.bearer, "POST", "", &[("Idempotency-Key", value)], &good),
            &[400, 422],
        );
    }
    no(
        shop.send_as(&shop.bearer, "POST", "", &headers_of("Idempotency-Key", "other"), &good),
        &[400],
    );
    // The same request with another body.
    no(
        shop.issue("1", &json!({ "modules": { "forms": [] }, "expires": "never" })),
        &[409],
    );
    // Licenses and steps that do not exist, and methods that are not for them.
    for target in [
        "/",
        "/x",
        "/..",
        "/../licenses",
        &format!("/{}", "0".repeat(64)),
        &format!("/{}", id.to_uppercase()),
        &format!("/{}", license.key),
    ] {
        no(shop.get(target), &[404]);
        no(
            shop.send_as(&shop.bearer, "PATCH", target, &[("If-Match", "*")], "{}"),
            &[404],
        );
        no(
            shop.send_as(&shop.bearer, "POST", &format!("{target}/revoke"), &[], "{}"),
            &[404],
        );
    }
    for step in ["", "delete", "Revoke", "revoke/", "rekey?x", "Resend"] {
        no(
            shop.send_as(&shop.bearer, "POST", &format!("/{id}/{step}"), &[], "{}"),
            &[400, 404],
        );
    }
    for (method, target) in [
        ("DELETE", format!("/{id}")),
        ("PUT", format!("/{id}")),
        ("DELETE", String::new()),
        ("GET", format!("/{id}/revoke")),
        ("PATCH", String::new()),
    ] {
        no(shop.send_as(&shop.bearer, method, &target, &[], "{}"), &[405]);
    }
    for body in [
        "{\"host\":\"a.com\",\"all\":true}",
        "{\"all\":1}",
        "{\"host\":\"\"}",
        "{\"host\":null}",
        "{\"sites\":1}",
    ] {
        no(
            shop.send_as(&shop.bearer, "POST", &format!("/{id}/release"), &[], body),
            &[400],
        );
    }
    for body in ["{}", "{\"expires\":\"2001-01-01\"}", "{\"expires\":null}"] {
        no(
            shop.send_as(&shop.bearer, "POST", &format!("/{id}/renew"), &[], body),
            &[400],
        );
    }
    for query in [
        "limit=0",
        "limit=99999",
        "cursor=x",
        "status=all",
        "host=%00",
        "x=1",
        "status=active&status=active",
    ] {
        no(shop.get(&format!("?{query}")), &[400, 422]);
    }
    for (query, expected) in [
        ("limit=0", "'limit' must be a number from 1 to 500."),
        ("status=all", "'status' must be active, expired, suspended or revoked."),
    ] {
        assert_eq!(shop.get(&format!("?{query}")).json()["detail"], expected);
    }
    let bare = shop.send("PATCH", &format!("/{id}"), &[("If-Match", "1")], &json!({ "sites": 9 }));
    assert!(bare.text().contains("in quotes"), "{}", bare.text());
    for (field, value, expected) in [
        ("expires", json!("+1y"), "expected a date such as"),
        ("grace_period_hours", json!(8_761), "expected hours from 0 to 8760"),
    ] {
        let answer = shop.send(
            "PATCH",
            &format!("/{id}"),
            &[("If-Match", "*")],
            &json!({ field: value }),
        );
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
    for tag in ["\"9\"", "W/\"1\"", "1", "\"1\", \"2\""] {
        no(
            shop.send_as(
                &shop.bearer,
                "PATCH",
                &format!("/{id}"),
                &[("If-Match", tag)],
                "{\"sites\":9}",
            ),
            &[400, 412],
        );
        no(
            shop.send_as(
                &shop.bearer,
                "POST",
                &format!("/{id}/revoke"),
                &[("If-Match", tag)],
                "{}",
            ),
            &[400, 412],
        );
    }
    assert!(refused >= 100, "{refused}");
    let after = shop.get(&format!("/{id}")).json();
    assert_eq!((&after["revision"], &after["status"]), (&json!(1), &json!("active")));
    assert_eq!(shop.get("").json()["licenses"].as_array().unwrap().len(), 2);
    // Nothing of what was sent is in the log.
    let log = shop.server.log();
    for secret in [secret.as_str(), &license.key, "evil"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn a_token_has_a_rate_limit_of_its_own_and_who_guesses_tokens_is_stopped() {
    let shop = Shop::open(&["--requests-per-token", "5", "--failures-per-minute", "5"]);
    let codes: Vec<_> = (0..7).map(|_| shop.get("").status).collect();
    assert_eq!(codes, [200, 200, 200, 200, 200, 429, 429]);
    let other = token(&shop.instance, "other", &["licenses:read"]);
    assert_eq!(shop.send_as(&other, "GET", "", &[], "").status, 200);
    let guesses: Vec<_> = (0..9)
        .map(|_| shop.send_as("Bearer x", "GET", "", &[], "").status)
        .collect();
    // A bucket that is all but empty answers one more as soon as a little is there again.
    assert!(guesses.starts_with(&[401]) && guesses.contains(&429), "{guesses:?}");
}

#[test]
fn the_verbs_of_the_command_line_show_and_change_what_a_program_issued() {
    let shop = Shop::open(&[]);
    let mut body = forms();
    body["reference"] = json!("order 7");
    let license = license_of(&shop.issue("1", &body));
    let id = &license.id[..12];
    let json_of = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&run(&shop.instance, &[arguments, &["--json"]].concat()).stdout).unwrap()
    };
    let listed = json_of(&["license", "list"]);
    let sources: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|license| &license["source"])
        .collect();
    assert_eq!(sources, ["file", "ledger"]);
    let found = json_of(&["license", "list", "--reference", "order 7"]);
    assert_eq!(
        (&found[0]["id"], found.as_array().unwrap().len()),
        (&json!(license.id), 1)
    );
    let table = String::from_utf8(run(&shop.instance, &["license", "list"]).stdout).unwrap();
    assert!(table.contains("FROM") && table.contains("token shop"), "{table}");
    let offered = bash_offers(shop.instance.path(), &["license", "show", &license.id[..4]]);
    assert_eq!(offered, [&license.id[..12]], "a shell completes it, too");
    let today = Utc::now().date_naive().to_string();
    // When it was issued, and changed.
    let days = |table: &str| -> Vec<String> {
        let row = table.lines().find(|line| line.starts_with(id)).unwrap();
        let cells = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.skip(5).take(3).map(str::to_owned).collect()
    };
    assert!(table.contains("ISSUED      CHANGED"), "{table}");
    assert_eq!(days(&table), [today.as_str(), "-", "token shop"], "{table}");

    assert_eq!(shop.code(&license, "a.com"), "ok");
    for (verb, more, code) in [
        ("suspend", &[][..], "suspended"),
        ("resume", &[], "ok"),
        ("renew", &["--expires", "2099-12-31"], "ok"),
        ("sites", &["2"], "ok"),
    ] {
        let changed = json_of(&[&["license", verb, id], more].concat());
        assert_eq!(changed["changed"], true, "{changed}");
        assert_eq!(shop.code(&license, "a.com"), code, "{verb}");
    }
    let table = String::from_utf8(run(&shop.instance, &["license", "list"]).stdout).unwrap();
    assert_eq!(days(&table), [today.as_str(), today.as_str(), "token shop"], "{table}");
    assert_eq!(shop.code(&license, "b.com"), "ok");
    let released = run(&shop.instance, &["license", "release", id, "--host", "a.com"]);
    assert!(String::from_utf8_lossy(&released.stdout).ends_with("is now released from a.com.\n"));
    let again = run(&shop.instance, &["license", "release", id, "--host", "a.com"]);
    assert!(String::from_utf8_lossy(&again.stdout).ends_with("is already released from a.com.\n"));
    let mistyped = countersign(&shop.instance)
        .args(["license", "release", id, "--host", "aa.com"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(mistyped.stderr).unwrap();
    assert_eq!(mistyped.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("is not bound to the license"), "{stderr}");
    assert_eq!(shop.code(&license, "c.com"), "ok");
    let shown = json_of(&["license", "show", &license.key]);
    assert_eq!(
        (&shown["issued_by"], &shown["changed_by"], &shown["expires"]),
        (&json!("token:shop"), &json!("operator:cli"), &json!("2099-12-31"))
    );
    let text = String::from_utf8(run(&shop.instance, &["license", "show", id]).stdout).unwrap();
    for (field, scope) in [("issued", "token shop"), ("changed", "operator cli")] {
        let line = text.lines().find(|line| line.starts_with(&format!("{field} ")));
        let value = line.unwrap()[13..].to_owned();
        let (time, by) = value.split_once(" by ").unwrap();
        assert_eq!(shown[format!("{field}_at")], time, "{text}");
        assert_eq!(by, scope, "{text}");
        let age = Utc::now() - time.parse::<DateTime<Utc>>().unwrap();
        assert!((0..600).contains(&age.num_seconds()), "{text}");
    }

    // Without a server, the command writes the ledger itself.
    let Shop { server, instance, .. } = shop;
    assert!(server.stop().success());
    run(&instance, &["license", "revoke", id]);
    let again = countersign(&instance).args(["license", "resume", id]).output().unwrap();
    let stderr = String::from_utf8(again.stderr).unwrap();
    assert_eq!(again.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("is revoked, which cannot be undone"), "{stderr}");
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "b.com").code(), "revoked");
}

/// Every verb that makes or tells a key, and a move: the same beside a server and without one.
#[test]
fn a_license_of_the_ledger_gets_a_new_key_a_mail_and_another_site_from_the_command_line() {
    let Shop {
        instance,
        server,
        bearer,
        in_file,
    } = Shop::open(&[]);
    assert!(server.stop().success());
    let settings = "[mail]\nserver = \"localhost\"\nport = 1\nfrom = \"shop@example.com\"\ntls = \"none\"\n";
    let fails = |arguments: &[&str], exit: i32, reason: &str| {
        let output = countersign(&instance).args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {stderr}");
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
    };
    let page = Page::read();
    let mut server = Some(Server::start(&instance));
    let shop = |server: Server, request: &str| {
        let shop = Shop {
            server,
            instance: Instance::empty(),
            bearer: bearer.clone(),
            in_file: License::new(),
        };
        let license = license_of(&shop.issue(request, &forms()));
        let Shop { server, .. } = shop;
        (server, license)
    };
    for (round, is_running) in [("1", true), ("2", false)] {
        let (running, license) = shop(server.take().unwrap(), round);
        assert_eq!(running.validate(&license, "a.com").code(), "ok");
        let id = &license.id[..12];
        server = match is_running {
            true => Some(running),
            false => {
                assert!(running.stop().success());
                None
            }
        };
        let to = ["--to", "anna@example.com"];
        fails(
            &[&["license", "resend", id], &to[..]].concat(),
            3,
            "there is no mail server\nhint: set server and from in table [mail]",
        );
        fails(
            &["license", "move", id, "--from", "z.com", "--to", "b.com"],
            3,
            "is not bound to the license",
        );
        fails(
            &["license", "move", id, "--from", "a.com", "--to", "a.com"],
            2,
            "are both a.com",
        );
        let moved = stdout_json(&instance, &["license", "move", id, "--from", "a.com", "--to", "b.com"]);
        assert_eq!(
            (&moved["changed"], &moved["license"]["hosts"]),
            (&json!(true), &json!(["b.com"]))
        );
        let text = String::from_utf8(run(&instance, &["license", "show", id]).stdout).unwrap();
        let row = text.lines().find(|row| row.starts_with("b.com ")).unwrap_or_default();
        assert!(
            row.contains("bound ahead"),
            "it has its seat before it validates: {text}"
        );
        let again = stdout_json(&instance, &["license", "move", id, "--from", "a.com", "--to", "b.com"]);
        assert_eq!(again["changed"], false);
        let rekeyed = stdout_json(&instance, &["license", "rekey", id]);
        page.check("license-rekey", &rekeyed);
        assert_eq!(rekeyed["replaces"], license.id.as_str());
        let new = License {
            id: rekeyed["id"].as_str().unwrap().to_owned(),
            key: rekeyed["license_key"].as_str().unwrap().to_owned(),
        };
        fails(&["license", "rekey", id], 3, "is revoked, which cannot be undone");
        fails(
            &[&["license", "resend", id], &to[..]].concat(),
            3,
            "is revoked, which cannot be undone",
        );
        let running = server.take().unwrap_or_else(|| Server::start(&instance));
        let codes = [&license, &new].map(|license| running.validate(license, "b.com").code());
        assert_eq!(codes, ["revoked", "ok"]);
        assert!(!running.log().contains(&new.key), "{}", running.log());
        let shown = stdout_json(&instance, &["license", "show", &license.key]);
        assert_eq!(
            (&shown["replaced_by"], &shown["changed_by"]),
            (&json!(new.id), &json!("operator:cli"))
        );
        server = Some(running);
    }
    fails(
        &["license", "resend", &in_file.id, "--to", "anna@example.com"],
        3,
        "its key is stored nowhere",
    );

    // With a mail server, the mail waits in the queue of this node, and only there is the address.
    assert!(server.take().unwrap().stop().success());
    instance.write("countersign.toml", settings);
    let (running, license) = shop(Server::start(&instance), "3");
    let resend = || {
        stdout_json(
            &instance,
            &["license", "resend", &license.id, "--to", "anna@example.com"],
        )
    };
    page.check("license-resend", &resend());
    assert_eq!(resend(), json!({ "id": license.id, "queued": true }));
    fails(
        &[
            "license",
            "resend",
            &license.id,
            "--to",
            "anna@example.com",
            "--download",
        ],
        3,
        "the server has no first copies of what the license covers",
    );
    let log = running.log();
    assert!(
        log.contains("mailed again") && !log.contains("anna@") && !log.contains(&license.key),
        "{log}"
    );
    assert!(running.stop().success());
    assert_eq!(resend()["queued"], true);
    let waiting = stdout_json(&instance, &["mail", "parked", "list", "--all"]);
    let waiting: Vec<_> = waiting.as_array().unwrap().iter().collect();
    assert_eq!(waiting.len(), 3, "each order is a mail: {waiting:?}");
    assert!(
        waiting
            .iter()
            .all(|mail| mail["licenses"] == json!([license.id]) && mail["address"] == "anna@example.com")
    );
}
