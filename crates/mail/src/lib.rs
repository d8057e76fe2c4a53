//! Mails to customers: license keys, reminders of the end of licenses, and sites that were installed again.
//!
//! [`queue`] takes an address and the ids of licenses, and keeps them until the mail server has the mail; [`sending`] sends.
//!
//! [`account`] has the settings, [`texts`] what a mail says, [`message`] the mail, and [`connection`] brings it to the mail
//! server. [`sending::send_one`] does that for one mail that nothing keeps.

#![forbid(unsafe_code)]

pub mod account;
pub mod address;
mod connection;
pub mod made_up;
pub mod mail_log;
mod message;
pub mod queue;
pub mod queued_mail;
pub mod send_error;
pub mod sending;
mod sent_mails;
mod stream;
pub mod texts;
mod values;

pub use values::{MailContent, MailKind, MailedLicense, MailedReminder, MailedSite};

/// Why no mail is sent where [`account`] has no settings.
pub const NO_MAIL_SERVER: &str = "there is no mail server";

/// What to do about it.
pub const NO_MAIL_SERVER_HINT: &str =
    "set server and from in table [mail] of countersign.toml; docs/mail.md has examples";
