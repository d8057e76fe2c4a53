//! Behaviour checked with other programs: PHP, WordPress, Chromium, openssl, strace and more. `make tools` installs
//! them.
//!
//! A module has the same name as the one in `tests/suite/` about the same behaviour, if there is one.
#![allow(unreachable_pub, reason = "nothing uses the modules of tests from outside")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stderr, reason = "long tests say how far they are")]

mod account_browser;
mod binding;
mod checkouts;
mod clients;
mod clock;
mod commands;
mod composer;
mod contract;
mod desk_browser;
mod dist;
mod docs;
mod keys;
mod lived_with;
mod mail;
mod monitoring;
mod nodes;
mod odd_files;
mod operating;
mod package;
mod php;
mod power;
mod preview;
mod preview_browser;
mod release;
mod remote;
mod sales;
mod shops;
mod sign;
mod signature;
mod soak;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod tools;
mod webhooks;
mod wordpress;
