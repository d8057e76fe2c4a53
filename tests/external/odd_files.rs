//! A disk that hangs: the server reports the waiting part, keeps serving the others, and still stops when told to.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::instance::manifest;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, get};
use crate::tools::preload;

/// Longer than any command takes on a busy machine.
const ENDS: Duration = Duration::from_secs(60);

#[test]
fn a_server_that_waits_for_its_first_files_ends_when_it_is_told_to() {
    let instance = Instance::new();
    let hanging = instance.file("hanging");
    fs::write(&hanging, "").unwrap();
    for path in [
        "registry/licenses/licenses.toml",
        "releases/index.json",
        "keys/signing.pem",
    ] {
        let at = instance.file(path).canonicalize().unwrap();
        let mut command = countersign(&instance);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
            .stdout(Stdio::null());
        command
            .env("LD_PRELOAD", preload::hang())
            .env("HANG_AT", at)
            .env("HANG_WHILE", &hanging)
            .stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let tasks = format!("/proc/{}/task", server.id());
        // The main thread, one that answers for each core, and, when signals are handled, the one that reads and hangs.
        let reading = thread::available_parallelism().unwrap().get() + 2;
        eventually("the thread that reads", || {
            fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() >= reading)
        });
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
fn a_part_whose_disk_does_not_answer_is_told_holds_up_no_other_and_no_end() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let hanging = instance.file("hanging");
    let index = instance.file("releases/index.json").canonicalize().unwrap();
    let environment = [
        ("LD_PRELOAD", preload::hang()),
        ("HANG_AT", &*index),
        ("HANG_WHILE", &*hanging),
    ];
    let server = Server::start_with_environment(&instance, &["--poll-seconds", "1"], &environment);
    server.validate(&license, "a.com");
    assert_eq!(get(server.admin, "/readyz").status, 200);

    fs::write(&hanging, "").unwrap();
    instance.publish("1.3.0");
    eventually("the catalog makes no progress", || {
        get(server.admin, "/readyz").status == 503
    });
    let parts = get(server.admin, "/readyz").json()["parts"].clone();
    assert_eq!(
        (&parts["catalog"]["state"], &parts["registry"]["state"]),
        (&"failing".into(), &"ok".into())
    );
    let metrics = get(server.admin, "/metrics").text();
    assert!(
        metrics.contains("countersign_part_state{part=\"catalog\",state=\"failing\"} 1"),
        "{metrics}"
    );
    assert!(
        metrics.contains("countersign_last_look_timestamp_seconds{part=\"catalog\"}"),
        "{metrics}"
    );
    instance.write_licenses(&[license.toml("grace_period_hours = 7")]);
    eventually("the registry", || {
        server.validate(&license, "a.com").json()["grace_period_hours"] == 7
    });

    fs::remove_file(&hanging).unwrap();
    eventually("an update", || {
        server.updates(&license, "a.com", "").text() == manifest("1.3.0")
    });
    eventually("ready", || get(server.admin, "/readyz").status == 200);
    fs::write(&hanging, "").unwrap();
    instance.publish("1.4.0");
    assert!(server.stop().success());
}
