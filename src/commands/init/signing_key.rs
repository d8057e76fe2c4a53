//! A new instance's signing key: the private half for its owner only, the public half where clients find it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};
use rsa::rand_core::OsRng;
use rsa::traits::PublicKeyParts;
use rsa::{RsaPrivateKey, RsaPublicKey};
use sha2::{Digest as _, Sha256};

use crate::commands::Failure;
use crate::config::Paths;

use super::InitError;

/// Makes a key and publishes it; returns its RFC 7638 thumbprint.
pub(super) fn create(paths: &Paths, bits: usize) -> Result<String, Failure> {
    let key = RsaPrivateKey::new(&mut OsRng, bits).map_err(InitError::SigningKey)?;
    let private_pem = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| InitError::SigningKey(error.into()))?;
    super::create(&paths.signing_key, &private_pem, 0o600)?;

    let public = RsaPublicKey::from(&key);
    let (e, n) = (URL_SAFE_NO_PAD.encode(public.e().to_bytes_be()), URL_SAFE_NO_PAD.encode(public.n().to_bytes_be()));
    let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#)));
    let jwks = serde_json::json!({
        "keys": [{"alg": "RS256", "e": e, "kid": key_id, "kty": "RSA", "n": n, "use": "sig"}]
    });
    let public_pem = public
        .to_public_key_pem(LineEnding::LF)
        .map_err(|error| InitError::SigningKey(rsa::pkcs8::Error::PublicKey(error).into()))?;
    super::create(&paths.public.join(format!("keys/{key_id}.pem")), &public_pem, 0o666)?;
    super::create(&paths.public.join(".well-known/jwks.json"), &format!("{jwks}\n"), 0o666)?;
    Ok(key_id)
}
