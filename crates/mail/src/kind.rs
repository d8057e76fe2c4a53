//! What mails are about.

use countersign_model::reminder::ReminderKind;
use serde::{Deserialize, Serialize};

/// What a mail is about. Each kind has texts of its own, in as many languages as the vendor writes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumString, strum::IntoStaticStr, Serialize, Deserialize,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum MailKind {
    /// License keys.
    License,
    /// Licenses that end soon.
    ReminderBefore,
    /// Licenses that have ended.
    ReminderAfter,
    /// A site that was installed again.
    SiteClaimed,
}

impl MailKind {
    /// What a mail with such a reminder is about, or without one.
    pub(super) fn of(reminder: Option<ReminderKind>, is_of_site: bool) -> Self {
        match reminder {
            Some(kind) if kind.is_before() => Self::ReminderBefore,
            Some(_) => Self::ReminderAfter,
            None if is_of_site => Self::SiteClaimed,
            None => Self::License,
        }
    }
}
