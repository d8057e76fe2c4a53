//! Requests as a plugin sends them, and a plain HTTP/1.1 client for what wrk cannot do.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::instance::{host, key};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The target of a question for updates of the license `number` from its own site.
pub fn updates(number: usize, more: &str) -> String {
    updates_of("acme-forms", key(number).reveal(), &host(number), more)
}

/// The same for any plugin, key and host.
pub fn updates_of(slug: &str, key: &str, host: &str, more: &str) -> String {
    format!("/api/v1/updates/{slug}?license_key={key}&site_url=https%3A%2F%2F{host}%2F{more}")
}

/// The body of a validation of the license `number` by its own site.
pub fn validation(number: usize) -> String {
    format!(
        "{{\"license_key\":\"{}\",\"site_url\":\"https://{}/\",\"plugin_version\":\"1.19.0\",\"nonce\":\"9f86d081884c7d65\"}}",
        key(number).reveal(),
        host(number),
    )
}

/// What came back.
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// As it is on the wire.
    pub fn to_text(&self) -> String {
        let headers: String = self
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!("HTTP/1.1 {}\r\n{headers}\r\n{}", self.status, self.body)
    }

    pub fn from_text(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            line.split_once(':')
                .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        };
        Some(Self {
            status,
            headers: lines.filter_map(header).collect(),
            body: body.to_owned(),
        })
    }
}

/// A connection that stays open between questions.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub fn get(&mut self, target: &str) -> io::Result<Answer> {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n"))
    }

    /// Sends a whole request as it is.
    pub fn send(&mut self, request: &str) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.receive()
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let mut answer = Answer::from_text(&head).ok_or(io::ErrorKind::InvalidData)?;
        let length = answer.headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; length.and_then(|(_, length)| length.parse().ok()).unwrap_or(0)];
        self.stream.read_exact(&mut body)?;
        answer.body = String::from_utf8_lossy(&body).into_owned();
        Ok(answer)
    }
}

/// One question on a connection of its own.
pub fn get(address: SocketAddr, target: &str) -> io::Result<Answer> {
    Client::connect(address)?.get(target)
}
