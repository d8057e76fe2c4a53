//! Where the sending thread gets what a mail says from: the server gives it.

use countersign_files::queue::Queued;

use crate::queued_mail::QueuedMail;
use crate::values::MailContent;

/// Where licenses and their keys come from.
pub trait LicenseSource: Send + Sync {
    /// What a mail says now; `Err` in the result if it is not to be sent any more, with the reason.
    ///
    /// # Errors
    /// Why it is not known now. It is tried again.
    fn content(&self, mail: &Queued<QueuedMail>) -> Result<Result<MailContent, &'static str>, &'static str>;
}
