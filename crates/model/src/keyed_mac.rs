//! HMAC-SHA256 (RFC 2104): what keys of links, of build ids and of issued licenses are derived with.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroize as _;

/// Length of a secret in bytes.
pub const SECRET_LENGTH: usize = 32;

/// The MAC under this key, before it has read anything.
pub(super) fn keyed(key: &[u8; SECRET_LENGTH]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    block[..SECRET_LENGTH].copy_from_slice(key);
    // HMAC takes a key of one SHA-256 block as it is; trailing zeros after a shorter one change nothing (RFC 2104
    // section 2).
    let keyed = <Hmac<Sha256> as hmac::Mac>::new(&block.into());
    block.zeroize();
    keyed
}

/// The MAC of these parts, one after the other.
pub(super) fn mac(keyed: &Hmac<Sha256>, parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = keyed.clone();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The key that is derived from `secret` for the use that `label` names.
pub(super) fn derived(secret: &[u8; SECRET_LENGTH], label: &str) -> Hmac<Sha256> {
    let mut key = mac(&keyed(secret), &[label.as_bytes()]);
    let derived = keyed(&key);
    key.zeroize();
    derived
}

/// The first bytes of a MAC.
pub(super) fn first<const N: usize>(bytes: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}
