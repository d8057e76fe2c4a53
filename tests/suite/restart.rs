//! A restart behind a socket that systemd keeps open refuses no client and loses no request.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::server::countersign;
use crate::support::{Instance, License, eventually};

/// A server that stops waits half a second for a request that is on its way. A client that had no turn for nearly as long may lose it.
const LATE: Duration = Duration::from_millis(400);

/// `serve` with a socket as its descriptor 3, as systemd starts it.
fn serve_behind(instance: &Instance, socket: OwnedFd, listen: &str) -> Command {
    let plain = countersign(instance);
    let mut command = Command::new("sh");
    let pass_on = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    command
        .args(["-c", pass_on, "sh"])
        .arg(plain.get_program())
        .args(plain.get_args());
    command.args(["serve", "--admin-listen", "off", "--listen", listen]);
    for limit in [
        "--requests-per-minute",
        "--requests-per-license",
        "--failures-per-minute",
        "--connections-per-address",
    ] {
        command.args([limit, "4000000000"]);
    }
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running server, killed when it is dropped.
struct Served(Child);

impl Served {
    fn start(instance: &Instance, socket: &TcpListener) -> Self {
        let listen = socket.local_addr().unwrap().to_string();
        let mut command = serve_behind(instance, socket.try_clone().unwrap().into(), &listen);
        let mut child = Self(command.stderr(Stdio::null()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, format!("listening on http://{listen}\n"));
        child
    }

    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What one client sent and how much of it was answered.
#[derive(Default)]
struct Asked {
    answered: AtomicUsize,
    lost: AtomicUsize,
    connections: AtomicUsize,
}

impl Asked {
    /// Validates until `end`, on a connection for each request or on one as long as the server lets it.
    fn ask(&self, address: SocketAddr, license: &License, keeps: bool, end: &AtomicBool) {
        let body = question(license, "https://a.example").to_string();
        let request = format!(
            "POST /api/v1/validate-license HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // With the end of the last request, after which the server may wait for the next one.
        let mut kept: Option<(Client, Instant)> = None;
        while !end.load(Ordering::Relaxed) {
            let opened = Instant::now();
            let client = kept.take().map_or_else(
                || {
                    self.connections.fetch_add(1, Ordering::Relaxed);
                    Client::try_connect(address).map(|client| (client, opened))
                },
                Ok,
            );
            let mut waited = Duration::ZERO;
            let answer = client.and_then(|(mut client, since)| {
                let sent = client.send(request.as_bytes());
                let now = Instant::now();
                waited = now.duration_since(since);
                sent?;
                let answer = client.receive()?;
                Ok((client, now, answer))
            });
            match answer {
                Ok((client, sent, answer)) if answer.code() == "ok" => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    if keeps && answer.header("connection") != Some("close") {
                        kept = Some((client, sent));
                    }
                }
                // The server did not wait for it any more. The next connection is the one that it was asked to make.
                Err(_) if waited >= LATE => {}
                _ => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[test]
fn a_restart_behind_a_socket_that_stays_open_loses_no_request() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let end = AtomicBool::new(false);
    let [fresh, kept] = [(); 2].map(|()| [(); 4].map(|()| Asked::default()));
    let answered = || -> Vec<usize> {
        let clients = fresh.iter().chain(&kept);
        clients.map(|client| client.answered.load(Ordering::Relaxed)).collect()
    };
    let first = Served::start(&instance, &socket);
    let last = thread::scope(|scope| {
        let mut server = first;
        for client in &fresh {
            scope.spawn(|| client.ask(address, &license, false, &end));
        }
        for client in &kept {
            scope.spawn(|| client.ask(address, &license, true, &end));
        }
        // However slow the machine is.
        let each_is_answered = || {
            let before = answered();
            eventually("each client is answered", || {
                answered().iter().zip(&before).all(|(now, before)| now > &(before + 5))
            });
        };
        for _ in 0..3 {
            each_is_answered();
            server.stop();
            // Longer than a client would try again if it was refused.
            thread::sleep(Duration::from_millis(300));
            server = Served::start(&instance, &socket);
        }
        each_is_answered();
        end.store(true, Ordering::Relaxed);
        server
    });
    last.stop();
    for client in fresh.iter().chain(&kept) {
        assert!(client.answered.load(Ordering::Relaxed) > 20);
        assert_eq!(client.lost.load(Ordering::Relaxed), 0);
    }
    // Each was asked to come again at each of the three restarts, and at no other time.
    for client in &kept {
        assert_eq!(client.connections.load(Ordering::Relaxed), 4);
    }
}

#[test]
fn a_socket_that_nothing_serves_or_that_is_none_is_refused() {
    let instance = Instance::new();
    let refused = |socket: OwnedFd, reason: &str| {
        let output = serve_behind(&instance, socket, "127.0.0.1:0").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(reason) && said.contains("countersign.socket"), "{said}");
    };
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let unused = format!("systemd passed a socket on {address}, on which no part of the server listens");
    refused(socket.into(), &unused);
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    refused(
        datagrams.into(),
        "systemd passed descriptor 3, which is no listening TCP socket",
    );
}
