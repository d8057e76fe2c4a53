//! The secrets that sign messages to the vendor's own services.
//!
//! A secret is `whsec_` and the base64 of 24 to 64 bytes (Standard Webhooks, "Signature scheme"). While it is replaced, the
//! file has two, one in a line, and messages have a signature of each.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::keys::service_secrets::{self, SecretService, ServiceSecretError};
use countersign_model::slug::Slug;

/// How a secret begins.
const PREFIX: &str = "whsec_";

/// The bytes of a new secret.
const LENGTH: usize = 32;

/// The most secrets of one endpoint.
const MOST: usize = 4;

/// A secret. It has no `Debug` and is wiped.
pub struct WebhookSecret(Zeroizing<Vec<u8>>);

impl WebhookSecret {
    /// A random secret, as text.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub fn generate() -> io::Result<Zeroizing<String>> {
        let mut bytes = Zeroizing::new([0; LENGTH]);
        getrandom::fill(&mut bytes[..]).map_err(io::Error::other)?;
        let text = Zeroizing::new(STANDARD.encode(&bytes[..]));
        Ok(Zeroizing::new(format!("{PREFIX}{}", *text)))
    }

    /// The bytes to sign with.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    // SECURITY: everybody can sign with a secret that is short.
    fn parse(line: &str) -> Option<Self> {
        let bytes = Zeroizing::new(STANDARD.decode(line.strip_prefix(PREFIX)?).ok()?);
        (24..=64).contains(&bytes.len()).then_some(Self(bytes))
    }
}

/// The text in the file of the endpoint `name`.
///
/// # Errors
/// There is none, or others can read it.
pub fn text(name: &Slug, path: &Path) -> Result<Zeroizing<String>, ServiceSecretError> {
    service_secrets::text(SecretService::Webhook(name.clone()), path)
}

/// The secrets in the file of the endpoint `name`, the first one first.
///
/// # Errors
/// There is none, others can read it, or a line is no secret.
pub fn read(name: &Slug, path: &Path) -> Result<Vec<WebhookSecret>, ServiceSecretError> {
    let text = text(name, path)?;
    let secrets: Option<Vec<_>> = service_secrets::lines(&text).map(WebhookSecret::parse).collect();
    secrets
        .filter(|secrets| (1..=MOST).contains(&secrets.len()))
        .ok_or_else(|| ServiceSecretError::NotASecret {
            service: SecretService::Webhook(name.clone()),
            path: path.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_new_secret_is_read_back_and_a_weak_or_open_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crm.secret");
        let put = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let name = "crm".parse().unwrap();
        let read = |path: &Path| read(&name, path);
        let missing = read(&path).err().unwrap();
        assert_eq!(missing.hint(), "make it: countersign webhook secret crm");
        let one = WebhookSecret::generate().unwrap();
        let two = WebhookSecret::generate().unwrap();
        assert_ne!(one, two);
        put(&format!("{}\n\n{}\n", *one, *two), 0o600);
        let secrets = read(&path).unwrap();
        assert_eq!((secrets.len(), secrets[0].bytes().len()), (2, LENGTH));
        put(&one, 0o644);
        assert!(matches!(
            read(&path),
            Err(ServiceSecretError::Exposed { mode: 0o644, .. })
        ));
        let short = format!("whsec_{}", STANDARD.encode([1; 23]));
        for bad in ["", "whsec_", &short, &one[6..], "whsec_!!!!", &format!("{}x", *one)] {
            put(bad, 0o600);
            assert!(
                matches!(read(&path), Err(ServiceSecretError::NotASecret { .. })),
                "{bad}"
            );
        }
    }
}
