//! Connections from more than one address, and limits on file descriptors.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::http::Client;

/// Connects from an address of this machine: all of 127.0.0.0/8 are.
pub fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<Client> {
    // Not for the programs that other tests start meanwhile.
    let socket: OwnedFd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &to)?;
    Client::over(TcpStream::from(socket))
}

/// Lets this process hold as many connections as the system allows.
pub fn raise_own_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )
    .unwrap();
}
