//! TLS: the server's certificate and key, checked before they are used and replaced while connections go on.
//!
//! TLS 1.2 and 1.3 through rustls, with aws-lc-rs. `reload` has the files read again; `connection` makes the handshakes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use chrono::{DateTime, Utc};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use x509_cert::der::Decode;

use crate::config::TlsFiles;
use crate::keys::secret_file::{self, SecretFileError};
use crate::regular_file;

pub use tokio_rustls::TlsAcceptor;
pub use tokio_rustls::server::TlsStream;

/// The one protocol that is spoken (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// A certificate chain larger than this is not read, in bytes.
const MAX_CHAIN: u64 = 1 << 20;

/// A certificate chain with its key, fit to be shown to clients.
#[derive(Debug)]
pub struct Certificate {
    pair: Arc<CertifiedKey>,
    expires: DateTime<Utc>,
}

/// Why a certificate is not usable. One line each; what to do about it is [`TlsError::hint`].
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate's file cannot be read.
    #[error("{}: the certificate cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why; shown, so no cause of its own.
        reason: io::Error,
    },
    /// The file holds no certificate.
    #[error("{}: not a certificate chain in PEM", .0.display())]
    NotACertificate(PathBuf),
    /// The key's file cannot be read.
    #[error("{}: the certificate's key cannot be read: {reason}", path.display())]
    ReadKey {
        /// The file.
        path: PathBuf,
        /// Why; shown, so no cause of its own.
        reason: io::Error,
    },
    /// Somebody else on the machine can read the key.
    #[error("{}: others can read the certificate's key (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds no private key.
    #[error("{}: not a private key in PEM (PKCS #8, PKCS #1 or SEC 1)", .0.display())]
    NotAKey(PathBuf),
    /// Certificate and key are not of one kind, or not of one another.
    #[error("{}: not the key of the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The library refuses its own defaults: never with the features this program is built with.
    #[error("TLS cannot be set up: {0}")]
    Library(rustls::Error),
}

impl TlsError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } | Self::ReadKey { .. } => {
                "let the user that runs the server read the file, or take tls_certificate and tls_key away".to_owned()
            }
            Self::NotACertificate(_) => "name the full chain, the server's own certificate first".to_owned(),
            Self::Exposed { path, .. } => format!("chmod 600 {}", path.display()),
            Self::NotAKey(_) | Self::Mismatch { .. } => "name the key the certificate was issued for".to_owned(),
            Self::Library(_) => "report it with the version and the platform".to_owned(),
        }
    }
}

impl Certificate {
    /// Reads a chain and its key, and checks that they belong together.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let not_a_certificate = || TlsError::NotACertificate(files.certificate.clone());
        let read_error = |reason| TlsError::Read {
            path: files.certificate.clone(),
            reason,
        };
        let pem = match regular_file::read(&files.certificate, MAX_CHAIN) {
            Err(error) if regular_file::is_unsuitable(&error) => return Err(not_a_certificate()),
            read => read.map_err(read_error)?,
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|_| not_a_certificate())?;
        let own = chain.first().ok_or_else(not_a_certificate)?;
        let own = x509_cert::Certificate::from_der(own).map_err(|_| not_a_certificate())?;
        let expires = DateTime::UNIX_EPOCH + own.tbs_certificate.validity.not_after.to_unix_duration();

        let pem = secret_file::read(&files.key).map_err(|error| key_error(error, files))?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| TlsError::NotAKey(files.key.clone()))?;
        let pair = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch {
                key: files.key.clone(),
                certificate: files.certificate.clone(),
            },
            rustls::Error::InvalidCertificate(_) => not_a_certificate(),
            _ => TlsError::NotAKey(files.key.clone()),
        })?;
        if expires < Utc::now() {
            // Served all the same: without it there would be nothing to serve.
            tracing::warn!(certificate = %files.certificate.display(), %expires, "the TLS certificate has expired");
        }
        Ok(Self {
            pair: Arc::new(pair),
            expires,
        })
    }

    /// When its own certificate ends; those above it are not looked at.
    pub fn expires(&self) -> DateTime<Utc> {
        self.expires
    }
}

fn key_error(error: SecretFileError, files: &TlsFiles) -> TlsError {
    let path = files.key.clone();
    match error {
        SecretFileError::Missing => TlsError::ReadKey {
            path,
            reason: io::ErrorKind::NotFound.into(),
        },
        SecretFileError::Read(reason) => TlsError::ReadKey { path, reason },
        SecretFileError::NotAFile => TlsError::NotAKey(path),
        SecretFileError::Exposed(mode) => TlsError::Exposed { path, mode },
    }
}

fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}

/// The certificate in force; handshakes take it, and a reload replaces it.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<Certificate>,
}

impl Tls {
    /// Loads the certificate for a start.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let current = ArcSwap::from_pointee(Certificate::load(&files)?);
        Ok(Arc::new(Self { files, current }))
    }

    /// Where it was loaded from.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Loads the files again and shows what is in them to new connections; what is in force stays where they are broken.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.store(Arc::new(Certificate::load(&self.files)?));
        Ok(())
    }

    /// When the certificate in force ends.
    pub fn expires(&self) -> DateTime<Utc> {
        self.current.load().expires
    }

    /// Makes handshakes with whatever certificate is in force.
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Library)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl ResolvesServerCert for Tls {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().pair))
    }
}
