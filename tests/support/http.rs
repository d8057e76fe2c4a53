//! A plain HTTP/1.1 client that sends exactly the given bytes and keeps the response.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer takes, so that a test that hangs fails instead.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    /// The `code` of a statement or a problem document.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A connection that stays open between requests.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the server accepts")
    }

    pub fn try_connect(address: SocketAddr) -> std::io::Result<Self> {
        Self::over(TcpStream::connect(address)?)
    }

    /// Speaks over a connection that somebody else opened.
    pub fn over(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends the bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads the head of one answer.
    pub fn receive_head(&mut self) -> std::io::Result<Response> {
        let broken = |what: &str| std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what.to_owned());
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| broken("no status line"))?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
                None => {
                    return Ok(Response {
                        status,
                        headers,
                        body: Vec::new(),
                    });
                }
            }
        }
    }

    /// Reads one answer.
    pub fn receive(&mut self) -> std::io::Result<Response> {
        let mut response = self.receive_head()?;
        if response.header("transfer-encoding") == Some("chunked") {
            response.body = self.receive_chunks()?;
            return Ok(response);
        }
        let length = response
            .header("content-length")
            .and_then(|length| length.parse().ok())
            .unwrap_or(0);
        response.body = self.receive_body(length)?;
        Ok(response)
    }

    fn receive_chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            let mut chunk = self.receive_body(size + 2)?;
            chunk.truncate(size);
            match size {
                0 => return Ok(body),
                _ => body.extend(chunk),
            }
        }
    }

    /// Reads so many bytes of a body whose head was read.
    pub fn receive_body(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    pub fn try_request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Response> {
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        match self.send(&[head.as_bytes(), body].concat()) {
            // A server may answer before it has the whole body, and close the connection.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.receive().map_err(|_| error),
            sent => {
                sent?;
                self.receive()
            }
        }
    }

    pub fn request(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.try_request(method, target, headers, body).expect("an answer")
    }

    pub fn post_json(&mut self, target: &str, body: &Value) -> Response {
        self.request(
            "POST",
            target,
            &[("Content-Type", "application/json")],
            body.to_string().as_bytes(),
        )
    }
}

/// One request on a connection of its own.
pub fn request(address: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    Client::connect(address).request(method, target, headers, body)
}

pub fn get(address: SocketAddr, target: &str) -> Response {
    request(address, "GET", target, &[], b"")
}

pub fn post_json(address: SocketAddr, target: &str, body: &Value) -> Response {
    Client::connect(address).post_json(target, body)
}
