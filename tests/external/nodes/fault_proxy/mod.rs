//! A TCP proxy on the loopback between a node and its database: it passes, delays, falls silent, cuts, and acts at the
//! very moment of a COMMIT.
//!
//! It reads PostgreSQL's messages (`wire`), so what goes through it is not encrypted. Its own tests are in `tests`.

mod tests;
mod wire;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wire::{FromClient, FromServer};

/// What happens to everything that goes through.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    Pass,
    /// Each piece is late.
    Delay(Duration),
    /// Nothing arrives, also no end of a connection, as in a network that is cut. What was sent meanwhile arrives when
    /// the silence ends.
    Silence,
    /// A new connection is closed at once; those that are open go on.
    Refuse,
}

/// What happens at a COMMIT.
#[derive(Clone, Copy, PartialEq)]
pub enum AtCommit {
    /// The server never sees it: the connection is cut.
    CutBefore,
    /// The server did it, and the connection is cut without an answer.
    CutAfter,
    /// The same in the middle of the answer.
    CutInAnswer,
    /// The server did it, and nothing more arrives on this connection.
    Hold,
}

/// A running proxy. All its connections are cut when it is dropped.
pub struct FaultProxy {
    shared: Arc<Shared>,
    pub port: u16,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    fault: Fault,
    /// At which of the next commits, and what.
    armed: Option<(usize, AtCommit)>,
    /// Commits that the server said it did.
    commits: usize,
    /// How often a client asked while no answer was due.
    turns: usize,
    links: Vec<Arc<Link>>,
    has_ended: bool,
}

/// A connection of a client, and the one to the server.
struct Link {
    client: TcpStream,
    server: TcpStream,
    is_cut: AtomicBool,
    is_held: AtomicBool,
    /// How many answers of the server are one byte each: it takes encryption or does not.
    short_answers: AtomicUsize,
    /// How many answers the server owes.
    due: AtomicUsize,
}

impl FaultProxy {
    /// In front of a port of the loopback.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                fault: Fault::Pass,
                armed: None,
                commits: 0,
                turns: 0,
                links: Vec::new(),
                has_ended: false,
            }),
            changed: Condvar::new(),
        });
        let acceptor = Arc::clone(&shared);
        let acceptor = thread::spawn(move || acceptor.accept(&listener, server));
        Self {
            shared,
            port,
            acceptor: Some(acceptor),
        }
    }

    /// The address of the database for a role, by way of this proxy.
    pub fn url(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.port)
    }

    pub fn set(&self, fault: Fault) {
        self.shared.lock().fault = fault;
        self.shared.changed.notify_all();
    }

    /// Cuts every connection that is open now.
    pub fn cut(&self) {
        self.shared.lock().links.drain(..).for_each(|link| link.cut());
        self.shared.changed.notify_all();
    }

    /// Does something once, at one of the commits from now on: 1 is the next one.
    pub fn at_commit(&self, number: usize, what: AtCommit) {
        self.shared.lock().armed = Some((number, what));
    }

    /// Whether that commit has yet to come.
    pub fn is_armed(&self) -> bool {
        self.shared.lock().armed.is_some()
    }

    /// How many commits the server said it did.
    pub fn commits(&self) -> usize {
        self.shared.lock().commits
    }

    /// How many round trips there were: questions that were sent at once count as one.
    pub fn turns(&self) -> usize {
        self.shared.lock().turns
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.cut();
        // Wakes the acceptor.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.acceptor.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn accept(self: Arc<Self>, listener: &TcpListener, server: u16) {
        for client in listener.incoming() {
            let Ok(client) = client else { continue };
            let is_refused = {
                let state = self.lock();
                if state.has_ended {
                    return;
                }
                state.fault == Fault::Refuse
            };
            if is_refused {
                continue;
            }
            // Closed, as far as the client can see, where the server does not listen.
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                continue;
            };
            // A proxy must add no delay of its own.
            let _ = client.set_nodelay(true);
            let _ = server.set_nodelay(true);
            self.start_link(client, server);
        }
    }

    fn start_link(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let link = Arc::new(Link {
            client,
            server,
            is_cut: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            short_answers: AtomicUsize::new(0),
            due: AtomicUsize::new(0),
        });
        {
            let mut state = self.lock();
            state.links.retain(|link| !link.is_cut.load(Ordering::SeqCst));
            state.links.push(Arc::clone(&link));
        }
        let up = (Arc::clone(self), Arc::clone(&link));
        thread::spawn(move || up.0.forward_questions(&up.1));
        let shared = Arc::clone(self);
        thread::spawn(move || shared.forward_answers(&link));
    }

    fn forward_questions(&self, link: &Link) {
        let mut messages = FromClient::default();
        self.forward(&link.client, &link.server, link, |bytes, out| {
            messages.push(bytes);
            while let Some(message) = messages.next() {
                link.short_answers.fetch_add(message.short_answers, Ordering::SeqCst);
                if message.asks() && link.due.fetch_add(1, Ordering::SeqCst) == 0 {
                    self.lock().turns += 1;
                }
                if message.is_commit && self.is_time(&[AtCommit::CutBefore]).is_some() {
                    return false;
                }
                out.extend(message.bytes);
            }
            true
        });
    }

    fn forward_answers(&self, link: &Link) {
        let mut messages = FromServer::default();
        self.forward(&link.server, &link.client, link, |bytes, out| {
            messages.push(bytes);
            while let Some(message) = messages.next(&link.short_answers) {
                if message.answers() {
                    // The first one answers no question.
                    let one_less = |due: usize| due.checked_sub(1);
                    let _ = link.due.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
                }
                if message.is_commit {
                    self.lock().commits += 1;
                    match self.is_time(&[AtCommit::CutAfter, AtCommit::CutInAnswer, AtCommit::Hold]) {
                        Some(AtCommit::CutInAnswer) => {
                            out.extend(&message.bytes[..message.bytes.len() / 2]);
                            return false;
                        }
                        Some(AtCommit::Hold) => link.is_held.store(true, Ordering::SeqCst),
                        Some(_) => return false,
                        None => {}
                    }
                }
                out.extend(message.bytes);
            }
            true
        });
    }

    /// Forwards what `choose` takes over of each piece, until one side ends or `choose` says that this was the last.
    fn forward(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        link: &Link,
        mut choose: impl FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            let mut out = Vec::new();
            let goes_on = read > 0 && choose(&buffer[..read], &mut out);
            self.wait(link);
            if link.is_cut.load(Ordering::SeqCst) || to.write_all(&out).is_err() || !goes_on {
                link.cut();
                return;
            }
        }
    }

    /// Waits as long as nothing may arrive.
    fn wait(&self, link: &Link) {
        let mut state = self.lock();
        if let Fault::Delay(time) = state.fault {
            drop(state);
            thread::sleep(time);
            return;
        }
        let is_silent = |state: &State| state.fault == Fault::Silence || link.is_held.load(Ordering::SeqCst);
        while is_silent(&state) && !link.is_cut.load(Ordering::SeqCst) {
            state = self.changed.wait(state).unwrap();
        }
    }

    /// Whether this commit is the one for which one of these was ordered.
    fn is_time(&self, of: &[AtCommit]) -> Option<AtCommit> {
        let mut state = self.lock();
        let (number, what) = state.armed.filter(|(_, what)| of.contains(what))?;
        state.armed = (number > 1).then_some((number - 1, what));
        (number == 1).then_some(what)
    }
}

impl Link {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}
