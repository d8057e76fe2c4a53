//! What both test targets share: an instance in a temporary folder, the program that serves it, a plain HTTP client,
//! and more.
//!
//! Each target compiles it. What only one target uses is in that target.

pub mod account;
pub mod certificate;
pub mod cli_json;
pub mod format_1;
pub mod history;
pub mod http;
pub mod instance;
pub mod issued;
pub mod linear;
pub mod preview;
pub mod random;
pub mod rotation;
pub mod sale;
pub mod server;
pub mod server_log;
pub mod shop;
pub mod soak;
pub mod stored;
pub mod upstream;
pub mod vectors;
pub mod writers;

pub use http::{Response, get, post_json, request};
pub use instance::{Instance, License};
pub use server::Server;

use std::time::{Duration, Instant};

/// How long a test waits for what takes a moment: also on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, or fails with what was waited for.
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(what, PATIENCE, condition);
}

/// As [`eventually`], where it may take longer, or has to be faster.
pub fn eventually_within(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
