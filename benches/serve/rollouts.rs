//! Update requests for a plugin with a rollout and channels, beside the same plugin without them.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{get, updates};
use crate::instance::{Instance, LATEST};
use crate::process::Server;
use crate::report::{Target, heading, median, row};
use crate::wrk::{Questions, Run};

/// Runs of each server, a second each, in turns; odd, so that there is a median.
const ROUNDS: usize = 5;

/// How often both servers are restarted.
const STARTS: usize = 4;

/// The most that a rollout and channels may cost: their CPU time beside that without them.
const MOST: f64 = 1.03;

/// Published when the rollout of the latest release starts.
const OLDER: [&str; 2] = ["1.18.0", "1.19.0"];

/// How long a server may take to start the rollout.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(bench: &Path) -> io::Result<()> {
    let made = Instance::new(bench, 100_000, true, 3072)?;
    let plain = made.copied("without-rollout")?;
    let all = [OLDER[0], OLDER[1], LATEST];
    plain.publish(&["acme-forms"], &all)?;
    let rolling = made.copied("with-rollout")?;
    roll(&rolling, &all)?;
    heading("updates with a rollout and channels beside none, 100,000 licenses, 64 connections (medians of 20)");
    for (name, more) in [
        ("half of the sites held", "&current_version=1.19.0&holds=1"),
        ("of a client that does not know held", "&current_version=1.18.0"),
        ("on a channel", "&current_version=1.19.0&holds=1&channel=beta"),
    ] {
        compare(bench, [&plain, &rolling], name, more)?;
    }
    Ok(())
}

/// Has the instance start a rollout that half of the sites wait for.
fn roll(instance: &Instance, all: &[&str]) -> io::Result<()> {
    let entry = "module = \"forms\"\nrepository = \"../../src\"\n\
                 download_url = \"https://dl.example/{slug}-{version}.zip\"\n\
                 [channels]\nbeta = \"licensed\"\n[rollout]\nsteps = [\"0h 50%\", \"720h 100%\"]\n";
    instance.write("registry/plugins/acme-forms.toml", entry)?;
    // The server that the copy is of may have had the latest release in force, and no server lets one vanish.
    let accepted = instance.file("store/accepted-releases.json");
    if accepted.exists() {
        fs::remove_file(accepted)?;
    }
    instance.publish(&["acme-forms"], &OLDER)?;
    let server = Server::countersign(&instance.folder)?;
    let ask = |number| get(server.address, &updates(number, "&current_version=1.18.0&holds=1"));
    // The server has noted these as finished.
    wait_until(|| Ok(ask(0)?.body.contains(OLDER[1])))?;
    thread::sleep(Duration::from_secs(2));
    instance.publish(&["acme-forms"], all)?;
    wait_until(|| {
        let answers = (0..100).map(ask).collect::<io::Result<Vec<_>>>()?;
        let held = answers.iter().filter(|answer| answer.body.contains("\"held\":true"));
        Ok((25..=75).contains(&held.count()))
    })?;
    server.stop()
}

fn wait_until(is_there: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let started = Instant::now();
    while !is_there()? {
        if started.elapsed() > PATIENCE {
            return Err(io::Error::other("the rollout did not start"));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn compare(bench: &Path, instances: [&Instance; 2], name: &str, more: &str) -> io::Result<()> {
    let all = instances[0].licenses;
    let mut questions = Questions::new(bench, name, (0..all).map(|number| updates(number, more)))?;
    let mut runs = [const { Vec::new() }; 2];
    for start in 0..STARTS {
        // Memory that the system has left for the second one may be slower.
        let order = if start % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut servers = [
            Server::countersign(&instances[order[0]].folder)?,
            Server::countersign(&instances[order[1]].folder)?,
        ];
        if order[0] == 1 {
            servers.reverse();
        }
        for server in &servers {
            let answer = get(server.address, &updates(0, more))?;
            if answer.status != 200 {
                return Err(io::Error::other(format!("{name}: {} {}", answer.status, answer.body)));
            }
        }
        for _ in 0..ROUNDS {
            for (server, runs) in servers.iter().zip(&mut runs) {
                runs.push(questions.ask(server, Duration::from_secs(1))?);
            }
        }
        for server in servers {
            server.stop()?;
        }
    }
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure));
    let [plain, rolling] = runs.map(|runs| (of(&runs, |run| run.cpu) * 1e6, of(&runs, |run| run.p99) * 1e3));
    row(
        &format!("{name}: CPU with : without ({:.2} : {:.2} µs)", rolling.0, plain.0),
        rolling.0 / plain.0,
        "x",
        Target::AtMost(MOST),
    );
    row(
        &format!("    p99, with : without ({:.2} : {:.2} ms)", rolling.1, plain.1),
        rolling.1 / plain.1,
        "x",
        Target::None,
    );
    Ok(())
}
