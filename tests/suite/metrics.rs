//! The admin listener: metrics are correct and documented by name, and none of it is public.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::certificate::{Certificate, flags};
use crate::support::http::{Client, request};
use crate::support::instance::question;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, eventually_within, get};

#[test]
fn every_metric_is_in_the_docs_with_its_type_and_every_documented_one_is_there() {
    let instance = Instance::new();
    Certificate::new("any", 30).install(&instance);
    let tls = flags(&instance);
    let server = Server::start_with(&instance, &tls.each_ref().map(String::as_str));
    let response = get(server.admin, "/metrics");
    assert_eq!(
        response.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let page = response.text();
    assert!(page.ends_with("# EOF\n"));
    let served: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| format!("| `{name}{}` | {kind} |", if kind == "counter" { "_total" } else { "" }))
        .collect();
    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md")).unwrap();
    let rows = docs
        .lines()
        .filter(|line| line.starts_with("| `countersign_") || line.starts_with("| `process_"));
    let documented: BTreeSet<String> = rows
        .map(|row| row.split('|').take(3).collect::<Vec<_>>().join("|") + "|")
        .collect();
    assert!(served.len() > 20);
    assert_eq!(served, documented);
}

#[test]
fn requests_are_counted_by_operation_and_outcome() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--requests-per-license", "4"]);
    server.validate(&license, "a.com");
    server.validate(&license, "b.com");
    server.updates(&license, "a.com", "");
    server.updates(&license, "a.com", "&current_version=9");
    server.updates(&license, "a.com", "");
    server.updates(&License::new(), "a.com", "");
    get(server.address, "/index.html");
    get(server.address, "/nothing");
    let requests = |operation, code| {
        server.metric(&format!(
            "countersign_requests_total{{operation=\"{operation}\",code=\"{code}\"}}"
        ))
    };
    for (operation, code) in [
        ("validate", "ok"),
        ("validate", "bound_elsewhere"),
        ("updates", "update"),
        ("updates", "up_to_date"),
        ("updates", "too_many_requests"),
        ("updates", "unknown_license"),
        ("public", "ok"),
        ("public", "not_found"),
    ] {
        assert_eq!(requests(operation, code), Some(1.0), "{operation} {code}");
    }
    for (series, value) in [
        ("countersign_request_duration_seconds_count{operation=\"updates\"}", 4.0),
        ("countersign_rate_limited_total{limit=\"license\"}", 1.0),
        ("countersign_signing_wait_seconds_count", 2.0),
        ("countersign_ledger_sync_seconds_count", 1.0),
        ("countersign_bindings", 1.0),
        ("countersign_licenses{standing=\"active\"}", 1.0),
        ("countersign_licenses{standing=\"expired\"}", 0.0),
        ("countersign_plugins", 3.0),
        ("countersign_releases", 1.0),
        ("countersign_part_state{part=\"store\",state=\"ok\"}", 1.0),
    ] {
        assert_eq!(server.metric(series), Some(value), "{series}");
    }
    assert!(server.metric("process_resident_memory_bytes").unwrap() > 1e6);
    instance.publish("1.3.0");
    eventually_within("the reload is counted", Duration::from_secs(20), || {
        server
            .metric("countersign_reloads_total{part=\"catalog\",result=\"done\"}")
            .unwrap()
            >= 1.0
    });
    assert!(
        server
            .metric("countersign_last_reload_timestamp_seconds{part=\"catalog\"}")
            .unwrap()
            > 1.7e9
    );
}

#[test]
fn what_the_http_library_refuses_by_itself_is_counted() {
    let instance = Instance::new();
    let server = Server::start(&instance);
    let fields = "X: y\r\n".repeat(101);
    for (request, status) in [
        ("no request\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{fields}\r\n"), 431),
    ] {
        let mut client = Client::connect(server.address);
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.receive().unwrap().status, status);
    }
    for code in ["malformed_request", "headers_too_large"] {
        let series = format!("countersign_requests_total{{operation=\"public\",code=\"{code}\"}}");
        eventually(code, || server.metric(&series) == Some(1.0));
    }
}

#[test]
fn clients_that_hang_up_before_their_answer_are_counted() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let server = Server::start(&instance);
    let mut sites = 0..;
    // Some are answered before the server sees that nobody listens.
    eventually("one is counted", || {
        let body = question(&license, &format!("s{}.com", sites.next().unwrap())).to_string();
        let head = format!(
            "POST /api/v1/validate-license HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Client::connect(server.address).send((head + &body).as_bytes()).unwrap();
        server.metric("countersign_requests_abandoned_total").unwrap() > 0.0
    });
}

#[test]
fn the_first_internal_error_and_the_first_failing_reload_are_an_increase() {
    let instance = Instance::new();
    let server = Server::start(&instance);
    for operation in ["validate", "updates", "public"] {
        let series = format!("countersign_requests_total{{operation=\"{operation}\",code=\"internal\"}}");
        assert_eq!(server.metric(&series), Some(0.0), "{operation}");
    }
    let reloads = |part| {
        server.metric(&format!(
            "countersign_reloads_total{{part=\"{part}\",result=\"failed\"}}"
        ))
    };
    assert_eq!(
        (reloads("registry"), reloads("store")),
        (Some(0.0), None),
        "the store is never loaded again"
    );
}

#[test]
fn health_and_metrics_are_no_business_of_the_public() {
    let server = Server::start(&Instance::new());
    for target in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(server.address, target).status, 404, "{target}");
        assert_eq!(get(server.admin, target).status, 200, "{target}");
    }
    // Commands have a socket of their own.
    let commands = [
        "/reports",
        "/refused",
        "/tokens",
        "/licenses",
        "/imports",
        "/texts",
        "/license-defaults",
    ];
    for target in ["/", "/index.html", "/api/v1/validate-license"]
        .into_iter()
        .chain(commands)
    {
        for method in ["GET", "POST"] {
            let answer = request(server.admin, method, target, &[("Authorization", "Bearer 00")], b"{}");
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (404, "not_found"),
                "{method} {target}"
            );
        }
    }
}

#[test]
fn the_admin_listener_answers_for_this_machine_and_for_no_foreign_name() {
    let server = Server::start_with(&Instance::new(), &["--admin-hosts", "metrics.example.com,countersign"]);
    let ask = |lines: &str| {
        let mut client = Client::connect(server.admin);
        client.send(format!("GET {lines}\r\n").as_bytes()).unwrap();
        client.receive().unwrap()
    };
    let port = server.admin.port();
    for target in ["/healthz", "/readyz", "/metrics", "/nothing"] {
        let status = if target == "/nothing" { 404 } else { 200 };
        for host in [
            format!("127.0.0.1:{port}"),
            "[::1]".to_owned(),
            format!("localhost:{port}"),
            "METRICS.example.com".to_owned(),
            format!("countersign:{port}"),
        ] {
            assert_eq!(
                ask(&format!("{target} HTTP/1.1\r\nHost: {host}\r\n")).status,
                status,
                "{host}"
            );
        }
        for lines in [
            format!("{target} HTTP/1.1\r\nHost: evil.example\r\n"),
            format!("{target} HTTP/1.1\r\nHost: evil.example:{port}\r\n"),
            format!("{target} HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n"),
            format!("{target} HTTP/1.0\r\nHost: evil.example\r\n"),
            format!("http://evil.example{target} HTTP/1.1\r\nHost: localhost\r\n"),
        ] {
            let answer = ask(&lines);
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (421, "misdirected_request"),
                "{lines}"
            );
        }
        // As HTTP has it: a host is a must since 1.1 (RFC 9112 section 3.2).
        assert_eq!(ask(&format!("{target} HTTP/1.0\r\n")).status, status);
        assert_eq!(ask(&format!("{target} HTTP/1.1\r\n")).status, 400);
    }
    // The public listener is behind proxies and names of every kind.
    let mut client = Client::connect(server.address);
    client
        .send(b"GET /index.html HTTP/1.1\r\nHost: licenses.example.com\r\n\r\n")
        .unwrap();
    assert_ne!(client.receive().unwrap().status, 421);
}

/// A server that is started by hand; it is killed when it is dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_admin_listener_can_be_switched_off_and_a_taken_port_is_reported_with_what_to_do() {
    let instance = Instance::new();
    let serve = |admin: &str| {
        let mut command = countersign(&instance);
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", admin]);
        command
    };
    let spawned = serve("off")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Started(spawned);
    let mut stderr = server.0.stderr.take().unwrap();
    let mut log = String::new();
    while !log.contains("listening") {
        let mut some = [0; 4096];
        let read = stderr.read(&mut some).unwrap();
        assert!(read > 0, "the server did not start: {log}");
        log += &String::from_utf8_lossy(&some[..read]);
    }
    server.0.kill().unwrap();
    let mut printed = String::new();
    server.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed.lines().count(), 1, "one listener: {printed}");

    let other = Server::start(&instance);
    let output = serve(&other.admin.to_string()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4));
    let hint = "hint: choose another address with --admin-listen, or switch it off: --admin-listen off\n";
    assert!(
        text.contains(&format!("error: cannot listen on {}", other.admin)) && text.ends_with(hint),
        "{text}"
    );
}
