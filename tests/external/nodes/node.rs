//! A node: an instance with the same keys and licenses as the others, and its process on the shared ledger.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use crate::support::http::Response;
use crate::support::instance::{Instance, License};
use crate::support::server::{Server, countersign};

/// An instance with these licenses, for one node.
pub fn instance(licenses: &[&License]) -> Instance {
    let tables: Vec<_> = licenses.iter().map(|license| license.toml("sites = 1\n")).collect();
    Instance::with_licenses(&tables)
}

/// Starts a node on the ledger at this address.
pub fn start(instance: &Instance, address: &str) -> Server {
    Server::start_command(countersign(instance), &["--store", address])
}

/// What a start says that fails with this exit code: 3 for wrong input, 4 for a failed environment.
pub fn refusal(instance: &Instance, address: &str, exit: i32) -> String {
    let output = countersign(instance)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "off",
            "--store",
            address,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(exit), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The `code` of an answer.
pub fn code(response: &Response) -> String {
    response.json()["code"].as_str().unwrap_or_default().to_owned()
}

/// A node that tests kill, freeze and start again: its folder, and its process while it runs.
pub struct Node {
    instance: Instance,
    store: String,
    server: Mutex<Option<Server>>,
}

impl Node {
    /// A running one with these licenses, on the database at `store`.
    pub fn start(licenses: &[String], store: String) -> Self {
        Self::with(Instance::with_licenses(licenses), store)
    }

    /// A running one of this instance.
    pub fn with(instance: Instance, store: String) -> Self {
        let node = Self {
            instance,
            store,
            server: Mutex::default(),
        };
        node.restart();
        node
    }

    /// Starts its process; one that runs is killed.
    pub fn restart(&self) {
        let flags = ["--store", &self.store, "--signing-queue", "1024"];
        let server = Server::start_command(countersign(&self.instance), &flags);
        *self.server() = Some(server);
    }

    /// kill -9.
    pub fn kill(&self) {
        self.server().take().expect("it runs").kill();
    }

    /// SIGSTOP: it does nothing, and its connections stay open.
    pub fn freeze(&self) {
        self.server().as_ref().expect("it runs").signal("STOP");
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.server().as_ref().expect("it runs").signal("CONT");
    }

    /// The value of a series on `/metrics`, if it runs.
    pub fn metric(&self, series: &str) -> Option<f64> {
        self.server().as_ref()?.metric(series)
    }

    /// Where it listens, if it runs.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server().as_ref().map(|server| server.address)
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap()
    }
}
