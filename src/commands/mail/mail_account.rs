//! The account that sends, for the commands that need one.

use crate::commands::Failure;
use countersign_mail::account::MailAccount;
use countersign_mail::{NO_MAIL_SERVER, NO_MAIL_SERVER_HINT};
use countersign_settings::config::Config;

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
