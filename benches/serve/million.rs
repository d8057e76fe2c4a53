//! A million bound licenses: memory, the start after each kind of stop, one changed license, and how the cost grows.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{get, updates};
use crate::instance::{Instance, license_line};
use crate::paced::{self, Paced, p99};
use crate::process::Server;
use crate::report::{Target, heading, median, row};
use crate::wrk::Questions;

pub const MILLION: usize = 1_000_000;

/// Licenses that are asked about, spread over all: as many for each size, so that wrk does the same.
const ASKED: usize = 100_000;

pub const ROUNDS: usize = 5;

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, MILLION, true, 3072)?;
    heading("1,000,000 licenses as JSON lines, each bound");
    Server::countersign(&instance.folder)?.stop()?;
    let server = Server::countersign(&instance.folder)?;
    row(
        "start after a clean stop",
        server.started_in.as_secs_f64(),
        "s",
        Target::AtMost(10.0),
    );
    let (resident, most) = server.memory();
    row(
        &format!("resident after the start (at most {most:.0} MiB on the way)"),
        resident,
        "MiB",
        Target::AtMost(400.0),
    );
    spread(bench, MILLION)?.ask(&server, Duration::from_secs(5))?;
    row(
        "resident after 5 s of load",
        server.memory().0,
        "MiB",
        Target::AtMost(400.0),
    );
    drop(server);
    let server = Server::countersign(&instance.folder)?;
    row(
        "start after kill -9",
        server.started_in.as_secs_f64(),
        "s",
        Target::AtMost(30.0),
    );
    drop(server);
    fs::remove_dir_all(instance.file("store/index"))?;
    let server = Server::countersign(&instance.folder)?;
    row(
        "start after kill -9 and the loss of the index",
        server.started_in.as_secs_f64(),
        "s",
        Target::AtMost(30.0),
    );
    change_one(&instance, &server)?;
    grow(bench, server)
}

/// Measures how long a server with ten million licenses and no site takes to start, and its memory a license.
pub fn run_ten(bench: &Path) -> io::Result<()> {
    let licenses = 10 * MILLION;
    let instance = Instance::new(bench, licenses, false, 3072)?;
    heading("10,000,000 licenses as JSON lines");
    let server = Server::countersign(&instance.folder)?;
    row("start", server.started_in.as_secs_f64(), "s", Target::AtMost(30.0));
    let (resident, most) = server.memory();
    let label = format!("resident a license ({resident:.0} MiB, at most {most:.0} on the way)");
    row(
        &label,
        resident * 1_048_576.0 / licenses as f64,
        "B",
        Target::AtMost(160.0),
    );
    server.stop()
}

/// One license is revoked in an export of a million, under 1,000 updates a second.
fn change_one(instance: &Instance, server: &Server) -> io::Result<()> {
    let changed = MILLION / 2;
    let revoke = |status: &str| -> io::Result<()> {
        let mut lines = BufWriter::new(fs::File::create(instance.file("registry/licenses/export.new~"))?);
        for number in 0..MILLION {
            writeln!(
                lines,
                "{}",
                license_line(number, if number == changed { status } else { "active" })
            )?;
        }
        lines.flush()
    };
    let publish = || {
        fs::rename(
            instance.file("registry/licenses/export.new~"),
            instance.file("registry/licenses/export.jsonl"),
        )
    };
    revoke("revoked")?;
    let ask = Arc::new(move |at: usize| paced::get(&updates(at * 997 % MILLION, "&current_version=1.19.0")));
    let load = Paced::start(server.address, 64, 1_000.0, ask);
    std::thread::sleep(Duration::from_secs(5));
    publish()?;
    let began = Instant::now();
    while get(server.address, &updates(changed, ""))?.status != 403 && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = began.elapsed();
    let before = began - Duration::from_secs(4);
    // What is replaced is freed after it.
    std::thread::sleep(Duration::from_secs(1));
    let end = Instant::now();
    let answers = load.stop()?;
    row(
        "one license changed: in force after",
        took.as_secs_f64(),
        "s",
        Target::AtMost(2.0),
    );
    let quiet = p99(&answers, &[before..began], None);
    let busy = p99(&answers, &[began..end], None);
    let figure = format!("    p99 meanwhile : before ({:.2} : {:.2} ms)", busy * 1e3, quiet * 1e3);
    row(&figure, busy / quiet, "x", Target::AtMost(2.0));
    let (resident, most) = server.memory();
    row(
        &format!("    resident afterwards (at most {most:.0} MiB on the way)"),
        resident,
        "MiB",
        Target::None,
    );
    revoke("active")?;
    publish()
}

/// CPU time and requests a second with 1,000, 100,000 and 1,000,000 licenses, in turns.
fn grow(bench: &Path, million: Server) -> io::Result<()> {
    heading("how updates grow with the licenses (medians of 5)");
    let sizes = [1_000, ASKED, MILLION];
    let small = sizes[..2]
        .iter()
        .map(|&size| Server::countersign(&Instance::new(bench, size, true, 3072)?.folder));
    let servers: Vec<Server> = small.chain([Ok(million)]).collect::<io::Result<_>>()?;
    let mut runs = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for ((server, runs), size) in servers.iter().zip(&mut runs).zip(sizes) {
            runs.push(spread(bench, size)?.ask(server, Duration::from_secs(2))?);
        }
    }
    let cpu = runs.each_ref().map(|runs| median(runs.iter().map(|run| run.cpu)));
    let rate = runs.each_ref().map(|runs| median(runs.iter().map(|run| run.rate)));
    let spread = |figures: [f64; 3]| {
        figures.iter().copied().fold(0.0, f64::max) / figures.iter().copied().fold(f64::MAX, f64::min)
    };
    let [a, b, c] = cpu.map(|cpu| cpu * 1e6);
    row(
        &format!("CPU a request, most : least ({a:.2}, {b:.2}, {c:.2} µs)"),
        spread(cpu),
        "x",
        Target::AtMost(1.1),
    );
    let [a, b, c] = rate;
    row(
        &format!("    requests/s, most : least ({a:.0}, {b:.0}, {c:.0})"),
        spread(rate),
        "x",
        Target::None,
    );
    Ok(())
}

/// Questions about licenses spread over all `licenses`.
pub fn spread(bench: &Path, licenses: usize) -> io::Result<Questions> {
    // 997 has no factor in common with the sizes. The number makes each question another one: wrk holds equal ones
    // once, and would have less to do for few licenses.
    let ask = move |at: usize| updates(at * 997 % licenses, &format!("&current_version=1.19.0&n={at}"));
    Questions::new(bench, &format!("spread-{licenses}"), (0..ASKED).map(ask))
}
