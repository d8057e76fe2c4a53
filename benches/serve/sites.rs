//! How many sites one machine can serve: each validates once a day and asks for updates twice.
//!
//! Requests arrive at an even pace, whether or not earlier ones were answered (open loop). Each connection has its
//! own schedule, and the first requests are spread over one period, so there is no rush at the start. Half of the
//! requests use an open connection, half a new one. The load runs at nice 15: at equal priority it would starve the
//! signing threads, which run at nice 10 on the same cores.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{updates, validation};
use crate::instance::Instance;
use crate::paced::{get, post, receive};
use crate::process::Server;
use crate::report::{Target, heading, percentile, row};
use crate::validate::sign_alone;

const LICENSES: usize = 100_000;

/// Sites that one validation a second serves, at one validation a day.
const SITES_PER_VALIDATION: f64 = 86_400.0;

/// Share of the machine's raw signing rate at which the target is asked.
const SHARE: f64 = 0.70;

/// The load rises by so much until a 99th percentile is beyond its bound.
const STEP: f64 = 0.05;

/// The 99th percentile may be so many times what one signature takes.
const SIGNATURES: f64 = 20.0;

/// Connections of each of the four streams: validations and updates, kept and new.
const CONNECTIONS: usize = 64;

/// Answers of this first stretch do not count.
const WARM_UP: Duration = Duration::from_secs(2);

/// How long each load is measured.
const STRETCH: Duration = Duration::from_secs(15);

const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(bench: &Path) -> io::Result<()> {
    for bits in [3072, 2048] {
        let instance = Instance::new(bench, LICENSES, true, bits)?;
        let (raw, signature) = sign_alone(&instance)?;
        let bound = SIGNATURES * signature;
        heading(&format!(
            "sites with a key of {bits} bits: {raw:.0} signatures/s alone, {:.2} ms each; p99 may be {:.1} ms",
            signature * 1e3,
            bound * 1e3
        ));
        let server = Server::countersign(&instance.folder)?;
        let at_target = measure(&server, SHARE * raw)?;
        at_target.print(SHARE, bound);
        // Upwards as long as the bound is met, or downwards until it is.
        let goes_up = at_target.is_within(bound);
        let step = if goes_up { STEP } else { -STEP };
        let mut highest = goes_up.then_some((SHARE, at_target.sites()));
        let mut share = SHARE + step;
        while share > STEP / 2.0 && share < 1.0 {
            let load = measure(&server, share * raw)?;
            let is_within = load.is_within(bound);
            load.print_short(share, if is_within { "within" } else { "beyond the bound" });
            if is_within {
                highest = Some((share, load.sites()));
            }
            if is_within != goes_up {
                break;
            }
            share += step;
        }
        if let Some((share, sites)) = highest {
            let figure = format!("highest load within the bound: {:.0} % of raw signing", share * 100.0);
            row(&figure, sites / 1e6, "M", Target::None);
        }
        server.stop()?;
    }
    Ok(())
}

/// What one load showed.
struct Load {
    /// Answered validations a second.
    validations: f64,
    /// Latencies in seconds, from when each request was due.
    validation: Vec<f64>,
    update: Vec<f64>,
    /// Share of all cores that the server used.
    cpu: f64,
    /// Requests that were not answered with 200.
    failed: usize,
}

impl Load {
    fn sites(&self) -> f64 {
        self.validations * SITES_PER_VALIDATION
    }

    fn is_within(&self, bound: f64) -> bool {
        self.failed == 0
            && [&self.validation, &self.update]
                .iter()
                .all(|took| part(took, 0.99) <= bound)
    }

    fn print(&self, share: f64, bound: f64) {
        let figure = format!(
            "sites at {:.0} % ({:.0} validations/s)",
            share * 100.0,
            self.validations
        );
        row(&figure, self.sites() / 1e6, "M", Target::None);
        row(
            "    CPU of the server, of all cores",
            self.cpu * 100.0,
            "%",
            Target::None,
        );
        for (name, took) in [("validations", &self.validation), ("updates", &self.update)] {
            let figure = format!(
                "    {name}: p99 (p50 {:.2}, p99.9 {:.1} ms)",
                part(took, 0.5) * 1e3,
                part(took, 0.999) * 1e3
            );
            row(
                &figure,
                part(took, 0.99) * 1e3,
                "ms",
                Target::AtMost((bound * 1e4).round() / 10.0),
            );
        }
        row(
            "    requests not answered with 200",
            self.failed as f64,
            "",
            Target::AtMost(0.0),
        );
    }

    fn print_short(&self, share: f64, verdict: &str) {
        let figure = format!(
            "at {:.0} %, {verdict}: p99 of updates {:.1} ms, {} failed; of validations",
            share * 100.0,
            part(&self.update, 0.99) * 1e3,
            self.failed
        );
        row(&figure, part(&self.validation, 0.99) * 1e3, "ms", Target::None);
    }
}

fn part(took: &[f64], part: f64) -> f64 {
    percentile(took.iter().copied(), part)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Validation,
    Update,
}

/// One answer: when it was due, whether it was a 200, and how long it took from then in seconds.
type Timed = (Instant, bool, f64);

/// One stream of requests: a kind, at a rate, over connections that stay open or not.
#[derive(Clone, Copy)]
struct Stream {
    kind: Kind,
    kept: bool,
    rate: f64,
}

/// Asks the server for `validations` a second and twice as many updates.
fn measure(server: &Server, validations: f64) -> io::Result<Load> {
    let streams = [Kind::Validation, Kind::Update].into_iter().flat_map(|kind| {
        let rate = if kind == Kind::Validation {
            validations
        } else {
            2.0 * validations
        };
        [true, false].map(|kept| Stream {
            kind,
            kept,
            rate: rate / 2.0,
        })
    });
    let start = Instant::now() + Duration::from_millis(100);
    let began = start + WARM_UP;
    let end = began + STRETCH;
    let threads: Vec<_> = streams
        .map(|stream| {
            let address = server.address;
            (
                stream.kind,
                std::thread::spawn(move || ask(address, stream, start, end)),
            )
        })
        .collect();
    std::thread::sleep(began.saturating_duration_since(Instant::now()));
    let before = server.cpu();
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let cpu = server.cpu().since(&before) / STRETCH.as_secs_f64() / std::thread::available_parallelism()?.get() as f64;
    let mut load = Load {
        validations: 0.0,
        validation: Vec::new(),
        update: Vec::new(),
        cpu,
        failed: 0,
    };
    for (kind, thread) in threads {
        for (due, fine, took) in thread.join().map_err(|_| io::Error::other("the load failed"))?? {
            if !fine {
                load.failed += 1;
            } else if due >= began {
                let latencies = if kind == Kind::Validation {
                    &mut load.validation
                } else {
                    &mut load.update
                };
                latencies.push(took);
            }
        }
    }
    load.validations = load.validation.len() as f64 / STRETCH.as_secs_f64();
    Ok(load)
}

/// Runs one stream in this thread until `end`.
fn ask(address: SocketAddr, stream: Stream, start: Instant, end: Instant) -> io::Result<Vec<Timed>> {
    // On Linux this lowers the priority of this thread alone.
    rustix::process::nice(15)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let period = CONNECTIONS as f64 / stream.rate;
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for connection in 0..CONNECTIONS {
            let first = start + Duration::from_secs_f64(period * connection as f64 / CONNECTIONS as f64);
            let lane = Lane {
                address,
                stream,
                period,
                connection,
            };
            tasks.spawn(async move { lane.run(first, end).await });
        }
        let mut answers = Vec::new();
        while let Some(done) = tasks.join_next().await {
            answers.extend(done.map_err(io::Error::other)??);
        }
        Ok(answers)
    })
}

/// One connection, or one place for new connections, with a schedule of its own.
struct Lane {
    address: SocketAddr,
    stream: Stream,
    /// Seconds between two requests.
    period: f64,
    connection: usize,
}

impl Lane {
    async fn run(self, first: Instant, end: Instant) -> io::Result<Vec<Timed>> {
        let mut answers = Vec::new();
        let mut kept = None;
        let mut buffer = vec![0; 64 * 1024];
        for turn in 0.. {
            let due = first + Duration::from_secs_f64(self.period * turn as f64);
            if due >= end {
                break;
            }
            // A request that is late because the one before it was slow counts from when it was due. A timer's own
            // delay does not count.
            let began = if Instant::now() > due {
                due
            } else {
                tokio::time::sleep_until(due.into()).await;
                Instant::now()
            };
            let exchange = self.exchange(self.request(turn), kept.take(), &mut buffer);
            let fine = match tokio::time::timeout(PATIENCE, exchange).await {
                Ok(Ok((status, connection))) => {
                    kept = connection.filter(|_| self.stream.kept);
                    status == 200
                }
                Ok(Err(_)) | Err(_) => false,
            };
            answers.push((began, fine, began.elapsed().as_secs_f64()));
        }
        Ok(answers)
    }

    fn request(&self, turn: usize) -> String {
        // 7,919 is prime, so the lanes ask about licenses all over the table.
        let license = (turn * CONNECTIONS + self.connection) * 7_919 % LICENSES;
        match self.stream.kind {
            Kind::Validation => post(&validation(license)),
            Kind::Update => get(&updates(license, "&current_version=1.19.0")),
        }
    }

    async fn exchange(
        &self,
        request: String,
        kept: Option<TcpStream>,
        buffer: &mut [u8],
    ) -> io::Result<(u16, Option<TcpStream>)> {
        let mut connection = if let Some(connection) = kept {
            connection
        } else {
            let connection = TcpStream::connect(self.address).await?;
            connection.set_nodelay(true)?;
            connection
        };
        connection.write_all(request.as_bytes()).await?;
        let status = receive(&mut connection, buffer).await?;
        Ok((status, Some(connection)))
    }
}
