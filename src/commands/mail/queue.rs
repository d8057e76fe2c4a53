//! `countersign mail list`, `retry` and `drop`: the mails that wait on this node. A running server notices what changes.

use serde::Serialize;

use crate::commands::id_digits::{self, IdWords};
use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use countersign_mail::mail_folder::MailFolder;
use countersign_mail::mail_id::MailId;
use countersign_mail::mail_queue_error::MailQueueError;
use countersign_mail::queued_mail::{MailState, QueuedMail};
use countersign_model::license_key::LicenseId;
use countersign_settings::config::Config;

/// How messages name mails.
const MAILS: IdWords = IdWords {
    thing: "a mail",
    none: "no mail of this id waits",
    hint: "`countersign mail list` shows the mails; one that was sent is not there any more",
};

#[derive(clap::Args, Debug)]
pub(super) struct ListArgs {
    /// Only those that a person has to decide
    #[arg(long)]
    parked: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct RetryArgs {
    /// The mails, by 8 or more of the first digits of their ids
    #[arg(value_name = "MAIL", required_unless_present = "all")]
    mails: Vec<String>,
    /// Every mail that waits or is parked
    #[arg(long, conflicts_with = "mails")]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct DropArgs {
    /// The mails, by 8 or more of the first digits of their ids
    #[arg(value_name = "MAIL", required = true)]
    mails: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A mail as it is printed.
#[derive(Serialize)]
struct ListedMail {
    id: MailId,
    /// `waiting`, `parked` or `damaged`.
    state: &'static str,
    address: Option<String>,
    licenses: Vec<LicenseId>,
    event: Option<String>,
    queued: Option<String>,
    attempts: u32,
    next: Option<String>,
    reason: Option<String>,
}

impl ListedMail {
    fn of(id: MailId, mail: QueuedMail) -> Self {
        let time = |time: chrono::DateTime<chrono::Utc>| time.format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let is_waiting = mail.state == MailState::Waiting;
        Self {
            id,
            state: if is_waiting { "waiting" } else { "parked" },
            address: Some(mail.address.reveal().to_owned()),
            licenses: mail.licenses,
            event: Some(mail.event),
            queued: Some(time(mail.queued)),
            attempts: mail.attempts,
            next: is_waiting.then(|| time(mail.next)),
            reason: mail.reason,
        }
    }

    fn damaged(id: MailId, error: &MailQueueError) -> Self {
        Self {
            id,
            state: "damaged",
            address: None,
            licenses: Vec::new(),
            event: None,
            queued: None,
            attempts: 0,
            next: None,
            reason: Some(error.to_string()),
        }
    }
}

/// Prints the mails, the one that was put into the queue first at the top.
pub(super) fn list(args: &ListArgs, config: &Config) -> Result<Exit, Failure> {
    let mut listed = Vec::new();
    if let Some(folder) = MailFolder::existing(&config.paths.store) {
        for (id, _) in folder.list()? {
            match folder.read(id) {
                Ok(Some(mail)) => listed.push(ListedMail::of(id, mail)),
                Ok(None) => {}
                Err(error @ MailQueueError::Damaged(_)) => listed.push(ListedMail::damaged(id, &error)),
                Err(error) => return Err(error.into()),
            }
        }
    }
    listed.retain(|mail| !args.parked || mail.state != "waiting");
    listed.sort_by(|one, other| one.queued.cmp(&other.queued));
    output::print(&if args.json {
        output::json(&listed)?
    } else {
        text(&listed)
    })
}

fn text(listed: &[ListedMail]) -> String {
    if listed.is_empty() {
        return "No mail waits.\n".to_owned();
    }
    let mut table = Table::new(["MAIL", "STATE", "TO", "QUEUED", "TRIED", "NEXT", "REASON"]);
    for mail in listed {
        let id = mail.id.to_string();
        let shown = |text: &Option<String>| text.clone().unwrap_or_default();
        table.row([
            &&id[..12],
            &mail.state,
            &shown(&mail.address),
            &shown(&mail.queued),
            &mail.attempts,
            &shown(&mail.next),
            &shown(&mail.reason),
        ]);
    }
    table.to_string()
}

/// Has mails sent again at once.
pub(super) fn retry(args: &RetryArgs, config: &Config) -> Result<Exit, Failure> {
    let found = match args.all {
        true => match MailFolder::existing(&config.paths.store) {
            None => Vec::new(),
            Some(folder) => folder.list()?.into_iter().map(|(id, _)| id).collect(),
        },
        false => named(&args.mails, config)?,
    };
    let mut retried = Vec::new();
    if let Some(folder) = MailFolder::existing(&config.paths.store) {
        for id in found {
            match folder.retry(id) {
                Ok(true) => retried.push(id),
                // With --all, a damaged one must not stop the others.
                Ok(false) => {}
                Err(MailQueueError::Damaged(_)) if args.all => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    print("retried", &retried, args.json)
}

/// Deletes mails without sending them.
pub(super) fn drop_mails(args: &DropArgs, config: &Config) -> Result<Exit, Failure> {
    let mut dropped = Vec::new();
    if let Some(folder) = MailFolder::existing(&config.paths.store) {
        for id in named(&args.mails, config)? {
            if folder.remove(id)? {
                dropped.push(id);
            }
        }
    } else {
        named(&args.mails, config)?;
    }
    print("dropped", &dropped, args.json)
}

fn print(verb: &'static str, mails: &[MailId], json: bool) -> Result<Exit, Failure> {
    output::print_change(&if json {
        output::json(&serde_json::json!({ verb: mails }))?
    } else {
        match mails {
            [] => "No mail waits.\n".to_owned(),
            mails => mails.iter().map(|mail| format!("{verb} {mail}\n")).collect(),
        }
    })
}

/// The mails whose ids begin so.
fn named(beginnings: &[String], config: &Config) -> Result<Vec<MailId>, Failure> {
    let all: Vec<MailId> = match MailFolder::existing(&config.paths.store) {
        None => Vec::new(),
        Some(folder) => folder.list()?.into_iter().map(|(id, _)| id).collect(),
    };
    id_digits::named(beginnings, &all, &MAILS)
}

impl From<MailQueueError> for Failure {
    fn from(error: MailQueueError) -> Self {
        let hint = error.hint();
        match error {
            MailQueueError::Damaged(_) | MailQueueError::Malformed => Self::input(error).hint(hint),
            _ => Self::environment(error).hint(hint),
        }
    }
}
