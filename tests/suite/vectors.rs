//! The test statements of all clients under clients/: clients/vectors/statements.json.
//!
//! `COUNTERSIGN_BLESS=1 cargo test --test suite vectors` writes them again, with new keys.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_model::public_key::PublicKey;
use countersign_model::statement::split_signature;
use serde_json::{Value, json};

use crate::support::instance::{new_keys, question, sha256, shared_keys};
use crate::support::vectors::{PATH, Signer, statements};
use crate::support::{Instance, License, Server};

/// Reads as the number 0 where a language is that loose.
const NONCE: &str = "fedcba9876543210fedcba9876543210";
const SITE_URL: &str = "https://www.customer.example/shop";

const WRONG: &str = "the signature is wrong";
const ANOTHER: &str = "it has another license_id";

/// Keys of another system, the second one in the shape of ours.
const FOREIGN_KEY: &str = "cc22c1ec86304b36883440e2e84cddff";
const GROUPS: &str = "ABCDE-FGH23-45678-9ABCD-EFGH2";

/// What is echoed looks like the signature; escaped within a text, it is none.
const HOSTILE: &str = r#"","signature":"AAAA","x":""#;
/// Latin, Greek, Japanese, and a pair of surrogates where a language has those.
const FOREIGN: &str = "Größe·σοφία·日本·🗝";

/// A key with everything that is read in another way than it is shown.
fn typed(key: &str) -> String {
    let symbols = key
        .to_lowercase()
        .replace('0', "o")
        .replacen('1', "I", 1)
        .replace('1', "l");
    format!("\t{}\n", symbols.replacen('-', " \u{2013}\u{a0}", 1).replace('-', "_"))
}

fn write() {
    let all: Vec<License> = (0..3).map(|_| License::new()).collect();
    let [good, expired, unknown] = &all[..] else {
        unreachable!()
    };
    let instance = Instance::with_licenses(&[good.toml(""), expired.toml_with("2001-01-01", "", "forms = []")]);
    let server = Server::start(&instance);
    let ask = |license: &License, site_url: &str, nonce: &str| {
        let mut question = question(license, site_url);
        question["nonce"] = json!(nonce);
        server.ask(&question).text()
    };
    let genuine = ask(good, SITE_URL, NONCE);
    let member = |name: &str| serde_json::from_str::<Value>(&genuine).unwrap()[name].clone();
    let issued_at = member("issued_at").as_str().unwrap().to_owned();
    let signer = Signer::new(shared_keys());
    let resigned = |change: &dyn Fn(&mut Value)| {
        let mut statement: Value = serde_json::from_str(&genuine).unwrap();
        change(&mut statement);
        signer.sign(statement)
    };
    let next = new_keys(2048);
    let by_the_next_key = Signer::new(&next).sign(serde_json::from_str(&genuine).unwrap());
    let stranger = Signer::new(&new_keys(2048)).sign(serde_json::from_str(&genuine).unwrap());
    let signature = member("signature").as_str().unwrap().to_owned();
    let other_alphabet = genuine.replace(&signature, &signature.replace('+', "-").replace('/', "_"));
    let with_id = |id: Value| resigned(&|it| it["license_id"] = id.clone());
    let of_other_keys = vec![
        (
            "the signed refusal of another key",
            ask(expired, SITE_URL, NONCE),
            good.key.clone(),
            ANOTHER,
        ),
        (
            "the signed refusal of an unknown key",
            ask(unknown, SITE_URL, NONCE),
            good.key.clone(),
            ANOTHER,
        ),
        (
            "a license_id in capitals",
            with_id(json!(good.id.to_uppercase())),
            good.key.clone(),
            ANOTHER,
        ),
        (
            "a license_id that is null",
            with_id(Value::Null),
            good.key.clone(),
            ANOTHER,
        ),
        ("a license_id that is 0", with_id(json!(0)), good.key.clone(), ANOTHER),
        ("an empty license_id", with_id(json!("")), good.key.clone(), ANOTHER),
        (
            "no license_id, as of an older server",
            resigned(&|it| drop(it.as_object_mut().unwrap().remove("license_id"))),
            good.key.clone(),
            "active",
        ),
        ("a key as people type it", genuine.clone(), typed(&good.key), "active"),
        (
            "a key of another system, typed in capitals",
            with_id(json!(sha256(FOREIGN_KEY))),
            format!(" {}\r\n", FOREIGN_KEY.to_uppercase()),
            "active",
        ),
        (
            "a key of another system in five groups",
            with_id(json!(sha256(&GROUPS.to_lowercase()))),
            GROUPS.to_owned(),
            "active",
        ),
    ];
    let mut rows = vec![
        ("a genuine statement", genuine.clone(), "", "active"),
        (
            "signed with the second of the pinned keys",
            by_the_next_key,
            "",
            "active",
        ),
        (
            "issued in the same millisecond as the last one",
            genuine.clone(),
            &issued_at,
            "active",
        ),
        (
            "issued before the last one",
            genuine.clone(),
            "2999-01-01T00:00:00.000Z",
            "it is older than the last one",
        ),
        ("an expired license", ask(expired, SITE_URL, NONCE), "", "expired"),
        ("an unknown license", ask(unknown, SITE_URL, NONCE), "", "invalid"),
        (
            "another nonce",
            ask(good, SITE_URL, "another"),
            "",
            "it has another nonce",
        ),
        (
            "another site_url of the same site",
            ask(good, "https://customer.example", NONCE),
            "",
            "it has another site_url",
        ),
        (
            "another domain",
            resigned(&|it| it["domain"] = json!("other.example")),
            "",
            "it has another domain",
        ),
        (
            "no nonce",
            resigned(&|it| drop(it.as_object_mut().unwrap().remove("nonce"))),
            "",
            "it has another nonce",
        ),
        (
            "a nonce that is a number",
            resigned(&|it| it["nonce"] = json!(0)),
            "",
            "it has another nonce",
        ),
        (
            "a nonce that is true",
            resigned(&|it| it["nonce"] = json!(true)),
            "",
            "it has another nonce",
        ),
        (
            "no modules",
            resigned(&|it| drop(it.as_object_mut().unwrap().remove("modules"))),
            "",
            "it has no modules",
        ),
        (
            "hours as a text",
            resigned(&|it| it["grace_period_hours"] = json!("72")),
            "",
            "it has no grace_period_hours",
        ),
        (
            "a time of another form",
            resigned(&|it| it["issued_at"] = json!("2999")),
            "",
            "its time is not readable",
        ),
        ("another key's signature", stranger, "", WRONG),
        (
            "a changed status",
            genuine.replace("\"active\"", "\"revoked\""),
            "",
            WRONG,
        ),
        ("blanks around it", format!(" {genuine}\n"), "", WRONG),
        ("cut off", genuine[..genuine.len() - 10].to_owned(), "", WRONG),
        ("an empty signature", genuine.replace(&signature, ""), "", WRONG),
        (
            "the signature of nothing",
            genuine.replace(&signature, &BASE64_STANDARD.encode([0; 256])),
            "",
            WRONG,
        ),
        (
            "two signatures",
            genuine.replace("\"signature\"", "\"signature\":\"AAAA\",\"signature\""),
            "",
            WRONG,
        ),
        (
            "a star in the signature",
            genuine.replace(&signature, &signature.replacen('A', "*A", 1)),
            "",
            WRONG,
        ),
        (
            "no signature",
            genuine.replace("\"signature\"", "\"unsigned\""),
            "",
            "no signature",
        ),
        ("nothing", String::new(), "", "no signature"),
        (
            "a page of a hotel's network",
            "<!DOCTYPE html><title>Welcome</title>".to_owned(),
            "",
            "no signature",
        ),
    ];
    if other_alphabet != genuine {
        rows.push(("base64 of another alphabet", other_alphabet, "", WRONG));
    }
    let row = |name: &str, body: String, nonce: &str, site_url: &str, not_before: &str, result: &str| {
        let asked_about = [(expired, "an expired license"), (unknown, "an unknown license")];
        let asked_about = asked_about
            .iter()
            .find(|(_, row)| *row == name)
            .map_or(good, |(license, _)| license);
        json!({
            "name": name, "body": body, "license_key": asked_about.key, "nonce": nonce, "site_url": site_url,
            "domain": "customer.example", "not_before": not_before, "result": result,
        })
    };
    let mut rows: Vec<Value> = rows
        .into_iter()
        .map(|(name, body, not_before, result)| row(name, body, NONCE, SITE_URL, not_before, result))
        .collect();
    for (name, body, license_key, result) in of_other_keys {
        let mut row = row(name, body, NONCE, SITE_URL, "", result);
        row["license_key"] = json!(license_key);
        rows.push(row);
    }
    for (kind, echo) in [("that looks like a signature", HOSTILE), ("in many scripts", FOREIGN)] {
        let site_url = format!("{SITE_URL}/{echo}");
        let signed = ask(good, &site_url, echo);
        rows.push(row(
            &format!("a nonce {kind}"),
            ask(good, SITE_URL, echo),
            echo,
            SITE_URL,
            "",
            "active",
        ));
        rows.push(row(
            &format!("a site_url {kind}"),
            ask(good, &site_url, NONCE),
            NONCE,
            &site_url,
            "",
            "active",
        ));
        let unsigned = signed.replace(r#""status":"active""#, r#""status":"expired""#);
        rows.push(row(
            &format!("a changed status beside echoes {kind}"),
            unsigned,
            echo,
            &site_url,
            "",
            WRONG,
        ));
    }
    let vectors = json!({ "public_keys": [shared_keys().public, next.public], "statements": rows });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PATH);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{vectors:#}\n")).unwrap();
}

#[test]
fn the_vectors_of_the_clients_are_what_our_own_verification_says() {
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        write();
    }
    let vectors = statements();
    let pinned = vectors["public_keys"].as_array().unwrap().iter();
    let keys: Vec<_> = pinned
        .map(|pem| PublicKey::from_pem(pem.as_str().unwrap()).unwrap())
        .collect();
    for row in vectors["statements"].as_array().unwrap() {
        let body = row["body"].as_str().unwrap();
        let signed = split_signature(body.as_bytes()).is_some_and(|(signed, signature)| {
            BASE64_STANDARD
                .decode(signature)
                .is_ok_and(|signature| keys.iter().any(|key| key.verify(&signed, &signature)))
        });
        let result = row["result"].as_str().unwrap();
        assert_eq!(signed, ![WRONG, "no signature"].contains(&result), "{}", row["name"]);
    }
}
