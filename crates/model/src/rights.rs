//! Rights that a license has of its own, beside modules, sites and days. Most licenses have none.
//!
//! They are one member of a ledger line, of an order and of a license's digest, so a right that is added here is in all of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

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
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub channels: Option<BTreeSet<Channel>>,
    /// Its Composer tokens. No request sends them: the program says which number is next.
    #[serde(skip)]
    pub composer: Option<ComposerTokens>,
    /// Whether its sites show nothing of the vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub white_label: Option<bool>,
}

impl Rights {
    /// No rights.
    pub const NONE: Self = Self {
        channels: BTreeSet::new(),
        composer: ComposerTokens::NONE,
        white_label: false,
    };

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

    /// The channels for a person: `rc, beta`; empty without any.
    pub fn channel_list(&self) -> String {
        let names: Vec<_> = self.channels.iter().map(|channel| channel.as_str()).collect();
        names.join(", ")
    }
}

/// Reads `null` as a value, unlike an absent field.
pub(crate) fn given<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
