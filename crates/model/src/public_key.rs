//! Public signing keys, with which clients verify statements: as PEM, as JWK, and by id.
//!
//! Only the key commands and the signer have the private half.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rsa::pkcs8::spki;
use rsa::pkcs8::{DecodePublicKey, EncodePublicKey, LineEnding};
use rsa::traits::PublicKeyParts;
use rsa::{Pkcs1v15Sign, RsaPublicKey};
use sha2::{Digest as _, Sha256};

/// Sizes of a key that may sign, in bits.
pub const BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// An RSA public key of 2,048 to 4,096 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    key: RsaPublicKey,
    pem: String,
    key_id: String,
}

/// Why a key is refused.
#[derive(Debug, thiserror::Error)]
pub enum PublicKeyError {
    /// Not an SPKI document with an RSA key.
    #[error("not a public RSA key in PEM (BEGIN PUBLIC KEY)")]
    Pem(#[from] spki::Error),
    /// The key is too small to be safe, or too large for some clients.
    #[error("the key has {bits} bits: expected {} to {}", BITS.start(), BITS.end())]
    Size {
        /// Bits of the modulus.
        bits: usize,
    },
}

/// A key as a member of a JWK set (RFC 7517, RFC 7518 section 6.3.1).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "the members are the RFC's")]
pub struct Jwk {
    pub alg: &'static str,
    pub e: String,
    pub kid: String,
    pub kty: &'static str,
    pub n: String,
    #[serde(rename = "use")]
    pub usage: &'static str,
}

impl PublicKey {
    /// Takes a key of an allowed size.
    pub fn new(key: RsaPublicKey) -> Result<Self, PublicKeyError> {
        let bits = key.n().bits();
        if !BITS.contains(&bits) {
            return Err(PublicKeyError::Size { bits });
        }
        let pem = key.to_public_key_pem(LineEnding::LF)?;
        let key_id = thumbprint(&key);
        Ok(Self { key, pem, key_id })
    }

    /// Reads a `BEGIN PUBLIC KEY` document (RFC 7468 section 13).
    pub fn from_pem(pem: &str) -> Result<Self, PublicKeyError> {
        Self::new(RsaPublicKey::from_public_key_pem(pem)?)
    }

    /// The `BEGIN PUBLIC KEY` document, with a final newline.
    pub fn to_pem(&self) -> String {
        self.pem.clone()
    }

    /// The RFC 7638 thumbprint with SHA-256, base64url: 43 characters that are safe in a path.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The key as a JWK, for `RS256` signatures.
    pub fn to_jwk(&self) -> Jwk {
        let (e, n) = jwk_numbers(&self.key);
        Jwk {
            alg: "RS256",
            e,
            kid: self.key_id.clone(),
            kty: "RSA",
            n,
            usage: "sig",
        }
    }

    /// Bits of the modulus.
    pub fn bits(&self) -> usize {
        self.key.n().bits()
    }

    /// Whether `signature` is valid for `message` and this key: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2).
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key
            .verify(Pkcs1v15Sign::new::<Sha256>(), &Sha256::digest(message), signature)
            .is_ok()
    }
}

/// RFC 7638 section 3: the required members, sorted, without spaces.
fn thumbprint(key: &RsaPublicKey) -> String {
    let (e, n) = jwk_numbers(key);
    URL_SAFE_NO_PAD.encode(Sha256::digest(format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#)))
}

/// Exponent and modulus as base64url of their big-endian bytes without leading zeros (RFC 7518 section 2).
fn jwk_numbers(key: &RsaPublicKey) -> (String, String) {
    (
        URL_SAFE_NO_PAD.encode(key.e().to_bytes_be()),
        URL_SAFE_NO_PAD.encode(key.n().to_bytes_be()),
    )
}

#[cfg(test)]
mod tests {
    use rsa::rand_core::OsRng;
    use rsa::{BigUint, RsaPrivateKey};

    use super::*;

    /// The modulus of RFC 7638 section 3.1.
    const RFC_7638_N: &str = concat!(
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj",
        "hMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQ",
        "vRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzK",
        "nqDKgw"
    );

    fn rfc_7638() -> PublicKey {
        let n = BigUint::from_bytes_be(&URL_SAFE_NO_PAD.decode(RFC_7638_N).unwrap());
        PublicKey::new(RsaPublicKey::new(n, 65_537_u32.into()).unwrap()).unwrap()
    }

    #[test]
    fn the_key_id_is_the_thumbprint_of_rfc_7638() {
        assert_eq!(rfc_7638().key_id(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    }

    #[test]
    fn a_jwk_has_the_members_that_verifiers_look_for() {
        let expected = serde_json::json!({
            "alg": "RS256", "e": "AQAB", "kid": "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs", "kty": "RSA",
            "n": RFC_7638_N, "use": "sig",
        });
        assert_eq!(serde_json::to_value(rfc_7638().to_jwk()).unwrap(), expected);
    }

    #[test]
    fn a_key_reads_back_from_its_pem_and_nothing_else_does() {
        let pem = rfc_7638().to_pem();
        assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----\n") && pem.ends_with("-----END PUBLIC KEY-----\n"));
        assert_eq!(PublicKey::from_pem(&pem).unwrap(), rfc_7638());
        for bad in ["", "no key", &pem[..pem.len() / 2], &pem.replace("PUBLIC", "PRIVATE")] {
            assert!(matches!(PublicKey::from_pem(bad), Err(PublicKeyError::Pem(_))), "{bad}");
        }
    }

    #[test]
    fn small_keys_are_refused_with_their_size() {
        let small = RsaPrivateKey::new(&mut OsRng, 1024).unwrap().to_public_key();
        assert_eq!(
            PublicKey::new(small).unwrap_err().to_string(),
            "the key has 1024 bits: expected 2048 to 4096"
        );
    }

    #[test]
    fn a_signature_holds_for_its_message_and_no_other() {
        let private = RsaPrivateKey::new(&mut OsRng, 2048).unwrap();
        let public = PublicKey::new(private.to_public_key()).unwrap();
        let mut signature = private
            .sign(Pkcs1v15Sign::new::<Sha256>(), &Sha256::digest(b"message"))
            .unwrap();
        assert_eq!(public.bits(), 2048);
        assert!(public.verify(b"message", &signature));
        assert!(!public.verify(b"massage", &signature));
        assert!(!rfc_7638().verify(b"message", &signature));
        signature[17] ^= 1;
        assert!(!public.verify(b"message", &signature));
        assert!(!public.verify(b"message", &[]));
    }
}
