//! Composer: who may fetch packages with it, and how it writes versions.
//!
//! A person signs in with the license key, or with a Composer token of the license, so that the key stays out of CI; the password is a
//! bound site. A token is `c1-` and 26 characters of base32, as a [renewal token](crate::renewal_token) is: the first 8 bytes of the
//! license's id, and the first 8 of HMAC-SHA256 over `countersign composer 1`, a NUL, the token's number and the whole id.

use std::fmt;
use std::str::FromStr;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::download_key::DownloadKey;
use crate::license_key::LicenseId;
use crate::renewal_token::{from_base32, to_base32};
use crate::stage::Stage;
use crate::version::Version;

/// What a token begins with.
const PREFIX: &str = "c1-";

/// The day in the mark of every package that Composer fetches. A lock file has the SHA-1 of a package, so its bytes are the same on every
/// day.
pub const MARK_DAY: NaiveDate = match NaiveDate::from_ymd_opt(2026, 1, 1) {
    Some(day) => day,
    None => NaiveDate::MIN,
};

/// The Composer tokens of a license: only the newest is valid, unless it is revoked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComposerTokens {
    /// How many were made.
    pub made: u32,
    /// Whether the newest is valid.
    pub valid: bool,
}

impl ComposerTokens {
    /// No token.
    pub const NONE: Self = Self { made: 0, valid: false };

    /// Whether there never was one.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// With another token, which takes the place of the one before.
    #[must_use]
    pub fn with_another(self) -> Self {
        Self {
            made: self.made.saturating_add(1),
            valid: true,
        }
    }

    /// Without a valid token.
    #[must_use]
    pub fn revoked(self) -> Self {
        Self { valid: false, ..self }
    }

    /// The number of the valid token.
    pub fn number(self) -> Option<u32> {
        self.valid.then_some(self.made)
    }
}

/// A token of a text. [`ComposerToken::is_of`] checks whether it is genuine.
// SECURITY: a person with the token may fetch packages, so `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ComposerToken {
    license: [u8; 8],
    mac: [u8; 8],
}

/// The text is no Composer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Composer token")]
pub struct NotAComposerToken;

impl ComposerToken {
    /// The token of a license with this number.
    pub fn new(key: &DownloadKey, license: &LicenseId, number: u32) -> Self {
        Self {
            license: std::array::from_fn(|at| license.as_bytes()[at]),
            mac: key.composer_mac(license, number),
        }
    }

    /// How the id of its license begins, if the token is genuine.
    pub fn beginning(&self) -> &[u8; 8] {
        &self.license
    }

    /// Whether it was made with this key for this license under this number, in constant time.
    pub fn is_of(&self, key: &DownloadKey, license: &LicenseId, number: u32) -> bool {
        license.as_bytes().starts_with(&self.license) && key.is_composer_mac(license, number, &self.mac)
    }

    /// The text to sign in with.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", to_base32(&self.license, &self.mac))
    }
}

impl FromStr for ComposerToken {
    type Err = NotAComposerToken;

    fn from_str(text: &str) -> Result<Self, NotAComposerToken> {
        let digits = text.strip_prefix(PREFIX).ok_or(NotAComposerToken)?;
        let (license, mac) = from_base32(digits).ok_or(NotAComposerToken)?;
        Ok(Self { license, mac })
    }
}

impl fmt::Debug for ComposerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ComposerToken(redacted)")
    }
}

/// A version as Composer writes it; `None` for one that Composer cannot read or orders in another way: more than four numbers, a first
/// number of more than five digits, which it takes for a date, or a suffix that names no channel (`VersionParser::normalize` of
/// composer/semver).
pub fn composer_version(version: &Version) -> Option<String> {
    let Stage::In(channel) = version.stage() else {
        return None;
    };
    let numbers = version.numbers();
    let mut parts = numbers.split('.');
    let fits = numbers.split('.').count() <= 4 && parts.next().is_some_and(|first| first.len() <= 5);
    let suffix = version.as_str().get(numbers.len()..)?;
    let digits: String = suffix.chars().filter(char::is_ascii_digit).collect();
    let word = match channel {
        Channel::Stable if suffix.is_empty() => return fits.then(|| numbers.to_owned()),
        // To PHP, `1.3.0-1` is 1.3.0.1.
        Channel::Stable
            if suffix
                .trim_start_matches(['.', '-'])
                .starts_with(|c: char| c.is_ascii_digit()) =>
        {
            let whole = format!("{numbers}.{digits}");
            return (fits && whole.split('.').count() <= 4).then_some(whole);
        }
        Channel::Stable => "patch",
        Channel::Rc => "RC",
        Channel::Beta => "beta",
        Channel::Alpha => "alpha",
    };
    fits.then(|| format!("{numbers}-{word}{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composer_reads_the_versions_that_it_is_given() {
        for (version, expected) in [
            ("1.2.0", Some("1.2.0")),
            ("1.2", Some("1.2")),
            ("1.2.3.4", Some("1.2.3.4")),
            ("1.3.0-beta.1", Some("1.3.0-beta1")),
            ("1.3.0b2", Some("1.3.0-beta2")),
            ("1.3-rc", Some("1.3-RC")),
            ("1.3.0-RC2", Some("1.3.0-RC2")),
            ("1.3.0-a.1", Some("1.3.0-alpha1")),
            ("1.3.0-pl2", Some("1.3.0-patch2")),
            ("1.3.0-1", Some("1.3.0.1")),
            ("1.2.3.4-1", None),
            ("1.2.3.4.5", None),
            ("20261128.1", None),
            ("1.3.0-dev", None),
            ("1.3.0-beta.1.2", None),
        ] {
            assert_eq!(
                composer_version(&version.parse().unwrap()).as_deref(),
                expected,
                "{version}"
            );
        }
    }

    #[test]
    fn a_token_is_of_one_license_one_number_and_one_key() {
        let key = DownloadKey::new(&[7; 32]);
        let id = |first: u8| LicenseId::from_bytes(std::array::from_fn(|at| first.wrapping_add(at as u8)));
        let token: ComposerToken = ComposerToken::new(&key, &id(1), 2).reveal().parse().unwrap();
        assert!(token.is_of(&key, &id(1), 2));
        assert!(!token.is_of(&key, &id(1), 1) && !token.is_of(&key, &id(2), 2));
        assert!(!token.is_of(&DownloadKey::new(&[8; 32]), &id(1), 2));
        assert_eq!(format!("{token:?}"), "ComposerToken(redacted)");
        for other in [
            "",
            "c1-",
            "r1-aaaaaaaaaaaaaaaaaaaaaaaaaa",
            &token.reveal()[1..],
            &token.reveal().to_uppercase(),
        ] {
            assert_eq!(other.parse::<ComposerToken>(), Err(NotAComposerToken), "{other}");
        }
        let tokens = ComposerTokens::NONE.with_another();
        assert_eq!((tokens.number(), tokens.revoked().number()), (Some(1), None));
        assert_eq!(tokens.revoked().with_another().number(), Some(2));
    }
}
