//! A running server of an instance, on a free port.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use serde_json::Value;

use super::http::{Response, get, post_json};
use super::instance::{Instance, License, question};
use super::server_log::ServerLog;

/// A running server; it is killed when it is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    /// Where health and metrics are.
    pub admin: SocketAddr,
    log: ServerLog,
}

/// The program on an instance, without the environment's settings.
pub fn countersign(instance: &Instance) -> Command {
    countersign_in(instance.path())
}

/// The same for an instance that was made otherwise.
pub fn countersign_in(instance: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.arg("-C").arg(instance).env("NO_COLOR", "1");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("COUNTERSIGN_")) {
        command.env_remove(name);
    }
    // Where `init` opens a desk, only one server could listen.
    let file = instance.join("countersign.toml");
    // Some tests put a pipe there, which nobody writes.
    let settings = file.is_file().then(|| std::fs::read_to_string(file).ok()).flatten();
    if settings.is_some_and(|settings| settings.contains("\ndesk.listen = \"127.0.0.1:8082\"\n")) {
        command.env("COUNTERSIGN_DESK_LISTEN", "127.0.0.1:0");
    }
    command
}

impl Server {
    pub fn start(instance: &Instance) -> Self {
        Self::start_with(instance, &[])
    }

    /// Starts with more flags; rate limits are far away unless the flags bring them near.
    pub fn start_with(instance: &Instance, flags: &[&str]) -> Self {
        Self::start_in(instance.path(), flags)
    }

    /// The same for an instance that was made otherwise.
    pub fn start_in(instance: &Path, flags: &[&str]) -> Self {
        Self::start_command(countersign_in(instance), flags)
    }

    /// The same where a file-size limit set later is an error of a write, as a full disk is, and no signal.
    pub fn start_limitable(instance: &Instance, environment: &[(&str, &Path)]) -> Self {
        let plain = countersign(instance);
        let mut command = Command::new("sh");
        command.envs(environment.iter().copied());
        command
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(plain.get_program())
            .args(plain.get_args());
        Self::start_command(command, &[])
    }

    /// Starts what a command says, which serves an instance.
    pub fn start_command(mut command: Command, flags: &[&str]) -> Self {
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(flags);
        for limit in [
            "--requests-per-minute",
            "--requests-per-license",
            "--failures-per-minute",
            "--connections-per-address",
        ] {
            if !flags.contains(&limit) {
                command.args([limit, "4000000000"]);
            }
        }
        let mut child = command
            .env("COUNTERSIGN_LOG", "trace")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = ServerLog::of(child.stderr.take().unwrap());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut address = || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line.trim()
                .rsplit_once("://")
                .and_then(|(_, address)| address.parse().ok())
        };
        let (Some(address), Some(admin)) = (address(), address()) else {
            let _ = child.wait();
            panic!("the server did not start: {}", log.text());
        };
        thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
        Self {
            child,
            address,
            admin,
            log,
        }
    }

    pub fn log(&self) -> String {
        self.log.text()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// No file of its may grow beyond so many bytes (`unlimited`: any number), as on a full disk.
    pub fn limit_files(&self, bytes: &str) {
        let pid = self.pid().to_string();
        let limit = format!("--fsize={bytes}:unlimited");
        assert!(
            Command::new("prlimit")
                .args(["--pid", &pid, &limit])
                .status()
                .unwrap()
                .success()
        );
    }

    pub fn signal(&self, name: &str) {
        let killed = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.pid()))
            .status()
            .unwrap();
        assert!(killed.success());
    }

    /// SIGTERM, and the exit status.
    pub fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn validate(&self, license: &License, site_url: &str) -> Response {
        self.ask(&question(license, site_url))
    }

    pub fn ask(&self, question: &Value) -> Response {
        post_json(self.address, "/api/v1/validate-license", question)
    }

    pub fn updates(&self, license: &License, site_url: &str, more: &str) -> Response {
        get(self.address, &updates("acme-forms", license, site_url, more))
    }

    /// The value of a series on `/metrics`, by its name with its labels; `None` where it is not there.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let page = get(self.admin, "/metrics").text();
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }

    /// The condition of a part on `/readyz`.
    pub fn part(&self, part: &str) -> Value {
        get(self.admin, "/readyz").json()["parts"][part].clone()
    }
}

/// The target of a question for updates; `more` is appended to the query.
pub fn updates(slug: &str, license: &License, site_url: &str, more: &str) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("license_key", &license.key)
        .append_pair("site_url", site_url)
        .finish();
    format!("/api/v1/updates/{slug}?{query}{more}")
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
