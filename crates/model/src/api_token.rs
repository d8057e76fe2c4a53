//! Tokens of the management API: what a shop's program shows to read or change licenses.
//!
//! Only the SHA-256 of a token's secret is kept. The ledger has a line when a token is made, revoked, or used on a new day.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, Utc};
use zeroize::Zeroizing;

use crate::digest::Digest;
use crate::issued_license::Hex128;
use crate::name::Name;

/// How every token begins, so that scanners for leaked secrets find it.
const PREFIX: &str = "cst_";

/// Random bytes of a token.
pub const TOKEN_BYTES: usize = 32;

/// A token as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiToken {
    /// What the vendor calls it. Changes that it makes are recorded under this name.
    pub name: Name,
    /// The SHA-256 of its secret.
    pub hash: Digest,
    /// What it may do.
    pub scopes: BTreeSet<TokenScope>,
    /// When it was made.
    pub issued: DateTime<Utc>,
    /// The last day on which it was used, in UTC.
    pub used: Option<NaiveDate>,
    /// Whether it is no longer good.
    pub revoked: bool,
    /// When its last line was written.
    pub time: DateTime<Utc>,
    /// The number of the person who made or revoked it, if its last line is about that.
    pub who: Option<Hex128>,
    /// The name of the reason, as above.
    pub reason: Option<Hex128>,
}

/// What a token may do.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum TokenScope {
    /// Read names and addresses of customers.
    #[strum(serialize = "customers:read")]
    #[serde(rename = "customers:read")]
    CustomersRead,
    /// Read the keys of licenses that were issued more than seven days ago.
    #[strum(serialize = "keys:read")]
    #[serde(rename = "keys:read")]
    KeysRead,
    /// Read licenses.
    #[strum(serialize = "licenses:read")]
    #[serde(rename = "licenses:read")]
    LicensesRead,
    /// Issue and change licenses, and read them.
    #[strum(serialize = "licenses:write")]
    #[serde(rename = "licenses:write")]
    LicensesWrite,
    /// Read what sites reported.
    #[strum(serialize = "reports:read")]
    #[serde(rename = "reports:read")]
    ReportsRead,
    /// Read how releases reach sites in steps.
    #[strum(serialize = "rollouts:read")]
    #[serde(rename = "rollouts:read")]
    RolloutsRead,
    /// Pause, resume and finish rollouts, and read them.
    #[strum(serialize = "rollouts:write")]
    #[serde(rename = "rollouts:write")]
    RolloutsWrite,
}

impl TokenScope {
    /// As in commands.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl ApiToken {
    /// Whether it may do this now.
    pub fn may(&self, scope: TokenScope) -> bool {
        let implied = match scope {
            TokenScope::LicensesRead => self.scopes.contains(&TokenScope::LicensesWrite),
            TokenScope::RolloutsRead => self.scopes.contains(&TokenScope::RolloutsWrite),
            _ => false,
        };
        !self.revoked && (implied || self.scopes.contains(&scope))
    }
}

/// A token's secret: `cst_` and 64 hex digits. It has no `Display`, and its `Debug` is redacted.
pub struct TokenSecret(Zeroizing<String>);

impl TokenSecret {
    /// The token with these bytes of the system's random number generator.
    pub fn from_random(random: &[u8; TOKEN_BYTES]) -> Self {
        let digits = Zeroizing::new(const_hex::encode(random));
        Self(Zeroizing::new([PREFIX, &digits].concat()))
    }

    /// The token as text, to show it once to its owner.
    // SECURITY: it may go to a person's terminal, but never to a log, a file or a response.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What the ledger keeps of it.
    pub fn hash(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(redacted)")
    }
}

/// The text is not a token.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a token: expected {PREFIX} and 64 hex digits")]
pub struct NotAToken;

impl FromStr for TokenSecret {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let digits = text.strip_prefix(PREFIX).ok_or(NotAToken)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_token = digits.len() == 2 * TOKEN_BYTES && digits.bytes().all(is_digit);
        is_token.then(|| Self(Zeroizing::new(text.to_owned()))).ok_or(NotAToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_spelling_and_is_never_shown() {
        let token = TokenSecret::from_random(&[0xA5; TOKEN_BYTES]);
        let text = token.reveal().to_owned();
        assert_eq!(text, format!("cst_{}", "a5".repeat(32)));
        assert_eq!(text.parse::<TokenSecret>().unwrap().hash(), token.hash());
        assert_eq!(format!("{token:?}"), "TokenSecret(redacted)");
        for bad in [
            "",
            &text[4..],
            &text[..67],
            &text.to_uppercase(),
            &format!("{text}0"),
            &format!("cst_{}", "g".repeat(64)),
        ] {
            assert!(bad.parse::<TokenSecret>().is_err(), "{bad}");
        }
    }

    #[test]
    fn who_may_change_licenses_may_read_them_and_a_revoked_token_may_do_nothing() {
        let token = |scope: &str, revoked| ApiToken {
            name: "shop".parse().unwrap(),
            hash: Digest::of(b""),
            scopes: [scope.parse().unwrap()].into(),
            issued: DateTime::UNIX_EPOCH,
            used: None,
            revoked,
            time: DateTime::UNIX_EPOCH,
            who: None,
            reason: None,
        };
        use TokenScope as S;
        assert!(token("licenses:write", false).may(S::LicensesRead));
        assert!(!token("licenses:read", false).may(S::LicensesWrite));
        assert!(!token("licenses:write", false).may(S::KeysRead));
        assert!(!token("licenses:write", true).may(S::LicensesWrite));
        assert_eq!(S::ReportsRead.as_str(), "reports:read");
    }
}
