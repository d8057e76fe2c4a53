//! The content of packages and installations of countersign.

use std::path::Path;
use std::process::Command;

#[test]
fn the_check_of_a_release_binary_tells_symbols_paths_and_missing_protections() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Built for tests, so without the settings of a release.
    let output = Command::new(project.join("packaging/check-binary"))
        .arg(env!("CARGO_BIN_EXE_countersign"))
        .output();
    let output = output.unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let paths = "of the machine it was built on";
    for fault in [
        "has symbols; strip it",
        "has debug information; strip it",
        paths,
        "without _FORTIFY_SOURCE",
    ] {
        assert!(told.contains(fault), "{fault}: {told}");
    }
}
