//! Customers: the address that one is found by, and what the store keeps of one beside the ledger.
//!
//! A line of the ledger has a random number. Address and name are in the table of texts, in rows that can be deleted: a customer who
//! was erased and buys again gets another number.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use url::Host;

use crate::issued_license::{ChangeScope, Hex128};
use crate::language::Language;
use crate::license_key::{LicenseId, LicenseKey};
use crate::text::contains_folded;

/// The longest address, in bytes (RFC 5321, section 4.5.3.1.3).
const MAX_ADDRESS: usize = 254;

/// The longest name that is kept, in bytes. A longer one is cut.
const MAX_NAME: usize = 200;

/// A customer's mail address: as it is written, and in the form that is looked up.
///
/// The form is trimmed, in Unicode's normal form C and in lower case, with an ASCII domain. Dots and what follows a `+` stay: only the mail
/// server knows whether they matter.
// SECURITY: it is personal. Its `Debug` is redacted, and it is in no log line and in no metric.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerAddress {
    written: Box<str>,
    normal: Box<str>,
}

/// The text is not an address that a customer can be found by. The error does not say what it was.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a customer's address: expected one such as anna@example.com, of at most {MAX_ADDRESS} bytes")]
pub struct NotACustomerAddress;

impl CustomerAddress {
    /// As it is written, without blanks around it.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The form that is looked up.
    pub fn normal(&self) -> &str {
        &self.normal
    }
}

impl FromStr for CustomerAddress {
    type Err = NotACustomerAddress;

    fn from_str(text: &str) -> Result<Self, NotACustomerAddress> {
        let written = text.trim();
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
        if written.len() > MAX_ADDRESS || !written.chars().all(is_plain) || LicenseKey::is_in(written) {
            return Err(NotACustomerAddress);
        }
        let (local, domain) = written.rsplit_once('@').ok_or(NotACustomerAddress)?;
        // The parser of hosts would decode it.
        if local.is_empty() || domain.contains('%') {
            return Err(NotACustomerAddress);
        }
        let Ok(Host::Domain(domain)) = Host::parse(domain) else {
            return Err(NotACustomerAddress);
        };
        // Lower case may bring a letter out of the normal form.
        let local: String = local.nfc().collect::<String>().to_lowercase().nfc().collect();
        Ok(Self {
            written: written.into(),
            normal: format!("{local}@{domain}").into(),
        })
    }
}

impl fmt::Debug for CustomerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerAddress(redacted)")
    }
}

impl Serialize for CustomerAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

impl<'de> Deserialize<'de> for CustomerAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A name as it is kept: without control characters, blanks around it, and what is beyond 200 bytes. `None` if nothing is left,
/// or if it has a license key.
pub fn kept_name(name: &str) -> Option<Box<str>> {
    let plain: String = name.chars().filter(|c| !c.is_control()).collect();
    let plain = plain.trim();
    let ends = plain.char_indices().map(|(start, c)| start + c.len_utf8());
    let cut = ends.take_while(|end| *end <= MAX_NAME).last().unwrap_or_default();
    let kept = plain[..cut].trim_end();
    (!kept.is_empty() && !LicenseKey::is_in(kept)).then(|| kept.into())
}

/// What the store keeps of the mails about one license.
// SECURITY: a product's name may say who it was made for.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LicenseMails {
    /// Their language; `None` for the vendor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// What was sold, in the shop's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<Box<str>>,
    /// The number of the customer who gets the reminders in place of the license's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminders_to: Option<Hex128>,
}

/// What the store keeps under one address of a customer, of the mails about one license, or of a customer who wants no reminders. A
/// customer with several addresses has several rows with one number; who is erased has none.
// SECURITY: it is personal. Its `Debug` has the number alone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomerRow {
    /// The address as it is written; `None` where the server keeps no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Box<str>>,
    /// Who said so first.
    pub by: ChangeScope,
    /// The mails about a license. The row is the license's then, and has no address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mails: Option<Box<LicenseMails>>,
    /// The customer's name, if somebody said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// The customer's number: random, and in the lines of the ledger.
    pub number: Hex128,
    /// Since when mails go to this address, if somebody said so of a customer who had another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<DateTime<Utc>>,
    /// Whether the customer wants no reminders. The row says nothing else then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsubscribed: bool,
}

impl CustomerRow {
    /// Whether it is about an address.
    pub fn is_of_address(&self) -> bool {
        self.mails.is_none() && !self.unsubscribed
    }

    /// The row with what only `other` has. The number stays. Of a license, what `other` says goes before, and so does its customer.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        if let (Some(own), Some(said)) = (&self.mails, &other.mails) {
            // Reminders to the customer of old are none to the new one.
            let kept = own.reminders_to.filter(|number| *number != self.number);
            let reminders_to = said.reminders_to.or(kept).filter(|number| *number != other.number);
            let mails = LicenseMails {
                language: said.language.clone().or_else(|| own.language.clone()),
                product: said.product.clone().or_else(|| own.product.clone()),
                reminders_to,
            };
            return Self {
                mails: Some(Box::new(mails)),
                number: other.number,
                ..self.clone()
            };
        }
        Self {
            address: self.address.clone().or_else(|| other.address.clone()),
            name: self.name.clone().or_else(|| other.name.clone()),
            since: self.since.max(other.since),
            ..self.clone()
        }
    }

    /// Whether address or name contain this text, which is [`folded`](crate::text::folded).
    pub fn contains(&self, text: &str) -> bool {
        let has = |part: &Option<Box<str>>| part.as_ref().is_some_and(|part| contains_folded(part, text));
        has(&self.address) || has(&self.name)
    }
}

impl fmt::Debug for CustomerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomerRow({}, redacted)", self.number)
    }
}

impl fmt::Debug for LicenseMails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LicenseMails(redacted)")
    }
}

/// The name of the row with what is kept of the mails about a license.
pub fn mails_name(license: &LicenseId) -> Hex128 {
    Hex128::of_words("countersign mails\n", format_args!("{license}"))
}

/// A row for a customer who may be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCustomer {
    /// The names of the row: HMACs of the address, the one under the secret in force first.
    pub names: Vec<Hex128>,
    /// The row. Its number counts only if no row has one of the names.
    pub row: CustomerRow,
}

impl NewCustomer {
    /// The row of the mails about a license. `holder` is its customer: who erases the customer deletes the row.
    pub fn of_license(license: &LicenseId, holder: Option<Hex128>, by: &ChangeScope, mails: LicenseMails) -> Self {
        // Of a license without a customer, its own number.
        let own = Hex128(std::array::from_fn(|at| license.as_bytes()[at]));
        let number = holder.unwrap_or(own);
        Self {
            names: vec![mails_name(license)],
            row: CustomerRow {
                address: None,
                by: by.clone(),
                mails: Some(Box::new(mails)),
                name: None,
                number,
                since: None,
                unsubscribed: false,
            },
        }
    }

    /// The row of a customer who wants no reminders.
    pub fn unsubscribed(number: Hex128) -> Self {
        Self {
            names: vec![Hex128::of_words("countersign unsubscribed\n", format_args!("{number}"))],
            row: CustomerRow {
                address: None,
                by: ChangeScope::customer(),
                mails: None,
                name: None,
                number,
                since: None,
                unsubscribed: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> Option<String> {
        let address = text.parse::<CustomerAddress>().ok()?;
        assert_eq!(format!("{address:?}"), "CustomerAddress(redacted)");
        Some(address.normal().to_owned())
    }

    #[test]
    fn one_address_has_one_form_however_it_is_written() {
        for (text, expected) in [
            ("anna@example.com", "anna@example.com"),
            (" Anna@Example.COM\r\n", "anna@example.com"),
            ("a.n.n.a+shop@gmail.com", "a.n.n.a+shop@gmail.com"),
            ("JU\u{308}RGEN@ex\u{e4}mple.de", "j\u{fc}rgen@xn--exmple-cua.de"),
            ("J\u{fc}rgen@xn--exmple-cua.de", "j\u{fc}rgen@xn--exmple-cua.de"),
            ("a@b@example.com", "a@b@example.com"),
            ("o'neil@example.com", "o'neil@example.com"),
        ] {
            assert_eq!(normal(text).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("{}@example.com", "a".repeat(243));
        for bad in [
            "",
            "anna",
            "@example.com",
            "anna@",
            "anna@exam ple.com",
            "an na@example.com",
            "anna@example.com\nb",
            "an\0na@example.com",
            "anna@127.0.0.1",
            "anna@ex%61mple.com",
            "anna@exa/mple.com",
            &long,
        ] {
            assert_eq!(normal(bad), None, "{bad:?}");
        }
        assert!(normal(&long[1..]).is_some());
    }

    #[test]
    fn a_written_address_is_kept_as_it_is() {
        let address: CustomerAddress = " Anna@Example.COM ".parse().unwrap();
        assert_eq!(address.written(), "Anna@Example.COM");
        let json = serde_json::to_string(&address).unwrap();
        assert_eq!(json, "\"Anna@Example.COM\"");
        assert_eq!(serde_json::from_str::<CustomerAddress>(&json).unwrap(), address);
    }

    #[test]
    fn a_name_is_cut_and_has_no_control_characters() {
        assert_eq!(kept_name(" Anna\u{7} B. ").as_deref(), Some("Anna B."));
        assert_eq!(kept_name("\n \t"), None);
        let kept = kept_name(&"\u{e4}".repeat(101)).unwrap();
        assert_eq!(kept.len(), 200);
        assert_eq!(kept_name(&format!("a{}", "\u{e4}".repeat(101))).unwrap().len(), 199);
    }

    #[test]
    fn a_row_shows_nobody_and_is_found_by_a_part_in_any_case() {
        let row = CustomerRow {
            address: Some("Anna@example.com".into()),
            by: ChangeScope::operator(),
            mails: None,
            name: Some("Anna \u{c4}rger".into()),
            number: Hex128([1; 16]),
            since: None,
            unsubscribed: false,
        };
        assert!(!format!("{row:?}").contains("nna"));
        assert!(row.contains("a@exa") && row.contains(&crate::text::folded("\u{c4}RGER")) && !row.contains("bert"));
        let hashed = CustomerRow {
            address: None,
            name: None,
            ..row.clone()
        };
        assert_eq!(hashed.with(&row), row);
        assert!(!hashed.contains("a"));
        let json = serde_json::to_string(&hashed).unwrap();
        assert_eq!(serde_json::from_str::<CustomerRow>(&json).unwrap(), hashed);
    }

    #[test]
    fn the_row_of_a_license_follows_what_is_said_last_and_its_customer() {
        let license = LicenseId::from_bytes([7; 32]);
        let row = |holder: u8, language: Option<&str>, reminders_to: Option<u8>| {
            let mails = LicenseMails {
                language: language.map(|tag| tag.parse().unwrap()),
                product: None,
                reminders_to: reminders_to.map(|number| Hex128([number; 16])),
            };
            NewCustomer::of_license(&license, Some(Hex128([holder; 16])), &ChangeScope::operator(), mails).row
        };
        let first = row(1, Some("de"), Some(2));
        assert_eq!(first.with(&row(1, None, None)), first);
        assert_eq!(first.with(&row(1, Some("fr"), None)), row(1, Some("fr"), Some(2)));
        // To the customer: to nobody else.
        assert_eq!(first.with(&row(1, None, Some(1))), row(1, Some("de"), None));
        assert_eq!(first.with(&row(3, None, None)), row(3, Some("de"), Some(2)));
        assert_eq!(first.with(&row(2, None, None)), row(2, Some("de"), None));
        assert!(!first.is_of_address() && !NewCustomer::unsubscribed(Hex128([1; 16])).row.is_of_address());
    }
}
