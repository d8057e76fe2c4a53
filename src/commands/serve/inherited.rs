//! Listening sockets that systemd opens and passes to the server (sd_listen_fds(3)). They stay open during a restart, and clients that
//! connect meanwhile wait in their queue.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

use crate::commands::Failure;

const HINT: &str =
    "name one address twice: ListenStream= in countersign.socket, and what the server listens on in countersign.toml";

/// The sockets from systemd that no part of the server has taken yet.
#[derive(Debug, Default)]
pub(super) struct InheritedSockets(Vec<(SocketAddr, TcpListener)>);

/// Why a socket cannot be used.
#[derive(Debug, thiserror::Error)]
enum UnfitSocket {
    #[error("systemd passed descriptor {descriptor}, which is no listening TCP socket: {error}")]
    Kind { descriptor: usize, error: io::Error },
    #[error("systemd passed a socket on {0}, on which no part of the server listens")]
    Unused(SocketAddr),
}

impl InheritedSockets {
    /// Takes the sockets that `LISTEN_FDS` counts, or none if `LISTEN_PID` is another process.
    ///
    /// # Errors
    /// One of them is no listening TCP socket.
    pub(super) fn take() -> Result<Self, Failure> {
        /// SD_LISTEN_FDS_START.
        const FIRST: usize = 3;
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::with_capacity(passed.len());
        for at in 0..passed.len() {
            let unfit = |error| {
                let descriptor = FIRST + at;
                Failure::input(UnfitSocket::Kind { descriptor, error }).hint(HINT)
            };
            if let Some(socket) = passed.take_tcp_listener(at).map_err(unfit)? {
                socket.set_nonblocking(true).map_err(unfit)?;
                sockets.push((socket.local_addr().map_err(unfit)?, socket));
            }
        }
        Ok(Self(sockets))
    }

    /// The socket on one of these addresses.
    pub(super) fn on(&mut self, addresses: &[SocketAddr]) -> Option<TcpListener> {
        let found = self.0.iter().position(|(address, _)| addresses.contains(address))?;
        Some(self.0.swap_remove(found).1)
    }

    /// Requires that all are taken.
    ///
    /// # Errors
    /// One is left: its clients would wait forever.
    pub(super) fn require_all_taken(&self) -> Result<(), Failure> {
        match self.0.first() {
            None => Ok(()),
            Some((address, _)) => Err(Failure::input(UnfitSocket::Unused(*address)).hint(HINT)),
        }
    }
}
