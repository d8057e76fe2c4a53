//! Signatures, verified by independent implementations: openssl, PHP, and another RFC 8785 library.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, NaiveDate};
use countersign_model::license::Modules;
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::statement::{Grant, Statement, Verdict, split_signature};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::instance::{question, shared_keys};
use crate::support::random::Random;
use crate::support::{Instance, License, Server};
use crate::tools::program::run;

/// Statements of every kind, as received.
fn received() -> Vec<Vec<u8>> {
    let all: Vec<License> = (0..3).map(|_| License::new()).collect();
    let [good, expired, unknown] = &all[..] else {
        unreachable!()
    };
    let instance = Instance::with_licenses(&[good.toml(""), expired.toml_with("2001-01-01", "", "forms = []")]);
    let server = Server::start(&instance);
    let ask = |license: &License, site: &str, nonce: &str| {
        let mut question = question(license, site);
        question["nonce"] = json!(nonce);
        let response = server.ask(&question);
        assert_eq!(response.status, 200, "{}", response.text());
        response.body
    };
    vec![
        ask(
            good,
            "https://bücher.example/pfad",
            "a \"quoted\\\" nonce / with \u{1F600} and \u{2028}",
        ),
        ask(good, "other.example", "\",\"signature\":\"AAAA\",\""),
        ask(expired, "a.com", ""),
        ask(unknown, "a.com", "\u{7f}\u{1}"),
    ]
}

fn openssl_verifies(folder: &Path, signed: &[u8], signature: &[u8]) -> bool {
    for (name, bytes) in [
        ("signed", signed),
        ("signature", signature),
        ("key.pem", shared_keys().public.as_bytes()),
    ] {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let output = Command::new("openssl")
        .current_dir(folder)
        .args([
            "dgst",
            "-sha256",
            "-verify",
            "key.pem",
            "-signature",
            "signature",
            "signed",
        ])
        .output()
        .expect("openssl is installed: make tools");
    output.status.success() && output.stdout == b"Verified OK\n"
}

#[test]
fn openssl_verifies_what_is_left_when_the_signature_is_cut_out() {
    let folder = TempDir::new().unwrap();
    for body in received() {
        let (signed, signature) = split_signature(&body).unwrap();
        let signature = BASE64_STANDARD.decode(signature).unwrap();
        assert!(
            openssl_verifies(folder.path(), &signed, &signature),
            "{}",
            String::from_utf8_lossy(&body)
        );
        let mut flipped = signed.clone();
        flipped[0] ^= 1;
        assert!(!openssl_verifies(folder.path(), &flipped, &signature));
    }
}

#[test]
fn php_verifies_the_cut_body_and_the_re_encoded_one_and_refuses_every_flipped_byte() {
    let bodies: Vec<String> = received()
        .into_iter()
        .map(|body| String::from_utf8(body).unwrap())
        .collect();
    let input = json!({ "bodies": bodies, "key": shared_keys().public }).to_string();
    let printed = run("php", "tests/tools/verify.php", &input);
    for (body, line) in bodies.iter().zip(printed.lines()) {
        let signed = split_signature(body.as_bytes()).unwrap().0.len();
        assert_eq!(
            line,
            format!("cut 1, re-encoded 1, flipped bytes accepted 0 of {signed}"),
            "{body}"
        );
    }
    assert_eq!(printed.lines().count(), bodies.len());
}

#[test]
fn the_lines_of_the_readme_verify_what_was_signed_and_nothing_else() {
    let readme = include_str!("../../README.md");
    let lines = readme
        .split("```php\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("readme.php");
    let asked = "$asked = json_decode(stream_get_contents(STDIN), true); $pinned_public_key_pem = $asked['key'];";
    let told = "echo json_encode([$genuine, $payload['domain']]), \"\\n\";";
    fs::write(
        &program,
        format!("<?php {asked}\nforeach ($asked['bodies'] as $body) {{\n{lines}\n{told} }}\n"),
    )
    .unwrap();
    let genuine: Vec<String> = received()
        .into_iter()
        .map(|body| String::from_utf8(body).unwrap())
        .collect();
    let forged = genuine
        .iter()
        .map(|body| body.replacen("\"domain\":\"", "\"domain\":\"x", 1));
    let bodies: Vec<String> = genuine.iter().cloned().chain(forged).collect();
    let input = json!({ "bodies": bodies, "key": shared_keys().public }).to_string();
    let printed = run("php", program.to_str().unwrap(), &input);
    let expected = bodies.iter().enumerate().map(|(at, body)| {
        let payload: Value = serde_json::from_str(body).unwrap();
        json!([at < genuine.len(), payload["domain"]]).to_string()
    });
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn a_thousand_random_statements_agree_with_another_implementation_of_rfc_8785() {
    let mut statements = Statements(Random::new(0x9E37_79B9_7F4A_7C15));
    let ours: Vec<String> = (0..1_000).map(|_| statements.next()).collect();
    // Told apart from how it was written: members in another order, everything escaped that can be.
    let shuffled = |payload: &String| {
        let payload: serde_json::Map<String, Value> = serde_json::from_str(payload).unwrap();
        let members = payload
            .iter()
            .rev()
            .map(|(name, value)| format!("{}:{}", escaped(name), escaped_value(value)));
        format!("{{{}}}\n", members.collect::<Vec<_>>().join(","))
    };
    let lines: String = ours.iter().map(shuffled).collect();
    let theirs = run("node", "tests/tools/canonicalize.mjs", &lines);
    // A line separator inside a string is no end of a line.
    let theirs: Vec<&str> = theirs.trim_end_matches('\n').split('\n').collect();
    assert_eq!(theirs.len(), ours.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(ours, theirs);
    }
}

fn escaped(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
    format!("\"{}\"", units.collect::<String>())
}

fn escaped_value(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        Value::Array(items) => format!("[{}]", items.iter().map(escaped_value).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members
                .iter()
                .rev()
                .map(|(name, value)| format!("{}: {}", escaped(name), escaped_value(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Random statements, with strings from all over Unicode.
struct Statements(Random);

impl Statements {
    fn text(&mut self) -> String {
        let length = self.0.below(12);
        let ranges: [(u32, u32); 7] = [
            (0x00, 0x20),
            (0x20, 0x60),
            (0x7f, 0x100),
            (0x2000, 0x100),
            (0xD7A4, 0x5C),
            (0xE000, 0x1FFF),
            (0x1F600, 0x50),
        ];
        let mut letter = || {
            let (start, length) = ranges[self.0.below(ranges.len())];
            char::from_u32(start + self.0.below(length as usize) as u32).unwrap_or('x')
        };
        (0..length).map(|_| letter()).collect()
    }

    fn name(&mut self) -> Name {
        let letters = b"aZ09bY18._-";
        let mut letter = |first: bool| char::from(letters[self.0.below(if first { 8 } else { 11 })]);
        let name: String = (0..4).map(|index| letter(index == 0)).collect();
        name.parse().unwrap()
    }

    /// The canonical JSON of a statement, as it is signed.
    fn next(&mut self) -> String {
        let names = |random: &mut Self| (0..random.0.below(4)).map(|_| random.name()).collect::<Vec<Name>>();
        let modules: Modules = names(self).into_iter().map(|module| (module, names(self))).collect();
        let nonce = self.text();
        let site_url = self.text();
        let key_id = self.text();
        let license_id = LicenseId::from_bytes([self.0.below(256) as u8; 32]);
        let domain = format!("site-{}.example", self.0.below(1_000)).parse().unwrap();
        let verdicts = [
            Verdict::Ok,
            Verdict::BoundElsewhere,
            Verdict::UnknownLicense,
            Verdict::Expired,
            Verdict::Revoked,
        ];
        let statement = Statement {
            verdict: verdicts[self.0.below(5)],
            grant: self.0.one_in(2).then_some(Grant {
                modules: &modules,
                grace_period_hours: self.0.below(10_000) as u32,
            }),
            expires: self.0.one_in(2).then(|| NaiveDate::from_ymd_opt(2027, 1, 31).unwrap()),
            renews: false,
            renew_url: self
                .0
                .one_in(2)
                .then_some("https://shop.example/renew?a=b&license=r1-abc"),
            upgrade_url: self.0.one_in(2).then_some("https://shop.example/<up>/#r1-abc"),
            white_label: self.0.one_in(2),
            account_url: self.0.one_in(2).then_some("https://licenses.example/account"),
            issued_at: DateTime::from_timestamp_millis(self.0.below(4_000_000_000) as i64 * 1_009).unwrap(),
            nonce: self.0.one_in(2).then_some(&nonce),
            site_url: &site_url,
            domain: &domain,
            bound_domain: self.0.one_in(2).then_some(&domain),
            key_id: &key_id,
            license_id: &license_id,
        };
        String::from_utf8(statement.to_unsigned().bytes().to_vec()).unwrap()
    }
}
