//! Update requests beside a bare route with the same bytes: with a manifest, without one, and each refusal.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::baseline;
use crate::client::{get, updates, updates_of};
use crate::instance::{Instance, LATEST, ODD, Odd, host, key};
use crate::process::Server;
use crate::report::{Target, heading, median, row};
use crate::wrk::{Questions, Run};

/// Runs of each server, a second each, in turns; odd, so that there is a median.
const ROUNDS: usize = 5;

/// How often the benchmark restarts both servers for the figures that matter most: where a process happens to lie in memory
/// makes a tenth of its CPU time.
const STARTS: usize = 3;

/// A license every question is about, or one of a thousand.
type Ask = Box<dyn Fn(usize) -> String>;

/// A kind of question, and its goal.
struct Figure {
    name: &'static str,
    status: u16,
    /// The CPU time of an answer, as a multiple of the bare route's.
    most: f64,
    ask: Ask,
}

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 100_000, true, 3072)?;
    heading("updates, 100,000 licenses, 64 connections, beside a bare warp route (medians of 15)");
    let all = instance.licenses;
    let latest = format!("&current_version={LATEST}");
    let update = Figure {
        name: "an update, manifest of 2 kB",
        status: 200,
        most: 1.4,
        ask: Box::new(|at| updates(at, "&current_version=1.19.0")),
    };
    let up_to_date = Figure {
        name: "up to date, {}",
        status: 200,
        most: 1.3,
        ask: Box::new(move |at| updates(at, &latest)),
    };
    compare(bench, &instance, update, all, STARTS)?;
    compare(bench, &instance, up_to_date, all, STARTS)
}

/// Each reason why a site gets no update.
pub fn run_refusals(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 100_000, true, 3072)?;
    heading("refusals, 100,000 licenses, 64 connections, beside a bare warp route (medians of 5)");
    for (name, status, ask) in refusals() {
        let refusal = Figure {
            name,
            status,
            most: 1.4,
            ask,
        };
        compare(bench, &instance, refusal, ODD, 1)?;
    }
    Ok(())
}

fn refusals() -> Vec<(&'static str, u16, Ask)> {
    let odd = |odd: Odd| move |at: usize| updates(odd.numbers().start + at, "");
    let own = |slug: &'static str| move |at: usize| updates_of(slug, key(at).reveal(), &host(at), "");
    vec![
        ("403 unknown_license", 403, Box::new(odd(Odd::Unknown))),
        ("403 license_expired", 403, Box::new(odd(Odd::Expired))),
        ("403 license_suspended", 403, Box::new(odd(Odd::Suspended))),
        ("403 license_revoked", 403, Box::new(odd(Odd::Revoked))),
        ("403 license_not_bound", 403, Box::new(odd(Odd::Unbound))),
        (
            "403 bound_elsewhere",
            403,
            Box::new(|at| updates_of("acme-forms", key(at).reveal(), "elsewhere.example", "")),
        ),
        ("403 plugin_not_covered", 403, Box::new(odd(Odd::OtherModule))),
        ("404 unknown_plugin", 404, Box::new(own("acme-other"))),
        ("404 source_not_configured", 404, Box::new(own("acme-bare"))),
        (
            "422 malformed_license_key",
            422,
            Box::new(|at| updates_of("acme-forms", &format!("K{at}"), &host(at), "")),
        ),
        (
            "422 license_key_checksum",
            422,
            Box::new(|at| updates_of("acme-forms", &mistyped(at), &host(at), "")),
        ),
        (
            "422 malformed_site_url",
            422,
            Box::new(|at| updates_of("acme-forms", key(at).reveal(), "a..b", "")),
        ),
        ("422 malformed_build_id", 422, Box::new(|at| updates(at, "&build_id=x"))),
        (
            "422 field_too_long",
            422,
            Box::new(|at| updates(at, &format!("&current_version={}", "1".repeat(65)))),
        ),
        (
            "400 missing_field",
            400,
            Box::new(|at| format!("/api/v1/updates/acme-forms?license_key={}", key(at).reveal())),
        ),
        (
            "400 malformed_request",
            400,
            Box::new(|at| updates(at, "&site_url=b.com")),
        ),
    ]
}

/// A key with one symbol changed.
fn mistyped(number: usize) -> String {
    let mut text = key(number).reveal().to_owned();
    let other = if text.starts_with('7') { "8" } else { "7" };
    text.replace_range(..1, other);
    text
}

fn compare(bench: &Path, instance: &Instance, figure: Figure, keys: usize, starts: usize) -> io::Result<()> {
    let Figure {
        name,
        status,
        most,
        ask,
    } = figure;
    let first = ask(0);
    let mut questions = Questions::new(bench, name, (0..keys).map(ask))?;
    let mut runs = [const { Vec::new() }; 2];
    for _ in 0..starts {
        let server = Server::countersign(&instance.folder)?;
        let answer = get(server.address, &first)?;
        if answer.status != status {
            return Err(io::Error::other(format!("{name}: {} {}", answer.status, answer.body)));
        }
        let bare = baseline::start(bench, &answer)?;
        for _ in 0..ROUNDS {
            for (server, runs) in [&bare, &server].into_iter().zip(&mut runs) {
                runs.push(questions.ask(server, Duration::from_secs(1))?);
            }
        }
        server.stop()?;
    }
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure));
    let [bare, ours] = &runs;
    let bare_cpu = of(bare, |run| run.cpu);
    let cpu = of(ours, |run| run.cpu);
    row(
        &format!("{name}: CPU, ours : bare ({:.2} : {:.2} µs)", cpu * 1e6, bare_cpu * 1e6),
        cpu / bare_cpu,
        "x",
        Target::AtMost(most),
    );
    let bare_rate = of(bare, |run| run.rate);
    let rate = of(ours, |run| run.rate);
    row(
        &format!("    requests/s, ours : bare ({rate:.0} : {bare_rate:.0})"),
        rate / bare_rate,
        "x",
        Target::None,
    );
    let bare_p99 = of(bare, |run| run.p99);
    let p99 = of(ours, |run| run.p99);
    row(
        &format!("    p99, ours : bare ({:.2} : {:.2} ms)", p99 * 1e3, bare_p99 * 1e3),
        p99 / bare_p99,
        "x",
        Target::AtMost(2.0),
    );
    Ok(())
}
