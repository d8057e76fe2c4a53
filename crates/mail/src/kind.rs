//! What mails are about.

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
    /// The pages with first copies, without a key.
    Download,
    /// Licenses that end soon.
    ReminderBefore,
    /// Licenses that have ended.
    ReminderAfter,
    /// A site that was installed again.
    SiteClaimed,
}
