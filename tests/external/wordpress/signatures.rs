//! What the client believes of a release, without a WordPress: with PHP's own sodium, and with the one that WordPress brings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_model::release_key::ReleaseKey;
use countersign_package::release::signatures::Signatures;
use countersign_package::release::statement::ReleaseStatement;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::signer::{self, HOW, How, Signer, vector};
use super::site::CORES;
use super::vendor::CLIENT_FILES;
use crate::clients;
use crate::tools::program;

const SCRIPT: &str = "tests/tools/wordpress/release.php";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Gives this to the client's classes; with a path to the sodium of a WordPress, that one verifies.
pub(super) fn php(mut input: Value, polyfill: Option<&Path>) -> Value {
    input["client"] = json!(root().join("clients/wordpress"));
    input["polyfill"] = json!(polyfill);
    let disabled = match polyfill {
        Some(_) => "sodium_crypto_sign_verify_detached,sodium_crypto_box",
        None => "",
    };
    let mut php = Command::new("php")
        .arg(format!("-ddisable_functions={disabled}"))
        .arg(root().join(SCRIPT))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = php.stdin.take().unwrap();
    let writer = std::thread::spawn(move || serde_json::to_writer(&mut stdin, &input).unwrap());
    let output = php.wait_with_output().unwrap();
    writer.join().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    serde_json::from_str(printed.split_once('\n').unwrap().1).unwrap()
}

pub(super) fn polyfills() -> Vec<PathBuf> {
    CORES
        .iter()
        .map(|core| core.path().join("wp-includes/sodium_compat/autoload.php"))
        .collect()
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

pub(super) fn text(name: &str) -> String {
    String::from_utf8(vector(name)).unwrap()
}

/// The file, who signed it, and what OpenSSH says.
fn rows() -> Vec<[String; 3]> {
    let table = text("signatures.tsv");
    let rows = table.lines().skip(1);
    rows.map(|row| {
        let columns: Vec<_> = row.split('\t').map(str::to_owned).collect();
        columns.try_into().unwrap()
    })
    .collect()
}

/// All that the vectors ask.
fn vectors() -> Value {
    let message = base64(&vector("statement.json"));
    let keys: Vec<_> = text("keys.pub").lines().map(str::to_owned).collect();
    let signatures: Vec<_> = rows()
        .iter()
        .map(|[file, ..]| json!({ "signature": text(file), "message": message }))
        .collect();
    json!({ "keys": keys, "signatures": signatures, "statements": [message] })
}

/// What the client says of the vectors.
fn assert_vectors(said: &Value, what: &str) {
    let names: Vec<_> = text("keys.pub")
        .lines()
        .map(|line| line.split(' ').nth(2).unwrap().to_owned())
        .collect();
    let rows = rows();
    assert_eq!(said["signers"].as_array().unwrap().len(), rows.len());
    for ([file, signer, _], found) in rows.iter().zip(said["signers"].as_array().unwrap()) {
        let expected = match names.iter().position(|name| name == signer) {
            Some(at) => said["keys"][at].clone(),
            None => json!(""),
        };
        assert_eq!(found, &expected, "{what}: {file}");
    }
    let package = fs::read(root().join("tests/vectors/package/marked.zip")).unwrap();
    let statement = &said["statements"][0];
    assert_eq!(
        (&statement["slug"], &statement["version"], &statement["size"]),
        (&json!("acme-forms"), &json!("1.2.0"), &json!(package.len())),
        "{what}"
    );
}

#[test]
fn the_vectors_are_judged_alike_with_and_without_sodium() {
    assert_vectors(&php(vectors(), None), "sodium");
    for polyfill in polyfills() {
        let what = polyfill.display().to_string();
        assert_vectors(&php(vectors(), Some(&polyfill)), &what);
    }
}

#[test]
fn our_rust_judges_the_vectors_as_our_php_does() {
    let statement = vector("statement.json");
    assert_eq!(
        ReleaseStatement::read(&statement).unwrap().to_bytes().unwrap(),
        statement
    );
    let keys: Vec<ReleaseKey> = text("keys.pub").lines().map(|line| line.parse().unwrap()).collect();
    // A file may have two signatures, and a text of a manifest may not.
    for [file, signer, _] in rows().into_iter().filter(|[file, ..]| file != "two.sig") {
        let found = Signatures::read(&text(&file)).map_or(0, |signatures| signatures.signers(&statement, &keys).len());
        assert_eq!(found, usize::from(signer != "-"), "{file}");
    }
}

/// Each statement of the vectors: whether it is one, what is the matter with it, and its text.
fn statements() -> Vec<(bool, String, String)> {
    let of = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (row["good"].as_bool().unwrap(), text("what"), text("statement"))
    };
    text("statements.jsonl").lines().map(of).collect()
}

#[test]
fn our_rust_and_our_php_take_the_same_statements() {
    let rows = statements();
    assert!(rows.len() > 60);
    let given: Vec<_> = rows.iter().map(|(.., text)| base64(text.as_bytes())).collect();
    let said = php(json!({ "statements": given }), None);
    for ((is_good, what, text), read) in rows.iter().zip(said["statements"].as_array().unwrap()) {
        assert_eq!(read.is_object(), *is_good, "PHP: {what}: {read}");
        assert_eq!(
            ReleaseStatement::read(text.as_bytes()).is_ok(),
            *is_good,
            "Rust: {what}"
        );
    }
}

#[test]
fn openssh_says_of_the_vectors_what_their_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let keys = text("keys.pub");
    let allowed: String = keys.lines().map(|line| format!("anybody {line}\n")).collect();
    fs::write(folder.path().join("allowed"), allowed).unwrap();
    for [file, _, expected] in rows() {
        let statement = fs::File::open(root().join("tests/vectors/release/statement.json")).unwrap();
        let output = Command::new("ssh-keygen")
            .args(["-Y", "verify", "-I", "anybody", "-n", "countersign-release", "-f"])
            .arg(folder.path().join("allowed"))
            .arg("-s")
            .arg(root().join("tests/vectors/release").join(&file))
            .stdin(statement)
            .output()
            .unwrap();
        assert_eq!(output.status.success(), expected == "yes", "{file}: {output:?}");
    }
}

#[test]
fn the_vectors_are_what_their_script_writes() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["release", "package"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let copy = |name: &str| fs::copy(root().join("tests/vectors").join(name), folder.path().join(name)).unwrap();
    copy("release/make.py");
    copy("package/marked.zip");
    let made = Command::new("python3")
        .arg(folder.path().join("release/make.py"))
        .status();
    assert!(made.unwrap().success());
    let mut names: Vec<_> = fs::read_dir(folder.path().join("release"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), rows().len() + 5);
    for name in names {
        let made = fs::read(folder.path().join("release").join(&name)).unwrap();
        assert!(made == vector(&name), "{name}");
    }
}

#[test]
fn a_key_that_is_no_ed25519_key_in_the_one_way_to_write_it_is_not_read() {
    let line = Signer::plain(1).line();
    let (kind, blob) = line.split_once(' ').unwrap();
    let bytes = BASE64_STANDARD.decode(blob).unwrap();
    let with = |point: &[u8]| format!("{kind} {}", base64(&[&bytes[..19], point].concat()));
    // 2^255 - 18 is 1, written larger than need be; the others are of small order.
    let large = [&[0xEE][..], &[0xFF; 30], &[0x7F]].concat();
    let one = [&[1][..], &[0; 31]].concat();
    let negative_one = [&[1][..], &[0; 30], &[0x80]].concat();
    let good = [
        line.clone(),
        format!("{line} anna@acme"),
        format!(" {line}\tAnna of Acme \n"),
        Signer::hardware(1).line(),
    ];
    let bad = [
        String::new(),
        "ssh-ed25519".into(),
        line.replace("ssh-ed25519", "sk-ssh-ed25519@openssh.com"),
        line.replace("ssh-ed25519", "ssh-rsa"),
        Signer::hardware(1).line().replace("sk-ssh-ed25519@openssh.com", kind),
        format!("{line}=="),
        format!("{line}A"),
        line[..line.len() - 4].to_owned(),
        format!("namespaces=\"file\" {line}"),
        with(&bytes[19..50]),
        with(&[&bytes[19..], &[0]].concat()),
        with(&[0; 32]),
        with(&large),
        with(&one),
        with(&negative_one),
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ== a".into(),
        format!("{line} {}", "x".repeat(5_000)),
    ];
    let all = [&good[..], &bad[..]].concat();
    let said = php(json!({ "keys": all }), None);
    let found = said["keys"].as_array().unwrap();
    for (line, key) in good.iter().zip(found) {
        assert!(key.is_string(), "{line:?}");
    }
    for (line, key) in bad.iter().zip(&found[good.len()..]) {
        assert_eq!(key, &Value::Null, "{line:?}");
    }
}

#[test]
fn a_statement_is_read_only_in_the_one_way_to_write_it_and_with_every_member() {
    let whole = text("statement.json");
    let mut value: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(value.to_string(), whole);
    let changed = |pointer: &str, to: Value| {
        let mut value = value.clone();
        *value.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = to;
        value.to_string()
    };
    let mut bad = vec![
        String::new(),
        "null".into(),
        "[]".into(),
        "{}".into(),
        format!("{whole}\n"),
        format!(" {whole}"),
        format!("\u{feff}{whole}"),
        whole.replace(",\"form\"", ", \"form\""),
        // Twice the same member, whichever of both counts.
        whole.replace(
            "\"slug\":\"acme-forms\"",
            "\"slug\":\"acme-maps\",\"slug\":\"acme-forms\"",
        ),
        whole.replace(
            "\"slug\":\"acme-forms\"",
            "\"slug\":\"acme-forms\",\"slug\":\"acme-forms\"",
        ),
        whole.replace("{\"crc\"", "{\"uuid\":1007,\"crc\""),
        // Out of order.
        whole.replace("\"form\":1,\"number\":2", "\"number\":2,\"form\":1"),
        // Other ways to write the same.
        whole.replace("\"form\":1", "\"form\":1.0"),
        whole.replace("\"form\":1", "\"form\":1e0"),
        whole.replace("\"form\":1", "\"form\":-0"),
        whole.replace("acme-forms", "acme\\u002dforms"),
        whole.replace("v1.2.0", "v1.2.0\\/x"),
        whole.replace("\"number\":2", "\"number\":18446744073709551616"),
        // Deeper than anything here.
        changed("/previous", json!([[[[[[[[[1]]]]]]]]])),
    ];
    for (pointer, values) in [
        ("/type", vec![json!("countersign-release-2"), json!(1), Value::Null]),
        (
            "/slug",
            vec![json!(""), json!("Acme"), json!("a/b"), json!("acme-forms\n"), json!(1)],
        ),
        (
            "/version",
            vec![json!(""), json!("v1"), json!("1.2.0\n"), json!(1.5), json!(["1"])],
        ),
        (
            "/number",
            vec![json!(0), json!(-1), json!("1"), json!(1.5), Value::Null, json!(true)],
        ),
        (
            "/previous",
            vec![json!(""), json!("00"), json!("A".repeat(64)), json!(false), json!({})],
        ),
        (
            "/tag",
            vec![json!(""), json!("v1\n"), json!("x".repeat(256)), Value::Null],
        ),
        ("/commit", vec![json!(""), json!("0".repeat(41)), json!("A".repeat(40))]),
        ("/published", vec![json!(""), json!(1), json!("2026\u{1}")]),
        ("/requires", vec![json!("six"), json!(6), Value::Null, json!("6.1\n")]),
        ("/requires_php", vec![json!("7.4 <b>"), json!([])]),
        ("/pins", vec![json!([]), json!({}), Value::Null]),
        ("/pins/keys", vec![json!({}), json!([1]), json!("ssh-ed25519")]),
        ("/pins/threshold", vec![json!(0), json!("1")]),
        ("/form", vec![json!(0), json!("1")]),
        ("/contents", vec![json!(""), json!("g".repeat(64))]),
        ("/package", vec![Value::Null, json!([]), json!({})]),
        ("/package/sha256", vec![json!(""), json!("A".repeat(64)), Value::Null]),
        (
            "/package/size",
            vec![json!(0), json!(-1), json!("1625"), json!(600 << 20)],
        ),
        ("/package/mark", vec![json!([]), json!({}), json!(1), json!(false)]),
        (
            "/package/mark/uuid",
            vec![json!(-1), json!(1_600), json!("1007"), json!(912), json!(1_520)],
        ),
        (
            "/package/mark/crc",
            vec![
                json!([910]),
                json!([910, 1_550, 1_600]),
                json!([1_550, 910]),
                json!([910, 1_622]),
                json!([-1, 1_550]),
                json!({ "0": 910, "1": 1_550 }),
            ],
        ),
    ] {
        bad.extend(values.into_iter().map(|to| changed(pointer, to)));
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let mut without = value.clone();
        without
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(name);
        bad.push(without.to_string());
    }
    // What a later type says besides: no reader of this type may overlook it.
    for pointer in ["", "/package", "/package/mark", "/pins"] {
        for name in ["0", "a", "more", "z"] {
            let mut more = value.clone();
            let object = more.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
            object.insert(name.into(), json!("1"));
            bad.push(more.to_string());
        }
    }
    value["package"]["mark"] = Value::Null;
    value["number"] = json!(1);
    value["previous"] = Value::Null;
    value["requires"] = json!("");
    value["tag"] = json!("\u{e4}/\\\"\u{2028}\u{1f600}");
    let good = [whole, value.to_string()];
    let all: Vec<_> = good.iter().chain(&bad).map(|text| base64(text.as_bytes())).collect();
    let said = php(json!({ "statements": all }), None);
    let found = said["statements"].as_array().unwrap();
    for (text, read) in good.iter().zip(found) {
        assert!(read.is_object(), "{text}");
    }
    for (text, read) in bad.iter().zip(&found[good.len()..]) {
        assert_eq!(read, "release_unreadable", "{text}");
    }
    // No UTF-8.
    let said = php(json!({ "statements": [base64(b"{\"a\":\"\xff\"}")] }), None);
    assert_eq!(said["statements"][0], "release_unreadable");
}

/// Checks each of these files against a statement.
fn check(files: &[Vec<u8>], statement: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let packages: Vec<_> = files
        .iter()
        .enumerate()
        .map(|(number, bytes)| {
            let path = folder.path().join(number.to_string());
            fs::write(&path, bytes).unwrap();
            json!({ "file": path, "statement": base64(statement) })
        })
        .collect();
    let said = php(json!({ "packages": packages }), None);
    let results = said["packages"].as_array().unwrap().iter();
    results
        .map(|result| result["result"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_copy_with_any_other_byte_than_a_right_mark_is_refused() {
    let statement = vector("statement.json");
    let folder = root().join("tests/vectors/package");
    let copy = fs::read(folder.join("copy.zip")).unwrap();
    let mut files = Vec::new();
    for at in 0..copy.len() {
        let mut other = copy.clone();
        other[at] ^= 1;
        files.push(other);
    }
    assert!(check(&files, &statement).iter().all(|result| result != "ok"));

    let nobodys = fs::read(folder.join("marked.zip")).unwrap();
    let value: Value = serde_json::from_slice(&statement).unwrap();
    let marked = |uuid: &str| signer::copy(&nobodys, &value, uuid);
    let right = "01234567-89ab-8def-8123-456789abcdef";
    assert!(marked(right) == copy);
    let unequal = |at: usize| {
        let mut copy = copy.clone();
        copy[at..at + 4].copy_from_slice(b"PK\x05\x06");
        copy
    };
    let cases = [
        (copy.clone(), "ok"),
        (marked("ffffffff-ffff-8fff-bfff-ffffffffffff"), "ok"),
        (nobodys.clone(), "release_mark"),
        (marked(&right.to_uppercase()), "release_mark"),
        (marked("01234567-89ab-4def-8123-456789abcdef"), "release_mark"),
        (marked("01234567-89ab-8def-c123-456789abcdef"), "release_mark"),
        (marked("01234567-89ab-8def-8123-456789abcde\n"), "release_mark"),
        (marked("');system($_GET[0]);//7-456789abcdef"), "release_mark"),
        (unequal(910), "release_mark"),
        (unequal(1_550), "release_mark"),
        ([&copy[..], b"\0"].concat(), "release_size"),
        ([b"\0", &copy[..]].concat(), "release_size"),
        (copy[1..].to_vec(), "release_size"),
        (copy[..copy.len() - 1].to_vec(), "release_size"),
        (Vec::new(), "release_size"),
    ];
    let files: Vec<_> = cases.iter().map(|(file, _)| file.clone()).collect();
    for ((_, expected), (number, result)) in cases.iter().zip(check(&files, &statement).iter().enumerate()) {
        assert_eq!(result, expected, "{number}");
    }

    // Without a mark, only the signed bytes are the package.
    let mut unmarked = value.clone();
    unmarked["package"]["mark"] = Value::Null;
    let results = check(&[nobodys, copy], &signer::bytes(&unmarked));
    assert_eq!(results, ["ok", "release_bytes"]);
}

#[test]
fn twenty_megabytes_are_checked_in_a_third_of_a_second_and_little_memory() {
    let small = fs::read(root().join("tests/vectors/package/marked.zip")).unwrap();
    // The check knows places and no archives, so what comes in front may be anything.
    let front = vec![0x55; 20 << 20];
    let large = [&front[..], &small].concat();
    let mut statement: Value = serde_json::from_slice(&vector("statement.json")).unwrap();
    let package = &mut statement["package"];
    let moved = |at: usize| json!(front.len() + at);
    package["size"] = json!(large.len());
    package["mark"] = json!({ "uuid": moved(1_007), "crc": [moved(910), moved(1_550)] });
    package["sha256"] = json!(const_hex::encode(Sha256::digest(&large)));
    let folder = tempfile::tempdir().unwrap();
    let copy = [
        &front[..],
        &fs::read(root().join("tests/vectors/package/copy.zip")).unwrap(),
    ]
    .concat();
    let path = folder.path().join("large.zip");
    fs::write(&path, copy).unwrap();
    let package = json!({ "file": path, "statement": base64(&signer::bytes(&statement)) });
    // The best of five.
    let said = php(
        json!({ "packages": [package, package, package, package, package] }),
        None,
    );
    let results = said["packages"].as_array().unwrap();
    assert!(results.iter().all(|result| result["result"] == "ok"), "{said}");
    let seconds = results.iter().map(|result| result["seconds"].as_f64().unwrap());
    let seconds = seconds.fold(f64::MAX, f64::min);
    let memory = results
        .iter()
        .map(|result| result["memory"].as_u64().unwrap())
        .max()
        .unwrap();
    eprintln!("20 MB: {seconds:.3} s, {memory} bytes of memory");
    assert!(seconds <= 0.3, "{seconds} s");
    assert!(memory <= 1 << 20, "{memory} bytes");
}

#[test]
fn what_the_other_tests_sign_with_is_what_openssh_and_the_client_take() {
    let folder = tempfile::tempdir().unwrap();
    let message = b"a statement";
    let md5 = How { hash: "md5", ..HOW };
    let untouched = How { flags: 0, ..HOW };
    let elsewhere = How {
        namespace: "file",
        ..HOW
    };
    let cases = [
        (Signer::plain(5), HOW, true, true),
        (Signer::hardware(6), HOW, true, true),
        (Signer::plain(5), md5, false, false),
        (Signer::hardware(6), untouched, true, false),
        (Signer::plain(5), elsewhere, false, false),
    ];
    for (number, (signer, how, openssh, client)) in cases.iter().enumerate() {
        let signature = signer.sign_as(message, how);
        let path = |name: &str| folder.path().join(name);
        fs::write(path("allowed"), format!("anybody {}\n", signer.line())).unwrap();
        fs::write(path("message"), message).unwrap();
        fs::write(path("message.sig"), &signature).unwrap();
        let output = Command::new("ssh-keygen")
            .args(["-Y", "verify", "-I", "anybody", "-n", "countersign-release", "-f"])
            .arg(path("allowed"))
            .arg("-s")
            .arg(path("message.sig"))
            .stdin(fs::File::open(path("message")).unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.success(), *openssh, "{number}: {output:?}");
        let given = json!({ "signature": signature, "message": base64(message) });
        let said = php(json!({ "keys": [signer.line()], "signatures": [given] }), None);
        assert_eq!(said["signers"][0] == said["keys"][0], *client, "{number}: {said}");
    }
}

/// Files of the newest WordPress' sodium, by their paths in a PHP that has no other files.
fn sodium_files() -> Value {
    let folder = CORES[2].path().join("wp-includes/sodium_compat");
    let mut files = json!({});
    let mut folders = vec![folder.clone()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = format!("/sodium_compat/{}", path.strip_prefix(&folder).unwrap().display());
            files[name] = json!(fs::read_to_string(path).unwrap());
        }
    }
    files
}

#[test]
fn every_php_judges_the_vectors_alike() {
    let mut input = vectors();
    input["polyfill"] = json!("/sodium_compat/autoload.php");
    let mut files = sodium_files();
    files["/input.json"] = json!(input.to_string());
    for name in CLIENT_FILES {
        files[format!("/{name}")] = json!(clients::wordpress(name));
    }
    files["/release.php"] = json!(fs::read_to_string(root().join(SCRIPT)).unwrap());
    let input = json!({ "files": files, "scripts": ["/release.php"] }).to_string();
    let printed = program::run("node", "tests/tools/php_versions.mjs", &input);
    let mut versions = Vec::new();
    for line in printed.lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert!(answer["exit"] == 0 && answer["errors"] == "", "{answer}");
        let (version, said) = answer["text"].as_str().unwrap().split_once('\n').unwrap();
        let said = serde_json::from_str(said).unwrap_or_else(|_| panic!("{answer}"));
        assert_vectors(&said, version);
        versions.push(version.rsplit_once('.').unwrap().0.to_owned());
    }
    assert_eq!(versions, ["7.4", "8.0", "8.1", "8.2", "8.3", "8.4", "8.5"]);
}
