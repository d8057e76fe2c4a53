//! Tokens of the management API: made, listed and revoked beside a running server and without one.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::server::countersign;
use crate::support::{Instance, License, Server};

fn run(instance: &Instance, arguments: &[&str]) -> Output {
    countersign(instance).args(arguments).output().unwrap()
}

/// An instance with the keys that licenses of machines need.
fn prepared() -> Instance {
    let instance = Instance::with_licenses(&[License::new().toml("")]);
    for key in ["--issuing", "--references"] {
        assert!(run(&instance, &["keys", "generate", key]).status.success());
    }
    instance
}

#[track_caller]
fn json_of(instance: &Instance, arguments: &[&str]) -> Value {
    let output = run(instance, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn refused(instance: &Instance, arguments: &[&str]) -> String {
    let output = run(instance, arguments);
    assert_eq!(output.status.code(), Some(3), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_token_is_made_listed_and_revoked_with_and_without_a_server() {
    let instance = prepared();
    let create = ["token", "create", "shop", "--scope", "licenses:write"];
    let server = Server::start(&instance);
    let made = json_of(&instance, &create);
    let secret = made["token"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("cst_") && secret.len() == 68, "{secret}");
    assert_eq!(
        (&made["scopes"], &made["last_used"]),
        (&json!(["licenses:write"]), &Value::Null)
    );
    let stderr = refused(&instance, &create);
    assert!(
        stderr.contains("token shop: there is a token with this name\nhint: revoke it first"),
        "{stderr}"
    );
    assert!(server.stop().success());

    // Without a server, the command writes the ledger itself.
    let output = run(
        &instance,
        &[
            "token",
            "create",
            "dashboard",
            "--scope",
            "reports:read",
            "--scope",
            "licenses:read",
        ],
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("cst_") && text.lines().count() == 1);
    let revoked = json_of(&instance, &["token", "revoke", "shop"]);
    assert!(
        revoked["revoked"].is_string() && revoked.get("token").is_none(),
        "{revoked}"
    );
    let stderr = refused(&instance, &["token", "revoke", "shop"]);
    assert!(
        stderr.contains("there is no such token, or it is revoked already"),
        "{stderr}"
    );

    // A revoked name is free again.
    let server = Server::start(&instance);
    let again = json_of(&instance, &create);
    assert_ne!(again["token"], made["token"]);
    let list = json_of(&instance, &["token", "list"]);
    let names: Vec<_> = list.as_array().unwrap().iter().map(|token| &token["name"]).collect();
    assert_eq!(names, ["dashboard", "shop"]);
    assert_eq!(list[0]["scopes"], json!(["licenses:read", "reports:read"]));
    let table = String::from_utf8(run(&instance, &["token", "list"]).stdout).unwrap();
    assert!(
        table.starts_with("NAME") && table.contains("licenses:read, reports:read"),
        "{table}"
    );
    let log = server.log();
    assert!(server.stop().success());
    let ledger = fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches("\"event\":\"token\"").count(), 4, "{ledger}");
    for secret in [&secret, text.trim(), again["token"].as_str().unwrap()] {
        assert!(!ledger.contains(&secret[4..]) && !log.contains(&secret[4..]));
    }
}

#[test]
fn a_token_needs_the_keys_of_issuing_and_a_scope() {
    let instance = Instance::with_licenses(&[License::new().toml("")]);
    let _server = Server::start(&instance);
    let stderr = refused(&instance, &["token", "create", "shop", "--scope", "licenses:write"]);
    assert!(
        stderr.contains("hint: run `countersign keys generate --issuing`"),
        "{stderr}"
    );
    for arguments in [
        &["token", "create", "shop"][..],
        &["token", "create", "a b", "--scope", "keys:read"],
    ] {
        assert_eq!(run(&instance, arguments).status.code(), Some(2), "{arguments:?}");
    }
    let stderr = run(&instance, &["token", "create", "shop", "--scope", "all"]).stderr;
    assert!(String::from_utf8_lossy(&stderr).contains("expected one of customers:read, keys:read"));
}
