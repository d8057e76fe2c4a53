//! `countersign mail`: the mails with license keys that buyers get.

pub(crate) mod made_up;
mod preview;
mod reminders;
mod send_test;

use std::io;

use serde::Serialize;
use serde_json::json;

use crate::commands::parked::{self, About, QueueWords};
use crate::commands::{Exit, Failure, output};
use countersign_files::durable_file::{self, Access};
use countersign_files::queue::Queue;
use countersign_mail::account::MailAccountError;
use countersign_mail::queued_mail::{self, MailQueueError, QueuedMail};
use countersign_mail::texts::{FILES, FOLDER, MailTextError};
use countersign_settings::config::Config;

/// Show, test and look after the mails that buyers get
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign mail preview
  countersign mail send-test you@example.com
  countersign mail write-texts
  countersign mail parked list

The mail server is set in table [mail] of countersign.toml.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Show the mail as a buyer gets it, with made-up values
    #[command(after_help = "\
Examples:
  countersign mail preview
  countersign mail preview --html > mail.html      open it in a browser
  countersign mail preview --raw > mail.eml        open it in a mail program
  countersign mail preview --licenses 3            an order of three licenses
  countersign mail preview --kind reminder-before  what a customer gets before the end
  countersign mail preview --language de

Nothing is sent. Your own texts are in registry/mail/: license.txt, license.de.txt, reminder-before.txt, site-claimed.txt and so on.")]
    Preview(preview::Args),
    /// Send this mail to an address of yours, with made-up values
    #[command(after_help = "\
Examples:
  countersign mail send-test you@example.com
  countersign mail send-test you@example.com --json

It goes the same way as the mails to buyers. The key in it is no license.
Exit codes: 0 the mail server has it, 3 it refused it or a setting is wrong, 4 it cannot be reached.")]
    SendTest(send_test::Args),
    /// Write the built-in texts into registry/mail/, so that you can change them
    #[command(after_help = "\
Example:
  countersign mail write-texts

The files are templates: docs/mail.md lists what they can show. A file that is there stays as it is.")]
    WriteTexts(WriteTextsArgs),
    /// Show which reminders go out when
    #[command(after_help = "\
Examples:
  countersign mail reminders
  countersign mail reminders --at 2027-01-31 --days 1 --json
  countersign mail reminders --addresses

Nothing is sent, and those that were sent are shown, too. The days are set in table [mail] of countersign.toml.")]
    Reminders(reminders::Args),
    /// List, retry or drop mails that a person has to decide
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign mail parked list
  countersign mail parked list --all --json
  countersign mail parked retry 0f9a8b7c
  countersign mail parked drop 0f9a8b7c

A mail waits until the mail server takes it. It is parked if the mail server never will, or was \
asked for five days. The running server sends what you retry within five seconds. If you drop a mail, the license stays; \
a mail that is under way may still arrive. Each node has its own mails."
    )]
    Parked(parked::Verb),
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Preview(args) => preview::run(args, config),
        Verb::Reminders(args) => reminders::run(args, config),
        Verb::SendTest(args) => send_test::run(args, config),
        Verb::WriteTexts(args) => write_texts(args, config),
        Verb::Parked(verb) => run_parked(verb, config),
    }
}

impl From<MailAccountError> for Failure {
    fn from(error: MailAccountError) -> Self {
        let hint = error.hint();
        Self::input(error).hint(hint)
    }
}

impl From<MailTextError> for Failure {
    fn from(error: MailTextError) -> Self {
        let hint = error.hint();
        Self::input(error).hint(hint)
    }
}

impl From<MailQueueError> for Failure {
    fn from(error: MailQueueError) -> Self {
        let hint = error.hint();
        match error {
            MailQueueError::Malformed => Self::input(error).hint(hint),
            _ => Self::environment(error).hint(hint),
        }
    }
}

#[derive(clap::Args, Debug)]
struct WriteTextsArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What was written.
#[derive(Serialize)]
struct WrittenTexts {
    written: Vec<String>,
    /// Files that were there.
    kept: Vec<String>,
}

/// Writes each file that is not there.
fn write_texts(args: &WriteTextsArgs, config: &Config) -> Result<Exit, Failure> {
    let folder = config.paths.registry.join(FOLDER);
    let failed = |error: io::Error| Failure::environment(format!("{}: {error}", folder.display()));
    durable_file::create_folders(&folder, Access::LikeFolder).map_err(failed)?;
    let mut texts = WrittenTexts {
        written: Vec::new(),
        kept: Vec::new(),
    };
    for (name, text) in FILES {
        let path = folder.join(name);
        let listed = output::path_text(&path);
        match durable_file::create_new(&path, text.as_bytes(), Access::LikeFolder) {
            Ok(()) => texts.written.push(listed),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => texts.kept.push(listed),
            Err(error) => return Err(failed(error)),
        }
    }
    output::print_change(&if args.json {
        output::json(&texts)?
    } else {
        let line =
            |verb: &str, files: &[String]| -> String { files.iter().map(|file| format!("{verb} {file}\n")).collect() };
        line("wrote", &texts.written) + &line("kept", &texts.kept)
    })
}

const MAILS: QueueWords = QueueWords {
    one: "mail",
    command: "mail",
    whose: "TO",
};

/// Lists, retries or drops mails that wait on this node. The mail that was put into the queue first is at the top.
fn run_parked(verb: &parked::Verb, config: &Config) -> Result<Exit, Failure> {
    let mut items = match Queue::<QueuedMail>::existing(queued_mail::folder(&config.paths.store)) {
        Some(queue) => parked::listed(queue, |id| id.to_string(), |mail, _| about(mail))?,
        None => Vec::new(),
    };
    items.sort_by_key(|item| item.queued);
    parked::run(verb, &MAILS, items)
}

fn about(mail: QueuedMail) -> About {
    let address = mail.address.reveal();
    About {
        whose: Some(address.to_owned()),
        event: Some(mail.event),
        subscription: None,
        members: [("address", json!(address)), ("licenses", json!(mail.licenses))]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
    }
}
