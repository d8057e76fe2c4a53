//! A server of others that runs beside a test: as an unprivileged user, with its log in a file, ended by process id.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{eventually, eventually_within};

/// `nobody`: PostgreSQL and pgbouncer refuse to run as root.
const NOBODY: u32 = 65534;
/// The ports that [`free_ports`] gives. They are below the ephemeral range, so the system gives none of them to a program
/// that binds port 0.
const PORTS: Range<u16> = 20_000..32_000;
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools");

/// A file of what `make tools` installs.
pub fn tool(relative: &str) -> PathBuf {
    let path = Path::new(TOOLS).join(relative);
    assert!(path.exists(), "{} is missing: make tools", path.display());
    path
}

/// A program as an unprivileged user, where the tests run as root. It may read what root may: the folder of the
/// project can be closed to others.
pub fn unprivileged(program: impl AsRef<OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")])
        .args([
            "--clear-groups",
            "--inh-caps=+dac_override",
            "--ambient-caps=+dac_override",
        ])
        .arg(program);
    command
}

/// Gives a folder, with all that is in it, to the user of [`unprivileged`].
pub fn give(folder: &Path) {
    if rustix::process::geteuid().is_root() {
        run(Command::new("chown")
            .args(["-R", &format!("{NOBODY}:{NOBODY}")])
            .arg(folder));
    }
}

/// Runs a command to its end, and gives what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A port of the loopback that nobody listens on.
pub fn free_port() -> u16 {
    free_ports(1)[0]
}

/// Several, each another.
pub fn free_ports(count: usize) -> Vec<u16> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let all = u32::from(PORTS.end - PORTS.start);
    // Processes that run at the same time have ids that are near each other, and begin far from each other.
    let first = std::process::id() % all * 101;
    let next = || {
        let given = u32::from(GIVEN.fetch_add(1, Ordering::Relaxed));
        PORTS.start + u16::try_from((first + given) % all).unwrap()
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(next).filter(is_free).take(count).collect()
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("not 0");
    // A process that has ended needs no signal.
    let _ = kill_process(pid, signal);
}

/// A process and all that it started and that still has it as a forebear, forebears first.
pub fn family(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut family = vec![pid];
    for child in children.split_whitespace() {
        family.extend(self::family(child.parse().unwrap()));
    }
    family
}

/// SIGKILL for a process and its family: it is stopped first, so that it starts nothing meanwhile.
pub fn kill_family(pid: u32) {
    signal(pid, Signal::STOP);
    for member in family(pid) {
        signal(member, Signal::KILL);
    }
}

/// A running server; its family is killed when it is dropped. A test that fails shows its log.
pub struct Daemon {
    child: Child,
    name: &'static str,
    log: PathBuf,
}

impl Daemon {
    /// Starts a command whose output is appended to the file `log`.
    pub fn start(name: &'static str, mut command: Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self {
            child,
            name,
            log: log.to_owned(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until `ready`, or gives the log of a server that ended before.
    pub fn wait_until(&mut self, what: &str, within: Duration, mut ready: impl FnMut() -> bool) -> Result<(), String> {
        let mut ended = false;
        eventually_within(&format!("{}: {what}", self.name), within, || {
            ended = !self.is_running();
            ended || ready()
        });
        if ended { Err(self.log()) } else { Ok(()) }
    }

    /// Asks it to end with a signal, and waits for it.
    pub fn end(&mut self, with: Signal) {
        signal(self.pid(), with);
        let name = self.name;
        eventually(&format!("{name} ends"), || !self.is_running());
    }

    /// SIGKILL for it and its family.
    pub fn kill(&mut self) {
        if self.is_running() {
            kill_family(self.pid());
            self.child.wait().unwrap();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(log) = fs::read(&self.log)
        {
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<_> = log.lines().collect();
            eprintln!("{}: {}", self.name, lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        // No panic: the test may be in one.
        if let Ok(None) = self.child.try_wait() {
            kill_family(self.child.id());
            let _ = self.child.wait();
        }
    }
}
