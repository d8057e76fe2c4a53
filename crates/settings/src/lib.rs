//! Configuration, private keys, and clients of other servers.
//!
//! [`config`] merges the file, the environment and the flags once. [`keys`] reads the private keys of this machine.
//! [`tls_client`] decides which certificates to trust, and [`http_client`] sends requests.
#![forbid(unsafe_code)]

pub mod config;
pub mod http_client;
pub mod keys;
pub mod tls_client;
