//! The clients in Python and JavaScript with their own tests, on clients/vectors/statements.json.

use std::process::Command;

#[test]
fn the_clients_in_python_and_javascript_say_the_same() {
    for (program, arguments) in [
        ("python3", &["-B", "-m", "unittest", "discover", "clients/python"][..]),
        ("node", &["--test", "clients/javascript/countersign.test.mjs"]),
    ] {
        let tested = Command::new(program)
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(
            tested.status.success(),
            "{}{}",
            text(&tested.stdout),
            text(&tested.stderr)
        );
        let ran = text(&tested.stderr).contains("Ran 3 tests") || text(&tested.stdout).contains("# pass 2");
        assert!(ran, "{}{}", text(&tested.stdout), text(&tested.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
