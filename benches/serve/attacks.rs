//! Slow-connection attacks: time-outs close all of them, and ordinary requests are not affected.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::updates;
use crate::instance::Instance;
use crate::paced::{self, Paced, p99};
use crate::process::Server;
use crate::report::{Target, heading, row};

/// Longer than every time-out.
const PATIENCE: Duration = Duration::from_secs(90);

/// Descriptors that an ordinary server opens and closes meanwhile.
const SLACK: usize = 8;

struct Attack {
    name: &'static str,
    connections: usize,
    /// What each connection sends first.
    opening: String,
    /// What it sends every second then.
    more: &'static str,
}

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 100_000, true, 3072)?;
    let attack = |name, connections, opening: &str, more| Attack {
        name,
        connections,
        opening: opening.to_owned(),
        more,
    };
    let post = "POST /api/v1/validate-license HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{";
    // Many answers, none of them read.
    let greedy = paced::get(&updates(0, "")).repeat(1_500);
    heading("hostile connections, with 200 ordinary updates/s beside them");
    for attack in [
        attack("silent", 10_000, "", ""),
        attack("half headers", 10_000, "GET / HTTP/1.1\r\nHost: a\r\nX-A: ", ""),
        attack(
            "huge headers",
            2_000,
            &format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {}", "a".repeat(60_000)),
            "",
        ),
        attack("slow bodies", 2_000, post, " "),
        attack("slow readers", 200, &greedy, ""),
    ] {
        endure(&instance, &attack)?;
    }
    Ok(())
}

fn endure(instance: &Instance, attack: &Attack) -> io::Result<()> {
    let server = Server::countersign(&instance.folder)?;
    let all = instance.licenses;
    let ordinary = Arc::new(move |at: usize| paced::get(&updates(at % all, "&current_version=1.19.0")));
    let load = Paced::start(server.address, 16, 200.0, ordinary);
    std::thread::sleep(Duration::from_secs(1));
    let before = server.descriptors();
    let began = Instant::now();
    let mut held = open(server.address, attack)?;
    let reached = server.descriptors() - before;
    let mut most = server.memory().0;
    while server.descriptors() > before + SLACK && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_secs(1));
        most = most.max(server.memory().0);
        for stream in held.iter_mut().filter(|_| !attack.more.is_empty()) {
            // A connection that is closed already is what is waited for.
            let _ = stream.write(attack.more.as_bytes());
        }
    }
    let left = server.descriptors().saturating_sub(before + SLACK);
    let took = began.elapsed().as_secs_f64();
    let end = Instant::now();
    drop(held);
    let answers = load.stop()?;
    let Attack { name, connections, .. } = attack;
    row(
        &format!("{connections} {name}: left open after {took:.0} s (held {reached})"),
        left as f64,
        "",
        Target::AtMost(0.0),
    );
    row(
        "    ordinary requests' p99",
        p99(&answers, &[began..end], None) * 1e3,
        "ms",
        Target::AtMost(20.0),
    );
    row("    resident at most", most, "MiB", Target::AtMost(400.0));
    Ok(())
}

fn open(address: SocketAddr, attack: &Attack) -> io::Result<Vec<TcpStream>> {
    (0..attack.connections)
        .map(|_| {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            // What the server does not take is not sent, and what it refuses early is refused.
            let _ = stream.write(attack.opening.as_bytes());
            Ok(stream)
        })
        .collect()
}
