//! Commands with other programs: the demo's commands pasted into a shell, `make run`, and a terminal from Python.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::server::countersign;
use crate::support::{Instance, License, Server};

#[test]
fn the_demo_is_validated_updated_and_verified_by_the_commands_it_prints() {
    let folder = TempDir::new().unwrap();
    let in_folder = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder.path());
        command
    };
    let printed = in_folder(env!("CARGO_BIN_EXE_countersign"))
        .args(["init", "--demo"])
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let built = in_folder(env!("CARGO_BIN_EXE_countersign"))
        .args(["-C", "demo", "build", "--json"])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let server = Server::start_in(&folder.path().join("demo"), &[]);

    let (_, paste) = printed.split_once("\n\n# Validate").expect("commands to paste");
    let paste = format!("# Validate{paste}").replace("127.0.0.1:8080", &server.address.to_string());
    let pasted = in_folder("bash")
        .args(["-euo", "pipefail", "-c", &paste])
        .output()
        .unwrap();
    let shown = String::from_utf8(pasted.stdout).unwrap();
    assert!(
        pasted.status.success(),
        "{shown}{}",
        String::from_utf8_lossy(&pasted.stderr)
    );
    let lines: Vec<&str> = shown.lines().collect();
    let [statement, update, latest, ref traced @ .., verified] = lines[..] else {
        panic!("{shown}")
    };
    let traced = traced.join("\n");
    assert!(
        traced.contains("shop.example.com") && traced.contains("1.2.0"),
        "{traced}"
    );
    let json = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    assert_eq!(json(statement)["status"], "active");
    for manifest in [json(update), json(latest)] {
        assert_eq!(
            (&manifest["version"], &manifest["tag"]),
            (&"1.2.0".into(), &"1.2.0".into())
        );
        for field in [
            "version",
            "tag",
            "name",
            "download_url",
            "tested",
            "description",
            "changelog",
        ] {
            assert!(
                manifest[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field} of the interface is there"
            );
        }
        assert!(manifest["changelog"].as_str().unwrap().contains("translated"));
    }
    assert_eq!(verified, "Verified OK");
    let tags = in_folder("git")
        .args([
            "-C",
            "demo/plugins/acme-forms",
            "for-each-ref",
            "--format=%(objecttype) %(refname:short)",
            "refs/tags",
        ])
        .output()
        .unwrap();
    let tags = String::from_utf8(tags.stdout).unwrap();
    assert!(
        tags.lines().count() >= 5 && tags.contains("tag 1.2.0") && tags.contains("2.0.0-beta.1"),
        "{tags}"
    );
}

#[test]
fn make_run_says_that_it_builds_and_serves_the_demo_by_itself() {
    let folder = TempDir::new().unwrap();
    // cargo has nothing to do, and what builds and serves says that it was called.
    std::os::unix::fs::symlink("/bin/true", folder.path().join("cargo")).unwrap();
    let program = env!("CARGO_BIN_EXE_countersign");
    let script =
        format!("case \"$*\" in *build | *serve | *wait | *desk) echo \"$*\" ;; *) exec '{program}' \"$@\" ;; esac\n");
    fs::write(folder.path().join("program"), script).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut make = Command::new("make");
    make.args([
        "--silent",
        "-f",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Makefile"),
        "run",
        "COUNTERSIGN=sh program",
    ]);
    make.current_dir(folder.path())
        .env("PATH", path)
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL");
    let output = make.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{shown}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (demo, rest) = shown
        .split_once("\nmake builds the manifests and starts the server now. ")
        .expect("make says so");
    assert!(
        demo.contains("\nWhat builds the manifests and starts the server (`make run` does it by itself):\n"),
        "{demo}"
    );
    let mut lines: Vec<_> = rest.lines().collect();
    // The desk's link is made beside the server.
    lines[2..].sort_unstable();
    assert_eq!(
        lines,
        [
            "Paste the commands into another terminal, from cd on.",
            "-C demo build",
            "-C demo desk",
            "-C demo serve",
            "The desk, where you see and change all this:",
        ]
    );
}

#[test]
fn a_list_on_a_terminal_of_80_columns_is_no_wider() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml(&format!("note = \"{}\"", "a long note ".repeat(20)))]);
    let plain = countersign(&instance).args(["license", "list"]).output().unwrap();
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(
        plain.lines().any(|line| line.len() > 200),
        "all of it where nobody looks"
    );
    let program = countersign(&instance);
    // A terminal of 24 lines of 80 characters, of which the program is the only user.
    let script = "import fcntl, os, pty, struct, sys, termios\n\
        pid, terminal = pty.fork()\n\
        if pid == 0:\n    \
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))\n    \
            os.execv(sys.argv[1], sys.argv[1:])\n\
        text = b''\n\
        while True:\n    \
            try: piece = os.read(terminal, 4096)\n    \
            except OSError: break\n    \
            if not piece: break\n    \
            text += piece\n\
        os.waitpid(pid, 0)\n\
        sys.stdout.buffer.write(text)\n";
    let mut python = Command::new("python3");
    python
        .args(["-c", script])
        .arg(program.get_program())
        .args(program.get_args())
        .args(["license", "list"]);
    let output = python.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80) && lines[1].ends_with('…'),
        "{shown}"
    );
}
