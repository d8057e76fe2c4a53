//! TLS to the database: the server's certificate and name are verified, as `sslmode=verify-full` says.

use std::io;
use std::path::Path;

use tokio_postgres_rustls::MakeRustlsConnect;

use countersign_settings::tls_client;

/// Reads the certificates to trust: those in `file`, or the system's.
pub(super) fn connector(file: Option<&Path>) -> io::Result<MakeRustlsConnect> {
    tls_client::config(file, "?sslrootcert=FILE").map(MakeRustlsConnect::new)
}
