//! A PostgreSQL of a test's own: a data folder, a free port, and an end by process id, also after a panic.
//!
//! [`standby`] adds a synchronous standby to one, [`pgbouncer`] is between one and its clients.

pub mod pgbouncer;
mod standby;
mod template;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::daemon::{Daemon, family, free_port, give, run, signal, unprivileged};
use super::preload;
pub use template::Version;

const PATIENCE: Duration = Duration::from_secs(60);

/// How tests run it: nothing waits for a disk, and nothing outlives a kill but what is in its folder.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
fsync = off
dynamic_shared_memory_type = mmap
shared_buffers = 32MB
max_connections = 100
log_min_messages = info
log_line_prefix = '%m [%p] %q%u '
timezone = 'UTC'
";

/// A server of one data folder. It is ended when it is dropped.
pub struct Cluster {
    folder: TempDir,
    version: Version,
    pub port: u16,
    /// The file that says how wrong its clock is.
    clock: Option<PathBuf>,
    postmaster: Option<Daemon>,
}

impl Cluster {
    /// Debian's PostgreSQL, empty. The role `postgres` may do everything, and nobody needs a password.
    pub fn start() -> Self {
        Self::start_with(Version::Debian, "")
    }

    /// The same in a version, with more lines for postgresql.conf, such as `fsync = on`.
    pub fn start_with(version: Version, settings: &str) -> Self {
        let mut cluster = Self::stopped(version);
        run(Command::new("cp")
            .arg("-a")
            .arg(template::data(version))
            .arg(cluster.data()));
        let file = cluster.data().join("postgresql.conf");
        let defaults = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{defaults}{SETTINGS}{settings}\n")).unwrap();
        cluster.launch();
        cluster
    }

    /// Debian's PostgreSQL with a clock that [`preload::clock`] makes wrong, by as many seconds as this file says.
    pub fn start_with_clock(offset: &Path) -> Self {
        let mut cluster = Self::start();
        cluster.clock = Some(offset.to_owned());
        cluster.restart();
        cluster
    }

    /// One that has no data yet.
    fn stopped(version: Version) -> Self {
        let folder = TempDir::new().unwrap();
        give(folder.path());
        Self {
            folder,
            version,
            port: free_port(),
            clock: None,
            postmaster: None,
        }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The address for a role.
    pub fn url(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.port)
    }

    /// The server's own process.
    pub fn pid(&self) -> u32 {
        self.postmaster.as_ref().expect("it runs").pid()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Runs statements as `postgres`, each in a transaction of its own; what they print, without heads and alignment.
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql("postgres", sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The same as a role; the error is what psql says.
    pub fn try_psql(&self, role: &str, sql: &str) -> Result<String, String> {
        psql(self.version, &self.socket_url(role), sql)
    }

    /// The address of the socket, where nobody ever needs a password.
    fn socket_url(&self, role: &str) -> String {
        format!(
            "host={} port={} user={role} dbname=postgres",
            self.folder.path().display(),
            self.port
        )
    }

    /// A client that comes over TCP needs a password from now on.
    pub fn require_passwords(&self) {
        let rules =
            "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 trust\n";
        fs::write(self.data().join("pg_hba.conf"), rules).unwrap();
        self.psql("SELECT pg_reload_conf()");
    }

    /// Ends it as an operator does: clients are cut off, everything is written.
    pub fn stop(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.end(Signal::INT);
        }
    }

    /// kill -9 of the server and its children.
    pub fn kill(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.kill();
            remove_shared_memory(&self.data());
        }
    }

    /// Starts it on the same port, whether it was stopped, killed or runs still.
    pub fn restart(&mut self) {
        self.stop();
        self.launch();
    }

    /// Stops all its processes where they are: connections stay open, and nothing answers.
    pub fn freeze(&self) {
        for member in family(self.pid()) {
            signal(member, Signal::STOP);
        }
    }

    pub fn thaw(&self) {
        for member in family(self.pid()) {
            signal(member, Signal::CONT);
        }
    }

    /// Starts it, on another port if somebody took its own before it has ever run.
    fn launch(&mut self) {
        let log = self.folder.path().join("log");
        let is_new = !log.exists();
        loop {
            let mut command = unprivileged(self.version.program("postgres"));
            command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
            command.args(["-p", &self.port.to_string()]);
            if let Some(offset) = &self.clock {
                command.env("LD_PRELOAD", preload::clock()).env("CLOCK_OFFSET", offset);
            }
            let mut postmaster = Daemon::start("postgres", command, &log);
            let expected = postmaster.pid();
            let data = self.data();
            match postmaster.wait_until("accepts connections", PATIENCE, || is_ready(&data, expected)) {
                Ok(()) => {
                    self.postmaster = Some(postmaster);
                    return;
                }
                Err(log) if is_new && log.contains("Address already in use") => {
                    fs::remove_file(self.folder.path().join("log")).unwrap();
                    self.port = free_port();
                }
                Err(log) => panic!("postgres did not start: {log}"),
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(postmaster) = &self.postmaster {
            // SIGQUIT gives its shared memory back. A frozen one hears it when it goes on.
            signal(postmaster.pid(), Signal::QUIT);
            self.thaw();
        }
        if let Some(postmaster) = &mut self.postmaster {
            let deadline = std::time::Instant::now() + Duration::from_secs(5);
            while postmaster.is_running() && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Runs statements at an address.
pub fn psql(version: Version, address: &str, sql: &str) -> Result<String, String> {
    let output = psql_command(version, address, sql).output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
    }
}

/// The command for it, which may be left to wait.
pub fn psql_command(version: Version, address: &str, sql: &str) -> Command {
    let mut command = Command::new(version.program("psql"));
    command.args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        address,
        "-c",
        sql,
    ]);
    command.env("PGCONNECT_TIMEOUT", "10").stdin(Stdio::null());
    command
}

/// The server wrote its process id and its condition (pg_ctl reads them there, too).
fn is_ready(data: &Path, pid: u32) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<_> = file.lines().map(str::trim).collect();
    lines.first() == Some(&pid.to_string().as_str()) && matches!(lines.get(7), Some(&("ready" | "standby")))
}

/// A killed server leaves a segment behind, which its file names: `key id`.
pub fn remove_shared_memory(data: &Path) {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    if let Some(id) = file.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
        let _ = Command::new("ipcrm").args(["-m", id]).stderr(Stdio::null()).status();
    }
}
