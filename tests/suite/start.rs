//! Starting and stopping: what keeps a server from starting, and how it ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::http::Client;
use crate::support::instance::{new_keys, question};
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, eventually_within, get};

fn refused(instance: &Instance) -> (Option<i32>, String) {
    let mut command = countersign(instance);
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"]);
    let Output { status, stderr, .. } = ended(command);
    let text = String::from_utf8(stderr).unwrap();
    // What goes wrong is one line and a hint; log lines start with a date.
    let errors: Vec<&str> = text.lines().filter(|line| !line.starts_with("20")).collect();
    (
        status.code(),
        errors
            .join("\n")
            .replace(&instance.path().display().to_string(), "INSTANCE"),
    )
}

/// What a program says that is to end by itself; one that does not is killed after a while.
pub fn ended(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn without_a_usable_signing_key_there_is_no_server() {
    let instance = Instance::new();
    let key = instance.file("keys/signing.pem");

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = "error: INSTANCE/keys/signing.pem: others can read the signing key (mode 0644)\nhint: chmod 600 INSTANCE/keys/signing.pem; or chmod 640 INSTANCE/keys/signing.pem, if its group is one of the server's";
    assert_eq!(refused(&instance), (Some(3), exposed.to_owned()));

    instance.write_key("-----BEGIN PRIVATE KEY-----\nno\n-----END PRIVATE KEY-----\n");
    let (status, text) = refused(&instance);
    assert_eq!(status, Some(3));
    assert!(
        text.starts_with("error: INSTANCE/keys/signing.pem: not an RSA private key in PEM"),
        "{text}"
    );

    instance.write_key(&new_keys(1024).private);
    let (status, text) = refused(&instance);
    assert_eq!(status, Some(3));
    assert!(
        text.contains("1024") && text.contains("2048") && text.contains("\nhint: "),
        "{text}"
    );

    fs::remove_file(&key).unwrap();
    let missing =
        "error: INSTANCE/keys/signing.pem: there is no signing key\nhint: create one with `countersign keys generate`";
    assert_eq!(refused(&instance), (Some(3), missing.to_owned()));
}

#[test]
fn with_a_store_that_cannot_be_opened_there_is_no_server() {
    let instance = Instance::new();
    let server = Server::start(&instance);
    let (status, text) = refused(&instance);
    assert_eq!(status, Some(4));
    assert!(
        text.starts_with("error: INSTANCE/store: in use by another process") && text.contains("\nhint: "),
        "{text}"
    );
    server.stop();

    fs::remove_dir_all(instance.file("store")).unwrap();
    fs::write(instance.file("store"), "a file where the folder should be").unwrap();
    let (status, text) = refused(&instance);
    assert_eq!(status, Some(4));
    assert!(
        text.starts_with("error: INSTANCE/store") && text.contains("\nhint: "),
        "{text}"
    );
}

#[test]
fn with_a_broken_registry_there_is_no_server() {
    let instance = Instance::new();
    instance.write("registry/plugins/acme-forms.toml", "modul = \"forms\"\n");
    let (status, text) = refused(&instance);
    assert_eq!(status, Some(3));
    assert!(text.contains("registry/plugins/acme-forms.toml:1:1"), "{text}");
    assert!(text.contains("did you mean \"module\"?"), "{text}");

    let empty = tempfile::TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .arg("-C")
        .arg(empty.path())
        .arg("serve")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        fs::read_dir(empty.path()).unwrap().count(),
        0,
        "a server that does not start leaves nothing behind"
    );
}

/// An instance with ten licenses that were in force once.
fn ten_in_force() -> (Instance, Vec<License>) {
    let all: Vec<License> = (0..10).map(|_| License::new()).collect();
    let instance = Instance::new();
    write(&instance, &all);
    assert!(Server::start(&instance).stop().success());
    (instance, all)
}

fn write(instance: &Instance, licenses: &[License]) {
    instance.write_licenses(&licenses.iter().map(|license| license.toml("")).collect::<Vec<_>>());
}

#[test]
fn a_start_refuses_what_a_reload_refuses_until_the_command_line_accepts_it_once() {
    let (instance, all) = ten_in_force();
    let noted = || fs::read(instance.file("store/accepted-licenses.json")).unwrap();
    let before = noted();
    write(&instance, &all[..6]);
    let expected = "error: the registry lacks 4 of the 10 licenses that were in force\nhint: restore \
        the licenses; or, if you removed them on purpose, restart once with `countersign serve --accept-dropped-licenses`";
    // Each time: a start that is refused is not what is in force.
    for _ in 0..2 {
        assert_eq!(refused(&instance), (Some(3), expected.to_owned()));
    }
    let doctor = countersign(&instance).arg("doctor").output().unwrap();
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(3), "{text}");
    assert!(
        text.contains("a server does not start: the registry lacks 4 of the 10 licenses"),
        "{text}"
    );
    // As many, and four of them are others: the same question, the same answer.
    write(
        &instance,
        &[&all[..6], &(0..4).map(|_| License::new()).collect::<Vec<_>>()].concat(),
    );
    assert_eq!(refused(&instance), (Some(3), expected.to_owned()));
    // No setting that stays.
    instance.write("countersign.toml", "[serve]\naccept_dropped_licenses = true\n");
    assert!(
        refused(&instance)
            .1
            .contains("unknown setting \"accept_dropped_licenses\"")
    );
    fs::remove_file(instance.file("countersign.toml")).unwrap();
    let mut command = countersign(&instance);
    command.env("COUNTERSIGN_ACCEPT_DROPPED_LICENSES", "true");
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"]);
    let output = ended(command);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("licenses that were in force"),
        "{output:?}"
    );
    assert_eq!(noted(), before);

    write(&instance, &all[..6]);
    let server = Server::start_with(&instance, &["--accept-dropped-licenses"]);
    assert!(
        server.log().contains("accepted because of --accept-dropped-licenses"),
        "{}",
        server.log()
    );
    assert_eq!(server.validate(&all[9], "a.com").code(), "unknown_license");
    // It was for the start: what is in force now is guarded as ever.
    write(&instance, &all[..3]);
    eventually_within("a reload is refused", Duration::from_secs(20), || {
        server.part("registry")["state"] == "stale"
    });
    assert_eq!(server.validate(&all[5], "a.com").code(), "ok");
    assert!(server.stop().success());
    write(&instance, &all[..6]);
    assert!(Server::start(&instance).stop().success());
}

#[test]
fn what_a_reload_accepted_is_what_the_next_start_compares_with() {
    let (instance, all) = ten_in_force();
    let server = Server::start(&instance);
    for count in [8, 7, 6] {
        write(&instance, &all[..count]);
        let gone = &all[count];
        eventually_within("a reload", Duration::from_secs(20), || {
            server.validate(gone, "a.com").code() == "unknown_license"
        });
    }
    server.kill();
    assert!(Server::start(&instance).stop().success());
    write(&instance, &all[..4]);
    assert!(refused(&instance).1.contains("lacks 2 of the 6 licenses"));
}

#[test]
fn a_missing_or_damaged_note_of_what_was_in_force_is_reported_and_refuses_no_start() {
    let (instance, all) = ten_in_force();
    let note = instance.file("store/accepted-licenses.json");
    let harms: [fn(&std::path::Path); 3] = [
        |note| fs::remove_file(note).unwrap(),
        |note| fs::write(note, "{\"licenses\":").unwrap(),
        |note| fs::write(note, " ".repeat(1 << 20)).unwrap(),
    ];
    for (number, harm) in harms.into_iter().enumerate() {
        harm(&note);
        write(&instance, &all[..9 - 3 * number]);
        let server = Server::start(&instance);
        assert!(
            server
                .log()
                .contains("this start cannot check whether licenses are missing"),
            "{}",
            server.log()
        );
        assert!(server.stop().success());
        // And it is made again.
        let server = Server::start(&instance);
        assert!(!server.log().contains("WARN"), "{}", server.log());
    }
}

#[test]
fn broken_releases_keep_no_license_from_being_validated() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let good = fs::read_to_string(instance.file("releases/acme-forms/1.2.0.json")).unwrap();
    // What a build that was killed between the manifests and the index leaves behind.
    instance.write("releases/acme-forms/1.2.0.json", "{}");
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(server.updates(&license, "a.com", "").text(), "{}");
    // Looked at once more, they are as broken, and there is still no good state to fall back on.
    server.signal("HUP");
    eventually("looked at", || server.log().contains("there is no good state yet"));
    let catalog = server.part("catalog");
    assert_eq!(
        (&catalog["state"], get(server.admin, "/readyz").status),
        (&"failing".into(), 503)
    );
    assert!(
        catalog["detail"]
            .as_str()
            .unwrap()
            .ends_with("1.2.0.json: its SHA-256 is not the one in the index")
    );
    instance.write("releases/acme-forms/1.2.0.json", &good);
    eventually_within("mended", Duration::from_secs(20), || {
        server.updates(&license, "a.com", "").text() == good && get(server.admin, "/readyz").status == 200
    });
}

#[test]
fn an_instance_with_nothing_published_serves() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    fs::remove_dir_all(instance.file("releases")).unwrap();
    let server = Server::start(&instance);
    server.validate(&license, "a.com");
    assert_eq!(server.updates(&license, "a.com", "").text(), "{}");
}

#[test]
fn sigterm_finishes_what_is_under_way_and_exits_0() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    let address = server.address;
    let mut under_way = Client::connect(address);
    let body = question(&license, "a.com").to_string();
    let (head, tail) = body.split_at(10);
    let request = format!(
        "POST /api/v1/validate-license HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n{head}",
        body.len()
    );
    under_way.send(request.as_bytes()).unwrap();
    // The server has the request when it has answered a later one.
    get(address, "/index.html");
    let stopped = thread::spawn(move || server.stop());
    eventually("no new connection is taken", || Client::try_connect(address).is_err());
    under_way.send(tail.as_bytes()).unwrap();
    assert_eq!(under_way.receive().unwrap().code(), "ok");
    assert!(stopped.join().unwrap().success());
}

#[test]
fn the_log_counts_requests_that_are_cut_and_not_connections_that_are_idle() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--drain-seconds", "1"]);
    let mut idle: Vec<Client> = (0..3).map(|_| Client::connect(server.address)).collect();
    let mut under_way = Client::connect(server.address);
    under_way
        .send(b"POST /api/v1/validate-license HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{")
        .unwrap();
    for client in &mut idle {
        assert_eq!(client.request("GET", "/index.html", &[], b"").status, 200);
    }
    server.signal("TERM");
    let cut = "some requests did not finish in time under_way=1\n";
    eventually("the drain is over", || server.log().contains("did not finish"));
    assert!(server.log().contains(cut), "{}", server.log());
}

#[test]
fn as_many_connections_as_a_number_can_say_are_a_setting_like_any() {
    let instance = Instance::new();
    let server = Server::start_with(&instance, &["--max-connections", &usize::MAX.to_string()]);
    assert_eq!(get(server.address, "/index.html").status, 200);
}

#[test]
fn a_client_that_takes_nothing_of_its_answer_is_disconnected() {
    let instance = Instance::new();
    instance.write("public/large.bin", &"x".repeat(8 << 20));
    let server = Server::start_with(&instance, &["--write-timeout-seconds", "1", "--max-connections", "1"]);
    let mut deaf = Client::connect(server.address);
    deaf.send(b"GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    // There is room for one connection, so the next one is answered only when the first is gone.
    assert_eq!(get(server.address, "/index.html").status, 200);
}

#[test]
fn health_answers_head_requests_of_load_balancers() {
    let instance = Instance::new();
    let server = Server::start(&instance);
    for (address, target) in [
        (server.admin, "/healthz"),
        (server.admin, "/readyz"),
        (server.admin, "/metrics"),
        (server.address, "/index.html"),
    ] {
        let head = format!("HEAD {target} HTTP/1.0\r\n\r\n");
        let mut client = Client::connect(address);
        client.send(head.as_bytes()).unwrap();
        assert_eq!(client.receive_head().unwrap().status, 200, "{target}");
    }
}

#[test]
fn the_public_folder_is_served_as_it_is_and_nothing_else_is() {
    let instance = Instance::new();
    instance.write("public/.well-known/jwks.json", "{\"keys\":[]}\n");
    instance.write("public/keys/abc.pem", "PEM\n");
    let server = Server::start(&instance);
    for (target, text) in [
        ("/", "<title>hello</title>\n"),
        ("/index.html", "<title>hello</title>\n"),
        ("/keys/abc.pem", "PEM\n"),
        ("/.well-known/jwks.json", "{\"keys\":[]}\n"),
    ] {
        let response = get(server.address, target);
        assert_eq!((response.status, response.text().as_str()), (200, text), "{target}");
    }
    for target in [
        "/releases/index.json",
        "/releases/acme-forms/1.2.0.json",
        "/registry/plugins/acme-forms.toml",
        "/keys/signing.pem",
        "/../keys/signing.pem",
        "/..%2fkeys/signing.pem",
        "/%2e%2e/keys/signing.pem",
        "/keys/..%5c..%5ckeys/signing.pem",
        "//etc/passwd",
        "/keys/%00",
    ] {
        assert_eq!(get(server.address, target).status, 404, "{target}");
    }
}

#[test]
fn settings_come_from_the_file_then_the_environment_then_flags() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let grace = |server: &Server| server.validate(&license, "a.com").json()["grace_period_hours"].clone();
    assert_eq!(grace(&Server::start(&instance)), 72);
    instance.write(
        "countersign.toml",
        "[serve]\ngrace_period_hours = 1\n[paths]\nstore = \"elsewhere\"\n",
    );
    assert_eq!(grace(&Server::start(&instance)), 1);
    assert!(
        instance.file("elsewhere").is_dir(),
        "a path in the file is relative to the file"
    );
    assert_eq!(grace(&Server::start_with(&instance, &["--grace-period-hours", "3"])), 3);

    instance.write("countersign.toml", "[serve]\n\ngrace_period = 1\n");
    let (status, text) = refused(&instance);
    assert_eq!(status, Some(3));
    let meant = "unknown setting \"grace_period\" (did you mean \"grace_period_hours\"?)";
    assert_eq!(text, format!("error: INSTANCE/countersign.toml:3:1: {meant}"));
}

#[test]
fn a_server_listens_on_a_name_or_on_every_address_and_says_where() {
    let instance = Instance::new();
    for (listen, places) in [
        ("localhost:0", &["127.0.0.1:", "[::1]:"][..]),
        (":0", &["[::]:", "0.0.0.0:"]),
    ] {
        let mut server = countersign(&instance)
            .args(["serve", "--listen", listen, "--admin-listen", "off"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It says so when it listens, and ends at once when it cannot.
        let mut stdout = BufReader::new(server.stdout.take().unwrap());
        let mut said = String::new();
        stdout.read_line(&mut said).unwrap();
        let pid = server.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let output = server.wait_with_output().unwrap();
        assert!(
            places
                .iter()
                .any(|place| said.starts_with(&format!("listening on http://{place}"))),
            "{listen}: {said}"
        );
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(
            places
                .iter()
                .any(|place| log.contains(&format!("listening address={place}"))),
            "{listen}: {log}"
        );
    }
    let output = countersign(&instance)
        .args(["serve", "--listen", "nowhere.invalid:80", "--admin-listen", "off"])
        .output();
    let error = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(
        error.contains("cannot listen on nowhere.invalid:80") && error.contains("\nhint: "),
        "{error}"
    );
}
