//! Errors of loading a part of the server's state.

use crate::catalog::CatalogError;
use crate::keys::secret_keys::SecretKeyError;
use crate::keys::signing_key::KeyError;
use crate::registry::RegistryError;
use crate::serve::net::tls::TlsError;

/// What to do where links have nothing to begin with.
pub const PUBLIC_URL_HINT: &str = "set public_url in [serve] to the address under which sites reach this server, as in \"https://licenses.example.com\"";

/// Why a part cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The registry has errors or cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The releases have errors or cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// There is no usable signing key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key for downloads, issuing or references is not usable.
    #[error(transparent)]
    SecretKey(#[from] SecretKeyError),
    /// Packages are hosted, and nothing says what their links begin with.
    #[error("packages are hosted here, and serve.public_url is not set")]
    NoPublicUrl,
    /// There is no usable certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The registry is valid, but lacks so many licenses that it looks like an accident.
    #[error("the registry lacks {dropped} of the {held} licenses that were in force")]
    DropsLicenses {
        /// How many licenses are missing.
        dropped: usize,
        /// How many were in force.
        held: usize,
    },
}

impl LoadError {
    /// What to do if correcting the files is not enough.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::DropsLicenses { .. } => Some(
                "restore the licenses; or, if you removed them on purpose, restart once with `countersign serve --accept-dropped-licenses`"
                    .to_owned(),
            ),
            Self::NoPublicUrl => Some(PUBLIC_URL_HINT.to_owned()),
            Self::SecretKey(error) => Some(error.hint()),
            _ => None,
        }
    }
}
