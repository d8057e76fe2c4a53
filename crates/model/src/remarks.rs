//! What the ledger has of a license beside its terms: for whom it is, what programs note of it, and the names of texts.
//!
//! A text may be personal. Lines of the ledger have only its name, so that it can be erased; the ledger keeps it beside them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::checked_text::checked_text;
use crate::digest::Hex128;
use crate::license_key::LicenseKey;
use crate::sale::edits::Sold;
use crate::text::printable::is_unsafe;

/// The longest reason of a change, in bytes.
pub const MAX_REASON: usize = 500;

/// The longest note, in bytes.
pub const MAX_NOTE: usize = 1_000;

/// The most bytes of all names and values of a license's metadata.
pub const MAX_METADATA: usize = 1_024;

/// The longest name of metadata, in bytes.
const MAX_METADATA_NAME: usize = 20;

/// What the ledger has of a license beside its terms. Names of texts are random, or an HMAC of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// The customer's number.
    pub holder: Option<Hex128>,
    /// What programs note of it. Never personal.
    pub metadata: Metadata,
    /// The name of the vendor's note.
    pub note: Option<Hex128>,
    /// The name of the reason of the last change.
    pub reason: Option<Hex128>,
    /// The sale that it comes from, and what people changed of it.
    pub sold: Option<Box<Sold>>,
    /// The number of the person who made the last change, which names the person's name.
    pub who: Option<Hex128>,
}

impl Remarks {
    /// No remarks.
    pub const NONE: Self = Self {
        holder: None,
        metadata: Metadata::NONE,
        note: None,
        reason: None,
        sold: None,
        who: None,
    };

    /// As a license holds them.
    pub fn held(self) -> Option<Box<Self>> {
        (self != Self::NONE).then(|| Box::new(self))
    }

    /// Those that stay with the license when it changes.
    pub fn lasting(&self) -> Self {
        Self {
            reason: None,
            who: None,
            ..self.clone()
        }
    }

    /// The names of the license's texts, without its order.
    pub fn texts(&self) -> impl Iterator<Item = Hex128> {
        [self.note, self.reason, self.who].into_iter().flatten()
    }
}

/// What programs note of a license: at most [`MAX_METADATA`] bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metadata(BTreeMap<MetadataName, MetadataValue>);

impl Metadata {
    /// No metadata.
    pub const NONE: Self = Self(BTreeMap::new());

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The metadata has more than [`MAX_METADATA`] bytes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("metadata of at most {MAX_METADATA} bytes")]
pub struct TooMuchMetadata;

impl TryFrom<BTreeMap<MetadataName, MetadataValue>> for Metadata {
    type Error = TooMuchMetadata;

    fn try_from(members: BTreeMap<MetadataName, MetadataValue>) -> Result<Self, TooMuchMetadata> {
        let lengths = members
            .iter()
            .map(|(name, value)| name.as_str().len() + value.as_str().len());
        match lengths.sum::<usize>() <= MAX_METADATA {
            true => Ok(Self(members)),
            false => Err(TooMuchMetadata),
        }
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = BTreeMap::<MetadataName, MetadataValue>::deserialize(deserializer)?;
        Self::try_from(members).map_err(serde::de::Error::custom)
    }
}

/// `[a-z0-9_]{1,20}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataName(Box<str>);

checked_text!(MetadataName);

/// The text is not a name of metadata.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("1 to {MAX_METADATA_NAME} of a-z, 0-9 and '_' as a name of metadata")]
pub struct NotAMetadataName;

impl FromStr for MetadataName {
    type Err = NotAMetadataName;

    fn from_str(text: &str) -> Result<Self, NotAMetadataName> {
        let may_have = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = (1..=MAX_METADATA_NAME).contains(&text.len()) && text.bytes().all(may_have);
        is_name.then(|| Self(text.into())).ok_or(NotAMetadataName)
    }
}

/// A text without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataValue(Box<str>);

checked_text!(MetadataValue);

/// The text has a control character.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a text without control characters as a value of metadata")]
pub struct NotAMetadataValue;

impl FromStr for MetadataValue {
    type Err = NotAMetadataValue;

    fn from_str(text: &str) -> Result<Self, NotAMetadataValue> {
        match text.contains(is_unsafe) {
            true => Err(NotAMetadataValue),
            false => Ok(Self(text.into())),
        }
    }
}

/// Why a reason or a note is not taken.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RemarkError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is longer than the limit, in bytes.
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    /// It has a license key, which is stored nowhere.
    #[error("it has a license key, which is stored nowhere")]
    HasKey,
}

/// Checks a reason or a note.
///
/// # Errors
/// It cannot be kept.
pub fn check_remark(text: &str, limit: usize) -> Result<(), RemarkError> {
    if text.is_empty() {
        return Err(RemarkError::Empty);
    }
    if text.len() > limit {
        return Err(RemarkError::TooLong(limit));
    }
    match LicenseKey::is_in(text) {
        true => Err(RemarkError::HasKey),
        false => Ok(()),
    }
}

/// A text that is kept beside the ledger, and how lines name it.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedText {
    /// Its name: random, or an HMAC of the text under the secret in force.
    pub name: Hex128,
    /// HMACs of the same text under retired secrets.
    pub retired: Vec<Hex128>,
    /// The text.
    pub text: Box<str>,
}

impl NamedText {
    /// A text with this name, which is random.
    pub fn random(name: [u8; 16], text: &str) -> Self {
        Self {
            name: Hex128(name),
            retired: Vec::new(),
            text: text.into(),
        }
    }

    /// Every name, the one under the secret in force first.
    pub fn names(&self) -> impl Iterator<Item = Hex128> {
        std::iter::once(self.name).chain(self.retired.iter().copied())
    }
}

/// Who makes a change, and why, as far as a person says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// The person's name. The same name has the same number.
    pub who: Option<NamedText>,
    /// Why.
    pub reason: Option<NamedText>,
}

impl Author {
    /// The number of the person.
    pub fn number(&self) -> Option<Hex128> {
        self.who.as_ref().map(|who| who.name)
    }

    /// The name of the reason.
    pub fn reason_name(&self) -> Option<Hex128> {
        self.reason.as_ref().map(|reason| reason.name)
    }

    /// The texts to keep.
    pub fn texts(&self) -> impl Iterator<Item = &NamedText> {
        self.who.iter().chain(&self.reason)
    }
}

/// What a change notes of a license. What is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRemarks {
    /// The customer's number.
    pub holder: Option<Hex128>,
    /// All metadata.
    pub metadata: Option<Metadata>,
    /// The vendor's note; `Some(None)` for none.
    pub note: Option<Option<NamedText>>,
    /// The sale that a shop's license comes from, with what people changed of it.
    pub sold: Option<Box<Sold>>,
}

impl NewRemarks {
    /// The remarks after the change, without those about the change itself.
    pub fn after(&self, before: &Remarks) -> Remarks {
        Remarks {
            holder: self.holder.or(before.holder),
            metadata: self.metadata.as_ref().unwrap_or(&before.metadata).clone(),
            note: match &self.note {
                Some(note) => note.as_ref().map(|note| note.name),
                None => before.note,
            },
            sold: self.sold.clone().or_else(|| before.sold.clone()),
            ..Remarks::NONE
        }
    }
}

// SECURITY: the text stays out of logs.
impl fmt::Debug for NamedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedText({}, redacted)", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_has_short_names_printable_values_and_a_kilobyte_in_all() {
        let read = |text: &str| serde_json::from_str::<Metadata>(text);
        let good = read(r#"{"seller_2":"a \"b\" é","b":""}"#).unwrap();
        assert_eq!(good.iter().collect::<Vec<_>>(), [("b", ""), ("seller_2", "a \"b\" é")]);
        let full = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_METADATA - 1));
        assert!(read(&full).is_ok());
        for bad in [
            full.replace("\"a\"", "\"ab\""),
            r#"{"A":"x"}"#.into(),
            r#"{"":"x"}"#.into(),
            format!("{{\"{}\":\"x\"}}", "n".repeat(21)),
            r#"{"a":"\u0007"}"#.into(),
            r#"{"a":"\u202e"}"#.into(),
            r#"{"a":7}"#.into(),
            "[]".into(),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_remark_has_a_limit_and_no_license_key() {
        let key = LicenseKey::from_random([3; 20]);
        for (text, expected) in [
            ("a refund", Ok(())),
            ("", Err(RemarkError::Empty)),
            ("nine byte", Err(RemarkError::TooLong(8))),
            (key.reveal(), Err(RemarkError::HasKey)),
        ] {
            let limit = if text == key.reveal() { 500 } else { 8 };
            assert_eq!(check_remark(text, limit), expected);
        }
    }

    #[test]
    fn no_text_is_in_what_is_printed_for_a_developer() {
        let reason = NamedText {
            name: Hex128([1; 16]),
            retired: Vec::new(),
            text: "refund of Anna".into(),
        };
        let author = Author {
            who: Some(reason.clone()),
            reason: Some(reason),
        };
        assert!(!format!("{author:?}").contains("Anna"));
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let named = |number: u8| NamedText {
            name: Hex128([number; 16]),
            retired: Vec::new(),
            text: "".into(),
        };
        let before = Remarks {
            holder: Some(Hex128([1; 16])),
            metadata: serde_json::from_str("{\"a\":\"b\"}").unwrap(),
            note: Some(Hex128([2; 16])),
            reason: Some(Hex128([3; 16])),
            sold: None,
            who: Some(Hex128([4; 16])),
        };
        assert_eq!(NewRemarks::default().after(&before), before.lasting());
        let note = |note| NewRemarks {
            note: Some(note),
            ..NewRemarks::default()
        };
        assert_eq!(note(None).after(&before).note, None);
        assert_eq!(note(Some(named(9))).after(&before).note, Some(Hex128([9; 16])));
        let emptied = NewRemarks {
            metadata: Some(Metadata::NONE),
            ..NewRemarks::default()
        };
        assert!(emptied.after(&before).metadata.is_empty());
    }
}
