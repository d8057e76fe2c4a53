//! Statements: the signed answer to a validation or a release, as RFC 8785 canonical JSON.
//!
//! The response body is the canonical JSON *with* the signature: cutting the text `"signature":"…",` out of it gives
//! exactly the signed bytes.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use serde::{Serialize, Serializer};

use crate::license::Modules;
use crate::license_key::LicenseId;
use crate::name::Name;
use crate::site_host::SiteHost;

/// The result of a validation or a release: `status`, `code` and `message` of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its code")]
pub enum Verdict {
    Ok,
    BoundElsewhere,
    UnknownLicense,
    Expired,
    Suspended,
    Revoked,
    /// The answer to a release: the site holds no seat.
    Released,
}

impl Verdict {
    /// The status that a client acts on.
    pub fn status(self) -> &'static str {
        match self {
            Self::Ok => "active",
            Self::BoundElsewhere | Self::UnknownLicense => "invalid",
            Self::Expired => "expired",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
            Self::Released => "released",
        }
    }

    /// The exact result.
    pub fn code(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::BoundElsewhere => "bound_elsewhere",
            Self::UnknownLicense => "unknown_license",
            Self::Expired => "expired",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
            Self::Released => "released",
        }
    }

    /// A short text for a person.
    pub fn message(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::BoundElsewhere => "This license is in use on another site.",
            Self::UnknownLicense => "This license key is not known.",
            Self::Expired => "This license has expired.",
            Self::Suspended => "This license is suspended.",
            Self::Revoked => "This license was revoked.",
            Self::Released => "This site is released.",
        }
    }
}

/// What the license grants to the site.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// Modules with their features.
    pub modules: &'a Modules,
    /// Hours that the site may go on without an answer.
    pub grace_period_hours: u32,
}

/// A statement before it is signed.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'a> {
    /// The result of the validation.
    pub verdict: Verdict,
    /// The grant; only an active license has one.
    pub grant: Option<Grant<'a>>,
    /// The license's last day; `None` if the license is unknown.
    pub expires: Option<NaiveDate>,
    /// Whether a renewal is to come, so that `expires` is no end.
    pub renews: bool,
    /// Where the license is renewed.
    pub renew_url: Option<&'a str>,
    /// Where something else is bought for it.
    pub upgrade_url: Option<&'a str>,
    /// The customer's page, if there is one.
    pub account_url: Option<&'a str>,
    /// Whether the site is to show nothing of the vendor and of the license: no address of theirs, and no part of the key.
    pub white_label: bool,
    /// When the statement was made.
    pub issued_at: DateTime<Utc>,
    /// The request's nonce, if it sent one.
    pub nonce: Option<&'a str>,
    /// The site address exactly as sent.
    pub site_url: &'a str,
    /// Its normal form.
    pub domain: &'a SiteHost,
    /// The first bound host, if the license is bound to another site.
    pub bound_domain: Option<&'a SiteHost>,
    /// RFC 7638 thumbprint of the signing key.
    pub key_id: &'a str,
    /// The id of the license that was asked about, known or not.
    ///
    /// SECURITY: without it, the statement about a revoked license could be passed off as one about another license.
    pub license_id: &'a LicenseId,
}

/// The members of the payload that sort before `signature`, in the order of RFC 8785 section 3.2.3.
#[derive(Serialize)]
struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    account_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_domain: Option<&'a SiteHost>,
    code: &'static str,
    domain: &'a SiteHost,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<NaiveDate>,
    features: BTreeMap<&'a Name, &'a [Name]>,
    grace_period_hours: u32,
    #[serde(serialize_with = "milliseconds")]
    issued_at: DateTime<Utc>,
    key_id: &'a str,
    license_id: &'a LicenseId,
    message: &'static str,
    modules: Vec<&'a Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_url: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    renews: bool,
}

/// The members that sort after it.
#[derive(Serialize)]
struct Tail<'a> {
    site_url: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade_url: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    white_label: bool,
}

fn milliseconds<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

impl Statement<'_> {
    /// The canonical JSON to sign.
    pub fn to_unsigned(&self) -> Unsigned {
        let modules = self.grant.map(|grant| grant.modules);
        let features = modules
            .into_iter()
            .flatten()
            .map(|(module, features)| (module, features.as_slice()))
            .collect();
        let head = Head {
            account_url: self.account_url,
            bound_domain: self.bound_domain,
            code: self.verdict.code(),
            domain: self.domain,
            expires: self.expires,
            features,
            grace_period_hours: self.grant.map_or(0, |grant| grant.grace_period_hours),
            issued_at: self.issued_at,
            key_id: self.key_id,
            license_id: self.license_id,
            message: self.verdict.message(),
            modules: modules.into_iter().flat_map(Modules::keys).collect(),
            nonce: self.nonce,
            renew_url: self.renew_url,
            renews: self.renews,
        };
        let tail = Tail {
            site_url: self.site_url,
            status: self.verdict.status(),
            upgrade_url: self.upgrade_url,
            white_label: self.white_label,
        };
        let mut bytes = Vec::with_capacity(USUAL_LENGTH);
        append(&head, &mut bytes);
        bytes.pop();
        bytes.push(b',');
        let signature_at = bytes.len();
        append(&tail, &mut bytes);
        bytes.remove(signature_at);
        Unsigned { bytes, signature_at }
    }
}

/// The usual maximum length of a statement in bytes.
const USUAL_LENGTH: usize = 720;

/// Writes an object whose members are sorted. It has only strings, small integers, and maps with ASCII keys, which
/// serde_json writes as RFC 8785 requires. Writing to a Vec cannot fail.
fn append(object: &impl Serialize, bytes: &mut Vec<u8>) {
    let _ = serde_json::to_writer(bytes, object);
}

/// Canonical JSON without its signature, and the position of the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsigned {
    bytes: Vec<u8>,
    signature_at: usize,
}

impl Unsigned {
    /// The bytes to sign.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body to send: the same canonical JSON with the member `signature` in its place, in base64 (RFC 4648
    /// section 4).
    pub fn with_signature(&self, base64: &str) -> Vec<u8> {
        let (head, tail) = self.bytes.split_at(self.signature_at);
        [head, br#""signature":""#, base64.as_bytes(), br#"","#, tail].concat()
    }
}

/// Cuts the member `signature` out of a received body.
///
/// Returns the signed bytes and the signature in base64; `None` if the body has no such member.
pub fn split_signature(body: &[u8]) -> Option<(Vec<u8>, &str)> {
    // Quotes inside strings are escaped, so this text is always a member of that name.
    const OPENING: &[u8] = br#""signature":""#;
    const CLOSING: &[u8] = br#"","#;
    let start = find(body, OPENING)?;
    let value = start + OPENING.len();
    let end = value + find(&body[value..], CLOSING)?;
    let signed = [&body[..start], &body[end + CLOSING.len()..]].concat();
    Some((signed, std::str::from_utf8(&body[value..end]).ok()?))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_statement<T>(site_url: &str, nonce: Option<&str>, test: impl FnOnce(&Statement<'_>) -> T) -> T {
        let features = vec!["pdf".parse().unwrap(), "api".parse().unwrap()];
        let modules = Modules::from([("forms".parse().unwrap(), features), ("base".parse().unwrap(), vec![])]);
        let domain = "example.com".parse().unwrap();
        test(&Statement {
            verdict: Verdict::Ok,
            grant: Some(Grant {
                modules: &modules,
                grace_period_hours: 72,
            }),
            expires: NaiveDate::from_ymd_opt(2027, 1, 31),
            renews: false,
            renew_url: None,
            upgrade_url: None,
            account_url: None,
            white_label: false,
            issued_at: DateTime::from_timestamp_millis(1_795_169_823_123).unwrap(),
            nonce,
            site_url,
            domain: &domain,
            bound_domain: None,
            key_id: "kid",
            license_id: &LicenseId::from_bytes([0xab; 32]),
        })
    }

    #[test]
    fn the_payload_is_canonical_json_with_every_field() {
        let text = with_statement("https://Example.com", Some(""), |statement| {
            statement.to_unsigned().bytes
        });
        let expected = concat!(
            r#"{"code":"ok","domain":"example.com","expires":"2027-01-31","features":{"base":[],"forms":["pdf","api"]},"#,
            r#""grace_period_hours":72,"issued_at":"2026-11-20T10:17:03.123Z","key_id":"kid","#,
            r#""license_id":"abababababababababababababababababababababababababababababababab","message":"ok","#,
            r#""modules":["base","forms"],"nonce":"","site_url":"https://Example.com","status":"active"}"#
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn without_a_nonce_in_the_request_there_is_none_in_the_statement() {
        let text = with_statement("a.com", None, |statement| {
            String::from_utf8(statement.to_unsigned().bytes).unwrap()
        });
        assert!(!text.contains("nonce"));
    }

    #[test]
    fn cutting_the_signature_out_gives_the_signed_bytes_whatever_the_strings_say() {
        for hostile in [
            "a.com",
            r#"","signature":"AAAA","#,
            "\u{1F600}\"\\\u{7f}",
            r#"{"status":"active"}"#,
        ] {
            with_statement(hostile, Some(hostile), |statement| {
                let unsigned = statement.to_unsigned();
                let body = unsigned.with_signature("c2ln");
                assert_eq!(split_signature(&body), Some((unsigned.bytes().to_vec(), "c2ln")));
                let whole: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(whole["signature"], "c2ln");
                assert_eq!(whole["site_url"], hostile);
            });
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_strings_say_the_body_is_canonical_with_its_signature_and_without(
            site_url in "(?s).{0,40}",
            nonce in "(?s).{0,40}|[\\x00-\\x20\"/\\\\\x7f]{0,20}",
        ) {
            with_statement(&site_url, Some(&nonce), |statement| {
                let unsigned = statement.to_unsigned();
                for bytes in [unsigned.bytes(), &unsigned.with_signature("c2ln")] {
                    let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                    assert_eq!(serde_json_canonicalizer::to_vec(&value).unwrap(), bytes);
                }
            });
        }
    }
}
