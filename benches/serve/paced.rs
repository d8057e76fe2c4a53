//! Load at a steady pace (open loop). wrk cannot do that, because it sends a request only after the last response.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::report::percentile;

/// A request, by its number.
pub type Request = Arc<dyn Fn(usize) -> String + Send + Sync>;

/// How each request ended: when it was due, its status, and how long it took from then, in seconds.
pub type Answers = Vec<(Instant, u16, f64)>;

/// Load in a thread of its own, until it is stopped.
pub struct Paced {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Answers>>,
}

/// A GET of `target`.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n")
}

/// A validation with this body.
pub fn post(body: &str) -> String {
    format!(
        "POST /api/v1/validate-license HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len(),
    )
}

impl Paced {
    /// Sends `rate` requests a second over so many connections.
    pub fn start(address: SocketAddr, connections: usize, rate: f64, request: Request) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut tasks = tokio::task::JoinSet::new();
                let schedule = Arc::new(Schedule {
                    start: Instant::now(),
                    rate,
                    next: AtomicUsize::new(0),
                });
                for _ in 0..connections {
                    let request = Arc::clone(&request);
                    let schedule = Arc::clone(&schedule);
                    let stopped = Arc::clone(&stopped);
                    tasks.spawn(connection(address, schedule, request, stopped));
                }
                let mut answers = Vec::new();
                while let Some(done) = tasks.join_next().await {
                    answers.extend(done.map_err(io::Error::other)??);
                }
                Ok(answers)
            })
        });
        Self { stop, thread }
    }

    /// Ends the load; returns every answer.
    pub fn stop(self) -> io::Result<Answers> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the load failed"))?
    }
}

/// The 99th percentile of the answers due in these stretches of time, in seconds; only those with this status, if any
/// is given.
pub fn p99(answers: &Answers, stretches: &[Range<Instant>], status: Option<u16>) -> f64 {
    let counts = |at: &Instant, found: &u16| {
        stretches.iter().any(|stretch| stretch.contains(at)) && status.is_none_or(|status| status == *found)
    };
    percentile(
        answers
            .iter()
            .filter(|(at, found, _)| counts(at, found))
            .map(|(.., took)| *took),
        0.99,
    )
}

/// When each request is due. Whichever connection is free takes the next one, so that a request is late only where
/// all wait for answers, and never because of another one's.
struct Schedule {
    start: Instant,
    rate: f64,
    next: AtomicUsize,
}

impl Schedule {
    /// The next request's number, and when it is due.
    fn take(&self) -> (usize, Instant) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number, self.start + Duration::from_secs_f64(number as f64 / self.rate))
    }
}

async fn connection(
    address: SocketAddr,
    schedule: Arc<Schedule>,
    request: Request,
    stopped: Arc<AtomicBool>,
) -> io::Result<Answers> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut answers = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while !stopped.load(Ordering::Relaxed) {
        let (number, due) = schedule.take();
        // What is late because all connections were busy counts from when it was due; a timer's own delay does not.
        let began = if Instant::now() > due {
            due
        } else {
            tokio::time::sleep_until(due.into()).await;
            Instant::now()
        };
        stream.write_all(request(number).as_bytes()).await?;
        let status = receive(&mut stream, &mut buffer).await?;
        answers.push((began, status, began.elapsed().as_secs_f64()));
    }
    Ok(answers)
}

/// Reads one answer; returns its status.
pub async fn receive(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<u16> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next()?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return head
                .split(' ')
                .nth(1)
                .and_then(|status| status.parse().ok())
                .ok_or(io::ErrorKind::InvalidData.into());
        }
    }
}
