//! A pipe, folder, socket, device or endless file in the place of a file gives an error, without waiting.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::instance::manifest;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually_within, get};

const KINDS: [&str; 5] = ["pipe", "folder", "socket", "endless device", "huge file"];

/// Longer than any command takes on a busy machine.
const ENDS: Duration = Duration::from_secs(180);

/// Puts what is no file, or too large a one, in the place of a file.
fn spoil(path: &Path, kind: &str) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "pipe" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "folder" => fs::create_dir(path).unwrap(),
        "socket" => drop(UnixListener::bind(path).unwrap()),
        "endless device" => symlink("/dev/zero", path).unwrap(),
        _ => File::create(path).unwrap().set_len(1 << 40).unwrap(),
    }
}

/// The exit code of a command in little memory; it is killed where it does not end.
fn ends(instance: &Instance, arguments: &[&str], what: &str) -> i32 {
    let program = countersign(instance);
    let mut command = Command::new("prlimit");
    command
        .args(["--as=2000000000"])
        .arg(program.get_program())
        .args(program.get_args())
        .args(arguments);
    command
        .env_remove("COUNTERSIGN_INSTANCE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + ENDS;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| panic!("{what}: {status}"));
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A path, and the commands that read it and must say that it is wrong. A command that names the path gets it whole.
const READERS: [(&str, &[&[&str]]); 13] = [
    (
        "countersign.toml",
        &[
            &["doctor"],
            &["build"],
            &["license", "list"],
            &["keys", "list"],
            &["bindings", "verify"],
            &["serve"],
        ],
    ),
    (
        "registry/plugins/acme-forms.toml",
        &[&["doctor"], &["build"], &["serve"]],
    ),
    (
        "registry/licenses/licenses.toml",
        &[&["doctor"], &["license", "list"], &["build", "--check"], &["serve"]],
    ),
    (
        "registry/licenses/export.jsonl",
        &[&["doctor"], &["license", "list"], &["serve"]],
    ),
    (
        "releases/index.json",
        &[&["doctor"], &["build"], &["preview", "--print"]],
    ),
    ("releases/acme-forms/1.2.0.json", &[&["doctor"]]),
    (
        "keys/signing.pem",
        &[
            &["doctor"],
            &["keys", "list"],
            &["keys", "generate", "--rotate"],
            &["serve"],
        ],
    ),
    (
        "keys/issuing.key",
        &[&["license", "issue", "--module", "forms", "--expires", "+1y"]],
    ),
    ("keys/retired/old.pem", &[&["keys", "list"], &["keys", "publish"]]),
    ("keys/next.pem", &[&["keys", "rotate", "keys/next.pem"]]),
    (
        "store/ledger.jsonl",
        &[
            &["bindings", "verify"],
            &["bindings", "export"],
            &["bindings", "rebuild"],
            &["serve"],
        ],
    ),
    (
        "tls.pem",
        &[&["serve", "--tls-certificate", "tls.pem", "--tls-key", "tls.pem"]],
    ),
    ("answer.json", &[&["verify", "answer.json", "--key", "answer.json"]]),
];

#[test]
fn every_command_ends_and_says_what_is_wrong_whatever_stands_where_a_file_should() {
    for (path, commands) in READERS {
        for kind in KINDS {
            let instance = Instance::new();
            let file = instance.file(path);
            spoil(&file, kind);
            for arguments in commands {
                let absolute: Vec<String> = arguments
                    .iter()
                    .map(|argument| {
                        if *argument == path {
                            file.display().to_string()
                        } else {
                            (*argument).to_owned()
                        }
                    })
                    .collect();
                let absolute: Vec<&str> = absolute.iter().map(String::as_str).collect();
                let what = format!("{arguments:?} with a {kind} at {path}");
                let code = ends(&instance, &absolute, &what);
                assert!(matches!(code, 3 | 4), "{what}: exit code {code}");
            }
        }
    }
}

/// Files of a plugin's repository that git or libgit2 open themselves. Not each of them is an error for each command.
const OF_GIT: [&str; 9] = [
    ".git/HEAD",
    ".git/config",
    ".git/included",
    ".git/packed-refs",
    ".git/refs/tags/v9.0",
    ".git/objects/info/alternates",
    ".git/info/exclude",
    ".gitignore",
    "acme.php",
];

/// A plugin's repository with one tag, whose configuration includes `.git/included`.
fn repository(path: &Path) {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(path)
            .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
            .args(arguments);
        assert!(git.status().unwrap().success(), "git {arguments:?}");
    };
    fs::create_dir_all(path).unwrap();
    git(&["init", "-q"]);
    fs::write(
        path.join("acme.php"),
        "<?php\n/*\nPlugin Name: Acme\nVersion: 1.0\n*/\n",
    )
    .unwrap();
    git(&["add", "."]);
    git(&["commit", "-qm", "1.0"]);
    git(&["tag", "v1.0"]);
    git(&["config", "include.path", "included"]);
}

#[test]
fn every_command_ends_whatever_stands_in_a_plugins_repository() {
    let commands: [&[&str]; 4] = [
        &["build", "--read-timeout", "2"],
        &["build", "--check", "--all", "--read-timeout", "2"],
        &["preview", "--print", "--read-timeout", "2"],
        &["doctor"],
    ];
    for path in OF_GIT {
        for kind in KINDS {
            let instance = Instance::new();
            repository(&instance.file("src"));
            spoil(&instance.file("src").join(path), kind);
            for arguments in commands {
                let what = format!("{arguments:?} with a {kind} at {path}");
                let code = ends(&instance, arguments, &what);
                assert!(matches!(code, 0 | 1 | 3 | 4), "{what}: exit code {code}");
            }
        }
    }
}

#[test]
fn a_repository_that_holds_up_the_preview_is_reported_with_its_limit() {
    let instance = Instance::new();
    repository(&instance.file("src"));
    spoil(&instance.file("src/.git/packed-refs"), "pipe");
    let output = countersign(&instance)
        .args(["preview", "--print", "--read-timeout", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("not done within 1 s"), "{text}");
}

#[test]
fn what_is_no_file_holds_up_no_reload() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    server.validate(&license, "a.com");
    let live = Duration::from_secs(20);
    let readiness = |part: &str| get(server.admin, "/readyz").json()["parts"][part]["state"].clone();
    for (number, kind) in KINDS.into_iter().enumerate() {
        spoil(&instance.file("releases/index.json"), kind);
        eventually_within(kind, live, || readiness("catalog") == "stale");
        instance.write_licenses(&[license.toml(&format!("grace_period_hours = {}", number + 1))]);
        eventually_within("the registry", live, || {
            server.validate(&license, "a.com").json()["grace_period_hours"] == number + 1
        });
        let _ = fs::remove_dir(instance.file("releases/index.json"));
        let version = format!("1.3.{number}");
        instance.publish(&version);
        eventually_within("a good build", live, || {
            server.updates(&license, "a.com", "").text() == manifest(&version)
        });
    }
    assert!(server.stop().success());
}
