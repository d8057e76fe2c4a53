//! The server's answers when it fails itself: a store that cannot write, an overload, a bug.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use countersign::serve;
use countersign::serve::hooks::Hooks;
use countersign_ledger::{InjectedFault, StoreError};
use countersign_settings::config::{Config, PathSettings, ServeSettings};
use serde_json::{Value, json};

use crate::support::http::Client;
use crate::support::instance::{new_keys, question};
use crate::support::{Instance, License, Response, Server, get, post_json};

const VALIDATE: &str = "/api/v1/validate-license";

/// Where a server answers whom.
struct Addresses {
    public: SocketAddr,
    admin: SocketAddr,
}

/// Serves in this process, on a store that fails, for one test.
fn with_broken_store(fault: InjectedFault, test: impl FnOnce(Addresses, &License) + Send + 'static) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let settings = ServeSettings {
        request_timeout_seconds: NonZeroU32::new(4),
        ..ServeSettings::default()
    };
    let config = Config::load(instance.path(), &PathSettings::default(), &settings).unwrap();
    let loaded = serve::load(&config.paths, serve::AcceptedDrops::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = serve::Server::start(
            &config.serve,
            &config.paths.public,
            loaded,
            countersign_ledger::open_failing(&config.paths.store, fault).unwrap(),
            Hooks::none(),
        )
        .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = Addresses {
            public: listener.local_addr().unwrap(),
            admin: admin.local_addr().unwrap(),
        };
        let asked = tokio::task::spawn_blocking(move || test(addresses, &license));
        server
            .with_admin(admin, Vec::new())
            .run(listener, async { asked.await.unwrap() })
            .await;
    });
}

fn assert_unavailable(response: &Response, status: u16, code: &str, detail: &str) {
    let title = if status == 500 {
        "Internal Server Error"
    } else {
        "Service Unavailable"
    };
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let body = response.json();
    let request_id = body["request_id"].as_str().unwrap().to_owned();
    assert!(uuid::Uuid::try_parse(&request_id).is_ok_and(|id| !id.is_nil()));
    let expected = json!({
        "type": "about:blank", "title": title, "status": status, "detail": detail, "code": code, "request_id": request_id,
    });
    assert_eq!((response.status, body), (status, expected));
}

#[test]
fn a_store_that_cannot_write_is_unavailable_for_new_sites_and_shows_on_readyz() {
    with_broken_store(
        || Some(StoreError::NotDurable("no space left".into())),
        |Addresses { public: address, admin }, license| {
            let response = post_json(address, VALIDATE, &question(license, "a.com"));
            let detail = "The server cannot bind new sites now. Sites that are already bound are not affected. Try again in 60 seconds.";
            assert_unavailable(&response, 503, "store_unavailable", detail);
            assert_eq!(response.header("retry-after"), Some("60"));

            let ready = get(admin, "/readyz");
            assert_eq!((ready.status, &ready.json()["ready"]), (503, &json!(false)));
            let store = &ready.json()["parts"]["store"];
            assert_eq!(
                (&store["state"], &store["since"]),
                (&json!("failing"), &json!("1970-01-01T00:00:00Z"))
            );
            assert_eq!(get(admin, "/healthz").status, 200, "the process is alive all the same");
        },
    );
}

#[test]
fn a_store_with_too_much_to_do_is_an_overload() {
    with_broken_store(
        || Some(StoreError::Busy),
        |Addresses { public: address, .. }, license| {
            let response = post_json(address, VALIDATE, &question(license, "a.com"));
            assert_unavailable(&response, 503, "overloaded", "Try again in 5 seconds.");
        },
    );
}

#[test]
fn a_request_has_one_deadline_for_its_body_its_binding_and_its_signature() {
    with_broken_store(
        || None,
        |Addresses { public, admin }, license| {
            let body = question(license, "a.com").to_string();
            let head = format!(
                "POST {VALIDATE} HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let mut client = Client::connect(public);
            client.send(head.as_bytes()).unwrap();
            let started = Instant::now();
            // Half of the time goes into the body.
            thread::sleep(Duration::from_secs(2));
            client.send(body.as_bytes()).unwrap();
            let response = client.receive().unwrap();
            let took = started.elapsed();
            assert_eq!((response.status, response.code().as_str()), (408, "request_timeout"));
            assert!(
                took < Duration::from_millis(5_900),
                "4 s from the head on, and not from the body: {took:?}"
            );
            let counted = "countersign_requests_total{operation=\"validate\",code=\"request_timeout\"} 1";
            assert!(get(admin, "/metrics").text().lines().any(|line| line == counted));
        },
    );
}

#[test]
fn a_bug_is_an_internal_error_with_an_id_and_nothing_else() {
    with_broken_store(
        || panic!("a bug, made by the test"),
        |Addresses { public: address, admin }, license| {
            let response = post_json(address, VALIDATE, &question(license, "a.com"));
            let detail = "The server failed. Its log has the reason under this request id.";
            assert_unavailable(&response, 500, "internal", detail);
            assert_eq!(response.header("retry-after"), None);
            assert_eq!(get(admin, "/healthz").status, 200, "the next request is answered");
        },
    );
}

#[test]
fn more_statements_than_can_be_signed_soon_are_turned_away() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.write_key(&new_keys(4096).private);
    let server = Server::start_with(&instance, &["--signing-queue", "1"]);
    server.validate(&license, "a.com");
    let address = server.address;
    let question = question(&license, "a.com");
    let ask = |question: Value| {
        move || -> Vec<Response> { (0..20).map(|_| post_json(address, VALIDATE, &question)).collect() }
    };
    let clients: Vec<_> = (0..32).map(|_| thread::spawn(ask(question.clone()))).collect();
    let answers: Vec<Response> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    let (signed, turned_away): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(!signed.is_empty() && signed.iter().all(|answer| answer.code() == "ok"));
    assert!(!turned_away.is_empty(), "32 clients outrun a queue of one");
    for response in turned_away {
        assert_unavailable(response, 503, "overloaded", "Try again in 5 seconds.");
        assert_eq!(response.header("retry-after"), Some("5"));
    }
}
