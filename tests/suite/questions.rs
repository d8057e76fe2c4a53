//! Commands ask the running server what sites reported, and nobody else may.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::http::request;
use crate::support::instance::{LATEST, question};
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, get};

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

/// The token, as it stands in the store.
fn token(instance: &Instance) -> String {
    let file: Value = serde_json::from_slice(&fs::read(instance.file("store/admin.json")).unwrap()).unwrap();
    file["token"].as_str().unwrap().to_owned()
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
        let all_told = sites.iter().all(|site| site["current_versions"].is_object());
        (sites.len() == 2 && all_told).then_some(shown)
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
fn more_sites_than_a_page_has_are_all_told_once() {
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

#[test]
fn only_who_can_read_the_servers_own_file_is_told() {
    let license = License::new();
    let instance = instance(&license, 1);
    let server = Server::start(&instance);
    let file = instance.file("store/admin.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let right = format!("Bearer {}", token(&instance));
    let wrong = format!("Bearer {}", "0".repeat(64));
    let defaults = |headers: &[(&str, &str)]| request(server.admin, "GET", "/license-defaults", headers, b"");
    assert_eq!(defaults(&[("Authorization", &right)]).json()["staging_sites"], 1);
    assert_eq!(
        [defaults(&[]), defaults(&[("Authorization", &wrong)])].map(|answer| answer.status),
        [401; 2]
    );
    for path in ["/reports", "/refused"] {
        let ask = |method: &str, query: &str, headers: &[(&str, &str)]| {
            request(server.admin, method, &format!("{path}{query}"), headers, b"").status
        };
        assert_eq!(ask("GET", "", &[("Authorization", &right)]), 200);
        assert_eq!(ask("GET", "", &[]), 401);
        assert_eq!(ask("GET", "", &[("Authorization", &wrong)]), 401);
        assert_eq!(ask("GET", "", &[("Authorization", &right[..right.len() - 1])]), 401);
        // Who has no token does not even learn whether the question is well formed.
        assert_eq!(ask("GET", "?after=x", &[("Authorization", &wrong)]), 401);
        assert_eq!(ask("GET", "?after=x", &[("Authorization", &right)]), 400);
        assert_eq!(ask("GET", "?unknown=x", &[("Authorization", &right)]), 404);
        assert_eq!(ask("POST", "", &[("Authorization", &right)]), 405);
        assert_eq!(get(server.address, path).status, 404, "not on the public listener");
    }
    let old = token(&instance);
    assert!(!server.log().contains(&old));
    server.stop();
    assert!(!file.exists());
    let server = Server::start(&instance);
    assert_ne!(token(&instance), old);
    server.kill();
    // What a killed server left is neither believed nor in the way.
    assert!(file.exists());
    assert_eq!(json_of(&instance, &["review"])["odd_reports"], json!([]));
    let server = Server::start(&instance);
    assert_eq!(json_of(&instance, &["review"])["odd_reports"], json!([]));
    drop(server);
}

#[test]
fn a_server_that_does_not_tell_is_one_clear_message() {
    let license = License::new();
    let instance = instance(&license, 1);
    let server = Server::start(&instance);
    let file = instance.file("store/admin.json");
    let told = || {
        let output = run(&instance, &["review"]);
        assert_eq!(output.status.code(), Some(4));
        String::from_utf8(output.stderr).unwrap()
    };
    for (answer, expected) in [
        ("", "the running server does not answer on"),
        (
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
            "is not the one of this store",
        ),
        (
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            "is another version",
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]", "is another version"),
        (
            "HTTP/1.1 503 No\r\ncontent-length: 5\r\n\r\nbusy\n",
            "does not tell what sites reported: busy",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let once = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 4_096]).unwrap();
            assert!(read > 0);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        fs::write(&file, json!({ "address": address, "token": "t" }).to_string()).unwrap();
        let text = told();
        assert!(text.contains(expected) && text.contains("hint: "), "{text}");
        once.join().unwrap();
    }
    fs::write(&file, "{").unwrap();
    assert!(told().contains("admin.json cannot be read"));
    fs::remove_file(&file).unwrap();
    let text = told();
    assert!(
        text.contains("does not say where it answers") && text.contains("hint: restart the server"),
        "{text}"
    );
    // A command that can tell the rest does so.
    let shown = run(&instance, &["license", "show", &license.id]);
    assert!(shown.status.success());
    assert!(String::from_utf8_lossy(&shown.stderr).contains("note: what its sites reported is not shown"));
    drop(server);
}
