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

/// A path, and the commands that read it and must say that it is wrong.
const READERS: [(&str, &[&[&str]]); 10] = [
    (
        "countersign.toml",
        &[&["doctor"], &["build"], &["license", "list"], &["keys", "list"], &["bindings", "verify"], &["serve"]],
    ),
    ("registry/plugins/acme-forms.toml", &[&["doctor"], &["build"], &["serve"]]),
    ("registry/licenses/licenses.toml", &[&["doctor"], &["license", "list"], &["build", "--check"], &["serve"]]),
    ("registry/licenses/export.jsonl", &[&["doctor"], &["license", "list"], &["serve"]]),
    ("releases/index.json", &[&["doctor"], &["build"], &["preview", "--print"]]),
    ("releases/acme-forms/1.2.0.json", &[&["doctor"]]),
    ("keys/signing.pem", &[&["doctor"], &["keys", "list"], &["serve"]]),
    ("keys/retired/old.pem", &[&["keys", "list"]]),
    ("store/ledger.jsonl", &[&["bindings", "verify"], &["serve"]]),
    ("answer.json", &[&["verify", "answer.json", "--key", "answer.json"]]),
];

#[test]
fn every_command_ends_and_says_what_is_wrong_whatever_stands_where_a_file_should() {
    for (path, commands) in READERS {
        for kind in KINDS {
            // A ledger has no limit, and is read to its end.
            if (path, kind) == ("store/ledger.jsonl", "huge file") {
                continue;
            }
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
