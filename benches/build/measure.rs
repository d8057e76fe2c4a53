//! Measures one run of a command on given cores: time and memory; and medians of several runs.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run, and all processes it started, took.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Seconds.
    pub wall: f64,
    /// Seconds in user and in kernel mode.
    pub cpu: f64,
    /// The largest resident set of a process, in MiB.
    pub memory: f64,
}

/// Runs `command` on these cores (`0`, `0,1`), under time(1); its output is dropped.
pub fn run(cores: &str, scratch: &Path, command: &[OsString]) -> io::Result<Cost> {
    let told = scratch.join("time");
    let status = Command::new("taskset")
        .args(["-c", cores, "time", "-f", "%e %U %S %M", "-o"])
        .arg(&told)
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!("{command:?}: {status}")));
    }
    let told = std::fs::read_to_string(told)?;
    let numbers: Vec<f64> = told
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers[..] {
        [wall, user, system, memory] => Ok(Cost {
            wall,
            cpu: user + system,
            memory: memory / 1024.0,
        }),
        _ => Err(io::Error::other(format!("time(1) said {told:?}"))),
    }
}

/// The median of each figure, and how far the wall times lie apart: the longest over the shortest.
pub fn median(costs: &[Cost]) -> (Cost, f64) {
    let sorted = |figure: fn(&Cost) -> f64| {
        let mut figures: Vec<f64> = costs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    };
    let middle = |figure| sorted(figure)[costs.len() / 2];
    let wall = sorted(|cost| cost.wall);
    let median = Cost {
        wall: middle(|cost| cost.wall),
        cpu: middle(|cost| cost.cpu),
        memory: middle(|cost| cost.memory),
    };
    (median, wall[wall.len() - 1] / wall[0])
}
