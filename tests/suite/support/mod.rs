//! The workbench: an instance in a temporary folder, the program serving it, and a plain HTTP client.

pub mod http;
pub mod instance;
pub mod server;

pub use http::{Response, get, post_json, request};
pub use instance::{Instance, License};
pub use server::Server;

use std::time::{Duration, Instant};

/// Waits until `condition` holds, or fails with what was waited for.
pub fn eventually(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
