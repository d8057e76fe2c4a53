//! Keys that licenses of machines are made with, each derived from a secret of its own.
//!
//! No license key is stored. [`IssuingKey`], from `keys/issuing.key`, derives it from what the license's line in the ledger
//! says of its origin, so a retry gets the same one. [`ReferenceKey`], from `keys/references.key`, hides the shop's order.

use std::sync::Arc;

use chrono::DateTime;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

use crate::customer::CustomerAddress;
use crate::issued_license::{ChangeScope, Hex128, IssueOrigin};
use crate::keyed_mac::{SECRET_LENGTH, derived, first, keyed, mac};
use crate::license_key::LicenseKey;
use crate::offer::SalesMode;

/// A request to issue a license.
#[derive(Clone, Copy, Debug)]
pub struct IssueRequest<'a> {
    /// Who sends it: a token or a shop.
    pub scope: &'a Arc<ChangeScope>,
    /// Whether money flows. Live and test requests never meet.
    pub mode: SalesMode,
    /// What the sender calls the request. A retry has the same text.
    pub idempotency_key: &'a str,
    /// What is asked for. A retry has the same bytes.
    pub body: &'a [u8],
}

/// Derives the keys of licenses.
#[derive(Clone)]
pub struct IssuingKey {
    requests: Hmac<Sha256>,
    bodies: Hmac<Sha256>,
    license_keys: Hmac<Sha256>,
    fingerprint: [u8; 8],
}

impl IssuingKey {
    /// Derives a key for each use: the HMAC-SHA256 (RFC 2104) of the use's label under the secret.
    pub fn new(secret: &[u8; SECRET_LENGTH]) -> Self {
        Self {
            requests: derived(secret, "countersign issuing request key 1"),
            bodies: derived(secret, "countersign issuing body key 1"),
            license_keys: derived(secret, "countersign issuing license key 1"),
            fingerprint: first(&mac(&keyed(secret), &[b"countersign issuing fingerprint 1"])),
        }
    }

    /// Names the secret without saying anything of it: 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.fingerprint))
    }

    /// The number of the secret in the lines of the ledger: the first 32 bits of its fingerprint.
    pub fn number(&self) -> u32 {
        let [a, b, c, d, ..] = self.fingerprint;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Where a license comes from that this request issues. `salt` is 16 random bytes; a retry's is not used.
    pub fn origin(&self, request: &IssueRequest<'_>, salt: Hex128) -> IssueOrigin {
        let IssueRequest {
            scope,
            mode,
            idempotency_key,
            body,
        } = request;
        // A NUL separates the parts. A scope and a mode have none; only the last part may contain one.
        let parts: [&[u8]; 5] = [
            scope.as_str().as_bytes(),
            b"\0",
            mode.as_str().as_bytes(),
            b"\0",
            idempotency_key.as_bytes(),
        ];
        IssueOrigin {
            body: Hex128(first(&mac(&self.bodies, &[body]))),
            key: Hex128(first(&mac(&self.requests, &parts))),
            salt,
            scope: Arc::clone(scope),
            secret: self.number(),
            issued: DateTime::UNIX_EPOCH,
        }
    }

    /// The key of the license with this origin: 100 bits of an HMAC over the scope, the salt, and the origin's key, which
    /// is itself an HMAC over scope, mode and idempotency key.
    // SECURITY: an attacker with the ledger and the secret can derive every key. An attacker with one of them can derive none.
    pub fn license_key(&self, origin: &IssueOrigin) -> LicenseKey {
        let IssueOrigin { key, salt, scope, .. } = origin;
        let mut bits = Zeroizing::new(mac(
            &self.license_keys,
            &[scope.as_str().as_bytes(), b"\0", &key.0, &salt.0],
        ));
        let license_key = LicenseKey::from_random(first(&bits));
        bits.zeroize();
        license_key
    }
}

/// The fewest bytes of a MAC of the desk that are accepted.
const SHORTEST_DESK_MAC: usize = 8;

/// Hides the orders of shops, the names of persons, and the addresses of customers, and signs what the desk gives to browsers.
#[derive(Clone)]
pub struct ReferenceKey {
    references: Hmac<Sha256>,
    persons: Hmac<Sha256>,
    customers: Hmac<Sha256>,
    desk: Hmac<Sha256>,
    fingerprint: [u8; 8],
}

impl ReferenceKey {
    /// Derives the key from 32 random bytes.
    pub fn new(secret: &[u8; SECRET_LENGTH]) -> Self {
        Self {
            references: derived(secret, "countersign reference key 1"),
            persons: derived(secret, "countersign person key 1"),
            customers: derived(secret, "countersign customer key 1"),
            desk: derived(secret, "countersign desk key 1"),
            fingerprint: first(&mac(&keyed(secret), &[b"countersign references fingerprint 1"])),
        }
    }

    /// Names the secret without saying anything of it: 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.fingerprint))
    }

    /// The MAC of these parts for a use at the desk, which the first part names. Every node that shares the secret makes the same.
    pub fn desk_mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        mac(&self.desk, parts)
    }

    /// Whether these are the first bytes of a [MAC of the desk](Self::desk_mac), in constant time. None and few bytes are not.
    pub fn is_desk_mac(&self, parts: &[&[u8]], claimed: &[u8]) -> bool {
        let mut mac = self.desk.clone();
        parts.iter().for_each(|part| mac.update(part));
        claimed.len() >= SHORTEST_DESK_MAC && mac.verify_truncated_left(claimed).is_ok()
    }

    /// How a line of the ledger names this order of a shop. The ledger alone does not say which order it is.
    pub fn hide(&self, reference: &str) -> Hex128 {
        Hex128(first(&mac(&self.references, &[reference.as_bytes()])))
    }

    /// The number of a person in lines of the ledger. It is another one than that of an order with the same text.
    pub fn person(&self, name: &str) -> Hex128 {
        Hex128(first(&mac(&self.persons, &[name.as_bytes()])))
    }

    /// The name of a customer's row in the table of texts. No line of the ledger has it.
    pub fn customer(&self, address: &CustomerAddress) -> Hex128 {
        Hex128(first(&mac(&self.customers, &[address.normal().as_bytes()])))
    }
}

/// SECURITY: neither shows a key.
impl std::fmt::Debug for IssuingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IssuingKey(redacted)")
    }
}

impl std::fmt::Debug for ReferenceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReferenceKey(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(key: &IssuingKey, scope: &str, mode: SalesMode, idempotency_key: &str, salt: u8) -> IssueOrigin {
        let scope = Arc::new(scope.parse().unwrap());
        let request = IssueRequest {
            scope: &scope,
            mode,
            idempotency_key,
            body: b"{}",
        };
        key.origin(&request, Hex128([salt; 16]))
    }

    #[test]
    fn every_part_of_a_request_makes_another_key_and_a_retry_the_same() {
        let key = IssuingKey::new(&[1; 32]);
        let other = IssuingKey::new(&[2; 32]);
        let first = origin(&key, "shop:a", SalesMode::Live, "7", 1);
        let text = |key: &IssuingKey, origin: &IssueOrigin| key.license_key(origin).reveal().to_owned();
        assert_eq!(
            text(&key, &first),
            text(&key, &origin(&key, "shop:a", SalesMode::Live, "7", 1))
        );
        let others = [
            origin(&key, "token:a", SalesMode::Live, "7", 1),
            origin(&key, "shop:b", SalesMode::Live, "7", 1),
            origin(&key, "shop:a", SalesMode::Test, "7", 1),
            origin(&key, "shop:a", SalesMode::Live, "8", 1),
            origin(&key, "shop:a", SalesMode::Live, "7", 2),
        ];
        let mut keys: Vec<_> = others.iter().map(|origin| text(&key, origin)).collect();
        keys.push(text(&key, &first));
        keys.push(text(&other, &first));
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
        // The salt is not of the request: a retry is found whatever its salt.
        assert_eq!(others[4].key, first.key);
        assert!(others[..4].iter().all(|other| other.key != first.key));
    }

    #[test]
    fn the_derivation_never_changes() {
        let key = IssuingKey::new(&[7; 32]);
        let origin = origin(&key, "shop:stripe", SalesMode::Live, "order 1", 9);
        let derived = [
            key.fingerprint(),
            origin.key.to_string(),
            origin.body.to_string(),
            key.license_key(&origin).id().to_string(),
            ReferenceKey::new(&[7; 32]).fingerprint(),
            ReferenceKey::new(&[7; 32]).hide("order 1").to_string(),
            ReferenceKey::new(&[7; 32]).person("Anna").to_string(),
            Hex128(first(&ReferenceKey::new(&[7; 32]).desk_mac(&[b"session 1\0", b"x"]))).to_string(),
        ];
        assert_eq!(derived, VECTOR);
        assert_eq!(format!("{:08x}", key.number()), VECTOR[0][..8]);
        assert_eq!(format!("{key:?}"), "IssuingKey(redacted)");
    }

    #[test]
    fn a_mac_of_the_desk_is_whole_or_long_enough() {
        let key = ReferenceKey::new(&[7; 32]);
        let mac = key.desk_mac(&[b"a\0", b"b"]);
        assert!(key.is_desk_mac(&[b"a\0b"], &mac) && key.is_desk_mac(&[b"a\0", b"b"], &mac[..8]));
        assert!(!key.is_desk_mac(&[b"a\0", b"b"], &mac[..7]) && !key.is_desk_mac(&[b"a\0", b"b"], &[]));
        assert!(!key.is_desk_mac(&[b"a\0", b"c"], &mac) && !ReferenceKey::new(&[8; 32]).is_desk_mac(&[b"a\0b"], &mac));
    }

    /// By an independent implementation, Python's `hmac`.
    const VECTOR: [&str; 8] = [
        "c3985cb915b50113",
        "ed4d94c0289c95f74cff982194ee142e",
        "142da9544019eb3214e5e40edcf28692",
        "92c5d275e4f9629921ab1fa072742f81d12f95bb4feb4a7f3337a0ad40ace841",
        "4af00d64242fcada",
        "344c75b5e7a5493ac5491241bd53910b",
        "48d00dff25964279c0ac021c11d7d7b3",
        "5c2540d92cf7c98ca6519d3df038f0c2",
    ];
}
