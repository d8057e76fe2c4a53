//! From socket to request: accept, TLS, HTTP/1.1, connection limits, timeouts, and the client's address.
//!
//! [`listener`] accepts, [`tls`] encrypts, [`connection`] reads requests and passes them to a [`handler`].

pub mod client_ip;
pub mod connection;
pub(crate) mod connection_limit;
pub(crate) mod connection_table;
pub mod descriptors;
pub mod handler;
pub mod listener;
pub(crate) mod phase;
pub(crate) mod request_head;
pub mod timeouts;
pub mod tls;
