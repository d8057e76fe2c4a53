//! `make bench`: what `countersign serve` costs, beside a bare warp route and beside signing alone.
//!
//! Load comes from wrk, and from a client of our own where wrk does not fit. Runs are interleaved and medians count;
//! nothing fails. An argument picks the figures whose name contains it. docs/benchmarks.md says how to read them.

mod baseline;
mod client;
mod instance;
mod process;
mod report;
mod updates;
mod wrk;

use std::io;
use std::path::Path;

/// The figures, by name.
const FIGURES: [(&str, fn(&Path) -> io::Result<()>); 1] = [("updates", updates::run)];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [first, file] = &arguments[..]
        && first == baseline::ARGUMENT
    {
        return baseline::run(file);
    }
    let bench = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench").join("serve");
    std::fs::create_dir_all(&bench)?;
    for (name, figure) in FIGURES {
        if arguments.first().is_none_or(|filter| name.contains(filter)) {
            figure(&bench)?;
        }
    }
    Ok(())
}
