//! Where the sending thread gets licenses and their keys from: the server gives it.

use crate::values::MailedLicense;
use countersign_model::license_key::LicenseId;

/// Where licenses and their keys come from.
pub trait LicenseSource: Send + Sync {
    /// A license with its key; `None` if nobody may have the key any more, because the license is revoked.
    ///
    /// # Errors
    /// Why the license or its key is not known now. It is tried again.
    fn license(&self, id: &LicenseId) -> Result<Option<MailedLicense>, &'static str>;
}
