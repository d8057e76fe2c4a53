//! The public folder: which files are served, which never, and what keeps a server from starting.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::instance::shared_keys;
use crate::support::server::countersign;
use crate::support::{Instance, Response, Server, eventually, get, request};

fn ask(server: &Server, target: &str, headers: &[(&str, &str)]) -> Response {
    request(server.address, "GET", target, headers, b"")
}

#[test]
fn links_lead_nowhere_outside_and_what_is_not_meant_to_be_seen_is_not_there() {
    let instance = Instance::new();
    for file in [
        "public/.env",
        "public/.git/config",
        "public/sub/.htpasswd",
        "public/config.php~",
        "public/a.bak",
        "public/a.swp",
        "public/a.orig",
        "public/#a#",
        "public/.well-known/security.txt",
        "public/sub/page.html",
    ] {
        instance.write(file, "seen\n");
    }
    symlink(
        "../registry/licenses/licenses.toml",
        instance.file("public/licenses.txt"),
    )
    .unwrap();
    symlink(instance.file("keys/signing.pem"), instance.file("public/key.pem")).unwrap();
    symlink("../releases", instance.file("public/releases")).unwrap();
    symlink("/etc", instance.file("public/etc")).unwrap();
    symlink("sub/page.html", instance.file("public/link.html")).unwrap();
    let server = Server::start(&instance);
    for target in [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/sub/.htpasswd",
        "/config.php~",
        "/a.bak",
        "/a.swp",
        "/a.orig",
        "/%23a%23",
        "/licenses.txt",
        "/key.pem",
        "/releases/index.json",
        "/etc/passwd",
        "/sub/../../keys/signing.pem",
    ] {
        let response = get(server.address, target);
        assert_eq!(
            (response.status, response.code().as_str()),
            (404, "not_found"),
            "{target}"
        );
    }
    for target in ["/.well-known/security.txt", "/sub/page.html", "/link.html"] {
        let response = get(server.address, target);
        assert_eq!((response.status, response.text().as_str()), (200, "seen\n"), "{target}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{target}");
    }
}

#[test]
fn a_private_key_that_is_put_there_while_the_server_runs_is_not_served_and_is_logged() {
    let instance = Instance::new();
    let server = Server::start(&instance);
    let padding = "x".repeat(200_000);
    for (name, text) in [
        ("key.pem", shared_keys().private.clone()),
        ("backup.txt", format!("{padding}\n{}", shared_keys().private)),
        (
            "account.json",
            serde_json::json!({ "private_key": shared_keys().private }).to_string(),
        ),
    ] {
        instance.write(&format!("public/{name}"), &text);
        assert_eq!(get(server.address, &format!("/{name}")).status, 404, "{name}");
        let part = ask(&server, &format!("/{name}"), &[("Range", "bytes=100-200")]);
        assert_eq!(part.status, 404, "{name}");
        eventually("it is logged", || server.log().contains(&format!("file={name}")));
    }
    instance.write("public/key.pub.pem", &shared_keys().public);
    assert_eq!(get(server.address, "/key.pub.pem").status, 200);
}

#[test]
fn a_pipe_or_a_device_holds_neither_a_request_nor_the_process() {
    let instance = Instance::new();
    let pipe = instance.file("public/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let server = Server::start_with(&instance, &["--drain-seconds", "1"]);
    for _ in 0..20 {
        assert_eq!(get(server.address, "/pipe").status, 404);
    }
    assert!(server.stop().success());
}

#[test]
fn a_server_does_not_start_with_what_nobody_may_read_in_its_public_folder_and_doctor_says_the_same() {
    let verdicts = |instance: &Instance, flags: &[&str]| {
        let mut serve = countersign(instance);
        serve
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
            .args(flags);
        // A server that starts would run for ever.
        let mut bounded = Command::new("timeout");
        bounded.arg("20").arg(serve.get_program()).args(serve.get_args());
        let Output { status, stderr, .. } = bounded.output().unwrap();
        let doctor = countersign(instance)
            .args(["doctor", "--json"])
            .args(flags)
            .output()
            .unwrap();
        let findings: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let all = findings
            .as_array()
            .cloned()
            .or_else(|| findings["findings"].as_array().cloned())
            .unwrap();
        let public = all.into_iter().find(|finding| finding["part"] == "public").unwrap();
        (status.code(), String::from_utf8(stderr).unwrap(), public)
    };
    let whole = Instance::new();
    let at = whole.path().display().to_string();
    let linked = Instance::new();
    symlink(linked.path(), linked.file("shown")).unwrap();
    let shown = linked.file("shown").display().to_string();
    let held = Instance::new();
    held.write("public/old/.key.txt", &shared_keys().private);
    let releases = Instance::new();
    let acme = releases.file("releases/acme-forms").display().to_string();
    for (instance, flags, message) in [
        (&whole, vec!["--public", &at], "the registry and the public folder"),
        (&linked, vec!["--public", &shown], "the registry and the public folder"),
        (&releases, vec!["--public", &acme], "the releases and the public folder"),
        (&held, vec![], "public/old/.key.txt: a private key in the public folder"),
    ] {
        let (status, error, doctor) = verdicts(instance, &flags);
        assert_eq!(status, Some(3), "{error}");
        assert!(error.contains(message) && error.contains("\nhint: "), "{error}");
        assert_eq!(doctor["verdict"], "broken", "{doctor}");
        assert!(doctor["finding"].as_str().unwrap().contains(message), "{doctor}");
        assert!(
            !instance.file("store").exists(),
            "a server that does not start leaves nothing behind"
        );
    }
}

#[test]
fn conditions_and_ranges_are_answered_by_the_book_and_counted_as_what_they_are() {
    let instance = Instance::new();
    let long: String = (0..200_000)
        .map(|number| char::from(b'a' + (number % 26) as u8))
        .collect();
    instance.write("public/long.txt", &long);
    instance.write("public/short.txt", "0123456789");
    let server = Server::start(&instance);
    let whole = ask(&server, "/short.txt", &[]);
    let etag = whole.header("etag").unwrap().to_owned();
    let modified = whole.header("last-modified").unwrap().to_owned();
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    for known in [
        ("If-None-Match", etag.as_str()),
        ("If-Modified-Since", &modified),
        ("If-None-Match", "*"),
    ] {
        let response = ask(&server, "/short.txt", &[known]);
        assert_eq!((response.status, response.body.len()), (304, 0), "{known:?}");
        assert_eq!(response.header("etag"), Some(etag.as_str()));
    }
    for demanded in [
        ("If-Match", "\"other\""),
        ("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"),
    ] {
        let response = ask(&server, "/short.txt", &[demanded]);
        assert_eq!(
            (response.status, response.code().as_str()),
            (412, "precondition_failed"),
            "{demanded:?}"
        );
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
    }
    let response = ask(&server, "/short.txt", &[("Range", "bytes=10-")]);
    assert_eq!(
        (response.status, response.code().as_str()),
        (416, "range_not_satisfiable")
    );
    assert_eq!(response.header("content-range"), Some("bytes */10"));
    for (target, range, expected, content_range) in [
        ("/short.txt", "bytes=2-4", "234", "bytes 2-4/10"),
        ("/short.txt", "bytes=-3", "789", "bytes 7-9/10"),
        (
            "/long.txt",
            "bytes=100000-199999",
            &long[100_000..],
            "bytes 100000-199999/200000",
        ),
        (
            "/long.txt",
            "bytes=70000-70009",
            &long[70_000..70_010],
            "bytes 70000-70009/200000",
        ),
    ] {
        let response = ask(&server, target, &[("Range", range)]);
        assert_eq!(
            (response.status, response.text().as_str()),
            (206, expected),
            "{target} {range}"
        );
        assert_eq!(
            response.header("content-range"),
            Some(content_range),
            "{target} {range}"
        );
    }
    for ignored in [
        &[("Range", "bytes=0-1"), ("If-Range", "\"other\"")][..],
        &[("Range", "lines=1-2")],
    ] {
        let response = ask(&server, "/long.txt", ignored);
        assert_eq!((response.status, response.text()), (200, long.clone()), "{ignored:?}");
    }
    let counted = |code| {
        server.metric(&format!(
            "countersign_requests_total{{operation=\"public\",code=\"{code}\"}}"
        ))
    };
    for (code, count) in [
        ("ok", 3.0),
        ("not_modified", 3.0),
        ("precondition_failed", 2.0),
        ("range_not_satisfiable", 1.0),
        ("partial_content", 4.0),
    ] {
        assert_eq!(counted(code), Some(count), "{code}");
    }
}

#[test]
fn what_is_not_there_is_not_there_for_any_method() {
    let instance = Instance::new();
    let server = Server::start(&instance);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        for (target, status) in [
            ("/nothing", 404),
            ("/.env", 404),
            ("/api/v1/updates/", 404),
            ("/index.html", 405),
            ("/", 405),
        ] {
            let response = request(server.address, method, target, &[], b"");
            assert_eq!(response.status, status, "{method} {target}");
            assert_eq!(
                response.header("allow"),
                (status == 405).then_some("GET, HEAD"),
                "{method} {target}"
            );
        }
    }
}

#[test]
fn a_file_that_is_replaced_or_cut_while_it_is_sent_is_never_mixed() {
    let instance = Instance::new();
    let text = |letter: &str| letter.repeat(3 << 20);
    instance.write("public/large.txt", &text("a"));
    let server = Server::start(&instance);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for letter in ["b", "a"].into_iter().cycle() {
                instance.write("public/large.txt", &text(letter));
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..30 {
            let body = get(server.address, "/large.txt").body;
            assert!(body.len() == 3 << 20 && body.iter().all(|byte| *byte == body[0]));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let cut = fs::OpenOptions::new()
        .write(true)
        .open(instance.file("public/large.txt"))
        .unwrap();
    cut.set_len(10).unwrap();
    eventually("it is served as it is", || {
        get(server.address, "/large.txt").body.len() == 10
    });
}
