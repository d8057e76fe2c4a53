//! What a person sets: configuration, keys, and how other servers are reached.
//!
//! [`config`] merges the file, the environment and the flags once. [`keys`] reads the private keys of this machine.
//! [`tls_client`] says which certificates of other servers are trusted, and [`http_client`] asks other servers.
#![forbid(unsafe_code)]

pub mod config;
pub mod http_client;
pub mod keys;
pub mod tls_client;
