//! A receiver of webhooks that checks signatures with the Standard Webhooks project's own library: `tests/tools/webhooks.py`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::daemon::{run, tool};
use super::preload;

/// A running receiver; it ends when it is dropped.
pub struct Receiver {
    child: Option<Child>,
    pub port: u16,
    folder: TempDir,
    scheme: &'static str,
}

impl Receiver {
    /// In plain text.
    pub fn start() -> Self {
        let mut receiver = Self {
            child: None,
            port: 0,
            folder: TempDir::new().unwrap(),
            scheme: "http",
        };
        receiver.start_again();
        receiver
    }

    /// In plain text, with a clock that tests set.
    pub fn start_with_clock() -> Self {
        let mut receiver = Self {
            child: None,
            port: 0,
            folder: TempDir::new().unwrap(),
            scheme: "http",
        };
        receiver.set_clock(0);
        receiver.start_again();
        receiver
    }

    /// The file that says how many seconds its clock is ahead.
    pub fn clock(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// Sets it ahead by these seconds.
    pub fn set_clock(&self, seconds: u32) {
        self.put("offset", &seconds.to_string());
    }

    /// With a certificate for this name.
    pub fn start_tls(name: &str) -> Self {
        let mut receiver = Self {
            child: None,
            port: 0,
            folder: TempDir::new().unwrap(),
            scheme: "https",
        };
        let folder = receiver.folder.path();
        let openssl = |arguments: &str| run(Command::new("openssl").args(arguments.split(' ')).current_dir(folder));
        fs::write(folder.join("names"), format!("subjectAltName=DNS:{name}")).unwrap();
        openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=Acme -keyout ca.key -out ca.pem");
        openssl("req -newkey rsa:2048 -nodes -subj /CN=hook -keyout hook.key -out hook.csr");
        openssl("x509 -req -in hook.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out hook.pem");
        receiver.start_again();
        receiver
    }

    /// Starts it again after [`Self::end`], on the same port.
    pub fn start_again(&mut self) {
        let mut command = Command::new(tool(".venv/bin/python3"));
        command
            .arg(tool("webhooks.py"))
            .arg(self.folder.path())
            .args(["--port", &self.port.to_string()]);
        if self.clock().exists() {
            command
                .env("LD_PRELOAD", preload::clock())
                .env("CLOCK_OFFSET", self.clock());
        }
        if self.scheme == "https" {
            command.args(["--certificate", "hook.pem", "--key", "hook.key"]);
        }
        let mut child = command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        self.port = line.trim().parse().unwrap_or_else(|_| panic!("no receiver: {line}"));
        self.child = Some(child);
    }

    /// Ends it; what it received stays.
    pub fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("{}://localhost:{}/in?token=CANARY-of-the-url", self.scheme, self.port)
    }

    /// The file of the certificate that signed its own.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Has it check with this secret from now on.
    pub fn know(&self, secret: &str) {
        self.put("secret", secret);
    }

    /// Has it answer so: [`tests/tools/webhooks.py`] says how.
    pub fn behave(&self, behaviour: &str) {
        self.put("behaviour", behaviour);
    }

    fn put(&self, name: &str, text: &str) {
        let beside = self.folder.path().join("beside~");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.folder.path().join(name)).unwrap();
    }

    /// Everything that came, oldest first.
    pub fn received(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("messages.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The bodies that it took.
    pub fn taken(&self) -> Vec<Value> {
        let received = self.received().into_iter();
        let taken = received.filter(|message| message["status"] == 200);
        taken.map(|mut message| message["body"].take()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.end();
    }
}
