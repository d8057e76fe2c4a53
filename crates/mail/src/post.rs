//! Sends one mail now: makes it, opens a connection, and waits until the mail server has it.

use chrono::{DateTime, Utc};

use crate::account::MailAccount;
use crate::address::MailAddress;
use crate::connection::MailConnection;
use crate::mail_id::MailId;
use crate::message::OutgoingMail;
use crate::send_error::SendError;
use crate::texts::RenderedMail;

/// The whole mail, as a mail server gets it.
///
/// # Errors
/// [`SendError::Unmade`].
pub fn whole_mail(
    account: &MailAccount,
    to: &MailAddress,
    id: MailId,
    date: DateTime<Utc>,
    said: &RenderedMail,
) -> Result<String, SendError> {
    let mail = OutgoingMail::new(account, to, id, date, said).map_err(SendError::Unmade)?;
    Ok(String::from_utf8_lossy(&mail.bytes).into_owned())
}

/// Sends one mail over a connection of its own.
///
/// # Errors
/// The server did not take it.
pub async fn send_one(
    account: &MailAccount,
    to: &MailAddress,
    id: MailId,
    date: DateTime<Utc>,
    said: &RenderedMail,
) -> Result<(), SendError> {
    let mail = OutgoingMail::new(account, to, id, date, said).map_err(SendError::Unmade)?;
    let mut connection = MailConnection::open(account).await?;
    connection.send(&mail).await?;
    connection.quit().await;
    Ok(())
}
