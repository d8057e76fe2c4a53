//! Mail of a server: checks the settings before it starts, and opens the queue.

use chrono::Utc;

use crate::commands::Failure;
use crate::serve::Server;
use countersign_mail::account::MailAccount;
use countersign_mail::queue::MailQueue;
use countersign_settings::config::Config;

/// The account that sends; `None` without a mail server.
///
/// # Errors
/// A setting is wrong, or a file of it cannot be read.
pub(super) fn account(config: &Config) -> Result<Option<MailAccount>, Failure> {
    let Some(settings) = &config.mail else { return Ok(None) };
    let account = MailAccount::new(settings)?;
    account.check_files()?;
    Ok(Some(account))
}

/// Has a server send mails by `account`, if there is one, and remind customers.
///
/// # Errors
/// The queue cannot be opened, or a thread cannot be started.
pub(super) fn begin(server: Server, account: Option<MailAccount>, config: &Config) -> Result<Server, Failure> {
    let server = match account {
        Some(account) => {
            let queue = MailQueue::open(&config.paths.store, Utc::now())?;
            server.with_mail(queue, account, config.paths.registry.clone())
        }
        None => Ok(server),
    };
    server
        .and_then(|server| server.with_reminders(config.reminders.clone()))
        .map_err(Failure::environment)
}
