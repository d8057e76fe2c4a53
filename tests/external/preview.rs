//! PHP's syntax errors in a plugin's files, in builds and in the preview.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::preview::{Workplace, print};

#[test]
fn build_and_preview_warn_of_the_same_and_deny_warnings_makes_it_an_error() {
    let work = Workplace::new();
    fs::write(work.repository().join("broken.php"), "<?php\n\nfunction {\n").unwrap();
    work.git(&["add", "-A"]);
    work.git(&["commit", "-qm", "Broken"]);
    work.git(&["tag", "1.3.0"]);
    let build = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command
            .arg("-C")
            .arg(work.path())
            .args(["build", "--json", "--plugin", "acme-forms"])
            .args(arguments);
        let output = command.output().unwrap();
        (
            output.status.code(),
            serde_json::from_slice::<Value>(&output.stdout).unwrap(),
        )
    };
    let (code, report) = build(&[]);
    assert_eq!(code, Some(0), "{report:#}");
    let warnings = report["plugins"][0]["warnings"].as_array().unwrap().clone();
    assert_eq!(
        report["warnings"].as_u64().unwrap() as usize,
        warnings.len(),
        "{report:#}"
    );
    assert!(
        warnings
            .iter()
            .any(|told| told["file"] == "broken.php" && told["line"] == 3),
        "{report:#}"
    );
    let printed = print(work.path(), &["--json", "--version", "1.3.0"]).stdout;
    let json: Value = serde_json::from_slice(&printed).unwrap();
    let told = |warnings: &[Value]| -> Vec<String> {
        warnings
            .iter()
            .map(|told| format!("{}:{}: {}", told["file"], told["line"], told["message"]))
            .collect()
    };
    assert_eq!(
        told(json["plugins"][0]["warnings"].as_array().unwrap()),
        told(&warnings)
    );

    // The same where nothing is to be built.
    let (code, again) = build(&["--deny-warnings"]);
    assert_eq!(
        (code, &again["plugins"][0]["warnings"]),
        (Some(3), &report["plugins"][0]["warnings"])
    );
}
