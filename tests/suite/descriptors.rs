//! File descriptors and the table of connections: a client with many connections does not lock out others.

mod connections;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use connections::{connect_from, raise_own_limit};

use crate::support::certificate::{self, Certificate};
use crate::support::http::Client;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, get};

/// The most tries of a scenario that a busy machine may delay too much.
const TRIES: usize = 5;

/// One request and its answer, so that the connection waits for the next one.
fn idle(from: Ipv4Addr, address: SocketAddr) -> Option<Client> {
    let mut client = connect_from(from, address).ok()?;
    client.try_request("GET", "/index.html", &[], b"").ok().map(|_| client)
}

impl Server {
    /// The same where it may open so many files: the soft limit and the hard one.
    pub fn start_with_descriptors(instance: &Instance, soft: u64, hard: u64, flags: &[&str]) -> Self {
        let plain = countersign(instance);
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--nofile={soft}:{hard}"))
            .arg(plain.get_program())
            .args(plain.get_args());
        Self::start_command(command, flags)
    }

    /// It may open so many files from now on.
    pub fn limit_descriptors(&self, soft: u64) {
        let pid = self.pid().to_string();
        let limit = format!("--nofile={soft}:");
        assert!(
            Command::new("prlimit")
                .args(["--pid", &pid, &limit])
                .status()
                .unwrap()
                .success()
        );
    }
}

#[test]
fn idle_connections_of_five_addresses_keep_neither_reloads_nor_new_clients_nor_the_admin_listener_waiting() {
    raise_own_limit();
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with_descriptors(&instance, 1_024, 1_024, &["--connections-per-address", "256"]);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let mut held = Vec::new();
    for network in 2..7 {
        held.extend((0..250).map_while(|_| idle(Ipv4Addr::new(127, 0, 0, network), server.address)));
    }
    assert_eq!(held.len(), 1_250, "each of them was taken and answered");
    assert_eq!(get(server.admin, "/readyz").status, 200);
    instance.write_licenses(&[license.toml("status = \"suspended\"")]);
    eventually("the reload", || {
        server.validate(&license, "a.com").code() == "suspended"
    });
    assert!(server.metric("countersign_connections_evicted_total").unwrap() > 800.0);
    assert_eq!(server.metric("process_max_fds"), Some(1_024.0));
    let clamped = server.metric("countersign_connections_limit").unwrap();
    assert!(clamped < 512.0, "{clamped}");
    let log = server.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(
        warnings[0].contains("max_connections") && warnings[0].contains("LimitNOFILE"),
        "{warnings:?}"
    );
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    let instance = Instance::new();
    let server = Server::start_with_descriptors(&instance, 256, 12_000, &[]);
    assert_eq!(server.metric("process_max_fds"), Some(12_000.0));
    assert_eq!(server.metric("countersign_connections_limit"), Some(4_096.0));
    assert!(!server.log().contains("WARN"), "{}", server.log());
}

#[test]
fn too_many_open_files_are_logged_once_and_the_server_is_well_again_by_itself() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    // A connection that is open already needs no descriptor.
    let mut admin = Client::connect(server.admin);
    let mut refused = || {
        let page = admin.request("GET", "/metrics", &[], b"").text();
        let series = "countersign_connections_refused_total{reason=\"accept\"} ";
        page.lines()
            .find_map(|line| line.strip_prefix(series))
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    assert_eq!(refused(), 0.0);
    // Fewer than it has open: the next accept fails, and those that are tried again do, too.
    server.limit_descriptors(4);
    let mut waiting = Client::connect(server.address);
    waiting
        .send(b"GET /index.html HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    let complaints = || server.log().matches("cannot accept connections").count();
    eventually("it is logged", || complaints() > 0);
    eventually("more accepts fail", || refused() > 3.0);
    server.limit_descriptors(1_024);
    assert_eq!(waiting.receive().unwrap().status, 200);
    assert_eq!(complaints(), 1, "{}", server.log());
    assert!(server.log().contains("error=Too many open files"), "{}", server.log());
}

#[test]
fn a_full_table_closes_who_waits_longest_and_never_who_has_a_request_under_way() {
    let instance = Instance::new();
    instance.write("public/large.bin", &"x".repeat(12 << 20));
    let was_in_time = (0..TRIES).any(|_| {
        let server = Server::start_with(&instance, &["--max-connections", "4"]);
        let mut reading = Client::connect(server.address);
        reading.send(b"GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
        assert_eq!(reading.receive_head().unwrap().status, 200);
        let mut asking = Client::connect(server.address);
        asking
            .send(b"POST /api/v1/validate-license HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{")
            .unwrap();
        let begun = Instant::now();
        let mut beginning = Client::connect(server.address);
        beginning.send(b"GET /index.html HTTP/1.1\r\nHo").unwrap();
        let mut waiting = Client::connect(server.address);
        assert_eq!(waiting.request("GET", "/index.html", &[], b"").status, 200);
        for _ in 0..20 {
            assert_eq!(get(server.address, "/index.html").status, 200);
        }
        // A head that takes longer than a second may go, too.
        if begun.elapsed() > Duration::from_secs(1) {
            return false;
        }
        assert!(waiting.receive().is_err(), "closed");
        asking.send(b"}").unwrap();
        assert_eq!(asking.receive().unwrap().code(), "missing_field");
        beginning.send(b"st: t\r\n\r\n").unwrap();
        assert_eq!(beginning.receive().unwrap().status, 200);
        assert_eq!(reading.receive_body(12 << 20).unwrap().len(), 12 << 20);
        true
    });
    assert!(was_in_time, "twenty requests take longer than a second each time");
}

#[test]
fn a_table_full_of_half_heads_or_half_handshakes_keeps_no_client_waiting_for_the_header_timeout() {
    let instance = Instance::new();
    Certificate::new("localhost", 30).install(&instance);
    let tls = certificate::flags(&instance);
    let in_clear: &[&str] = &["--max-connections", "8", "--header-timeout-seconds", "60"];
    let with_tls: Vec<&str> = in_clear.iter().copied().chain(tls.iter().map(String::as_str)).collect();
    let with_tls = [&with_tls[..], &["--tls-handshake-timeout-seconds", "60"]].concat();
    for (flags, half) in [
        (in_clear, &b"GET / HTTP/1.1\r\nHo"[..]),
        (&with_tls, &b"\x16\x03\x01\x02\x00\x01"[..]),
    ] {
        let server = Server::start_with(&instance, flags);
        let mut halves: Vec<Client> = (0..8).map(|_| Client::connect(server.address)).collect();
        for client in &mut halves {
            client.send(half).unwrap();
        }
        let begun = Instant::now();
        let mut newcomer = Client::connect(server.address);
        newcomer.send(b"GET /index.html HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
        // With TLS the server answers in the clear that it speaks TLS.
        assert!(matches!(newcomer.receive().unwrap().status, 200 | 400));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}

#[test]
fn the_table_evicts_in_the_order_in_which_connections_began_to_wait() {
    let instance = Instance::new();
    let ask = |client: &mut Client| assert_eq!(client.request("GET", "/index.html", &[], b"").status, 200);
    let was_one_evicted = (0..TRIES).any(|_| {
        let server = Server::start_with(&instance, &["--max-connections", "3"]);
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..3 {
            let mut client = Client::connect(server.address);
            ask(&mut client);
            // Longer than a tick of the clock that orders them.
            std::thread::sleep(Duration::from_millis(200));
            clients.push(client);
        }
        // The eldest connection asks again, and has waited the shortest time then.
        ask(&mut clients[0]);
        std::thread::sleep(Duration::from_millis(200));
        let mut newcomer = Client::connect(server.address);
        ask(&mut newcomer);
        assert!(clients[1].receive().is_err(), "it waited longest");
        // On a busy machine it may close so slowly that the next one goes, too.
        if server.metric("countersign_connections_evicted_total") != Some(1.0) {
            return false;
        }
        ask(&mut clients[0]);
        ask(&mut clients[2]);
        ask(&mut newcomer);
        true
    });
    assert!(was_one_evicted, "more than one is evicted each time");
}

#[test]
fn the_admin_listener_answers_while_the_public_table_is_full_of_requests_under_way() {
    let instance = Instance::new();
    let server = Server::start_with(&instance, &["--max-connections", "2"]);
    let _held: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = Client::connect(server.address);
            client
                .send(b"POST /api/v1/validate-license HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{")
                .unwrap();
            client
        })
        .collect();
    eventually("the table is full", || {
        server.metric("countersign_connections") == Some(2.0)
    });
    assert_eq!(get(server.admin, "/readyz").status, 200);
}

#[test]
fn doctor_shows_the_limit_as_the_server_would_have_it() {
    let instance = Instance::new();
    let descriptors = |limit: u64| {
        let plain = countersign(&instance);
        let mut command = std::process::Command::new("prlimit");
        command
            .arg(format!("--nofile={limit}:{limit}"))
            .arg(plain.get_program())
            .args(plain.get_args());
        let output = command.args(["doctor", "--json"]).output().unwrap();
        let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = findings
            .as_array()
            .cloned()
            .or_else(|| findings["findings"].as_array().cloned())
            .unwrap();
        all.into_iter()
            .find(|finding| finding["part"] == "descriptors")
            .unwrap()
    };
    let few = descriptors(1_024);
    assert_eq!(few["verdict"], "warning");
    assert!(
        few["finding"].as_str().unwrap().contains("1,024") && few["hint"].as_str().unwrap().contains("LimitNOFILE")
    );
    assert_eq!(descriptors(12_000)["verdict"], "ok");
}
