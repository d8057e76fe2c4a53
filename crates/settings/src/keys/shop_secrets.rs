//! The secrets that shops sign deliveries with, and the API keys that shops are asked with.

use std::path::Path;

use zeroize::Zeroizing;

use crate::keys::service_secrets::{self, SecretService, ServiceSecretError};

/// The lines of a shop's file that are not empty.
///
/// # Errors
/// There is none, or others can read it.
pub fn read(path: &Path) -> Result<Vec<Zeroizing<String>>, ServiceSecretError> {
    let text = service_secrets::text(SecretService::Shop, path)?;
    let lines = service_secrets::lines(&text);
    let secrets: Vec<_> = lines.map(|line| Zeroizing::new(line.to_owned())).collect();
    match secrets.is_empty() {
        true => Err(not_a_secret(path)),
        false => Ok(secrets),
    }
}

/// The error of a file with a line that is no secret.
pub fn not_a_secret(path: &Path) -> ServiceSecretError {
    ServiceSecretError::NotASecret {
        service: SecretService::Shop,
        path: path.to_owned(),
    }
}

/// The API key in a shop's file.
///
/// # Errors
/// There is none, or others can read it.
pub fn read_api_key(path: &Path) -> Result<Zeroizing<String>, ServiceSecretError> {
    let text = service_secrets::text(SecretService::ShopApi, path)?;
    let mut lines = service_secrets::lines(&text);
    let is_key = |line: &&str| line.bytes().all(|byte| byte.is_ascii_graphic());
    match (lines.next().filter(is_key), lines.next()) {
        (Some(line), None) => Ok(Zeroizing::new(line.to_owned())),
        _ => Err(ServiceSecretError::NotASecret {
            service: SecretService::ShopApi,
            path: path.to_owned(),
        }),
    }
}
