//! The server process under load, the program or the baseline: its address, CPU time and memory.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server; it is killed when it is dropped.
pub struct Server {
    child: Child,
    /// A server behind this one, whose own processes do the work.
    behind: Option<Child>,
    pub address: SocketAddr,
    /// From the start of the process to the line that names its address.
    pub started_in: Duration,
}

impl Server {
    /// The program on an instance; its log goes to `serve.log` there.
    pub fn countersign(instance: &Path) -> io::Result<Self> {
        Self::countersign_with(instance, &[])
    }

    /// The same with more flags.
    pub fn countersign_with(instance: &Path, flags: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command
            .arg("-C")
            .arg(instance)
            .args(flags)
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
            behind: None,
            address,
            started_in: started.elapsed(),
        })
    }

    /// Adds a server that runs behind this one, and ends with it.
    pub fn with_behind(mut self, behind: Child) -> Self {
        self.behind = Some(behind);
        self
    }

    /// The CPU time that its threads and the server behind it have used so far.
    pub fn cpu(&self) -> CpuTimes {
        let mut processes = vec![self.child.id()];
        if let Some(behind) = &self.behind {
            let main = behind.id();
            let children = fs::read_to_string(format!("/proc/{main}/task/{main}/children")).unwrap_or_default();
            processes.push(main);
            processes.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
        CpuTimes::of(&processes)
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
        if let Some(behind) = &mut self.behind {
            // SIGTERM, so that it ends its own processes.
            let _ = Command::new("kill").args(["-TERM", &behind.id().to_string()]).status();
            let _ = behind.wait();
        }
    }
}

/// The CPU time of threads, user and kernel, in seconds, by thread.
pub struct CpuTimes(HashMap<PathBuf, f64>);

impl CpuTimes {
    /// The times of all threads of these processes. `schedstat` counts what utime and stime count, in nanoseconds.
    pub fn of(processes: &[u32]) -> Self {
        let tasks = processes
            .iter()
            .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
        let spent = tasks.flatten().flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let nanoseconds = text.split(' ').next()?.parse::<f64>().ok()?;
            Some((thread.path(), nanoseconds / 1e9))
        });
        Self(spent.collect())
    }

    /// What was spent since an earlier look. What a thread spent that ended meanwhile is not known: it counts for nothing.
    pub fn since(&self, before: &Self) -> f64 {
        let spent = self.0.iter();
        spent
            .map(|(thread, now)| now - before.0.get(thread).unwrap_or(&0.0))
            .sum()
    }
}
