//! From a socket to a request: accept, TLS, HTTP/1.1, limits on connections, timeouts, and whose address counts.
//!
//! [`listener`] accepts and [`tls`] encrypts; [`connection`] reads requests and hands them to a [`handler`].

pub mod client_ip;
pub mod connection;
pub(crate) mod connection_limit;
pub(crate) mod connection_table;
pub mod descriptors;
pub mod handler;
pub mod listener;
pub mod networks;
pub(crate) mod phase;
pub(crate) mod request_head;
pub mod timeouts;
pub mod tls;
pub(crate) mod turn;
