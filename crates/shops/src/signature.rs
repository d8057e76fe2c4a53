//! Checks that a delivery was signed with the secret that the vendor and the shop share. It is an HMAC-SHA256, and the shop's
//! [`SignatureScheme`] says how it is written.
//!
//! The caller names the shop, and the shop its algorithm: nothing in a delivery chooses it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::shop::{Shop, SignatureScheme};

/// The longest header that is read, in bytes.
const MAX_HEADER: usize = 4_096;

/// Signatures in a header that are compared. While a secret is rotated there are two.
const MOST_SIGNATURES: usize = 8;

/// A secret that a shop signs with. It has no `Debug` and is wiped.
pub struct ShopSecret(Zeroizing<String>);

/// A secret that cannot protect anything.
#[derive(Debug, thiserror::Error)]
#[error("a shop's secret has at least 6 characters, without spaces")]
pub struct WeakSecret;

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The delivery has no such header.
    #[error("there is no header {0}")]
    Missing(&'static str),
    /// The header is not what this shop sends.
    #[error("the header {0} is malformed")]
    Malformed(&'static str),
    /// Signed too long ago, or in the future: replayed, or one clock is wrong.
    #[error("it was signed at another time than now: it is replayed, or a clock is wrong")]
    Time,
    /// Signed with another secret, or changed since.
    #[error("the signature is wrong")]
    Wrong,
}

impl ShopSecret {
    /// Takes the secret as the shop shows it; white space at its ends is no part of it.
    ///
    /// # Errors
    /// It is too short.
    // SECURITY: everybody can sign with an empty secret.
    pub fn new(text: &str) -> Result<Self, WeakSecret> {
        let text = text.trim();
        if text.len() < 6 || text.contains(char::is_whitespace) {
            return Err(WeakSecret);
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }
}

/// Whether a delivery needs no signature, because it has no content.
pub fn is_unsigned_ping(shop: &Shop, body: &[u8]) -> bool {
    shop.is_ping.is_some_and(|is_ping| is_ping(body))
}

/// Checks the signature of a delivery with any of the secrets: there are two while one is replaced.
///
/// # Errors
/// It is not signed with one of them, or not now.
pub fn verify(
    shop: &Shop,
    secrets: &[ShopSecret],
    header: Option<&str>,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<(), SignatureError> {
    let name = shop.signature_header;
    let header = header.ok_or(SignatureError::Missing(name))?;
    if header.len() > MAX_HEADER {
        return Err(SignatureError::Malformed(name));
    }
    let malformed = SignatureError::Malformed(name);
    let (prefix, signatures) = match shop.signature_scheme {
        SignatureScheme::Timed {
            separator,
            time,
            signature,
            joint,
            window,
        } => {
            let (seconds, signatures) = timed(header, separator, time, signature).ok_or(malformed)?;
            let signed_at = signed_at(seconds).ok_or(malformed)?;
            if (now - signed_at).abs() > window {
                return Err(SignatureError::Time);
            }
            (format!("{seconds}{joint}"), signatures)
        }
        SignatureScheme::Hex => (String::new(), vec![hex(header).ok_or(malformed)?]),
        SignatureScheme::Base64 => {
            let bytes = STANDARD.decode(header.trim()).map_err(|_| malformed)?;
            (String::new(), vec![bytes])
        }
    };
    let is_right = |secret: &ShopSecret| {
        // HMAC takes keys of any length.
        let Ok(mac) = <Hmac<Sha256> as hmac::Mac>::new_from_slice(secret.0.as_bytes()) else {
            return false;
        };
        let mac = mac.chain_update(prefix.as_bytes()).chain_update(body);
        // SECURITY: in constant time, and of its full length.
        signatures
            .iter()
            .any(|signature| mac.clone().verify_slice(signature).is_ok())
    };
    if secrets.iter().any(is_right) {
        Ok(())
    } else {
        Err(SignatureError::Wrong)
    }
}

/// The time and the signatures of a header such as `t=1,v1=ab,v1=cd`.
fn timed<'h>(
    header: &'h str,
    separator: char,
    time_name: &str,
    signature_name: &str,
) -> Option<(&'h str, Vec<Vec<u8>>)> {
    let mut time = None;
    let mut signatures = Vec::new();
    for field in header.split(separator) {
        let (name, value) = field.trim().split_once('=')?;
        if name == time_name {
            // A second time could be another one than what was signed.
            if time.replace(value).is_some() {
                return None;
            }
        } else if name == signature_name {
            signatures.push(hex(value)?);
        }
    }
    let time = time.filter(|_| (1..=MOST_SIGNATURES).contains(&signatures.len()))?;
    Some((time, signatures))
}

/// Seconds since 1970, in digits alone.
fn signed_at(seconds: &str) -> Option<DateTime<Utc>> {
    let seconds = Some(seconds).filter(|seconds| seconds.bytes().all(|byte| byte.is_ascii_digit()))?;
    DateTime::from_timestamp(seconds.parse().ok()?, 0)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    // The library also takes a leading "0x", which no shop sends.
    let text = Some(text.trim()).filter(|text| text.len() == 64)?;
    const_hex::decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SHOPS;

    const BODY: &[u8] = br#"{"id":"evt_1"}"#;
    const SECRET: &str = "whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH";

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000, 0).unwrap()
    }

    fn secret(text: &str) -> ShopSecret {
        ShopSecret::new(text).unwrap_or_else(|_| panic!("{text}"))
    }

    fn mac(secret: &str, signed: &[u8]) -> Vec<u8> {
        let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(secret.as_bytes()).unwrap();
        mac.chain_update(signed).finalize().into_bytes().to_vec()
    }

    fn signed(shop: &Shop, secret: &str, seconds: i64) -> String {
        match shop.signature_scheme {
            SignatureScheme::Timed {
                separator,
                time,
                signature,
                joint,
                ..
            } => {
                let signed = [format!("{seconds}{joint}").as_bytes(), BODY].concat();
                let mac = const_hex::encode(mac(secret, &signed));
                format!("{time}={seconds}{separator}{signature}={mac}")
            }
            SignatureScheme::Hex => const_hex::encode(mac(secret, BODY)),
            SignatureScheme::Base64 => STANDARD.encode(mac(secret, BODY)),
        }
    }

    fn shop(name: &str) -> &'static Shop {
        name.parse().unwrap()
    }

    #[test]
    fn a_delivery_is_taken_only_with_its_own_signature() {
        for shop in SHOPS {
            let header = signed(shop, SECRET, 1_700_000_000);
            let check = |header: &str, body: &[u8]| verify(shop, &[secret(SECRET)], Some(header), body, now());
            assert_eq!(check(&header, BODY), Ok(()), "{shop:?}");
            assert_eq!(check(&header, b"{}"), Err(SignatureError::Wrong));
            assert_eq!(
                check(&signed(shop, "another-secret", 1_700_000_000), BODY),
                Err(SignatureError::Wrong)
            );
            let cut = &header[..header.len() - 4];
            assert!(matches!(
                check(cut, BODY),
                Err(SignatureError::Malformed(_) | SignatureError::Wrong)
            ));
            for header in ["", "x", "t=,v1=", "ts=1", "v1=00,t=1", "t=1;h1=00", &"a".repeat(5_000)] {
                assert!(check(header, BODY).is_err(), "{shop:?} {header}");
            }
            let name = shop.signature_header;
            let missing = verify(shop, &[secret(SECRET)], None, BODY, now());
            assert_eq!(missing, Err(SignatureError::Missing(name)));
            // While a secret is replaced, either is right; without one, nothing is.
            let both = [secret("the-new-secret"), secret(SECRET)];
            assert_eq!(verify(shop, &both, Some(&header), BODY, now()), Ok(()));
            assert_eq!(
                verify(shop, &[], Some(&header), BODY, now()),
                Err(SignatureError::Wrong)
            );
            // Another scheme's spelling of the same secret is none of this one's.
            let others = SHOPS.map(|other| signed(other, SECRET, 1_700_000_000));
            for other in others.iter().filter(|other| **other != header) {
                assert!(check(other, BODY).is_err(), "{shop:?} {other}");
            }
        }
        for weak in ["", "     ", "12345", "two words"] {
            assert!(ShopSecret::new(weak).is_err(), "{weak}");
        }
    }

    #[test]
    fn a_signed_time_must_be_near() {
        for (shop, window) in [(shop("stripe"), 300), (shop("paddle"), 60)] {
            for (away, expected) in [
                (0, Ok(())),
                (window, Ok(())),
                (-window, Ok(())),
                (window + 1, Err(SignatureError::Time)),
                (-window - 1, Err(SignatureError::Time)),
            ] {
                let header = signed(shop, SECRET, 1_700_000_000 + away);
                let found = verify(shop, &[secret(SECRET)], Some(&header), BODY, now());
                assert_eq!(found, expected, "{shop:?} {away}");
            }
        }
    }

    #[test]
    fn one_of_several_signatures_is_enough_and_a_second_time_is_refused() {
        let right = signed(shop("stripe"), SECRET, 1_700_000_000);
        let (time, signature) = right.split_once(",v1=").unwrap();
        let check = |header: &str| verify(shop("stripe"), &[secret(SECRET)], Some(header), BODY, now());
        let wrong = "0".repeat(64);
        assert_eq!(check(&format!("{time},v1={wrong},v1={signature},v0={wrong}")), Ok(()));
        assert_eq!(
            check(&format!("{time},v0={signature}")),
            Err(SignatureError::Malformed("Stripe-Signature"))
        );
        assert_eq!(
            check(&format!("{time},{time},v1={signature}")),
            Err(SignatureError::Malformed("Stripe-Signature"))
        );
        let many = format!(",v1={wrong}").repeat(8);
        assert_eq!(
            check(&format!("{right}{many}")),
            Err(SignatureError::Malformed("Stripe-Signature"))
        );
        let paddle = signed(shop("paddle"), SECRET, 1_700_000_000);
        let rotated = paddle.replace(";h1=", &format!(";h1={wrong};h1="));
        assert_eq!(
            verify(shop("paddle"), &[secret(SECRET)], Some(&rotated), BODY, now()),
            Ok(())
        );
    }
}
