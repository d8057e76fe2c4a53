//! TLS to the database: the server's certificate and name are verified, as `sslmode=verify-full` says.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::regular_file;

/// The certificates that the system trusts: Debian and Alpine, then Fedora.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The largest file of certificates, in bytes. Debian's has 220 kB.
const LIMIT: u64 = 4 << 20;

/// Reads the certificates to trust: those in `file`, or the system's.
pub(super) fn connector(file: Option<&Path>) -> io::Result<MakeRustlsConnect> {
    let path = match file {
        Some(file) => file,
        None => SYSTEM.iter().map(Path::new).find(|path| path.exists()).ok_or_else(|| {
            io::Error::other("this system has no list of trusted certificates: add ?sslrootcert=FILE")
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
    Ok(MakeRustlsConnect::new(config))
}
