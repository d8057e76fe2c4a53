//! Checks that a delivery was signed with the secret that the vendor and the shop share: HMAC-SHA256 in four spellings.
//!
//! The caller names the shop, and the shop its algorithm: nothing in a delivery chooses it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::woocommerce;
use countersign_model::shop_kind::ShopKind;

/// How far a signed time may be from ours: what Stripe's own libraries take.
const STRIPE_WINDOW: TimeDelta = TimeDelta::seconds(300);

/// The same for Paddle. Its own library takes five seconds, which a slow network exceeds.
const PADDLE_WINDOW: TimeDelta = TimeDelta::seconds(60);

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

/// Whether a delivery needs no signature: WooCommerce's first request, which tells nothing and wants the status 200.
pub fn is_unsigned_ping(kind: ShopKind, body: &[u8]) -> bool {
    kind == ShopKind::WooCommerce && woocommerce::is_ping(body)
}

/// Checks the signature of a delivery with any of the secrets: there are two while one is replaced.
///
/// # Errors
/// It is not signed with one of them, or not now.
pub fn verify(
    kind: ShopKind,
    secrets: &[ShopSecret],
    header: Option<&str>,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<(), SignatureError> {
    let name = kind.signature_header();
    let header = header.ok_or(SignatureError::Missing(name))?;
    if header.len() > MAX_HEADER {
        return Err(SignatureError::Malformed(name));
    }
    let malformed = SignatureError::Malformed(name);
    let (prefix, signatures) = match kind {
        ShopKind::Stripe => timed(header, ',', "t", "v1", '.', (now, STRIPE_WINDOW)).map_err(|e| e.of(name))?,
        ShopKind::Paddle => timed(header, ';', "ts", "h1", ':', (now, PADDLE_WINDOW)).map_err(|e| e.of(name))?,
        ShopKind::LemonSqueezy => (String::new(), vec![hex(header).ok_or(malformed)?]),
        ShopKind::WooCommerce => {
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

/// What is wrong with a header that has a time.
enum TimedHeaderError {
    Malformed,
    Time,
}

impl TimedHeaderError {
    fn of(self, header: &'static str) -> SignatureError {
        match self {
            Self::Malformed => SignatureError::Malformed(header),
            Self::Time => SignatureError::Time,
        }
    }
}

/// A header such as `t=1,v1=ab,v1=cd`: what is signed before the body, and the signatures. Other fields are ignored, such as
/// Stripe's `v0`.
fn timed(
    header: &str,
    separator: char,
    time_name: &str,
    signature_name: &str,
    joint: char,
    (now, window): (DateTime<Utc>, TimeDelta),
) -> Result<(String, Vec<Vec<u8>>), TimedHeaderError> {
    let mut time = None;
    let mut signatures = Vec::new();
    for field in header.split(separator) {
        let (name, value) = field.trim().split_once('=').ok_or(TimedHeaderError::Malformed)?;
        if name == time_name {
            // A second time could be another one than what was signed.
            if time.replace(value).is_some() {
                return Err(TimedHeaderError::Malformed);
            }
        } else if name == signature_name {
            signatures.push(hex(value).ok_or(TimedHeaderError::Malformed)?);
        }
    }
    let time = time.filter(|_| (1..=MOST_SIGNATURES).contains(&signatures.len()));
    let time = time.ok_or(TimedHeaderError::Malformed)?;
    let seconds = Some(time).filter(|time| !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()));
    let signed_at = seconds
        .and_then(|seconds| seconds.parse().ok())
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
        .ok_or(TimedHeaderError::Malformed)?;
    if (now - signed_at).abs() > window {
        return Err(TimedHeaderError::Time);
    }
    Ok((format!("{time}{joint}"), signatures))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    // The library also takes a leading "0x", which no shop sends.
    let text = Some(text.trim()).filter(|text| text.len() == 64)?;
    const_hex::decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn signed(kind: ShopKind, secret: &str, seconds: i64) -> String {
        let with =
            |joint: &str| const_hex::encode(mac(secret, &[format!("{seconds}{joint}").as_bytes(), BODY].concat()));
        match kind {
            ShopKind::Stripe => format!("t={seconds},v1={}", with(".")),
            ShopKind::Paddle => format!("ts={seconds};h1={}", with(":")),
            ShopKind::LemonSqueezy => const_hex::encode(mac(secret, BODY)),
            ShopKind::WooCommerce => STANDARD.encode(mac(secret, BODY)),
        }
    }

    const KINDS: [ShopKind; 4] = [
        ShopKind::Stripe,
        ShopKind::Paddle,
        ShopKind::LemonSqueezy,
        ShopKind::WooCommerce,
    ];

    #[test]
    fn a_delivery_is_taken_only_with_its_own_signature() {
        for kind in KINDS {
            let header = signed(kind, SECRET, 1_700_000_000);
            let check = |header: &str, body: &[u8]| verify(kind, &[secret(SECRET)], Some(header), body, now());
            assert_eq!(check(&header, BODY), Ok(()), "{kind:?}");
            assert_eq!(check(&header, b"{}"), Err(SignatureError::Wrong));
            assert_eq!(
                check(&signed(kind, "another-secret", 1_700_000_000), BODY),
                Err(SignatureError::Wrong)
            );
            let cut = &header[..header.len() - 4];
            assert!(matches!(
                check(cut, BODY),
                Err(SignatureError::Malformed(_) | SignatureError::Wrong)
            ));
            for header in ["", "x", "t=,v1=", "ts=1", "v1=00,t=1", "t=1;h1=00", &"a".repeat(5_000)] {
                assert!(check(header, BODY).is_err(), "{kind:?} {header}");
            }
            let name = kind.signature_header();
            let missing = verify(kind, &[secret(SECRET)], None, BODY, now());
            assert_eq!(missing, Err(SignatureError::Missing(name)));
            // While a secret is replaced, either is right; without one, nothing is.
            let both = [secret("the-new-secret"), secret(SECRET)];
            assert_eq!(verify(kind, &both, Some(&header), BODY, now()), Ok(()));
            assert_eq!(
                verify(kind, &[], Some(&header), BODY, now()),
                Err(SignatureError::Wrong)
            );
            // Another shop's spelling of the same secret is none of this one's.
            for other in KINDS.into_iter().filter(|other| *other != kind) {
                assert!(
                    check(&signed(other, SECRET, 1_700_000_000), BODY).is_err(),
                    "{kind:?} {other:?}"
                );
            }
        }
        for weak in ["", "     ", "12345", "two words"] {
            assert!(ShopSecret::new(weak).is_err(), "{weak}");
        }
    }

    #[test]
    fn a_signed_time_must_be_near() {
        for (kind, window) in [(ShopKind::Stripe, 300), (ShopKind::Paddle, 60)] {
            for (away, expected) in [
                (0, Ok(())),
                (window, Ok(())),
                (-window, Ok(())),
                (window + 1, Err(SignatureError::Time)),
                (-window - 1, Err(SignatureError::Time)),
            ] {
                let header = signed(kind, SECRET, 1_700_000_000 + away);
                let found = verify(kind, &[secret(SECRET)], Some(&header), BODY, now());
                assert_eq!(found, expected, "{kind:?} {away}");
            }
        }
    }

    #[test]
    fn one_of_several_signatures_is_enough_and_a_second_time_is_refused() {
        let right = signed(ShopKind::Stripe, SECRET, 1_700_000_000);
        let (time, signature) = right.split_once(",v1=").unwrap();
        let check = |header: &str| verify(ShopKind::Stripe, &[secret(SECRET)], Some(header), BODY, now());
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
        let paddle = signed(ShopKind::Paddle, SECRET, 1_700_000_000);
        let rotated = paddle.replace(";h1=", &format!(";h1={wrong};h1="));
        assert_eq!(
            verify(ShopKind::Paddle, &[secret(SECRET)], Some(&rotated), BODY, now()),
            Ok(())
        );
    }
}
