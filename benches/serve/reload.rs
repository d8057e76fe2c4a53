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

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 1_000, true, 3072)?;
    let others: Vec<String> = (1..1_000).map(|number| format!("acme-{number}")).collect();
    let slugs: Vec<&str> = std::iter::once("acme-forms").chain(others.iter().map(String::as_str)).collect();
    let versions: Vec<String> = (1..=21).map(|minor| format!("1.{minor}.0")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    instance.publish(&slugs, &versions[..20])?;
    let server = Server::countersign(&instance.folder)?;
    heading("a new release of 1,000 plugins with 20 versions each, under 1,000 updates/s");
    let all = instance.licenses;
    let load = Paced::start(server.address, 64, 1_000.0, Arc::new(move |at: usize| paced::get(&updates(at % all, ""))));
    std::thread::sleep(Duration::from_secs(5));
    let quiet = Instant::now();
    instance.publish(&slugs, &versions[1..])?;
    let began = Instant::now();
    while !get(server.address, &updates(0, ""))?.body.contains("1.21.0") && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = began.elapsed();
    let answers = load.stop()?;
    row("in force after", took.as_secs_f64(), "s", Target::AtMost(2.0));
    let (before, during) =
        (p99(&answers, quiet - Duration::from_secs(4), quiet, None), p99(&answers, began, began + took, None));
    let figure = format!("    p99 meanwhile : before ({:.2} : {:.2} ms)", during * 1e3, before * 1e3);
    row(&figure, during / before, "x", Target::AtMost(2.0));
    instance.publish(&["acme-forms"], &[crate::instance::LATEST])
}
