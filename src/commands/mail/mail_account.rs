//! The account that sends, for the commands that need one.

use crate::commands::Failure;
use crate::config::Config;
use crate::mail::account::MailAccount;

/// The account of the configuration.
///
/// # Errors
/// There is no mail server, or a setting is wrong.
pub(super) fn account(config: &Config) -> Result<MailAccount, Failure> {
    let settings = config.mail.as_ref().ok_or_else(|| {
        Failure::input("there is no mail server")
            .hint("set server and from in table [mail] of countersign.toml; docs/mail.md has examples")
    })?;
    Ok(MailAccount::new(settings)?)
}
