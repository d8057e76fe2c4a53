//! Renewal tokens: what is bought with one is bought for a license that the customer has. A token goes through the fields of a shop
//! and through addresses of pages, so it has letters, digits and `-` only, and names neither the key nor the whole id.
//!
//! `r1-` and 26 characters of base32 (RFC 4648, in lower case, without padding): the first 8 bytes of the license's id, and the first 8
//! of HMAC-SHA256 over `countersign renew 1`, a NUL and the whole id. It does not expire: it can only add to a license.

use std::fmt;
use std::str::FromStr;

use crate::download_key::DownloadKey;
use crate::license_key::LicenseId;

/// What a token begins with.
pub const PREFIX: &str = "r1-";

/// Characters of base32 that 16 bytes are.
const LENGTH: usize = 26;

/// The digits of base32.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A token, as it was made or read. Only [`RenewalToken::is_of`] says whether it is genuine.
// SECURITY: a person with the token may pay for the license, so `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RenewalToken {
    license: [u8; 8],
    mac: [u8; 8],
}

/// The text is no renewal token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a renewal token: expected \"r1-\" and {LENGTH} lower-case letters and digits of base32")]
pub struct NotARenewalToken;

impl RenewalToken {
    /// The token of a license.
    pub fn new(key: &DownloadKey, license: &LicenseId) -> Self {
        Self {
            license: std::array::from_fn(|at| license.as_bytes()[at]),
            mac: key.renewal_mac(license),
        }
    }

    /// How the id of its license begins, if the token is genuine.
    pub fn beginning(&self) -> &[u8; 8] {
        &self.license
    }

    /// Whether it was made with this key for this license, in constant time.
    pub fn is_of(&self, key: &DownloadKey, license: &LicenseId) -> bool {
        license.as_bytes().starts_with(&self.license) && key.is_renewal_mac(license, &self.mac)
    }

    /// The text of a link or a field.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", to_base32(&self.license, &self.mac))
    }
}

impl FromStr for RenewalToken {
    type Err = NotARenewalToken;

    fn from_str(text: &str) -> Result<Self, NotARenewalToken> {
        let digits = text.strip_prefix(PREFIX).ok_or(NotARenewalToken)?;
        let (license, mac) = from_base32(digits).ok_or(NotARenewalToken)?;
        Ok(Self { license, mac })
    }
}

impl fmt::Debug for RenewalToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RenewalToken(redacted)")
    }
}

/// The digits of a token of 16 bytes.
pub(crate) fn to_base32(license: &[u8; 8], mac: &[u8; 8]) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(license);
    bytes[8..].copy_from_slice(mac);
    // 26 digits have 130 bits: the last two are 0.
    let bits = u128::from_be_bytes(bytes);
    let digit = |at: usize| match at {
        25 => (bits << 2) & 31,
        at => (bits >> (123 - 5 * at)) & 31,
    };
    (0..LENGTH).map(|at| char::from(DIGITS[digit(at) as usize])).collect()
}

/// The 16 bytes of a token's digits; `None` if these are none. Each token has one text.
pub(crate) fn from_base32(digits: &str) -> Option<([u8; 8], [u8; 8])> {
    if digits.len() != LENGTH {
        return None;
    }
    let mut bits = 0_u128;
    for (at, digit) in digits.bytes().enumerate() {
        let value = DIGITS.iter().position(|known| *known == digit)? as u128;
        bits = match at {
            25 if value & 3 != 0 => return None,
            25 => bits << 3 | value >> 2,
            _ => bits << 5 | value,
        };
    }
    let bytes = bits.to_be_bytes();
    Some((
        std::array::from_fn(|at| bytes[at]),
        std::array::from_fn(|at| bytes[8 + at]),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn license(first: u8) -> LicenseId {
        LicenseId::from_bytes(std::array::from_fn(|at| first.wrapping_add(at as u8)))
    }

    #[test]
    fn a_token_has_these_bytes() {
        // Links in mails must survive an update of the server. Made once, by tests/vectors/marks.py.
        let key = DownloadKey::new(&std::array::from_fn(|at| at as u8));
        let token = RenewalToken::new(&key, &license(0));
        assert_eq!(
            token.reveal(),
            include_str!("../../../tests/vectors/renewal_token.txt").trim()
        );
        assert_eq!(format!("{token:?}"), "RenewalToken(redacted)");
    }

    #[test]
    fn a_token_is_of_one_license_and_one_key() {
        let key = DownloadKey::new(&[7; 32]);
        let token: RenewalToken = RenewalToken::new(&key, &license(1)).reveal().parse().unwrap();
        assert!(token.is_of(&key, &license(1)) && !token.is_of(&key, &license(2)));
        assert!(!token.is_of(&DownloadKey::new(&[8; 32]), &license(1)));
        // Not of one whose id only begins so.
        let mut other = *license(1).as_bytes();
        other[31] ^= 1;
        assert!(!token.is_of(&key, &LicenseId::from_bytes(other)));
    }

    #[test]
    fn every_changed_character_is_found() {
        let key = DownloadKey::new(&[7; 32]);
        let token = RenewalToken::new(&key, &license(1)).reveal();
        for at in 0..token.len() {
            for other in (0..=127_u8)
                .map(char::from)
                .filter(|other| !token[at..].starts_with(*other))
            {
                let mut changed = token.clone();
                changed.replace_range(at..=at, &other.to_string());
                let is_of = changed
                    .parse()
                    .is_ok_and(|token: RenewalToken| token.is_of(&key, &license(1)));
                assert!(!is_of, "{at} {other:?}");
            }
        }
        for other in [
            &token[1..],
            &token[3..],
            &format!("{token}a"),
            &token.to_uppercase(),
            &format!(" {token}"),
            "",
        ] {
            assert_eq!(other.parse::<RenewalToken>(), Err(NotARenewalToken), "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_text_is_one_token(text in "r1-[a-z2-7]{26}|.{0,40}") {
            if let Ok(token) = text.parse::<RenewalToken>() {
                prop_assert_eq!(token.reveal(), text);
            }
        }
    }
}
