//! TLS as a client: which certificates are trusted, and the handshake. The server's name and certificate are always
//! verified.
//!
//! The database and the mail server are reached through here.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use countersign_files::regular_file;

pub use tokio_rustls::client::TlsStream;

/// The certificates that the system trusts: Debian and Alpine, then Fedora.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The largest file of certificates, in bytes. Debian's has 220 kB.
const LIMIT: u64 = 4 << 20;

/// Reads the certificates to trust: those in `file`, or the system's. `setting` is where a person names such a file.
///
/// # Errors
/// There is no such file, or a certificate in `file` is not usable.
pub fn config(file: Option<&Path>, setting: &str) -> io::Result<ClientConfig> {
    let path = match file {
        Some(file) => file,
        None => SYSTEM.iter().map(Path::new).find(|path| path.exists()).ok_or_else(|| {
            io::Error::other(format!(
                "this system has no list of trusted certificates: add {setting}"
            ))
        })?,
    };
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", path.display()));
    let pem = regular_file::read(path, LIMIT).map_err(|error| failed(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| failed(&"not certificates in PEM"))?;
        // The system's list has some that this library does not know.
        let added = roots.add(certificate);
        if file.is_some() {
            added.map_err(|error| failed(&error))?;
        }
    }
    if roots.is_empty() {
        return Err(failed(&"has no certificate"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Makes the handshake with the server `name`, which is a domain or an IP address.
///
/// # Errors
/// The name is neither, or the server's certificate is not accepted. No time limit: the caller has one.
pub async fn handshake(config: ClientConfig, name: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
