//! Behaviour of the whole program, with real sockets, files and processes. Needs only Rust, gcc and git.
//!
//! tests/README.md says what is tested where. Tests that need other programs are in `tests/external/`.
#![allow(unreachable_pub, reason = "nothing uses the modules of tests from outside")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stderr, reason = "long tests say how far they are")]

mod architecture;
mod backup;
mod binding;
mod canary;
mod cli_json;
mod commands;
mod dependencies;
mod descriptors;
mod doctor;
mod downloads;
mod failing;
mod file_access;
mod golden;
mod hosted;
mod issued;
mod keys;
mod ledger;
mod linear;
mod metrics;
mod odd_files;
mod packages;
mod packaging;
mod preview;
mod problems;
mod public;
mod questions;
mod readme;
mod registry;
mod reload;
mod remote;
mod replaced;
mod signature;
mod slow;
mod soak;
mod start;
mod statements;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod trace;
mod updates;
mod vectors;
