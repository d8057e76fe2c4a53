//! The final reports of the long tests.

use std::time::Instant;

pub fn timed(what: &str, work: impl FnOnce() -> String) {
    let started = Instant::now();
    let figures = work();
    eprintln!("soak: {what}: {figures}, in {} s", started.elapsed().as_secs());
}
