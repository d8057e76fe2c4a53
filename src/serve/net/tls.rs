//! TLS: the server's certificate and key, checked before use and replaced while connections stay open.
//!
//! TLS 1.2 and 1.3 through rustls, with aws-lc-rs. `reload` reads the files again; `connection` makes the handshakes.

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

use countersign_files::regular_file;
use countersign_settings::config::TlsFiles;
use countersign_settings::keys::secret_file::{self, SecretFileError};

pub use tokio_rustls::TlsAcceptor;
pub use tokio_rustls::server::TlsStream;

/// The only application protocol (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// Size limit of a certificate chain in bytes.
const MAX_CHAIN: u64 = 1 << 20;

/// A usable certificate chain with its key.
#[derive(Debug)]
pub struct Certificate {
    pair: Arc<CertifiedKey>,
    expires: DateTime<Utc>,
}

/// Why a certificate is not usable, in one line each. [`TlsError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate's file cannot be read.
    #[error("{}: the certificate cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why. Part of the message, so it is not a source.
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
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// Other users can read the key.
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
    /// The key does not belong to the certificate.
    #[error("{}: not the key of the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The library refuses its own defaults, which does not happen with this program's features.
    #[error("TLS cannot be set up: {0}")]
    Library(rustls::Error),
}

impl TlsError {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } | Self::ReadKey { .. } => {
                "make the file readable for the server's user, or remove tls_certificate and tls_key".to_owned()
            }
            Self::NotACertificate(_) => "name the full chain, the server's own certificate first".to_owned(),
            Self::Exposed { path, .. } => regular_file::exposed_hint(path),
            Self::NotAKey(_) | Self::Mismatch { .. } => "name the key the certificate was issued for".to_owned(),
            Self::Library(_) => "report this error with your version and platform".to_owned(),
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
            // Use it all the same: without a certificate the server could not run at all.
            tracing::warn!(certificate = %files.certificate.display(), %expires, "the TLS certificate has expired");
        }
        Ok(Self {
            pair: Arc::new(pair),
            expires,
        })
    }

    /// When the server's own certificate expires; the rest of the chain is ignored.
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

/// The certificate in use; handshakes take it, and a reload replaces it.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<Certificate>,
}

impl Tls {
    /// Loads the certificate at the start.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let current = ArcSwap::from_pointee(Certificate::load(&files)?);
        Ok(Arc::new(Self { files, current }))
    }

    /// The files it was loaded from.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Loads the files again for new connections. If they are broken, the certificate in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.store(Arc::new(Certificate::load(&self.files)?));
        Ok(())
    }

    /// When the certificate in use expires.
    pub fn expires(&self) -> DateTime<Utc> {
        self.current.load().expires
    }

    /// Makes handshakes with the certificate in use.
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
