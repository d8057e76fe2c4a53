//! Rights that a license has of its own, beside modules, sites and days. Most licenses have none.
//!
//! They are one member of a ledger line, of an order and of a license's digest. Files, requests, answers and histories read, write
//! and name their fields by this module, so a right that is added here is in all of them. The flags of the commands are in
//! `commands/license/arguments.rs`.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::channel::Channel;
use crate::composer::ComposerTokens;

/// The rights of a license.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// Channels whose pre-releases its sites may have, where the plugin's entry asks for a list.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub channels: BTreeSet<Channel>,
    /// Its Composer tokens.
    #[serde(default, skip_serializing_if = "ComposerTokens::is_empty")]
    pub composer: ComposerTokens,
    /// Whether its sites show nothing of the vendor: their statements link to no page of the customer's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub white_label: bool,
}

/// Other rights; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RightsEdit {
    /// All channels, instead of those before.
    #[serde(default, deserialize_with = "prereleases", skip_serializing_if = "Option::is_none")]
    pub channels: Option<BTreeSet<Channel>>,
    /// Its Composer tokens. No request sends them: the program says which number is next.
    #[serde(skip)]
    pub composer: Option<ComposerTokens>,
    /// Whether its sites show nothing of the vendor.
    #[serde(default, deserialize_with = "yes_or_no", skip_serializing_if = "Option::is_none")]
    pub white_label: Option<bool>,
}

/// What fields take, as the end of `"channels" must be …`: the messages of refused edits.
pub const EXPECTED: [&str; 2] = [PRERELEASES, YES_OR_NO];

const PRERELEASES: &str = "a list of \"rc\", \"beta\" and \"alpha\"";

const YES_OR_NO: &str = "true or false";

impl Rights {
    /// No rights.
    pub const NONE: Self = Self {
        channels: BTreeSet::new(),
        composer: ComposerTokens::NONE,
        white_label: false,
    };

    /// The fields, as files and requests name them. Composer tokens are not among them: the program counts them.
    pub const FIELDS: [&'static str; 2] = ["channels", "white_label"];

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// The rights after an edit.
    #[must_use]
    pub fn after(&self, edit: &RightsEdit) -> Self {
        Self {
            channels: edit.channels.as_ref().unwrap_or(&self.channels).clone(),
            composer: edit.composer.unwrap_or(self.composer),
            white_label: edit.white_label.unwrap_or(self.white_label),
        }
    }

    /// The fields that this license does not share with one without rights, and their values.
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        // Texts and booleans always serialize.
        let mut object = serde_json::to_value(self).unwrap_or_default();
        let field = |name| Some((name, object.get_mut(name)?.take()));
        Self::FIELDS.into_iter().filter_map(field).collect()
    }

    /// Label and value of each field for a person; a field without a value is empty.
    pub fn labelled(&self) -> [(&'static str, String); 2] {
        let white_label = if self.white_label { "yes" } else { "" };
        [
            ("Channels", channel_list(&self.channels)),
            ("White label", white_label.to_owned()),
        ]
    }
}

impl RightsEdit {
    /// The edit of one of [`Rights::FIELDS`].
    ///
    /// # Errors
    ///
    /// One of [`EXPECTED`], if the field takes no such value.
    pub fn of_field(name: &str, value: Value) -> Result<Self, String> {
        let object = Value::Object([(name.to_owned(), value)].into_iter().collect());
        serde_json::from_value(object).map_err(|error| error.to_string())
    }

    /// The edit that makes `after` of `before`.
    pub fn between(before: &Rights, after: &Rights) -> Self {
        Self {
            channels: (after.channels != before.channels).then(|| after.channels.clone()),
            composer: (after.composer != before.composer).then_some(after.composer),
            white_label: (after.white_label != before.white_label).then_some(after.white_label),
        }
    }

    /// Its fields and their new values; `None` for a value that a license without rights has.
    pub fn fields(&self) -> Vec<(&'static str, Option<Value>)> {
        let edited = serde_json::to_value(self).unwrap_or_default();
        let mut after: std::collections::BTreeMap<_, _> = Rights::NONE.after(self).fields().into_iter().collect();
        let names = Rights::FIELDS.into_iter().filter(|name| edited.get(name).is_some());
        names.map(|name| (name, after.remove(name))).collect()
    }

    /// What it changes, as ends of a sentence about the license: `white label`.
    pub fn outcomes(&self) -> Vec<String> {
        let channels = self.channels.as_ref().map(|channels| match channels.is_empty() {
            true => "for stable releases alone".to_owned(),
            false => format!("for the channels {}", channel_list(channels)),
        });
        let white_label = self.white_label.map(|is_so| match is_so {
            true => "white label".to_owned(),
            false => "not white label".to_owned(),
        });
        channels.into_iter().chain(white_label).collect()
    }
}

/// Channels for a person: `rc, beta`.
fn channel_list(channels: &BTreeSet<Channel>) -> String {
    let names: Vec<_> = channels.iter().map(|channel| channel.as_str()).collect();
    names.join(", ")
}

/// Every license has stable releases, so a list of channels has only the others.
fn prereleases<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeSet<Channel>>, D::Error> {
    let channels = BTreeSet::<Channel>::deserialize(deserializer).ok();
    let channels = channels.filter(|channels| !channels.contains(&Channel::Stable));
    channels.map(Some).ok_or_else(|| serde::de::Error::custom(PRERELEASES))
}

fn yes_or_no<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let value = bool::deserialize(deserializer).map(Some);
    value.map_err(|_| serde::de::Error::custom(YES_OR_NO))
}

/// Reads `null` as a value, unlike an absent field.
pub(crate) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_read_written_and_named() {
        let values = [
            ("channels", serde_json::json!(["rc", "beta"])),
            ("white_label", true.into()),
        ];
        assert_eq!(values.each_ref().map(|(name, _)| *name), Rights::FIELDS);
        let mut rights = Rights::NONE;
        for (name, value) in &values {
            let edit = RightsEdit::of_field(name, value.clone()).unwrap();
            assert_eq!(edit.fields(), [(*name, Some(value.clone()))]);
            let before = rights.clone();
            rights = rights.after(&edit);
            assert_eq!(RightsEdit::between(&before, &rights), edit);
            let undone = RightsEdit::between(&rights, &before);
            assert_eq!(undone.fields(), [(*name, None)]);
            assert_ne!(undone.outcomes(), edit.outcomes());
        }
        assert_eq!(rights.fields(), values);
        assert!(rights.labelled().iter().all(|(_, value)| !value.is_empty()));
        assert!(Rights::NONE.labelled().iter().all(|(_, value)| value.is_empty()));
    }

    #[test]
    fn a_wrong_value_says_what_the_field_takes() {
        for (name, value) in [
            ("channels", serde_json::json!("rc")),
            ("channels", serde_json::json!(["stable"])),
            ("white_label", serde_json::json!("yes")),
        ] {
            let error = RightsEdit::of_field(name, value).unwrap_err();
            assert!(EXPECTED.contains(&error.as_str()), "{error}");
        }
    }
}
