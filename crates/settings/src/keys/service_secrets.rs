//! Files with the secrets that are shared with a service: one file for each shop or webhook, which only its owner can read, and
//! one secret a line.
//!
//! Those of shops are here. [`webhook_secrets`](super::webhook_secrets) says what the secret of a webhook is.

use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::keys::secret_file::{self, SecretFileError};
use countersign_files::regular_file;
use countersign_model::slug::Slug;
use countersign_model::text::shell_quoted;

/// Whom the secret is shared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretService {
    /// A shop signs deliveries with it.
    Shop,
    /// This server signs messages to the webhook of this name with it.
    Webhook(Slug),
    /// This server asks a shop with it.
    ShopApi,
}

impl SecretService {
    fn thing(&self) -> &'static str {
        match self {
            Self::Shop => "secret of this shop",
            Self::Webhook(_) => "secret of this webhook",
            Self::ShopApi => "API key of this shop",
        }
    }

    fn form(&self) -> &'static str {
        match self {
            Self::Shop => "at least 6 characters without spaces, one secret a line",
            Self::Webhook(_) => "whsec_ and the base64 of 24 to 64 bytes, one secret a line",
            Self::ShopApi => "printable characters without spaces, alone in one line",
        }
    }
}

/// Why the secrets of a service are not usable, in one line each. [`ServiceSecretError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServiceSecretError {
    /// There is no such file.
    #[error("{}: there is no {}", path.display(), service.thing())]
    Missing {
        /// Whose.
        service: SecretService,
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{}: the {} cannot be read: {reason}", path.display(), service.thing())]
    Read {
        /// Whose.
        service: SecretService,
        /// The file.
        path: PathBuf,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// Other users can read the file.
    #[error("{}: others can read the {} (mode {mode:04o})", path.display(), service.thing())]
    Exposed {
        /// Whose.
        service: SecretService,
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file has no secret, or a line that is none.
    #[error("{}: not the {}: {}", path.display(), service.thing(), service.form())]
    NotASecret {
        /// Whose.
        service: SecretService,
        /// The file.
        path: PathBuf,
    },
}

impl ServiceSecretError {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing {
                service: SecretService::Shop,
                path,
            } => format!(
                "copy the secret that the shop shows for this webhook, and paste it behind this command, then Enter and Ctrl-D: {}",
                write_command(path)
            ),
            Self::Missing {
                service: SecretService::Webhook(name),
                ..
            } => format!("make it: countersign webhook secret {name}"),
            Self::Missing {
                service: SecretService::ShopApi,
                path,
            } => format!(
                "make an API key in the shop that may read customers and nothing else, and paste it behind this command, then Enter and Ctrl-D: {}",
                write_command(path)
            ),
            Self::Read { .. } => "let the user that runs the server own the file".to_owned(),
            Self::Exposed { path, .. } => regular_file::exposed_hint(path),
            Self::NotASecret {
                service: SecretService::Shop,
                ..
            } => "copy the secret again from the settings of the shop".to_owned(),
            Self::NotASecret {
                service: SecretService::ShopApi,
                ..
            } => "copy the API key again from the settings of the shop, alone in one line".to_owned(),
            Self::NotASecret {
                service: SecretService::Webhook(name),
                ..
            } => format!(
                "delete the file, make another secret with `countersign webhook secret {name}`, and tell the receiver"
            ),
        }
    }
}

/// A command that writes what a person pastes into a file that only its owner can read, and makes its folder.
fn write_command(path: &Path) -> String {
    let folder = path.parent().unwrap_or(path);
    format!(
        "(umask 077; mkdir -p {}; cat > {})",
        shell_quoted(folder),
        shell_quoted(path)
    )
}

/// The text of a service's file.
///
/// # Errors
/// There is none, or others can read it.
pub(super) fn text(service: SecretService, path: &Path) -> Result<Zeroizing<String>, ServiceSecretError> {
    secret_file::read(path).map_err(|error| {
        let path = path.to_owned();
        match error {
            SecretFileError::Missing => ServiceSecretError::Missing { service, path },
            SecretFileError::NotAFile => ServiceSecretError::NotASecret { service, path },
            SecretFileError::Exposed(mode) => ServiceSecretError::Exposed { service, path, mode },
            SecretFileError::Read(reason) => ServiceSecretError::Read { service, path, reason },
        }
    })
}

/// The lines that are not empty.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The lines of a shop's file that are not empty.
///
/// # Errors
/// There is none, or others can read it.
pub fn read_shop(path: &Path) -> Result<Vec<Zeroizing<String>>, ServiceSecretError> {
    let text = text(SecretService::Shop, path)?;
    let lines = lines(&text);
    let secrets: Vec<_> = lines.map(|line| Zeroizing::new(line.to_owned())).collect();
    match secrets.is_empty() {
        true => Err(not_a_shop_secret(path)),
        false => Ok(secrets),
    }
}

/// The error of a file with a line that is no secret.
pub fn not_a_shop_secret(path: &Path) -> ServiceSecretError {
    ServiceSecretError::NotASecret {
        service: SecretService::Shop,
        path: path.to_owned(),
    }
}

/// The API key in a shop's file.
///
/// # Errors
/// There is none, or others can read it.
pub fn read_shop_api_key(path: &Path) -> Result<Zeroizing<String>, ServiceSecretError> {
    let text = text(SecretService::ShopApi, path)?;
    let mut lines = lines(&text);
    let is_key = |line: &&str| line.bytes().all(|byte| byte.is_ascii_graphic());
    match (lines.next().filter(is_key), lines.next()) {
        (Some(line), None) => Ok(Zeroizing::new(line.to_owned())),
        _ => Err(ServiceSecretError::NotASecret {
            service: SecretService::ShopApi,
            path: path.to_owned(),
        }),
    }
}
