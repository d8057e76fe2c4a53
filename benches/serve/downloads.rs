//! Packages: what a link costs an update, how many bytes a second of CPU hands out, and updates while 64 clients download.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::baseline;
use crate::client::{get, updates, updates_of};
use crate::hosted::{self, HOSTED};
use crate::instance::{Instance, host, key};
use crate::nginx;
use crate::paced::{self, Paced};
use crate::process::Server;
use crate::report::{Target, heading, median, row};
use crate::wrk::{Questions, Run};

/// Runs of each server, in turns; odd, so that there is a median.
const ROUNDS: usize = 5;

/// How long each stretch is measured.
const STRETCH: Duration = Duration::from_secs(5);

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 10_000, true, 2048)?;
    hosted::add(&instance)?;
    let server = Server::countersign(&instance.folder)?;
    heading("packages of 5 MB, 10,000 licenses, 64 connections (medians of 5)");
    links(bench, &server, instance.licenses)?;
    bytes(bench, &instance, &server)?;
    beside(bench, &server, instance.licenses)?;
    server.stop()
}

/// An update with a link beside one without.
fn links(bench: &Path, server: &Server, licenses: usize) -> io::Result<()> {
    let with = (0..licenses).map(|at| updates_of(HOSTED, key(at).reveal(), &host(at), "&current_version=1.19.0"));
    let mut with = Questions::new(bench, "updates with links", with)?;
    let without = (0..licenses).map(|at| updates(at, "&current_version=1.19.0"));
    let mut without = Questions::new(bench, "updates without links", without)?;
    let mut runs = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (questions, runs) in [&mut without, &mut with].into_iter().zip(&mut runs) {
            runs.push(questions.ask(server, Duration::from_secs(1))?.cpu);
        }
    }
    let [without, with] = runs.map(|runs| median(runs.into_iter()) * 1e6);
    let figure = format!("a link in an update ({with:.2} : {without:.2} µs CPU)");
    row(&figure, with - without, "µs", Target::AtMost(1.5));
    Ok(())
}

/// Bytes in a second of CPU, beside warp's own files, and nginx with sendfile where it is installed.
fn bytes(bench: &Path, instance: &Instance, server: &Server) -> io::Result<()> {
    let size = std::fs::metadata(hosted::package(instance))?.len() as f64;
    let mut links = Questions::new(
        bench,
        "downloads",
        (0..64)
            .map(|at| hosted::link(server, at))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter(),
    )?;
    let bare = baseline::start_file(&hosted::package(instance))?;
    let mut file = Questions::new(bench, "bare file", std::iter::once("/package.zip".to_owned()))?;
    let package = hosted::package(instance);
    let alias = format!("location = /package.zip {{ alias {}; }}", package.display());
    let nginx = nginx::start(&bench.join("nginx"), &alias)?;
    let mut runs = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        runs[0].push(links.ask(server, Duration::from_secs(2))?);
        runs[1].push(file.ask(&bare, Duration::from_secs(2))?);
        if let Some(nginx) = &nginx {
            runs[2].push(file.ask(nginx, Duration::from_secs(2))?);
        }
    }
    let megabytes = |runs: &[Run]| median(runs.iter().map(|run| size / run.cpu / 1e6));
    let [ours, bare, nginx] = runs;
    let ours_cpu = megabytes(&ours);
    let bare_cpu = megabytes(&bare);
    let figure = format!("MB a second of CPU, ours : warp::fs ({ours_cpu:.0} : {bare_cpu:.0})");
    row(&figure, ours_cpu / bare_cpu, "x", Target::AtLeast(0.9));
    if !nginx.is_empty() {
        let nginx_cpu = megabytes(&nginx);
        let figure = format!("    ours : nginx with sendfile ({ours_cpu:.0} : {nginx_cpu:.0})");
        row(&figure, ours_cpu / nginx_cpu, "x", Target::None);
    }
    Ok(())
}

/// Updates at a steady pace, first alone, then while 64 clients download as fast as they can.
fn beside(bench: &Path, server: &Server, licenses: usize) -> io::Result<()> {
    let links = (0..64)
        .map(|at| hosted::link(server, at))
        .collect::<Result<Vec<_>, _>>()?;
    let downloads = Questions::new(bench, "downloads beside updates", links.into_iter())?;
    let mut downloads = downloads.at_low_priority();
    let update = Arc::new(move |at: usize| paced::get(&updates(at % licenses, "&current_version=1.19.0")));
    let load = Paced::start(server.address, 16, 500.0, update);
    std::thread::sleep(Duration::from_secs(1));
    let idle = Instant::now();
    std::thread::sleep(STRETCH);
    let busy = Instant::now();
    let run = downloads.ask(server, STRETCH)?;
    let end = Instant::now();
    let answers = load.stop()?;
    let quiet_p99 = paced::p99(&answers, &[idle..busy], Some(200));
    let busy_p99 = paced::p99(&answers, &[busy..end], Some(200));
    let figure = format!(
        "updates' p99 beside {:.0} downloads a second : alone ({:.2} : {:.2} ms)",
        run.rate,
        busy_p99 * 1e3,
        quiet_p99 * 1e3
    );
    row(&figure, busy_p99 / quiet_p99, "x", Target::AtMost(2.0));
    let still = get(server.address, &updates(0, ""))?.status;
    if still == 200 {
        Ok(())
    } else {
        Err(io::Error::other(format!("an update is answered with {still}")))
    }
}
