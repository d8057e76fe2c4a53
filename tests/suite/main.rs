//! Behaviour of the whole program, with real sockets, files and processes. Needs only Rust, gcc and git.
//!
//! tests/README.md says what is tested where. Tests that need other programs are in `tests/external/`.
#![allow(unreachable_pub, reason = "nothing uses the modules of tests from outside")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stderr, reason = "long tests say how far they are")]

mod account;
mod adopting;
mod architecture;
mod backup;
mod binding;
mod canary;
mod canary_services;
mod cli_json;
mod commands;
mod customers;
mod deep_inputs;
mod deliveries;
mod dependencies;
mod descriptors;
mod desk;
mod doctor;
mod downloads;
mod edd_clients;
mod edd_page;
mod events;
mod failing;
mod file_access;
mod first_copies;
mod foreign_keys;
mod format_1;
mod golden;
mod hooks;
mod hooks_under_attack;
mod hosted;
mod import_presets;
mod imports;
mod issued;
mod kept;
mod keys;
mod ledger;
mod license_history;
mod linear;
mod management;
mod many_sites;
mod metrics;
mod odd_files;
mod older_index;
mod order_references;
mod packages;
mod packaging;
mod parked;
mod preview;
mod problems;
mod public;
mod publish;
mod questions;
mod readme;
mod registry;
mod reload;
mod remote;
mod renew_links;
mod replaced;
mod report_api;
mod restart;
mod rollouts;
mod sales;
mod security;
mod sellers;
mod shop_verbs;
mod signature;
mod site_moves;
mod slow;
mod soak;
mod staging_sites;
mod start;
mod statements;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod themes;
mod timing;
mod tls;
mod tokens;
mod trace;
mod updates;
mod vectors;
