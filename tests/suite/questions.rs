//! Commands ask the running server what sites reported, and nobody else may.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::hosted::{Hosted, hosting, link_of, publish};
use crate::management::{Shop, forms, token};
use crate::support::instance::{LATEST, question};
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, get, request};

const BUILD_ID: &str = "018f3b2e-7c1a-7000-8000-3f1c2d4e5f60";

fn run(instance: &Instance, arguments: &[&str]) -> Output {
    countersign(instance).args(arguments).output().unwrap()
}

#[track_caller]
fn json_of(instance: &Instance, arguments: &[&str]) -> Value {
    let output = run(instance, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What sites reported is stored some seconds later.
fn once_stored<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "the reports are not stored in time");
    }
}

/// An instance with a key for downloads, which `trace` and `review` need.
fn instance(license: &License, sites: u32) -> Instance {
    let instance = Instance::with_licenses(&[license.toml(&format!("sites = {sites}"))]);
    assert!(run(&instance, &["keys", "generate", "--downloads"]).status.success());
    instance
}

#[test]
fn a_running_server_tells_commands_what_sites_reported() {
    let license = License::new();
    let instance = instance(&license, 2);
    // Nobody is behind a pre-release.
    instance.publish_all("releases", LATEST, &[("99.0.0-beta.1", false), (LATEST, false)]);
    let server = Server::start(&instance);
    for host in ["a.com", "b.com"] {
        let mut question = question(&license, host);
        question["build_id"] = json!(BUILD_ID);
        assert_eq!(server.ask(&question).code(), "ok");
    }
    for number in 0..6 {
        let refused = server.validate(&license, &format!("host{number}.com"));
        assert_eq!(refused.code(), "bound_elsewhere");
    }
    assert_eq!(
        server
            .updates(&license, "a.com", &format!("&current_version={LATEST}"))
            .status,
        200
    );
    assert_eq!(server.updates(&license, "b.com", "&current_version=0.9.0").status, 200);

    let shown = once_stored(|| {
        let shown = json_of(&instance, &["license", "show", &license.id]);
        let sites = shown["bindings"].as_array().unwrap();
        let all_reported = sites.iter().all(|site| site["current_versions"].is_object());
        (sites.len() == 2 && all_reported).then_some(shown)
    });
    assert_eq!(shown["bindings"][0]["build_id"], BUILD_ID);
    assert_eq!(
        shown["bindings"][1]["current_versions"],
        json!({ "acme-forms": "0.9.0" })
    );

    let usage = json_of(&instance, &["usage", "acme-forms"]);
    assert_eq!(
        (&usage["sites"], &usage["silent"], &usage["latest"]),
        (&json!(2), &json!(0), &json!(LATEST))
    );
    let versions = usage["versions"].as_array().unwrap();
    let of = |version: &str| versions.iter().find(|used| used["version"] == version).unwrap();
    assert_eq!(
        (&of(LATEST)["releases_behind"], &of("0.9.0")["share"]),
        (&json!(0), &json!(0.5))
    );
    assert!(of("0.9.0").get("releases_behind").is_none(), "it was never published");
    let entry = instance.file("registry/plugins/acme-forms.toml");
    let text = std::fs::read_to_string(&entry).unwrap();
    std::fs::write(&entry, format!("withhold = [\"0.9.0\"]\n{text}")).unwrap();
    let withheld = json_of(&instance, &["usage", "acme-forms", "--version", "0.9"]);
    assert_eq!(
        (
            &withheld["versions"][0]["withheld"],
            &withheld["versions"][0]["releases_behind"]
        ),
        (&json!(null), &json!(null)),
        "0.9 is another version for PHP: {withheld}"
    );
    let withheld = json_of(&instance, &["usage", "acme-forms", "--version", "0.9.0"]);
    assert_eq!(withheld["versions"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (
            &withheld["versions"][0]["withheld"],
            &withheld["versions"][0]["releases_behind"]
        ),
        (&json!(true), &json!(1))
    );
    let sites = json_of(&instance, &["usage", "acme-forms", "--version", "0.9.0", "--sites"]);
    assert_eq!(
        (&sites[0]["host"], &sites[0]["license"], sites.as_array().map(Vec::len)),
        (&json!("b.com"), &json!(license.id), Some(1))
    );
    let table = run(&instance, &["usage", "acme-forms", "--sites"]).stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(
        table.starts_with("acme-forms: 2 sites in the last 30 days\nHOST "),
        "{table}"
    );
    assert!(table.contains(&license.id[..12]), "{table}");
    std::fs::write(&entry, text).unwrap();
    let unknown = run(&instance, &["usage", "acme-none"]);
    assert_eq!(unknown.status.code(), Some(3));

    let traced = json_of(&instance, &["trace", BUILD_ID]);
    assert_eq!(traced[0]["reported_by"].as_array().map(Vec::len), Some(2));
    let review = once_stored(|| {
        let review = json_of(&instance, &["review"]);
        (review["many_hosts"] != json!([])).then_some(review)
    });
    assert_eq!(review["odd_reports"].as_array().map(Vec::len), Some(2));
    assert_eq!(review["many_hosts"][0]["hosts"].as_array().map(Vec::len), Some(6));
    let exported = String::from_utf8(run(&instance, &["bindings", "export"]).stdout).unwrap();
    assert_eq!(exported.matches(BUILD_ID).count(), 2, "{exported}");

    // Beside a stopped server, the store says the same.
    server.stop();
    assert_eq!(json_of(&instance, &["review"]), review);
    assert_eq!(json_of(&instance, &["usage", "acme-forms"]), usage);
    assert_eq!(json_of(&instance, &["trace", BUILD_ID]), traced);
    assert_eq!(json_of(&instance, &["license", "show", &license.id]), shown);
}

#[test]
fn sites_of_a_withheld_version_are_listed_with_order_and_note_and_get_the_next_one() {
    let noted = License::new();
    let tables = [noted.toml("note = \"agency in Graz\"")];
    let (instance, packages) = hosting(&tables, &[("acme-forms", &[LATEST, "1.1.0"], true)]);
    for key in ["--issuing", "--references"] {
        assert!(run(&instance, &["keys", "generate", key]).status.success());
    }
    let server = Server::start(&instance);
    let bearer = token(&instance, "shop", &["licenses:write"]);
    let mut body = forms();
    body["reference"] = json!("order 7");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "7"),
    ];
    let target = "/api/v1/licenses";
    let ordered = license_of(&request(
        server.address,
        "POST",
        target,
        &headers,
        body.to_string().as_bytes(),
    ));
    let runs = |version: &str| format!("&current_version={version}");
    let offered = |license: &License, host: &str, version: &str| server.updates(license, host, &runs(version));
    for (license, host) in [(&ordered, "a.com"), (&noted, "b.com")] {
        assert_eq!(server.validate(license, host).code(), "ok");
        assert_eq!(offered(license, host, LATEST).text(), "{}");
    }
    let link = link_of(&server, "acme-forms", &noted, "b.com");
    assert_eq!(get(server.address, &link).status, 200);

    let entry = instance.file("registry/plugins/acme-forms.toml");
    let text = fs::read_to_string(&entry).unwrap();
    fs::write(&entry, format!("withhold = [\"{LATEST}\"]\n{text}")).unwrap();
    publish(&instance, &packages[1..]);
    eventually("the release is gone", || {
        offered(&noted, "b.com", "1.0.0").json()["version"] == "1.1.0"
    });
    // As docs/release-went-wrong.md says: it keeps what it has, and the link from before leads nowhere.
    assert_eq!(offered(&noted, "b.com", "1.1.0").text(), "{}");
    for (license, host) in [(&ordered, "a.com"), (&noted, "b.com")] {
        assert_eq!(offered(license, host, LATEST).text(), "{}");
    }
    assert_eq!(get(server.address, &link).status, 404);

    let arguments = ["usage", "acme-forms", "--version", LATEST, "--sites"];
    let table = once_stored(|| {
        let table = String::from_utf8(run(&instance, &arguments).stdout).unwrap();
        table.contains(": 2 sites").then_some(table)
    });
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let today = chrono::Utc::now().date_naive().to_string();
    let row = |host: &str| rows.iter().find(|row| row[0] == host).unwrap().clone();
    assert_eq!(
        rows[1],
        ["HOST", "VERSION", "LAST SEEN", "LICENSE", "ORDER", "NOTE"],
        "{table}"
    );
    assert_eq!(
        row("a.com"),
        ["a.com", LATEST, &today, &ordered.id[..12], "order 7"],
        "{table}"
    );
    assert_eq!(
        row("b.com"),
        ["b.com", LATEST, &today, &noted.id[..12], "-", "agency in Graz"],
        "{table}"
    );
    let sites = json_of(&instance, &arguments);
    let of = |host: &str| {
        sites
            .as_array()
            .unwrap()
            .iter()
            .find(|site| site["host"] == host)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&of("a.com")["reference"], &of("a.com")["note"]),
        (&json!("order 7"), &json!(null))
    );
    assert_eq!(
        (&of("b.com")["reference"], &of("b.com")["note"]),
        (&json!(null), &json!("agency in Graz"))
    );

    let mended = Hosted::new("acme-forms", "1.2.1", true);
    publish(&instance, &[mended, packages[1].clone()]);
    eventually("a greater version is offered", || {
        offered(&ordered, "a.com", LATEST).json()["version"] == "1.2.1"
    });
}

#[test]
fn more_sites_than_a_page_has_are_all_listed_once() {
    let licenses: Vec<License> = (0..1_200).map(|_| License::new()).collect();
    let tables: Vec<String> = licenses.iter().map(|license| license.toml("")).collect();
    let instance = Instance::with_licenses(&tables);
    let server = Server::start(&instance);
    thread::scope(|scope| {
        for (chunk, licenses) in licenses.chunks(150).enumerate() {
            let server = &server;
            scope.spawn(move || {
                for (number, license) in licenses.iter().enumerate() {
                    let host = format!("host{chunk}-{number}.com");
                    assert_eq!(server.validate(license, &host).code(), "ok");
                    assert_eq!(server.updates(license, &host, "&current_version=1.0").status, 200);
                }
            });
        }
    });
    let usage = once_stored(|| {
        let usage = json_of(&instance, &["usage", "acme-forms"]);
        (usage["sites"].as_u64()? >= 1_200).then_some(usage)
    });
    assert_eq!(usage["sites"], 1_200);
}

fn own_uid() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

/// Runs a program as root, who can give files away and be another user: at once, or through a `sudo` that asks for no password.
#[track_caller]
fn as_root(line: &[&str]) -> String {
    let line = match own_uid() {
        0 => line.to_vec(),
        _ => [&["sudo", "--non-interactive"], line].concat(),
    };
    let ended = Command::new(line[0]).args(&line[1..]).output();
    match ended {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        other => panic!("this test needs root, or a sudo without a password, to be another user: {line:?}: {other:?}"),
    }
}

/// Nothing that was kept for commands before they had a socket is in the instance.
#[track_caller]
fn assert_no_admin_json(instance: &Instance) {
    let mut folders = vec![instance.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            assert_ne!(entry.file_name(), "admin.json", "{}", entry.path().display());
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
}

/// What the server of this folder answers to the first question of a command.
fn greeting(store: &Path, version: &str) -> String {
    let store = fs::metadata(store).unwrap();
    let body = json!({ "version": version, "store": { "device": store.dev(), "inode": store.ino() } }).to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Listens in the place of a server, and gives each connection these answers, one a request. Tells what was sent.
fn impostor(socket: &Path, answers: Vec<String>) -> JoinHandle<String> {
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    fs::set_permissions(socket, Permissions::from_mode(0o600)).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut sent = String::new();
        for answer in answers {
            let mut some = [0; 65_536];
            let read = stream.read(&mut some).unwrap_or(0);
            sent += &String::from_utf8_lossy(&some[..read]);
            let _ = stream.write_all(answer.as_bytes());
        }
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        sent + &String::from_utf8_lossy(&rest)
    })
}

#[test]
fn the_socket_is_the_users_own_and_goes_with_its_server() {
    let license = License::new();
    let instance = instance(&license, 1);
    let server = Server::start(&instance);
    let socket = instance.file("store/admin.sock");
    let found = fs::symlink_metadata(&socket).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(
        fs::metadata(instance.file("store")).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let names: Vec<_> = fs::read_dir(instance.file("store"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !names.iter().any(|name| name.to_string_lossy().contains("admin.sock.")),
        "{names:?}"
    );
    // A part of a request holds up neither commands nor the end of the server.
    let mut silent = UnixStream::connect(&socket).unwrap();
    silent
        .write_all(b"POST /tokens HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        .unwrap();
    assert_eq!(json_of(&instance, &["review"])["odd_reports"], json!([]));
    assert_no_admin_json(&instance);
    server.stop();
    assert!(!socket.exists());
    assert_no_admin_json(&instance);

    let server = Server::start(&instance);
    server.kill();
    assert_no_admin_json(&instance);
    // What a killed server left says that no server runs, and the next one replaces it.
    assert!(socket.exists());
    assert_eq!(json_of(&instance, &["review"])["odd_reports"], json!([]));
    let server = Server::start(&instance);
    assert_eq!(json_of(&instance, &["review"])["odd_reports"], json!([]));
    // It does not take away what is not its own.
    fs::rename(&socket, instance.file("store/aside.sock")).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    server.stop();
    assert!(socket.exists());
}

#[test]
fn after_a_crash_a_command_works_on_the_store_and_says_that_no_server_runs() {
    let shop = Shop::open(&[]);
    let issued = license_of(&shop.issue("1", &forms()));
    let Shop { instance, server, .. } = shop;
    server.kill();
    let output = run(&instance, &["license", "revoke", &issued.id]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && stderr.contains("note: no server runs: "),
        "{stderr}"
    );
    let shown = json_of(&instance, &["license", "show", &issued.id]);
    assert_eq!(shown["status"], "revoked");
    let server = Server::start(&instance);
    assert_eq!(server.validate(&issued, "a.com").code(), "revoked");
}

#[test]
fn a_socket_that_another_user_may_have_made_gets_nothing() {
    let license = License::new();
    let instance = instance(&license, 1);
    let server = Server::start(&instance);
    let socket = instance.file("store/admin.sock");
    let refused = |expected: &'static str| {
        let listening = impostor(&socket, Vec::new());
        move |instance: &Instance| {
            for arguments in [&["review"][..], &["token", "list"]] {
                let output = run(instance, arguments);
                let stderr = String::from_utf8(output.stderr).unwrap();
                assert!(
                    output.status.code() == Some(4) && stderr.contains(expected),
                    "{expected}: {stderr}"
                );
            }
            let _ = UnixStream::connect(instance.file("store/admin.sock")).unwrap();
            assert_eq!(listening.join().unwrap(), "", "{expected}");
        }
    };
    let open_to_all = refused("others can use it, so nothing was sent");
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    open_to_all(&instance);
    let loose = refused("everybody can write in its folder, so nothing was sent");
    fs::set_permissions(instance.file("store"), Permissions::from_mode(0o777)).unwrap();
    loose(&instance);
    fs::set_permissions(instance.file("store"), Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(&socket).unwrap();
    symlink(instance.file("store/elsewhere.sock"), &socket).unwrap();
    let stderr = String::from_utf8(run(&instance, &["review"]).stderr).unwrap();
    assert!(stderr.contains("it is not a socket, so nothing was sent"), "{stderr}");
    fs::remove_file(&socket).unwrap();
    let given = refused("it belongs to another user, so nothing was sent");
    as_root(&["chown", "65534", socket.to_str().unwrap()]);
    given(&instance);
    drop(server);
}

#[test]
fn nobody_else_is_answered_and_the_log_says_who_ordered_a_change() {
    let shop = Shop::open(&[]);
    let issued = license_of(&shop.issue("1", &forms()));
    let Shop { instance, server, .. } = &shop;
    let own = own_uid();
    for (user, expected) in [
        (
            "alice",
            format!("command{{uid={own} claimed=\"alice\"}}: changed license="),
        ),
        // What cannot be a name does not reach the log.
        ("a b", format!("command{{uid={own}}}: changed license=")),
    ] {
        let verb = if user == "alice" { "suspend" } else { "resume" };
        let done = countersign(instance)
            .args(["license", verb, &issued.id])
            .env("SUDO_USER", user)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(server.log().contains(&expected), "{expected}: {}", server.log());
    }
    let made = countersign(instance)
        .args(["token", "create", "x", "--scope", "keys:read"])
        .env("SUDO_USER", "bob")
        .output()
        .unwrap();
    assert!(made.status.success());
    let expected = format!("command{{uid={own} claimed=\"bob\"}}: changed a token token=x");
    assert!(server.log().contains(&expected), "{}", server.log());
    // Somebody else, for whom folder and socket were opened by mistake.
    let store = instance.file("store");
    let socket = store.join("admin.sock");
    fs::set_permissions(instance.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&store, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let script = "$SIG{PIPE} = 'IGNORE'; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, pack_sockaddr_un($ARGV[0])) or die $!;
        syswrite(S, \"GET /tokens HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\"); sysread(S, my $answer, 100); print \"connected<$answer>\";";
    let printed = as_root(&[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "perl",
        "-MSocket",
        "-e",
        script,
        socket.to_str().unwrap(),
    ]);
    assert_eq!(printed, "connected<>");
    assert!(
        server.log().contains("turned a command of another user away uid=65534"),
        "{}",
        server.log()
    );
}

#[test]
fn a_server_without_its_socket_serves_sites_and_says_so() {
    let license = License::new();
    let instance = instance(&license, 1);
    fs::create_dir(instance.file("store")).unwrap();
    fs::write(instance.file("store/admin.sock"), "mine").unwrap();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert!(
        server
            .log()
            .contains("cannot make the admin socket: commands cannot reach this server")
            && server.log().contains("something else has this name"),
        "{}",
        server.log()
    );
    assert_eq!(fs::read(instance.file("store/admin.sock")).unwrap(), b"mine");
    let output = run(&instance, &["review"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(4) && stderr.contains("it is not a socket"),
        "{stderr}"
    );
    server.stop();
    assert_eq!(fs::read(instance.file("store/admin.sock")).unwrap(), b"mine");
}

#[test]
fn the_socket_may_be_elsewhere_and_its_path_as_long_as_a_path_may_be() {
    let license = License::new();
    let long = Instance::with_licenses(&[license.toml("")]);
    let deep = format!("{}/run", ["folder-with-a-long-name"; 12].join("/"));
    let socket = long.file(&deep).join("admin.sock");
    assert!(socket.as_os_str().len() > 250);
    long.write(
        "countersign.toml",
        &format!("serve.admin_socket = \"{deep}/admin.sock\"\n"),
    );
    let server = Server::start(&long);
    assert_eq!(json_of(&long, &["token", "list"]), json!([]));
    assert!(socket.exists() && !long.file("store/admin.sock").exists());
    assert_eq!(
        fs::metadata(long.file(&deep)).unwrap().permissions().mode() & 0o777,
        0o700
    );
    // The variable counts for every command.
    let other = Instance::new();
    let listed = |instance: &Instance| {
        let output = countersign(instance)
            .args(["token", "list"])
            .env("COUNTERSIGN_ADMIN_SOCKET", &socket)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(listed(&long), (Some(0), String::new()));
    let elsewhere = Server::start(&other);
    let (exit, error) = listed(&other);
    assert!(
        exit == Some(4) && error.contains("is not the one of this store"),
        "{error}"
    );
    elsewhere.stop();
    // A server does not take the socket of another one that lives.
    let second = Server::start_with(&other, &["--admin-socket", socket.to_str().unwrap()]);
    assert!(second.log().contains("another server listens here"), "{}", second.log());
    second.stop();
    assert_eq!(json_of(&long, &["token", "list"]), json!([]));
    server.stop();
    assert!(!socket.exists());
}

#[test]
fn a_server_that_does_not_tell_is_one_clear_message() {
    let license = License::new();
    let instance = instance(&license, 1);
    let server = Server::start(&instance);
    let socket = instance.file("store/admin.sock");
    let refusal = || {
        let output = run(&instance, &["review"]);
        assert_eq!(output.status.code(), Some(4));
        String::from_utf8(output.stderr).unwrap()
    };
    let own = greeting(&instance.file("store"), "99.0.0");
    let other = greeting(instance.path(), "99.0.0");
    let of = |status: &str, body: &str| format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for (answers, expected) in [
        (vec![String::new()], " does not answer: "),
        (vec![other], "is not the one of this store"),
        (vec![of("404 Not Found", "")], "which does not answer this"),
        (vec![of("200 OK", "[]")], "which does not answer this"),
        (
            vec![own.clone(), of("404 Not Found", "")],
            "is version 99.0.0, which does not answer this; the command is version ",
        ),
        (
            vec![own.clone(), of("200 OK", "[]")],
            "is version 99.0.0, which does not answer this",
        ),
        (
            vec![own, of("503 No", "busy\n")],
            "does not tell what sites reported: busy",
        ),
    ] {
        let once = impostor(&socket, answers);
        let text = refusal();
        assert!(text.contains(expected) && text.contains("hint: "), "{expected}: {text}");
        once.join().unwrap();
    }
    fs::remove_file(&socket).unwrap();
    let text = refusal();
    assert!(
        text.starts_with("error: commands cannot reach the server\ncaused by: there is no ")
            && text.contains("hint: is the server running? If it is, ")
            && text.contains("AF_UNIX"),
        "{text}"
    );
    // A command that can tell the rest does so.
    let shown = run(&instance, &["license", "show", &license.id]);
    assert!(shown.status.success());
    assert!(String::from_utf8_lossy(&shown.stderr).contains("note: what its sites reported is not shown"));
    drop(server);
}
