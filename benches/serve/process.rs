//! The server process under load, the program or the baseline: its address, CPU time and memory.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server; it is killed when it is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    /// From the start of the process to the line that names its address.
    pub started_in: Duration,
}

impl Server {
    /// The program on an instance; its log goes to `serve.log` there.
    pub fn countersign(instance: &Path) -> io::Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command
            .arg("-C")
            .arg(instance)
            .arg("serve")
            .stderr(fs::File::create(instance.join("serve.log"))?);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("COUNTERSIGN_")) {
            command.env_remove(name);
        }
        Self::start(command)
    }

    /// Starts a server that says where it listens in its first line.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let started = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no standard output"))?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other(format!("the server did not start: {command:?}")));
        };
        Ok(Self {
            child,
            address,
            started_in: started.elapsed(),
        })
    }

    /// The CPU time of all its threads so far, user and kernel, in seconds.
    pub fn cpu(&self) -> f64 {
        cpu_of(self.child.id())
    }

    /// Its resident set now, and the largest it ever was, in MiB.
    pub fn memory(&self) -> (f64, f64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let field = |name: &str| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_default();
            line.trim().trim_end_matches(" kB").parse().unwrap_or(f64::NAN) / 1024.0
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    /// How many files and connections it has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(mut self) -> io::Result<()> {
        Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The CPU time of a process' threads, in seconds. `schedstat` counts what utime and stime count, in nanoseconds.
pub fn cpu_of(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let spent = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    spent.sum::<f64>() / 1e9
}
