//! A PostgreSQL for the figures of nodes: new and empty, on a free port, with its disk synced. `make tools` installs it.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::CpuTimes;

/// How long it may take to accept connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// The user that runs it where the benchmark runs as root: PostgreSQL refuses root.
const NOBODY: &str = "65534";

/// A running server with the tables, and a role `node`. It is ended when it is dropped.
pub struct Postgres {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Postgres {
    /// Makes an empty database in the folder `bench`, and starts it.
    pub fn start(bench: &Path) -> io::Result<Self> {
        let folder = bench.join("postgres");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder)?;
        if is_root()? {
            run(Command::new("chown").arg(NOBODY).arg(&folder))?;
        }
        let data = folder.join("data");
        let mut initdb = program("initdb")?;
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--pgdata",
        ]);
        run(initdb.arg(&data))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = program("postgres")?;
        server.arg("-D").arg(&data).arg("-k").arg(&folder);
        server.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        server.stdin(Stdio::null()).stdout(Stdio::null());
        let child = server.stderr(File::create(bench.join("postgres.log"))?).spawn()?;
        let postgres = Self { child, port, folder };
        let started = Instant::now();
        while postgres.psql("SELECT 1").is_err() {
            if started.elapsed() > PATIENCE {
                return Err(io::Error::other("PostgreSQL accepts no connections"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let schema = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .args(["bindings", "schema", "--node", "node"])
            .output()?;
        postgres.psql("CREATE ROLE node LOGIN")?;
        postgres.psql(&String::from_utf8_lossy(&schema.stdout))?;
        Ok(postgres)
    }

    /// The address for nodes.
    pub fn url(&self) -> String {
        self.url_of("node")
    }

    fn url_of(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs statements; returns what they print.
    pub fn psql(&self, sql: &str) -> io::Result<String> {
        let mut psql = program("psql")?;
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, "-d"]);
        run(psql.arg(self.url_of("postgres")))
    }

    /// The CPU time of its processes so far.
    pub fn cpu(&self) -> CpuTimes {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        CpuTimes::of(&children.chain([pid]).collect::<Vec<_>>())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT ends its children, too.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &pid]).status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program of Debian's PostgreSQL that `make tools` unpacks, as a user that is not root.
fn program(name: &str) -> io::Result<Command> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/.databases/usr/postgresql");
    let path = path.join(name);
    if !path.exists() {
        return Err(io::Error::other(format!("{} is missing: make tools", path.display())));
    }
    if !is_root()? {
        return Ok(Command::new(path));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command.args(["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]);
    command.arg(path);
    Ok(command)
}

fn is_root() -> io::Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(io::Error::other(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
