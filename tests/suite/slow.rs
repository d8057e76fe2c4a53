//! Slow clients, in a bounded number: each kind is closed by its own time-out, and ordinary requests are answered
//! meanwhile.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::server::updates;
use crate::support::{Instance, License, Server, eventually, get};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than a request takes on a busy machine, also where its first packet is lost and sent again after a second, and shorter than the
/// time-outs of six seconds.
const LONG: Duration = Duration::from_secs(5);

/// Longer than any time-out here, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

fn connect(server: &Server, count: usize, first: &str) -> Vec<Client> {
    let open = |_| {
        let mut client = Client::connect(server.address);
        client.send(first.as_bytes()).unwrap();
        client
    };
    (0..count).map(open).collect()
}

/// Asks ordinary questions until no connection but the asker's own is open; gives the slowest answer's time.
fn answered_until_they_are_gone(server: &Server, license: &License) -> Duration {
    let mut slowest = Duration::ZERO;
    eventually("all are closed", || {
        let started = Instant::now();
        assert_eq!(server.updates(license, "a.com", "").status, 200);
        slowest = slowest.max(started.elapsed());
        server.metric("countersign_connections").unwrap() <= 1.0
    });
    slowest
}

fn timed_out(server: &Server, reason: &str) -> f64 {
    server
        .metric(&format!(
            "countersign_connections_timed_out_total{{reason=\"{reason}\"}}"
        ))
        .unwrap()
}

fn serve(flags: &[&str]) -> (License, Instance, Server) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.write("public/large.bin", &"x".repeat(12 << 20));
    let server = Server::start_with(&instance, flags);
    // A second, where a test gives no more, may be too short on a busy machine.
    eventually("the site is bound", || {
        server.validate(&license, "a.com").code() == "ok"
    });
    (license, instance, server)
}

#[test]
fn silent_connections_and_half_heads_are_closed_by_the_header_timeout() {
    let (license, _instance, server) = serve(&["--header-timeout-seconds", "6"]);
    let mut silent = connect(&server, 150, "");
    let mut half = connect(&server, 150, "GET /index.html HTTP/1.1\r\nHost: t\r\nX-Slow: ");
    // A byte now and then does not buy time.
    let trickling = thread::spawn(move || {
        let started = Instant::now();
        while started.elapsed() < SOON && half.iter_mut().all(|client| client.send(b"x").is_ok()) {
            thread::sleep(Duration::from_millis(100));
        }
        (started.elapsed(), half)
    });
    let slowest = answered_until_they_are_gone(&server, &license);
    assert!(slowest < LONG, "an ordinary request took {slowest:?}");
    let (trickled, _half) = trickling.join().unwrap();
    assert!(trickled < SOON, "the half heads were closed");
    assert!(
        silent
            .iter_mut()
            .all(|client| client.receive().is_err_and(|e| e.kind() == ErrorKind::UnexpectedEof))
    );
    // On a busy machine some were not accepted yet when the first look found nobody.
    eventually("all are counted", || timed_out(&server, "header") == 300.0);
}

#[test]
fn an_idle_connection_is_closed_in_order_and_has_longer_than_a_head() {
    let (_license, _instance, server) = serve(&["--header-timeout-seconds", "2", "--idle-timeout-seconds", "6"]);
    let mut client = Client::connect(server.address);
    assert_eq!(client.request("GET", "/index.html", &[], b"").status, 200);
    let mut silent = Client::connect(server.address);
    assert!(silent.receive().is_err(), "closed, as long after it as a head may take");
    assert_eq!(client.request("GET", "/index.html", &[], b"").status, 200, "still open");
    let started = Instant::now();
    assert_eq!(
        client.receive().unwrap_err().kind(),
        ErrorKind::UnexpectedEof,
        "closed, and not reset"
    );
    assert!((4 * SECOND..SOON).contains(&started.elapsed()));
    assert_eq!((timed_out(&server, "idle"), timed_out(&server, "header")), (1.0, 1.0));
}

#[test]
fn slow_bodies_get_a_408_however_they_trickle() {
    let (license, _instance, server) = serve(&["--request-timeout-seconds", "6"]);
    let body = question(&license, "a.com").to_string();
    let head = format!(
        "POST /api/v1/validate-license HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut slow = connect(&server, 100, &head);
    let trickling = thread::spawn(move || {
        for byte in body.bytes().take(5) {
            for client in &mut slow {
                // On a busy machine the answer may have come, and the connection may be closed.
                let _ = client.send(&[byte]);
            }
            thread::sleep(Duration::from_millis(100));
        }
        slow.into_iter()
            .map(|mut client| client.receive().unwrap())
            .collect::<Vec<_>>()
    });
    let slowest = answered_until_they_are_gone(&server, &license);
    assert!(slowest < LONG, "an ordinary request took {slowest:?}");
    for response in trickling.join().unwrap() {
        assert_eq!((response.status, response.code().as_str()), (408, "request_timeout"));
        assert_eq!(response.header("connection"), Some("close"));
    }
}

#[test]
fn slow_readers_are_closed_by_the_write_timeout() {
    let (license, _instance, server) = serve(&["--write-timeout-seconds", "6"]);
    let deaf = connect(&server, 6, "GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n");
    let slowest = answered_until_they_are_gone(&server, &license);
    assert!(slowest < LONG, "an ordinary request took {slowest:?}");
    // On a busy machine some were not accepted yet when the first look found nobody.
    eventually("all are counted", || timed_out(&server, "write") == deaf.len() as f64);
    assert_eq!(
        get(server.address, "/large.bin").body.len(),
        12 << 20,
        "a client that takes it gets it"
    );
}

#[test]
fn requests_that_wait_for_no_answer_are_answered_in_their_order() {
    let (license, instance, server) = serve(&[]);
    instance.write("public/middle.txt", &"middle ".repeat(6 << 10));
    let targets = [
        updates("acme-forms", &license, "a.com", ""),
        "/middle.txt".to_owned(),
        updates("nosuch", &license, "a.com", ""),
        updates("acme-forms", &license, "a.com", "&current_version=99"),
    ];
    let expected = targets
        .each_ref()
        .map(|target| get(server.address, target))
        .map(|answer| (answer.status, answer.body));
    assert_eq!(expected.each_ref().map(|(status, _)| *status), [200, 200, 404, 200]);
    let mut client = Client::connect(server.address);
    let request = |at: usize| format!("GET {} HTTP/1.1\r\nHost: t\r\n\r\n", targets[at % targets.len()]);
    client
        .send((0..40).map(request).collect::<String>().as_bytes())
        .unwrap();
    for at in 0..40 {
        let answer = client.receive().unwrap();
        assert!(
            (answer.status, answer.body) == expected[at % expected.len()],
            "answer {at}"
        );
    }
}

#[test]
fn huge_heads_are_refused_when_they_are_too_large_and_closed_when_they_are_slow() {
    let (license, _instance, server) = serve(&["--header-timeout-seconds", "6"]);
    let start = "GET /index.html HTTP/1.1\r\nHost: t\r\nX-Huge: ";
    let mut full = connect(&server, 50, &format!("{start}{}", "x".repeat((16 << 10) - start.len())));
    let mut huge = connect(&server, 50, &format!("{start}{}", "x".repeat(32 << 10)));
    let slow = connect(&server, 100, &format!("{start}{}", "x".repeat(12 << 10)));
    let slowest = answered_until_they_are_gone(&server, &license);
    assert!(slowest < LONG, "an ordinary request took {slowest:?}");
    assert!(
        full.iter_mut().all(|client| client.receive().unwrap().status == 431),
        "all of it was read, and refused"
    );
    // What was sent and not read can reset the connection before the answer is taken.
    assert!(
        huge.iter_mut()
            .all(|client| client.receive().map_or(true, |response| response.status == 431))
    );
    // As with slow readers: the first look may have found nobody.
    eventually("all are counted", || timed_out(&server, "header") == slow.len() as f64);
}
