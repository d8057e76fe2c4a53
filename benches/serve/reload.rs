//! A reload under load: a build adds a release to each of 1,000 plugins with 20 versions and more.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::client::{get, updates};
use crate::instance::Instance;
use crate::paced::{self, Paced, p99};
use crate::process::Server;
use crate::report::{Target, heading, row};

/// One reload is over after some hundred requests, of which a handful would decide.
const ROUNDS: usize = 10;

/// Between two of them. Its second half is what a reload is compared with.
const QUIET: Duration = Duration::from_secs(4);

/// In this time after a reload, the server renews its watches and checks the files once more.
const AFTER: Duration = Duration::from_millis(500);

const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 1_000, true, 3072)?;
    let others: Vec<String> = (1..1_000).map(|number| format!("acme-{number}")).collect();
    let slugs: Vec<&str> = std::iter::once("acme-forms")
        .chain(others.iter().map(String::as_str))
        .collect();
    let versions: Vec<String> = (1..=20 + ROUNDS).map(|minor| format!("1.{minor}.0")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let _ = fs::remove_dir_all(instance.file("releases"));
    forget_releases(&instance);
    instance.publish(&slugs, &versions[..20])?;
    let server = Server::countersign(&instance.folder)?;
    heading("a new release of 1,000 plugins with 20 versions each and more, under 1,000 updates/s");
    let all = instance.licenses;
    let load = Paced::start(
        server.address,
        64,
        1_000.0,
        Arc::new(move |at: usize| paced::get(&updates(at % all, ""))),
    );
    let mut quiet = Vec::new();
    let mut loading = Vec::new();
    let mut after = Vec::new();
    for count in 21..=20 + ROUNDS {
        std::thread::sleep(QUIET);
        let ended = Instant::now();
        quiet.push(ended - QUIET / 2..ended);
        instance.publish(&slugs, &versions[..count])?;
        let began = Instant::now();
        while !get(server.address, &updates(0, ""))?.body.contains(versions[count - 1]) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let live = Instant::now();
        loading.push(began..live);
        after.push(live..live + AFTER);
    }
    std::thread::sleep(AFTER);
    let answers = load.stop()?;
    let slowest = loading
        .iter()
        .map(|stretch| stretch.end - stretch.start)
        .max()
        .unwrap_or_default();
    row(
        &format!("in force after, the slowest of {ROUNDS}"),
        slowest.as_secs_f64(),
        "s",
        Target::AtMost(2.0),
    );
    let before = p99(&answers, &quiet, None);
    for (when, stretches) in [("meanwhile", loading), ("in the half second after it", after)] {
        let during = p99(&answers, &stretches, None);
        let figure = format!("    p99 {when} : before ({:.2} : {:.2} ms)", during * 1e3, before * 1e3);
        row(&figure, during / before, "x", Target::AtMost(2.0));
    }
    fs::remove_dir_all(instance.file("releases"))?;
    forget_releases(&instance);
    instance.publish(&["acme-forms"], &[crate::instance::LATEST])
}

/// The next start takes any releases.
fn forget_releases(instance: &Instance) {
    let _ = fs::remove_file(instance.file("store/accepted-releases.json"));
}
