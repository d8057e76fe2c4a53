//! Why a part of the server's data was not loaded, at a start or a reload.

use crate::catalog::CatalogError;
use crate::keys::signing_key::KeyError;
use crate::registry::RegistryError;
use crate::serve::net::tls::TlsError;

/// Why a part cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The registry is wrong or cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The releases are wrong or cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// There is no usable signing key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no usable certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The registry is fine, but so much smaller that it looks like an accident.
    #[error("the registry drops {dropped} of {held} licenses that were in force, which looks like an accident")]
    DropsLicenses {
        /// How many of the licenses held are gone.
        dropped: usize,
        /// How many are held.
        held: usize,
    },
}

impl LoadError {
    /// What a person has to do where waiting and mending files is not enough.
    pub fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::DropsLicenses { .. }).then_some(
            "restore the licenses; or, if it is meant, restart once with `countersign serve --accept-dropped-licenses`",
        )
    }
}
