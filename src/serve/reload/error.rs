//! Errors of loading a part of the server's state.

use crate::serve::net::tls::TlsError;
use countersign_model::text::ErrorChain;
use countersign_package::catalog::CatalogError;
use countersign_registry::RegistryError;
use countersign_settings::keys::secret_keys::SecretKeyError;
use countersign_settings::keys::signing_key::KeyError;

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
    /// The releases are valid, but some that were in force are missing, and nobody withheld or removed them.
    #[error("the index lacks {dropped} of the {held} releases that were in force: {names}")]
    DropsReleases {
        /// How many releases are missing.
        dropped: usize,
        /// How many were in force.
        held: usize,
        /// The first of them by name, newest first, and the number of the others.
        names: String,
    },
}

impl LoadError {
    /// The error and what to do about it, in one line.
    pub fn in_one_line(&self) -> String {
        let hint = self.hint().map_or(String::new(), |hint| format!("; {hint}"));
        ErrorChain(self).first_line() + &hint
    }

    /// What to do if correcting the files is not enough.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::DropsLicenses { .. } => Some(
                "restore the licenses; or, if you removed them on purpose, restart once with `countersign serve --accept-dropped-licenses`"
                    .to_owned(),
            ),
            Self::DropsReleases { .. } => Some(
                "publish the newer releases again; or, if they are to go, withhold them in the plugin's entry and run `countersign \
                 build`; or restart once with `countersign serve --accept-dropped-releases`"
                    .to_owned(),
            ),
            Self::NoPublicUrl => Some(PUBLIC_URL_HINT.to_owned()),
            Self::SecretKey(error) => Some(error.hint()),
            _ => None,
        }
    }
}
