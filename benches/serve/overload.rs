//! Validations at twice the rate that can be signed: who is answered, who gets 503, and how updates are affected.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{updates, validation};
use crate::instance::Instance;
use crate::paced::{Paced, get, p99, post};
use crate::process::Server;
use crate::report::{Target, heading, row};
use crate::validate::sign_alone;

/// How long each stretch is measured.
const STRETCH: Duration = Duration::from_secs(6);

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = Instance::new(bench, 100_000, true, 2048)?;
    let (capacity, _) = sign_alone(&instance)?;
    let server = Server::countersign(&instance.folder)?;
    heading(&format!(
        "validations at twice what can be signed ({:.0}/s of 2,048 bits), with 500 updates/s beside them",
        2.0 * capacity
    ));
    let all = instance.licenses;
    let update = Arc::new(move |at: usize| get(&updates(at % all, "&current_version=1.19.0")));
    let validate = Arc::new(move |at: usize| post(&validation(at % all)));
    let beside = Paced::start(server.address, 16, 500.0, update);
    std::thread::sleep(Duration::from_secs(1));
    let idle = Instant::now();
    std::thread::sleep(STRETCH);
    let load = Paced::start(server.address, 1_024, 2.0 * capacity, validate);
    std::thread::sleep(Duration::from_secs(1));
    let overloaded = Instant::now();
    std::thread::sleep(STRETCH);
    let end = Instant::now();
    let load = load.stop()?;
    let beside = beside.stop()?;

    let quiet = p99(&beside, &[idle..idle + STRETCH], None);
    let busy = p99(&beside, &[overloaded..end], None);
    let figure = format!("updates' p99 above idle ({:.2} : {:.2} ms)", busy * 1e3, quiet * 1e3);
    row(&figure, (busy - quiet) * 1e3, "ms", Target::AtMost(5.0));
    let of = |status| {
        load.iter()
            .filter(|(at, found, _)| (overloaded..end).contains(at) && *found == status)
            .count()
    };
    let seconds = STRETCH.as_secs_f64();
    let figure = format!("validations answered, p99 ({:.0}/s)", of(200) as f64 / seconds);
    row(
        &figure,
        p99(&load, &[overloaded..end], Some(200)) * 1e3,
        "ms",
        Target::AtMost(250.0),
    );
    let figure = format!(
        "validations turned away with 503, p99 ({:.0}/s)",
        of(503) as f64 / seconds
    );
    row(
        &figure,
        p99(&load, &[overloaded..end], Some(503)) * 1e3,
        "ms",
        Target::AtMost(5.0),
    );
    let others = load.len() - load.iter().filter(|(_, status, _)| [200, 503].contains(status)).count();
    row("answers that are neither", others as f64, "", Target::AtMost(0.0));
    Ok(())
}
