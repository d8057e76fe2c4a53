//! The desk with a million licenses in the ledger: its pages, a search, and updates while ten people click.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Answer, Client, updates};
use crate::instance::{Instance, host, key};
use crate::issued::{self, Seller};
use crate::million::MILLION;
use crate::paced::{self, Paced, p99};
use crate::process::Server;
use crate::report::{Target, heading, median, row};

/// How often each page is asked for.
const LOOKS: usize = 7;

/// People who click, and how long each reads a page.
const PEOPLE: usize = 10;
const READING: Duration = Duration::from_millis(500);

/// How often, and how long, updates are alone and beside people.
const TURNS: usize = 6;
const TURN: Duration = Duration::from_secs(5);

pub fn run(bench: &Path) -> io::Result<()> {
    let instance = issued::instance(bench, Seller::Shop)?;
    open(&instance)?;
    heading("the desk with 1,000,000 licenses of the ledger, each sold and bound");
    let server = Server::countersign(&instance.folder)?;
    let desk = Desk::sign_in(&instance)?;
    let license = format!("/licenses/{}", key(MILLION / 2).id());
    let search = format!("/licenses?q={}", &host(MILLION / 3)[..10]);
    let pages = [
        ("Today", "/", 100.0),
        ("Licenses", "/licenses", 100.0),
        ("Licenses, filtered", "/licenses?plugin=acme-forms&seats=full", 100.0),
        ("search by part of a host", search.as_str(), 150.0),
        ("search by part of a name", "/licenses?q=wner+77777", 150.0),
        ("search by part of an address", "/licenses?q=l123456%40ex", 150.0),
        ("one license with its history", license.as_str(), 100.0),
        ("a plugin", "/plugins/acme-forms", 100.0),
        ("Sales", "/sales", 100.0),
        ("Sharing", "/sharing", 100.0),
        ("Health", "/health", 100.0),
    ];
    for (name, page, most) in pages {
        let mut took = Vec::new();
        for _ in 0..LOOKS {
            let began = Instant::now();
            let answer = desk.get(page)?;
            took.push(began.elapsed().as_secs_f64() * 1e3);
            // A search with one result leads to its license.
            if answer.status != 200 && !(answer.status == 303 && page.contains("?q=")) {
                let to = answer.headers.iter().find(|(name, _)| name == "location");
                return Err(io::Error::other(format!("{page}: {} {to:?}", answer.status)));
            }
        }
        let first = took[0];
        let label = format!("{name} (the first {first:.0} ms, {LOOKS} looks)");
        row(&label, median(took.into_iter()), "ms", Target::AtMost(most));
    }
    beside_updates(&server, &desk, &pages.map(|(_, page, _)| page.to_owned()))?;
    server.stop()
}

/// The desk on any port, and the secrets that its sessions are signed with.
fn open(instance: &Instance) -> io::Result<()> {
    for name in ["issuing", "references"] {
        let file = instance.file(&format!("keys/{name}.key"));
        fs::write(&file, &name.repeat(5)[..32])?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    }
    let settings = fs::read_to_string(instance.file("countersign.toml")).unwrap_or_default();
    let line = "desk.listen = \"127.0.0.1:0\"\n";
    if settings.contains(line) {
        return Ok(());
    }
    instance.write("countersign.toml", &format!("{line}{settings}"))
}

/// 1,000 updates a second, alone and while people click, in turns: a machine that others share is slow for seconds at a time.
fn beside_updates(server: &Server, desk: &Desk, pages: &[String]) -> io::Result<()> {
    let ask = Arc::new(move |at: usize| paced::get(&updates(at * 997 % MILLION, "&current_version=1.19.0")));
    let load = Paced::start(server.address, 64, 1_000.0, ask);
    std::thread::sleep(Duration::from_secs(1));
    let mut alone = Vec::new();
    let mut beside = Vec::new();
    let mut clicks = 0;
    for _ in 0..TURNS {
        let quiet = Instant::now();
        std::thread::sleep(TURN);
        let begun = Instant::now();
        clicks += click(desk, pages);
        alone.push(quiet..begun);
        beside.push(begun..Instant::now());
    }
    let answers = load.stop()?;
    let quiet = p99(&answers, &alone, None);
    let busy = p99(&answers, &beside, None);
    let label = format!(
        "updates' p99, {PEOPLE} people, {clicks} pages : alone ({:.2} : {:.2} ms)",
        busy * 1e3,
        quiet * 1e3
    );
    row(&label, busy / quiet, "x", Target::AtMost(1.2));
    Ok(())
}

/// Has people click for one turn, each on another page first. Gives the number of pages.
fn click(desk: &Desk, pages: &[String]) -> usize {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let people: Vec<_> = (0..PEOPLE)
            .map(|person| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut clicks = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let page = &pages[(person + clicks) % pages.len()];
                        clicks += usize::from(desk.get(page).is_ok());
                        std::thread::sleep(READING);
                    }
                    clicks
                })
            })
            .collect();
        std::thread::sleep(TURN);
        is_over.store(true, Ordering::Relaxed);
        people.into_iter().map(|person| person.join().unwrap_or_default()).sum()
    })
}

/// A browser that is signed in.
struct Desk {
    address: SocketAddr,
    host: String,
    cookie: String,
}

impl Desk {
    /// Signs in by the link of `countersign desk`.
    fn sign_in(instance: &Instance) -> io::Result<Self> {
        let output = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .arg("-C")
            .arg(&instance.folder)
            .args(["desk", "--json"])
            .output()?;
        let broken = |what: &str| io::Error::other(format!("{what}: {}", String::from_utf8_lossy(&output.stderr)));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| broken("no link"))?;
        let link = said["link"].as_str().and_then(|link| link.strip_prefix("http://"));
        let (host, path) = link
            .and_then(|link| link.split_once('/'))
            .ok_or_else(|| broken("no link"))?;
        let port = host.rsplit(':').next().and_then(|port| port.parse().ok());
        let mut desk = Self {
            address: ([127, 0, 0, 1], port.ok_or_else(|| broken("no port"))?).into(),
            host: host.to_owned(),
            cookie: String::new(),
        };
        let answer = desk.ask("POST", &format!("/{path}"))?;
        let cookie = answer.headers.iter().find(|(name, _)| name == "set-cookie");
        let cookie = cookie.and_then(|(_, cookie)| cookie.split(';').next());
        desk.cookie = cookie.ok_or_else(|| broken("no session"))?.to_owned();
        Ok(desk)
    }

    fn get(&self, page: &str) -> io::Result<Answer> {
        self.ask("GET", page)
    }

    fn ask(&self, method: &str, page: &str) -> io::Result<Answer> {
        let Self { host, cookie, .. } = self;
        Client::connect(self.address)?.send(&format!(
            "{method} {page} HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\nCookie: {cookie}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n\r\n"
        ))
    }
}
