//! The account that sends, for the commands that need one.

use crate::commands::Failure;
use crate::config::Config;
use crate::mail::account::MailAccount;
use crate::mail::{NO_MAIL_SERVER, NO_MAIL_SERVER_HINT};

/// The account of the configuration.
///
/// # Errors
/// There is no mail server, or a setting is wrong.
pub(super) fn account(config: &Config) -> Result<MailAccount, Failure> {
    let settings = config
        .mail
        .as_ref()
        .ok_or_else(|| Failure::input(NO_MAIL_SERVER).hint(NO_MAIL_SERVER_HINT))?;
    Ok(MailAccount::new(settings)?)
}
