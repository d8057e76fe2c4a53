//! Where a file is expected there may be a pipe, a folder, a socket, a device or a file without end: told, never waited for.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::instance::manifest;
use crate::support::preload;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, get};

const KINDS: [&str; 5] = ["pipe", "folder", "socket", "endless device", "huge file"];

/// Longer than any command takes on a busy machine.
const ENDS: Duration = Duration::from_secs(60);

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
    command.args(["--as=2000000000"]).arg(program.get_program()).args(program.get_args()).args(arguments);
    command.env_remove("COUNTERSIGN_INSTANCE").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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
        &[&["doctor"], &["build"], &["license", "list"], &["keys", "list"], &["bindings", "verify"], &["serve"]],
    ),
    ("registry/plugins/acme-forms.toml", &[&["doctor"], &["build"], &["serve"]]),
    ("registry/licenses/licenses.toml", &[&["doctor"], &["license", "list"], &["build", "--check"], &["serve"]]),
    ("registry/licenses/export.jsonl", &[&["doctor"], &["license", "list"], &["serve"]]),
    (
        "registry/licenses/shop.toml",
        &[&["license", "issue", "--module", "forms", "--expires", "+1y", "--file", "shop.toml"]],
    ),
    ("releases/index.json", &[&["doctor"], &["build"], &["preview", "--print"]]),
    ("releases/acme-forms/1.2.0.json", &[&["doctor"]]),
    ("keys/signing.pem", &[&["doctor"], &["keys", "list"], &["keys", "generate", "--rotate"], &["serve"]]),
    ("keys/retired/old.pem", &[&["keys", "list"], &["keys", "publish"]]),
    ("keys/next.pem", &[&["keys", "rotate", "keys/next.pem"]]),
    ("store/ledger.jsonl", &[&["bindings", "verify"], &["bindings", "export"], &["bindings", "rebuild"], &["serve"]]),
    ("tls.pem", &[&["serve", "--tls-certificate", "tls.pem", "--tls-key", "tls.pem"]]),
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
                    .map(|argument| if *argument == path { file.display().to_string() } else { (*argument).to_owned() })
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
        git.arg("-C").arg(path).args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).args(arguments);
        assert!(git.status().unwrap().success(), "git {arguments:?}");
    };
    fs::create_dir_all(path).unwrap();
    git(&["init", "-q"]);
    fs::write(path.join("acme.php"), "<?php\n/*\nPlugin Name: Acme\nVersion: 1.0\n*/\n").unwrap();
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
fn a_repository_that_holds_up_the_preview_is_told_with_its_limit() {
    let instance = Instance::new();
    repository(&instance.file("src"));
    spoil(&instance.file("src/.git/packed-refs"), "pipe");
    let output = countersign(&instance).args(["preview", "--print", "--read-timeout", "1"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("not done within 1 s"), "{told}");
}

#[test]
fn a_server_that_waits_for_its_first_files_ends_when_it_is_told_to() {
    let instance = Instance::new();
    let hanging = instance.file("hanging");
    fs::write(&hanging, "").unwrap();
    for path in ["registry/licenses/licenses.toml", "releases/index.json", "keys/signing.pem"] {
        let at = instance.file(path).canonicalize().unwrap();
        let mut command = countersign(&instance);
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"]).stdout(Stdio::null());
        command.env("LD_PRELOAD", preload::hang()).env("HANG_AT", at).env("HANG_WHILE", &hanging).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let tasks = format!("/proc/{}/task", server.id());
        // The main thread, one that answers for each core, and, when signals are handled, the one that reads and hangs.
        let reading = thread::available_parallelism().unwrap().get() + 2;
        eventually("the thread that reads", ENDS, || fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() >= reading));
        let pid = server.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let deadline = Instant::now() + ENDS;
        let status = loop {
            if let Some(status) = server.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                server.kill().unwrap();
                server.wait().unwrap();
                panic!("{path}: SIGTERM did not end it");
            }
            thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0), "{path}: told to stop, it stopped");
    }
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
        eventually(kind, live, || readiness("catalog") == "stale");
        instance.write_licenses(&[license.toml(&format!("grace_period_hours = {}", number + 1))]);
        eventually("the registry", live, || {
            server.validate(&license, "a.com").json()["grace_period_hours"] == number + 1
        });
        let _ = fs::remove_dir(instance.file("releases/index.json"));
        let version = format!("1.3.{number}");
        instance.publish(&version);
        eventually("a good build", live, || server.updates(&license, "a.com", "").text() == manifest(&version));
    }
    assert!(server.stop().success());
}

#[test]
fn a_part_whose_disk_does_not_answer_is_told_holds_up_no_other_and_no_end() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let (hanging, index) = (instance.file("hanging"), instance.file("releases/index.json").canonicalize().unwrap());
    let environment = [("LD_PRELOAD", preload::hang()), ("HANG_AT", &*index), ("HANG_WHILE", &*hanging)];
    let server = Server::start_with_environment(&instance, &["--poll-seconds", "1"], &environment);
    server.validate(&license, "a.com");
    assert_eq!(get(server.admin, "/readyz").status, 200);

    fs::write(&hanging, "").unwrap();
    instance.publish("1.3.0");
    eventually("the catalog stands still", Duration::from_secs(60), || get(server.admin, "/readyz").status == 503);
    let parts = get(server.admin, "/readyz").json()["parts"].clone();
    assert_eq!((&parts["catalog"]["state"], &parts["registry"]["state"]), (&"failing".into(), &"ok".into()));
    let metrics = get(server.admin, "/metrics").text();
    assert!(metrics.contains("countersign_part_state{part=\"catalog\",state=\"failing\"} 1"), "{metrics}");
    assert!(metrics.contains("countersign_last_look_timestamp_seconds{part=\"catalog\"}"), "{metrics}");
    instance.write_licenses(&[license.toml("grace_period_hours = 7")]);
    eventually("the registry", Duration::from_secs(20), || {
        server.validate(&license, "a.com").json()["grace_period_hours"] == 7
    });

    fs::remove_file(&hanging).unwrap();
    eventually("an update", Duration::from_secs(20), || {
        server.updates(&license, "a.com", "").text() == manifest("1.3.0")
    });
    eventually("ready", Duration::from_secs(20), || get(server.admin, "/readyz").status == 200);
    fs::write(&hanging, "").unwrap();
    instance.publish("1.4.0");
    assert!(server.stop().success());
}
