//! The client under every supported PHP version: it compiles without warnings, and parses keys and statements the
//! same way.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use countersign_model::foreign_key::ForeignKey;
use serde_json::{Value, json};

use super::vendor::CLIENT_FILES;
use crate::clients;
use crate::support::vectors;
use crate::tools::program;

const SOURCES: [&str; 4] = [
    "countersign-client.php",
    "countersign-client-admin.php",
    "example-plugin/acme-forms.php",
    "example-plugin/uninstall.php",
];
const CLIENT: &str = "/client.php";
const LOADING: &str = "/loading.php";

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn license_keys() -> Vec<Value> {
    serde_json::from_str(&read("tests/vectors/license_keys.json")).unwrap()
}

/// Texts that are keys of another system, or nearly.
fn foreign_keys() -> Vec<String> {
    let longest = "a".repeat(128);
    let texts = [
        "cc22c1ec86304b36883440e2e84cddff",
        "  CC22C1EC86304B36883440E2E84CDDFF\r\n",
        "38b1460a-5104-4067-a91d-77b872934d51",
        "sk_9.a:b/c+d=0123456",
        "sk_123FGqM456Pa786WtOp%^+67Y+;sX",
        "sk_t=d7~:gkVF1Sw0!06F[J$d<>&\"'#?",
        "0123456789abcdef",
        "0123456789abcde",
        &longest,
        &format!(" {longest} "),
        &format!("{longest}a"),
        "0123456789 abcdef",
        "0123456789abcdeé",
        "0123456789abcdef\u{feff}",
        "0123456789abcdef\u{b}",
        "=0123456789abcdef",
        "-0123456789abcdef",
        "0123456789abcdef\nX: y",
        "ABCDE-FGH23-45678-9ABCD-EFGH2",
    ];
    texts.map(str::to_owned).to_vec()
}

/// PHP's version, the script, and the JSON it printed; seven versions start once for all tests.
fn results() -> &'static [(String, String, Value)] {
    static RESULTS: OnceLock<Vec<(String, String, Value)>> = OnceLock::new();
    RESULTS.get_or_init(|| {
        let keys: Vec<Value> = license_keys().iter().map(|key| key["input"].clone()).collect();
        let mut input = vectors::statements();
        input["keys"] = json!(keys);
        input["foreign"] = json!(foreign_keys());
        let mut files = json!({ "/input.json": input.to_string() });
        files[CLIENT] = json!(read("tests/tools/wordpress/client.php"));
        let mut scripts = vec![CLIENT.to_owned()];
        for name in SOURCES {
            let path = format!("/{}", name.replace('/', "-"));
            let lint = format!("/lint{}", path.replace('/', "-"));
            files[&lint] = json!(lint_of(&path));
            files[&path] = match CLIENT_FILES.contains(&name) {
                true => json!(clients::wordpress(name)),
                false => json!(read(&format!("clients/wordpress/{name}"))),
            };
            scripts.push(lint);
        }
        let input = json!({ "files": files, "scripts": scripts }).to_string();
        program::run("node", "tests/tools/php_versions.mjs", &input)
            .lines()
            .map(result)
            .collect()
    })
}

/// Compiles a file as a whole; it ends at its first statement because WordPress is not there.
fn lint_of(path: &str) -> String {
    let report = "function ($level, $message) { echo json_encode($message); exit(1); }";
    format!("<?php error_reporting(E_ALL); set_error_handler({report}); echo PHP_VERSION, \"\\n[]\"; require '{path}';")
}

fn result(line: &str) -> (String, String, Value) {
    let answer: Value = serde_json::from_str(line).unwrap();
    assert!(answer["exit"] == 0 && answer["errors"] == "", "{answer}");
    let (version, result) = answer["text"]
        .as_str()
        .unwrap()
        .split_once('\n')
        .unwrap_or_else(|| panic!("{answer}"));
    let result = serde_json::from_str(result).unwrap_or_else(|_| panic!("{answer}"));
    (
        version.to_owned(),
        answer["script"].as_str().unwrap().to_owned(),
        result,
    )
}

#[test]
fn every_php_compiles_the_client_and_the_example_without_a_complaint() {
    let linted = results().iter().filter(|(_, script, _)| script != CLIENT);
    let versions: Vec<_> = linted
        .map(|(version, _, _)| version.rsplit_once('.').unwrap().0)
        .collect();
    let expected = ["7.4", "8.0", "8.1", "8.2", "8.3", "8.4", "8.5"]
        .iter()
        .flat_map(|version| [*version; SOURCES.len()]);
    assert_eq!(versions, expected.collect::<Vec<_>>());
}

#[test]
fn every_php_says_of_keys_and_statements_what_the_vectors_say() {
    let keys = license_keys();
    let statements = vectors::statements();
    let mut versions = 0;
    for (version, _, results) in results().iter().filter(|(_, script, _)| script == CLIENT) {
        versions += 1;
        assert_eq!(
            results["misplaced"],
            json!([]),
            "{version}: one or two wrong symbols are pointed at"
        );
        assert_eq!(results["otherwise"], "the signature is wrong", "{version}");
        assert_eq!(results["grace"], json!([true, true, false, true, false]), "{version}");
        assert_eq!(
            results["long"],
            json!([true, true, true, true]),
            "{version}: no number overflows"
        );
        for (key, result) in keys.iter().zip(results["keys"].as_array().unwrap()) {
            match key["result"].as_str().unwrap() {
                "ok" => assert_eq!(result["key"], key["canonical"], "{version}: {key}"),
                "checksum" => assert_eq!(result["error"], "key_mistyped", "{version}: {key}"),
                _ => assert!(
                    ["key_malformed", "key_missing"].contains(&result["error"].as_str().unwrap()),
                    "{version}: {key}"
                ),
            }
        }
        for (text, key) in foreign_keys().iter().zip(results["foreign"].as_array().unwrap()) {
            // What the server takes is sent as it was typed, without the blanks around it.
            let expected = match ForeignKey::parse(text) {
                Ok(_) => text.trim(),
                Err(_) => "",
            };
            assert_eq!(key, expected, "{version}: {text:?}");
        }
        let rows = statements["statements"].as_array().unwrap();
        for (row, result) in rows.iter().zip(results["statements"].as_array().unwrap()) {
            assert_eq!(*result, row["result"], "{version}: {}", row["name"]);
        }
    }
    assert_eq!(versions, 7);
}

/// More than a visitor's request takes for the client, without a cache of compiled files.
const MOST_OF_A_VISIT: u64 = 250 * 1024;

fn assert_loading(version: &str, results: &Value) {
    assert_eq!(results["loaded"], json!(["countersign-client.php"]), "{version}");
    assert!(
        results["bytes"].as_u64().unwrap() <= MOST_OF_A_VISIT,
        "{version}: {results}"
    );
    assert!(results["tried"].as_u64().unwrap() > 100, "{version}: {results}");
    assert_eq!(
        results["accepted"],
        json!(["the right one", "included before the first", "the other client"]),
        "{version}"
    );
    assert_eq!(results["complaints"], json!([]), "{version}");
}

#[test]
fn every_php_goes_on_with_half_a_second_file_and_spends_little_on_a_visitor() {
    let mut files = json!({ LOADING: read("tests/tools/wordpress/loading.php") });
    for name in CLIENT_FILES {
        files[format!("/{name}")] = json!(clients::wordpress(name));
    }
    let input = json!({ "files": files, "scripts": [LOADING] }).to_string();
    let printed = program::run("node", "tests/tools/php_versions.mjs", &input);
    let results: Vec<_> = printed.lines().map(result).collect();
    assert_eq!(results.len(), 7);
    for (version, _, results) in results {
        assert_loading(&version, &results);
    }
    // These PHPs have 32 bits.
    let mut php = Command::new("php");
    php.args([
        "-dopcache.enable_cli=0",
        "tests/tools/wordpress/loading.php",
        "clients/wordpress",
    ]);
    let output = php.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (version, results) = printed.split_once('\n').unwrap_or_else(|| panic!("{printed}"));
    assert_loading(version, &serde_json::from_str(results).unwrap());
}
