//! The secrets that licenses of machines are made with: issues, and tells the keys of what was issued.
//!
//! Several servers share them, so that a retry at any of them gets the same key.

use std::io;

use crate::keys::secret_keys::{IssuingKeys, ReferenceKeys};
use countersign_model::issued_license::{Hex128, IssueOrigin};
use countersign_model::issuing_key::{IssueRequest, IssuingKey};
use countersign_model::license_key::LicenseKey;
use countersign_model::remarks::NamedText;
use countersign_model::stored_text::OrderReference;

/// The secrets of issuing and of references.
#[derive(Clone, Debug)]
pub struct LicenseSecrets {
    issuing: IssuingKeys,
    references: ReferenceKeys,
}

/// The origin of a license that is about to be issued.
#[derive(Clone, Debug)]
pub struct NewOrigin {
    /// Where the license comes from, if no earlier request issued it.
    pub origin: IssueOrigin,
    /// How an earlier request would have called it that was made with a retired secret.
    pub retired: Vec<IssueOrigin>,
    /// The key of the license. Only for who asked, and only if the license is issued now: a retry has another salt.
    pub key: LicenseKey,
}

impl LicenseSecrets {
    /// These secrets.
    pub fn new(issuing: IssuingKeys, references: ReferenceKeys) -> Self {
        Self { issuing, references }
    }

    /// The origin of the license that `request` shall issue.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new_origin(&self, request: &IssueRequest<'_>) -> io::Result<NewOrigin> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        Ok(self.origin_with(request, Hex128(salt)))
    }

    /// The origin with this salt, which is in the ledger and needs no secret.
    pub fn origin_with(&self, request: &IssueRequest<'_>, salt: Hex128) -> NewOrigin {
        let origin = |key: &IssuingKey| key.origin(request, salt);
        let current = self.issuing.current();
        let new = origin(current);
        NewOrigin {
            key: current.license_key(&new),
            retired: self.issuing.retired().iter().map(origin).collect(),
            origin: new,
        }
    }

    /// How the ledger calls this request, whichever secret it was made with.
    pub fn request_keys(&self, request: &IssueRequest<'_>) -> Vec<Hex128> {
        // The salt is not of the request.
        let salt = Hex128([0; 16]);
        self.issuing.all().map(|key| key.origin(request, salt).key).collect()
    }

    /// The key of an issued license; `None` if the secret that it was made with is not there.
    pub fn license_key(&self, origin: &IssueOrigin) -> Option<LicenseKey> {
        let made = self.issuing.all().find(|key| key.number() == origin.secret)?;
        Some(made.license_key(origin))
    }

    /// How a new line of the ledger names this order of a shop.
    pub fn hide(&self, reference: &str) -> Hex128 {
        self.references.current().hide(reference)
    }

    /// How lines may name it, those of retired secrets included.
    pub fn hidden(&self, reference: &str) -> Vec<Hex128> {
        self.references.names(reference)
    }

    /// The order with its text, for a license that is issued.
    pub fn reference(&self, text: &str) -> OrderReference {
        self.references.reference(text)
    }

    /// A person who makes a change.
    pub fn person(&self, name: &str) -> NamedText {
        self.references.person(name)
    }

    /// The secrets of references.
    pub fn references(&self) -> &ReferenceKeys {
        &self.references
    }

    /// What other servers may know of the secrets: both fingerprints.
    pub fn fingerprint(&self) -> String {
        let issuing = self.issuing.current().fingerprint();
        format!("{issuing} {}", self.references.current().fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::keys::secret_keys::{SecretKey, SecretKeys, retired_file};
    use countersign_model::issuing_key::ReferenceKey;
    use countersign_model::offer::SalesMode;

    fn put(path: &Path, secret: &[u8; 32]) {
        fs::write(path, secret).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Secrets of which the last one is in force.
    fn keys<K: SecretKey>(secrets: &[u8]) -> SecretKeys<K> {
        let folder = tempfile::tempdir().unwrap();
        let current = folder.path().join("current.key");
        let (last, before) = secrets.split_last().unwrap();
        put(&current, &[*last; 32]);
        for secret in before {
            put(&retired_file(folder.path(), &K::derive(&[*secret; 32])), &[*secret; 32]);
        }
        SecretKeys::load(&current, folder.path()).unwrap().0
    }

    #[test]
    fn after_a_rotation_a_key_is_derived_again_and_a_retry_and_an_order_are_known() {
        let before = LicenseSecrets::new(keys(&[1]), keys::<ReferenceKey>(&[2]));
        let after = LicenseSecrets::new(keys(&[1, 3]), keys::<ReferenceKey>(&[2, 4]));
        let request = IssueRequest {
            scope: &Arc::new("shop:stripe".parse().unwrap()),
            mode: SalesMode::Live,
            idempotency_key: "order 1",
            body: b"{}",
        };
        let first = before.new_origin(&request).unwrap();
        let again = after.new_origin(&request).unwrap();
        assert_ne!(first.origin.key, again.origin.key);
        let [retired] = &again.retired[..] else {
            panic!("{again:?}")
        };
        assert_eq!((retired.key, retired.body), (first.origin.key, first.origin.body));
        let derived = after.license_key(&first.origin).unwrap();
        assert_eq!(derived.reveal(), first.key.reveal());
        assert!(before.license_key(&again.origin).is_none(), "this secret is not there");
        assert!(after.hidden("order 1").contains(&before.hide("order 1")));
        assert_ne!(after.hide("order 1"), before.hide("order 1"));
        assert_ne!(after.fingerprint(), before.fingerprint());
    }
}
