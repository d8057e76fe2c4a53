//! A server under strace.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::server::countersign;
use crate::support::{Instance, Server, eventually};

impl Server {
    /// Starts under strace, which writes the system calls named in `calls` to `trace`.
    pub fn start_traced(instance: &Instance, calls: &str, trace: &Path) -> Self {
        let plain = countersign(instance);
        let mut command = Command::new("strace");
        // With -D the tracer is the child, so that the process started here is the server itself. A line of the log fits into -s.
        command
            .args([
                "-D",
                "-f",
                "-y",
                "-q",
                "-s",
                "400",
                "-e",
                &format!("trace={calls}"),
                "-o",
            ])
            .arg(trace);
        command.arg(plain.get_program()).args(plain.get_args());
        Self::start_command(command, &[])
    }
}

/// The trace of a server that has stopped. The tracer is a process of its own and may still write, so this waits for the line
/// that says that the server's first thread exited. That thread has the lowest number; another one may have made the first call.
pub fn whole_trace(file: &Path) -> String {
    let mut trace = String::new();
    eventually("the trace is whole", || {
        trace = fs::read_to_string(file).unwrap_or_default();
        let number = |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
        let first = trace.lines().filter_map(number).min();
        trace.ends_with('\n')
            && trace
                .lines()
                .next_back()
                .is_some_and(|line| line.contains("+++ exited with") && number(line) == first)
    });
    trace
}
