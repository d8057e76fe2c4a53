//! `make bench`: the cost of `countersign serve`, beside a bare warp route and beside signing alone.
//!
//! wrk makes the load, or our own client if wrk does not fit. Runs are interleaved and the medians reported; nothing
//! fails. Arguments select figures by a part of their name. docs/benchmarks.md says how to read them.
#![allow(unreachable_pub, reason = "nothing uses the modules of a benchmark from outside")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what a benchmark does"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot go on has no figures"
)]

mod attacks;
mod baseline;
mod client;
mod desk;
mod downloads;
mod hosted;
mod import;
mod instance;
mod issued;
mod million;
mod nginx;
mod nodes;
mod others;
mod overload;
mod paced;
mod postgres;
mod process;
mod reload;
mod report;
mod rollouts;
mod sales;
mod sites;
mod updates;
mod validate;
mod wrk;

use std::io;
use std::path::Path;
use std::time::Instant;

/// Measures and prints some figures; instances are kept in the folder.
type Figures = fn(&Path) -> io::Result<()>;

const FIGURES: [(&str, Figures); 17] = [
    ("sites", sites::run),
    ("updates", updates::run),
    ("refusals", updates::run_refusals),
    ("rollouts", rollouts::run),
    ("validate", validate::run),
    ("overload", overload::run),
    ("million", million::run),
    ("large", million::run_ten),
    ("issued", issued::run),
    ("desk", desk::run),
    ("downloads", downloads::run),
    ("sales", sales::run),
    ("import", import::run),
    ("reload", reload::run),
    ("attacks", attacks::run),
    ("nodes", nodes::run),
    ("others", others::run),
];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    match &arguments[..] {
        [first, file] if first == baseline::ARGUMENT => return baseline::run(file),
        [first, file] if first == baseline::FILE_ARGUMENT => return baseline::run_file(file),
        _ => {}
    }
    let bench = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .with_file_name("bench")
        .join("serve");
    std::fs::create_dir_all(&bench)?;
    let began = Instant::now();
    for (name, figures) in FIGURES {
        if arguments.is_empty() || arguments.iter().any(|filter| name.contains(filter.as_str())) {
            let began = Instant::now();
            // One that cannot be measured does not hide the others.
            figures(&bench).unwrap_or_else(|error| println!("  {name}: NOT MEASURED: {error}"));
            println!("  {name} took {} s", began.elapsed().as_secs());
        }
    }
    report::summary(began.elapsed());
    Ok(())
}
