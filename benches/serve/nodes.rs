//! Several nodes with one ledger in PostgreSQL, beside the embedded store: first bindings, updates, start and memory.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{updates, validation};
use crate::instance::Instance;
use crate::million::MILLION;
use crate::postgres::Postgres;
use crate::process::Server;
use crate::report::{Target, heading, median, row};
use crate::wrk::{Questions, Run};

/// How long new sites are bound.
const BINDING: Duration = Duration::from_secs(5);

/// The sites that updates are asked for.
const UPDATED: usize = 10_000;

/// Runs of each server, in turns, and how often the benchmark restarts both.
const ROUNDS: usize = 5;
const STARTS: usize = 3;

pub fn run(bench: &Path) -> io::Result<()> {
    heading("new sites: the embedded store, then one ledger in PostgreSQL (64 connections a node, 2,048 bits)");
    bind(bench, 0)?;
    for nodes in 1..=3 {
        bind(bench, nodes)?;
    }
    heading("updates of 10,000 bound sites: the embedded store beside a node (medians of 15)");
    update(bench)?;
    heading("1,000,000 bound licenses: the embedded store beside a node");
    start(bench)
}

/// Binds new sites through some nodes; 0 is the embedded store.
fn bind(bench: &Path, nodes: usize) -> io::Result<()> {
    let unbound = Instance::new(bench, 100_000, false, 2048)?;
    let postgres = (nodes > 0).then(|| Postgres::start(bench)).transpose()?;
    let mut servers = Vec::new();
    let mut questions = Vec::new();
    let count = nodes.max(1);
    for node in 0..count {
        let instance = copy(&unbound, node)?;
        servers.push(serve(&instance, postgres.as_ref())?);
        let own = (node..instance.licenses).step_by(count);
        questions.push(Questions::new(bench, &format!("node-{node}"), own.map(validation))?);
    }
    let before = postgres.as_ref().map(Postgres::cpu);
    let runs = std::thread::scope(|scope| {
        let asking = servers.iter().zip(&mut questions);
        let asking: Vec<_> = asking
            .map(|(server, questions)| scope.spawn(|| questions.ask(server, BINDING)))
            .collect();
        let joined = asking.into_iter().map(|run| run.join());
        let joined = joined.map(|run| run.map_err(|_| io::Error::other("the load failed"))?);
        joined.collect::<io::Result<Vec<Run>>>()
    })?;
    let after = postgres.as_ref().map(Postgres::cpu);
    let database = after.zip(before).map(|(after, before)| after.since(&before));
    if let Some(run) = runs.iter().find(|run| run.refused > 0) {
        return Err(io::Error::other(format!("{} sites were refused", run.refused)));
    }
    let bound = runs.iter().map(|run| run.requests as f64).sum::<f64>();
    let rate = runs.iter().map(|run| run.rate).sum::<f64>();
    let cpu = runs.iter().map(|run| run.cpu * run.requests as f64).sum::<f64>() / bound;
    for server in servers {
        server.stop()?;
    }
    let commits = match &postgres {
        Some(postgres) => postgres.psql("SELECT count(DISTINCT line::json->>'synced') FROM countersign.ledger")?,
        None => commits_of(&bench.join("node-0/store/ledger.jsonl"))?.to_string(),
    };
    let commits: f64 = commits.parse().map_err(io::Error::other)?;
    let name = match nodes {
        0 => "embedded".to_owned(),
        1 => "one node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    row(&format!("{name}: bindings"), rate, "/s", Target::None);
    row("    commits", commits / BINDING.as_secs_f64(), "/s", Target::None);
    row("    CPU of the servers, a binding", cpu * 1e3, "ms", Target::None);
    if let Some(database) = database {
        row(
            "    CPU of PostgreSQL, a binding",
            database / bound * 1e3,
            "ms",
            Target::None,
        );
    }
    let p50 = median(runs.iter().map(|run| run.p50)) * 1e3;
    let p99 = runs.iter().map(|run| run.p99).fold(0.0, f64::max) * 1e3;
    row(&format!("    p99 (p50 {p50:.1} ms)"), p99, "ms", Target::None);
    Ok(())
}

/// Updates of bound sites: the code is the same, so the cost has to be.
fn update(bench: &Path) -> io::Result<()> {
    let embedded = Instance::new(bench, UPDATED, true, 3072)?;
    let node = copy(&embedded, 0)?;
    let postgres = Postgres::start(bench)?;
    copy_ledger(&embedded, &postgres)?;
    let ask = (0..UPDATED).map(|at| updates(at, "&current_version=1.19.0"));
    let mut questions = Questions::new(bench, "updates-of-nodes", ask)?;
    let mut runs = [const { Vec::new() }; 2];
    for _ in 0..STARTS {
        let servers = [serve(&embedded, None)?, serve(&node, Some(&postgres))?];
        for _ in 0..ROUNDS {
            for (server, runs) in servers.iter().zip(&mut runs) {
                let run = questions.ask(server, Duration::from_secs(1))?;
                if run.refused > 0 {
                    return Err(io::Error::other(format!("{} updates were refused", run.refused)));
                }
                runs.push(run);
            }
        }
    }
    let [embedded, node] = runs.each_ref().map(|runs| {
        let cpu = |run: &Run| run.cpu * 1e6;
        let least = runs.iter().map(cpu).fold(f64::MAX, f64::min);
        let most = runs.iter().map(cpu).fold(0.0, f64::max);
        (median(runs.iter().map(cpu)), least, most)
    });
    for (name, (middle, least, most)) in [("embedded", embedded), ("a node", node)] {
        let label = format!("{name}: CPU of an update ({least:.1} to {most:.1} in single runs)");
        row(&label, middle, "µs", Target::None);
    }
    row("a node : embedded", node.0 / embedded.0, "x", Target::AtMost(1.03));
    Ok(())
}

/// The start with a million lines, and the memory afterwards.
fn start(bench: &Path) -> io::Result<()> {
    let embedded = Instance::new(bench, MILLION, true, 3072)?;
    let node = copy(&embedded, 0)?;
    let postgres = Postgres::start(bench)?;
    let began = Instant::now();
    copy_ledger(&embedded, &postgres)?;
    let copied = began.elapsed().as_secs_f64();
    row("copied into the database", copied, "s", Target::AtMost(300.0));
    let server = serve(&embedded, None)?;
    let memory_embedded = server.memory().0;
    let started = server.started_in.as_secs_f64();
    row("embedded: start", started, "s", Target::None);
    server.stop()?;
    let server = serve(&node, Some(&postgres))?;
    let memory_node = server.memory().0;
    let started = server.started_in.as_secs_f64();
    row("a node: start", started, "s", Target::AtMost(15.0));
    let label = format!("resident: a node : embedded ({memory_node:.0} : {memory_embedded:.0} MiB)");
    row(&label, memory_node / memory_embedded, "x", Target::AtMost(1.1));
    server.stop()
}

fn serve(instance: &Instance, postgres: Option<&Postgres>) -> io::Result<Server> {
    let store = postgres.map(Postgres::url);
    let store = store.iter().flat_map(|store| ["--store", store]);
    Server::countersign_with(&instance.folder, &store.collect::<Vec<_>>())
}

/// A copy of an instance without its store, for a node of this number.
fn copy(instance: &Instance, node: usize) -> io::Result<Instance> {
    let copy = instance.copied(&format!("node-{node}"))?;
    copy.clear_store()?;
    Ok(copy)
}

/// Copies the ledger of an instance into the database.
fn copy_ledger(instance: &Instance, postgres: &Postgres) -> io::Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.arg("-C").arg(&instance.folder);
    command.args(["bindings", "copy", "--to", &postgres.url()]);
    match command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("the ledger is not copied")),
    }
}

/// How many commits wrote a ledger: the lines of one have the same `synced`.
fn commits_of(ledger: &Path) -> io::Result<usize> {
    let ledger = fs::read_to_string(ledger)?;
    let mut synced: Vec<_> = ledger
        .lines()
        .filter_map(|line| line.split("\"synced\":").nth(1)?.split(',').next())
        .collect();
    synced.dedup();
    Ok(synced.len())
}
