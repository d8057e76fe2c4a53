//! A pooler between PostgreSQL and its clients.

use std::fs;
use std::net::TcpStream;

use tempfile::TempDir;

use super::{Cluster, PATIENCE};
use crate::tools::daemon::{Daemon, free_port, give, tool, unprivileged};

/// When a connection to the server goes back into the pool.
#[derive(Clone, Copy)]
pub enum PoolMode {
    /// When its client leaves.
    Session,
    /// After each transaction: the next one may run on another connection.
    Transaction,
}

/// A running pgbouncer. It is killed when it is dropped.
pub struct Pgbouncer {
    _folder: TempDir,
    _daemon: Daemon,
    port: u16,
}

impl Pgbouncer {
    /// Starts one that opens at most `connections` to the server, as `role`.
    pub fn start(cluster: &Cluster, mode: PoolMode, role: &str, connections: u16) -> Self {
        let folder = TempDir::new().unwrap();
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        loop {
            let port = free_port();
            let settings = format!(
                "[databases]\n* = host=127.0.0.1 port={} user={role}\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {}\n\
                 auth_type = any\npool_mode = {mode}\ndefault_pool_size = {connections}\n",
                cluster.port,
                folder.path().display(),
            );
            let file = folder.path().join("pgbouncer.ini");
            fs::write(&file, settings).unwrap();
            give(folder.path());
            let mut command = unprivileged(tool(".databases/usr/sbin/pgbouncer"));
            command.arg(file);
            let mut daemon = Daemon::start("pgbouncer", command, &folder.path().join("log"));
            match daemon.wait_until("listens", PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok()) {
                Ok(()) => {
                    return Self {
                        _folder: folder,
                        _daemon: daemon,
                        port,
                    };
                }
                // Another took the port meanwhile.
                Err(log) => assert!(log.contains("in use"), "pgbouncer did not start: {log}"),
            }
        }
    }

    pub fn url(&self) -> String {
        format!("postgres://127.0.0.1:{}/postgres", self.port)
    }
}
