//! The outside world of a site: the license server behind a proxy that can fail in many ways, the vendor's downloads,
//! and api.wordpress.org.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::http::{self, Response};

/// Makes an answer of the question and the server's own answer to it.
type Make = dyn Fn(&Asked, Response) -> Response + Send + Sync;

/// Sends whatever it likes, for as long as it likes.
type Stream = dyn Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync;

/// What becomes of a question to the license server.
#[derive(Clone)]
pub enum Answer {
    /// Asks the server behind, and gives what it says.
    Forward,
    /// The connection is closed without a word.
    Nothing,
    /// The server's answer, this much later.
    Late(Duration),
    /// This, whatever was asked.
    Fixed(Response),
    /// The server's answer, changed.
    Made(Arc<Make>),
    /// This at once, and then a letter at a time for longer than anybody should wait.
    Drip(&'static str),
}

/// What a site asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn is_validation(&self) -> bool {
        self.target.starts_with("/api/v1/validate-license")
    }
}

/// Listens on a port of its own until the tests end.
#[derive(Clone)]
pub struct Front {
    pub address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    server: Option<SocketAddr>,
    answer: Answer,
    files: BTreeMap<String, Response>,
    streams: BTreeMap<String, Arc<Stream>>,
    asked: Vec<Asked>,
    in_pieces: bool,
}

impl Front {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared {
            server: None,
            answer: Answer::Forward,
            files: BTreeMap::new(),
            streams: BTreeMap::new(),
            asked: Vec::new(),
            in_pieces: false,
        };
        let front = Self {
            address,
            shared: Arc::new(Mutex::new(shared)),
        };
        let serving = front.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let front = serving.clone();
                // A client that went away is no fault of the tests.
                thread::spawn(move || front.serve(stream).ok());
            }
        });
        front
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Forwards to this server from now on.
    pub fn forward_to(&self, server: SocketAddr) {
        self.shared.lock().unwrap().server = Some(server);
    }

    pub fn answer_with(&self, answer: Answer) {
        self.shared.lock().unwrap().answer = answer;
    }

    /// Sends the headers of each answer, then half of its body, then the rest, as servers do that read from a disk.
    pub fn answer_in_pieces(&self) {
        self.shared.lock().unwrap().in_pieces = true;
    }

    /// Serves bytes, or a redirect, under a path.
    pub fn put(&self, path: &str, response: Response) {
        self.shared.lock().unwrap().files.insert(path.into(), response);
    }

    /// Has a path answered by a function that writes to its connection.
    pub fn stream(&self, path: &str, stream: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static) {
        self.shared
            .lock()
            .unwrap()
            .streams
            .insert(path.into(), Arc::new(stream));
    }

    /// The questions to the license server since the last call.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.lock().unwrap().asked)
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let asked = read(&mut stream)?;
        let streaming = self.shared.lock().unwrap().streams.get(&asked.target).cloned();
        if let Some(streaming) = streaming {
            return streaming(stream.get_mut());
        }
        let response = if asked.target.starts_with("/api.wordpress.org/") {
            Some(wordpress_org())
        } else if let Some(file) = self.shared.lock().unwrap().files.get(&asked.target) {
            Some(file.clone())
        } else {
            if let Answer::Drip(first) = self.shared.lock().unwrap().answer.clone() {
                return drip(stream.get_mut(), first);
            }
            self.ask_server(&asked)
        };
        match response {
            Some(response) if self.shared.lock().unwrap().in_pieces => {
                let bytes = written(&response);
                let body = bytes.len() - response.body.len();
                let half = body + response.body.len() / 2;
                stream.get_mut().set_nodelay(true)?;
                for piece in [&bytes[..body], &bytes[body..half], &bytes[half..]] {
                    stream.get_mut().write_all(piece)?;
                    thread::sleep(Duration::from_millis(50));
                }
                Ok(())
            }
            Some(response) => stream.get_mut().write_all(&written(&response)),
            None => Ok(()),
        }
    }

    fn ask_server(&self, asked: &Asked) -> Option<Response> {
        let (server, answer) = {
            let mut shared = self.shared.lock().unwrap();
            shared.asked.push(asked.clone());
            (shared.server, shared.answer.clone())
        };
        let forward = || {
            let headers: Vec<_> = asked
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let ours =
                |(name, _): &(&str, &str)| ["content-type", "authorization"].contains(&name.to_lowercase().as_str());
            let headers: Vec<_> = headers.into_iter().filter(ours).collect();
            let mut client = http::Client::try_connect(server?).ok()?;
            client
                .try_request(&asked.method, &asked.target, &headers, &asked.body)
                .ok()
        };
        match answer {
            Answer::Forward => forward(),
            Answer::Nothing | Answer::Drip(_) => None,
            Answer::Late(delay) => {
                thread::sleep(delay);
                forward()
            }
            Answer::Fixed(response) => Some(response),
            Answer::Made(make) => Some(make(asked, forward()?)),
        }
    }
}

/// Sends a letter at a time, until the client goes or half a minute is over.
fn drip(stream: &mut TcpStream, first: &str) -> std::io::Result<()> {
    stream.write_all(first.as_bytes())?;
    for _ in 0..150 {
        thread::sleep(Duration::from_millis(200));
        stream.write_all(b"a")?;
    }
    Ok(())
}

/// An answer as a test writes it.
pub fn response(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Response {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Response {
        status,
        headers,
        body: body.into(),
    }
}

/// WordPress.org knows of no update.
fn wordpress_org() -> Response {
    let nothing = r#"{"plugins":[],"themes":[],"no_update":[],"translations":[],"offers":[]}"#;
    response(200, &[("Content-Type", "application/json")], nothing)
}

fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let method = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => break,
        }
    }
    let mut asked = Asked {
        method,
        target,
        headers,
        body: Vec::new(),
    };
    if asked.header("expect").is_some() {
        stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let length = asked
        .header("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    asked.body = vec![0; length];
    stream.read_exact(&mut asked.body)?;
    Ok(asked)
}

fn written(response: &Response) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Answer\r\nConnection: close\r\n", response.status);
    for (name, value) in &response.headers {
        if !["connection", "content-length"].contains(&name.to_lowercase().as_str()) {
            head += &format!("{name}: {value}\r\n");
        }
    }
    [
        format!("{head}Content-Length: {}\r\n\r\n", response.body.len()).as_bytes(),
        &response.body,
    ]
    .concat()
}
