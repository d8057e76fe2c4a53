//! A server under strace.

use std::path::Path;
use std::process::Command;

use crate::support::server::countersign;
use crate::support::{Instance, Server};

impl Server {
    /// Starts under strace, which writes the system calls named in `calls` to `trace`.
    pub fn start_traced(instance: &Instance, calls: &str, trace: &Path) -> Self {
        let plain = countersign(instance);
        let mut command = Command::new("strace");
        // With -D the tracer is the child, so that the process started here is the server itself.
        command
            .args(["-D", "-f", "-y", "-q", "-e", &format!("trace={calls}"), "-o"])
            .arg(trace);
        command.arg(plain.get_program()).args(plain.get_args());
        Self::start_command(command, &[])
    }
}
