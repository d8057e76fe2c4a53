//! Signatures, checked by others than ourselves: the openssl command line, PHP, and another implementation of RFC 8785.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign::model::public_key::PublicKey;
use countersign::model::statement::split_signature;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::instance::{question, shared_keys};
use crate::support::{Instance, License, Server};

/// Statements of every kind, as received.
fn received() -> Vec<Vec<u8>> {
    let all: Vec<License> = (0..3).map(|_| License::new()).collect();
    let [good, expired, unknown] = &all[..] else { unreachable!() };
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
        ask(good, "https://bücher.example/pfad", "a \"quoted\\\" nonce / with \u{1F600} and \u{2028}"),
        ask(good, "other.example", "\",\"signature\":\"AAAA\",\""),
        ask(expired, "a.com", ""),
        ask(unknown, "a.com", "\u{7f}\u{1}"),
    ]
}

fn run(command: &mut Command, input: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the tool is installed: make tools");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn openssl_verifies(folder: &Path, signed: &[u8], signature: &[u8]) -> bool {
    for (name, bytes) in [("signed", signed), ("signature", signature), ("key.pem", shared_keys().public.as_bytes())] {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let output = Command::new("openssl")
        .current_dir(folder)
        .args(["dgst", "-sha256", "-verify", "key.pem", "-signature", "signature", "signed"])
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
        assert!(openssl_verifies(folder.path(), &signed, &signature), "{}", String::from_utf8_lossy(&body));
        let mut flipped = signed.clone();
        flipped[0] ^= 1;
        assert!(!openssl_verifies(folder.path(), &flipped, &signature));
    }
}

#[test]
fn php_verifies_the_cut_body_and_the_re_encoded_one_and_refuses_every_flipped_byte() {
    let bodies: Vec<String> = received().into_iter().map(|body| String::from_utf8(body).unwrap()).collect();
    let input = json!({ "bodies": bodies, "key": shared_keys().public }).to_string();
    let printed =
        run(Command::new("php").arg("tests/tools/verify.php").current_dir(env!("CARGO_MANIFEST_DIR")), &input);
    for (body, line) in bodies.iter().zip(printed.lines()) {
        let signed = split_signature(body.as_bytes()).unwrap().0.len();
        assert_eq!(line, format!("cut 1, re-encoded 1, flipped bytes accepted 0 of {signed}"), "{body}");
    }
    assert_eq!(printed.lines().count(), bodies.len());
}

#[test]
fn our_own_second_implementation_refuses_a_flipped_bit_anywhere_in_body_and_signature() {
    let key = PublicKey::from_pem(&shared_keys().public).unwrap();
    let body = received().swap_remove(0);
    let verifies = |body: &[u8]| {
        let Some((signed, signature)) = split_signature(body) else { return false };
        BASE64_STANDARD.decode(signature).is_ok_and(|signature| key.verify(&signed, &signature))
    };
    assert!(verifies(&body));
    for index in 0..body.len() {
        for bit in 0..8 {
            let mut flipped = body.clone();
            flipped[index] ^= 1 << bit;
            assert!(!verifies(&flipped), "byte {index}, bit {bit}");
        }
    }
}

#[test]
fn a_thousand_random_payloads_agree_with_another_implementation_of_rfc_8785() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let payloads: Vec<Value> = (0..1_000).map(|_| random.payload()).collect();
    let lines = payloads.iter().map(|payload| payload.to_string() + "\n").collect::<String>();
    let theirs =
        run(Command::new("node").arg("tests/tools/canonicalize.mjs").current_dir(env!("CARGO_MANIFEST_DIR")), &lines);
    let theirs: Vec<&str> = theirs.lines().collect();
    assert_eq!(theirs.len(), payloads.len());
    for (payload, theirs) in payloads.iter().zip(theirs) {
        assert_eq!(serde_json_canonicalizer::to_string(payload).unwrap(), theirs);
    }
}

/// Repeatable random payloads of the statement's shape, with strings from all over Unicode (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    fn text(&mut self) -> String {
        let length = self.below(12);
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
            let (start, length) = ranges[self.below(ranges.len() as u64) as usize];
            char::from_u32(start + self.below(u64::from(length)) as u32).unwrap_or('x')
        };
        (0..length).map(|_| letter()).collect()
    }

    fn payload(&mut self) -> Value {
        let modules: Vec<String> = (0..self.below(5)).map(|_| self.text()).collect();
        let mut features = json!({});
        for module in &modules {
            features[module] = (0..self.below(4)).map(|_| Value::from(self.text())).collect();
        }
        json!({
            "status": self.text(), "code": self.text(), "message": self.text(), "modules": modules, "features": features,
            "expires": self.text(), "grace_period_hours": self.below(10_000), "nonce": self.text(),
            "site_url": self.text(), "domain": self.text(), "key_id": self.text(),
        })
    }
}
