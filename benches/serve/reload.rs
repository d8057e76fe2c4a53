//! A build replaces the releases of 1,000 plugins with 20 versions each, while the server answers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{get, updates};
use crate::instance::Instance;
use crate::paced::{self, Paced, p99};
use crate::process::Server;
use crate::report::{Target, heading, row};

/// One reload is over after some hundred requests, of which a handful would decide.
const ROUNDS: usize = 10;

/// Between two of them. Its second half is what a reload is compared with.
const QUIET: Duration = Duration::from_secs(4);

const PATIENCE: Duration = Duration::from_secs(60);

/// What is in force is watched anew, and looked at once more; requests meanwhile count, too.
const AFTER: Duration = Duration::from_millis(200);

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 1_000, true, 3072)?;
    let others: Vec<String> = (1..1_000).map(|number| format!("acme-{number}")).collect();
    let slugs: Vec<&str> = std::iter::once("acme-forms").chain(others.iter().map(String::as_str)).collect();
    let versions: Vec<String> = (1..=20 + ROUNDS).map(|minor| format!("1.{minor}.0")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    instance.publish(&slugs, &versions[..20])?;
    let server = Server::countersign(&instance.folder)?;
    heading("a new release of 1,000 plugins with 20 versions each, under 1,000 updates/s");
    let all = instance.licenses;
    let load = Paced::start(server.address, 64, 1_000.0, Arc::new(move |at: usize| paced::get(&updates(at % all, ""))));
    let (mut quiet, mut reloading, mut slowest) = (Vec::new(), Vec::new(), Duration::ZERO);
    for round in 1..=ROUNDS {
        std::thread::sleep(QUIET);
        let ended = Instant::now();
        quiet.push(ended - QUIET / 2..ended);
        instance.publish(&slugs, &versions[round..round + 20])?;
        let (began, newest) = (Instant::now(), versions[round + 19]);
        while !get(server.address, &updates(0, ""))?.body.contains(newest) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        slowest = began.elapsed().max(slowest);
        std::thread::sleep(AFTER);
        reloading.push(began..Instant::now());
    }
    let answers = load.stop()?;
    row(&format!("in force after, the slowest of {ROUNDS}"), slowest.as_secs_f64(), "s", Target::AtMost(2.0));
    let [before, during] = [quiet, reloading].map(|stretches| p99(&answers, &stretches, None));
    let figure = format!("    p99 meanwhile : before ({:.2} : {:.2} ms)", during * 1e3, before * 1e3);
    row(&figure, during / before, "x", Target::AtMost(2.0));
    instance.publish(&["acme-forms"], &[crate::instance::LATEST])
}
