//! A mail server (aiosmtpd) that behaves as a recipient's name says: `tests/tools/smtp.py`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::daemon::{run, tool};

/// Who logs in, where somebody must.
pub const USER: &str = "acme@mail.example";
pub const PASSWORD: &str = "canary-8d1f: pässword";

/// A running mail server; it ends when it is dropped.
pub struct MailServer {
    child: Child,
    pub port: u16,
    folder: TempDir,
}

impl MailServer {
    /// `tls` as in the settings; with encryption, one must log in, too.
    pub fn start(tls: &str) -> Self {
        Self::start_as(tls, "localhost")
    }

    /// The same with a certificate for another name.
    pub fn start_as(tls: &str, name: &str) -> Self {
        Self::start_with(tls, name, 0)
    }

    /// Without encryption, on a port that another one had.
    pub fn start_at(port: u16) -> Self {
        Self::start_with("none", "localhost", port)
    }

    fn start_with(tls: &str, name: &str, port: u16) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(tool(".venv/bin/python3"));
        command
            .arg(tool("smtp.py"))
            .arg(folder.path())
            .args(["--tls", tls, "--port", &port.to_string()]);
        if tls != "none" {
            let openssl = |arguments: &str| {
                run(Command::new("openssl")
                    .args(arguments.split(' '))
                    .current_dir(folder.path()))
            };
            fs::write(folder.path().join("names"), format!("subjectAltName=DNS:{name}")).unwrap();
            openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=Acme -keyout ca.key -out ca.pem");
            openssl("req -newkey rsa:2048 -nodes -subj /CN=mail -keyout mail.key -out mail.csr");
            openssl(
                "x509 -req -in mail.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out mail.pem",
            );
            command.args(["--certificate", "mail.pem", "--key", "mail.key"]).args([
                "--user",
                USER,
                "--password",
                PASSWORD,
            ]);
        }
        let mut child = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("no mail server: {line}"));
        Self { child, port, folder }
    }

    /// The file of the certificate that signed the server's.
    pub fn authority(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }

    /// Gives all recipients one more behaviour; an empty text takes it away.
    pub fn behave(&self, behaviour: &str) {
        let beside = self.folder.path().join("behaviour~");
        fs::write(&beside, behaviour).unwrap();
        fs::rename(beside, self.folder.path().join("behaviour")).unwrap();
    }

    /// The mails that it took, oldest first.
    pub fn mails(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("mails.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A header of a mail.
pub fn header<'a>(mail: &'a Value, name: &str) -> &'a str {
    let headers = mail["headers"].as_array().unwrap();
    let found: Vec<_> = headers.iter().filter(|header| header[0] == name).collect();
    assert_eq!(found.len(), 1, "{name}: {headers:?}");
    found[0][1].as_str().unwrap()
}
