//! What mails are about.

use crate::values::MailContent;

/// What a mail is about. Each kind has texts of its own, in as many languages as the vendor writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
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
    /// What a mail is about.
    pub(super) fn of(content: &MailContent) -> Self {
        match (&content.reminder, &content.site) {
            (Some(reminder), _) if reminder.kind.is_before() => Self::ReminderBefore,
            (Some(_), _) => Self::ReminderAfter,
            (None, Some(_)) => Self::SiteClaimed,
            (None, None) => Self::License,
        }
    }
}
