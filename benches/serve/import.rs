//! An import of 100,000 licenses, each with a site, beside first validations: how long a site waits for its seat.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::client::validation;
use crate::instance::{Instance, hex};
use crate::paced::{self, Answers, Paced};
use crate::process::Server;
use crate::report::{Target, heading, percentile, row};

/// Licenses that are imported.
const ROWS: usize = 100_000;

/// First validations a second, and the licenses they are of.
const BINDERS: f64 = 200.0;
const LICENSES: usize = 100_000;

/// How long first validations are measured alone.
const ALONE: Duration = Duration::from_secs(15);

/// The longest that a site may wait, in milliseconds.
const LONGEST: f64 = 200.0;

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = instance(bench)?;
    heading("an import of 100,000 licenses, each with a site, beside 200 first validations/s");
    let server = Server::countersign(&instance.folder)?;
    let first = Arc::new(|at: usize| paced::post(&validation(at % LICENSES)));
    let load = Paced::start(server.address, 32, BINDERS, first);
    std::thread::sleep(Duration::from_secs(1));
    let alone = Instant::now();
    std::thread::sleep(ALONE);
    let begin = Instant::now();
    let imported = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .arg("-C")
        .arg(&instance.folder)
        .args(["license", "import"])
        .arg(instance.file("export.csv"))
        .args(["--from", "csv"])
        .stdout(Stdio::null())
        .status()?;
    let end = Instant::now();
    let answers = load.stop()?;
    server.stop()?;
    if !imported.success() {
        return Err(io::Error::other("the import failed"));
    }
    row("the import", (end - begin).as_secs_f64(), "s", Target::None);
    let failed = answers.iter().filter(|(_, status, _)| *status != 200).count();
    row(
        "validations that were not answered with 200",
        failed as f64,
        "",
        Target::AtMost(0.0),
    );
    for (name, stretch, target) in [
        ("alone", alone..begin, Target::None),
        ("beside the import", begin..end, Target::AtMost(LONGEST)),
    ] {
        let [half, most, longest] = [0.5, 0.99, 1.0].map(|part| waited(&answers, &stretch, part));
        let label = format!("{name}: a site waits at most (p50 {half:.1}, p99 {most:.1} ms)");
        row(&label, longest, "ms", target);
    }
    Ok(())
}

/// The wait, in milliseconds, that this part of the answers due in a stretch of time does not exceed.
fn waited(answers: &Answers, stretch: &Range<Instant>, part: f64) -> f64 {
    let waits = answers
        .iter()
        .filter(|(due, ..)| stretch.contains(due))
        .map(|(.., took)| took * 1e3);
    match part {
        1.0 => waits.fold(f64::NAN, f64::max),
        part => percentile(waits, part),
    }
}

/// A copy of the instance of others, each time a new one, whose admin listener takes imports, and the file to import.
fn instance(bench: &Path) -> io::Result<Instance> {
    let plain = Instance::new(bench, LICENSES, false, 3072)?;
    let instance = plain.copied("import")?;
    instance.clear_store()?;
    let settings = fs::read_to_string(instance.file("countersign.toml"))?;
    let settings = settings.replace(
        "admin_listen = \"off\"",
        "admin_listen = \"127.0.0.1:0\"\nforeign_keys = true",
    );
    instance.write("countersign.toml", &settings)?;
    let mut rows = "key,expires,modules,hosts,created\n".to_owned();
    for number in 0..ROWS {
        let key = &hex(&Sha256::digest(format!("license {number}")))[..32];
        let _ = writeln!(rows, "{key},2099-12-31,forms,imported-{number}.example,2025-01-01");
    }
    instance.write("export.csv", &rows)?;
    Ok(instance)
}
