//! What `countersign sign` waits for has an end, and Ctrl-C leaves nothing behind.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// A folder with programs that stand in for OpenSSH's, in front of all others.
fn stand_in(vendor: &Vendor, name: &str, script: &str) -> String {
    let file = vendor.instance.file("bin").join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let rest = std::env::var("PATH").unwrap();
    format!("{}:{rest}", file.parent().unwrap().display())
}

fn is_running(id: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    !matches!(stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]), None | Some("Z"))
}

fn clean(vendor: &Vendor) {
    assert_eq!(names(&vendor.instance.file("cache")), [""; 0], "nothing is left behind");
    assert!(!vendor.file("").exists(), "nothing is signed");
}

#[test]
fn an_ssh_keygen_that_waits_for_ever_is_ended_and_the_time_is_told() {
    let vendor = Vendor::new(&["anna"], 1);
    let path = stand_in(&vendor, "ssh-keygen", "echo $$ > \"$HOME/id\"; exec sleep 1000");
    let key = vendor.key("anna");
    let output = vendor
        .command(&["1.0.0", "--timeout", "5", "--key", key.to_str().unwrap()])
        .env("PATH", path)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(
        told.contains("ssh-keygen made no signature within 5 s, and was ended")
            && told.contains("--timeout allows more"),
        "{told}"
    );
    let id = fs::read_to_string(vendor.instance.file("id")).unwrap();
    assert!(!is_running(id.trim()));
    clean(&vendor);
}

#[test]
fn an_interrupted_signature_leaves_nothing_behind() {
    let vendor = Vendor::new(&["anna"], 1);
    // A folder of a command that was killed before it could clean up.
    fs::create_dir_all(vendor.instance.file("cache/signing-999999999")).unwrap();
    let path = stand_in(&vendor, "ssh-keygen", "echo $$ > \"$HOME/id\"; exec sleep 1000");
    for signal in ["INT", "TERM"] {
        let _ = fs::remove_file(vendor.instance.file("id"));
        let key = vendor.key("anna");
        let child = vendor
            .command(&["1.0.0", "--key", key.to_str().unwrap()])
            .env("PATH", &path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = || fs::read_to_string(vendor.instance.file("id")).unwrap_or_default();
        crate::support::eventually("ssh-keygen runs", || id().ends_with('\n'));
        let killed = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{told}");
        assert!(told.contains("interrupted: nothing was signed"), "{told}");
        assert!(!is_running(id().trim()));
        clean(&vendor);
    }
}

#[test]
fn an_agent_that_does_not_answer_is_not_waited_for_long() {
    let vendor = Vendor::new(&["anna"], 1);
    let path = stand_in(&vendor, "ssh-add", "exec sleep 1000");
    let began = Instant::now();
    let output = vendor.command(&["1.0.0"]).env("PATH", path).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(
        told.contains("no key of [signing] is in the ssh agent or in ~/.ssh"),
        "{told}"
    );
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    clean(&vendor);
}

#[test]
fn files_that_are_no_files_or_too_large_are_refused_at_once() {
    let vendor = Vendor::new(&["anna"], 1);
    let pipe = vendor.instance.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let large = vendor.instance.file("large");
    fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let anna = vendor.key("anna");
    let anna = anna.to_str().unwrap();
    for file in [&pipe, &large] {
        let file = file.to_str().unwrap();
        for arguments in [
            &["1.0.0", "--key", file][..],
            &["1.0.0", "--key", anna, "--package", file],
            &["1.0.0", "--key", anna, "--installed", file],
        ] {
            let (code, told) = vendor.refuses(arguments);
            assert!(code == 3 && told.contains(file), "{arguments:?}: {told}");
        }
    }
    clean(&vendor);
}
