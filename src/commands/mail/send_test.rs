//! `countersign mail send-test`: the whole way to the mail server, with made-up values.

use chrono::Utc;
use serde::Serialize;

use crate::commands::mail::made_up;
use crate::commands::mail::made_up::account;
use crate::commands::output;
use crate::commands::{Exit, Failure};
use countersign_mail::MailKind;
use countersign_mail::address::MailAddress;
use countersign_mail::queued_mail::MailId;
use countersign_mail::send_error::SendError;
use countersign_mail::sending::send_one;
use countersign_mail::texts::{MailTexts, RenderedMail};
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Where to: an address of yours
    #[arg(value_name = "ADDRESS")]
    address: MailAddress,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The mail that was sent.
#[derive(Serialize)]
struct TestMail {
    server: String,
    from: String,
    to: String,
}

/// Sends the mail and waits until the mail server has it.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let account = account(config)?;
    account.check_files()?;
    let said =
        MailTexts::load(&config.paths.registry)?.render(&made_up::content(config, MailKind::License, None, 1))?;
    let said = RenderedMail {
        subject: format!("[Test] {}", said.subject),
        ..said
    };
    let random = getrandom::u64().map_err(|error| Failure::environment(error.to_string()))?;
    // Each test is a mail of its own.
    let id = MailId::of_event(&format!("test {random:016x}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::environment)?;
    let sent = runtime.block_on(send_one(&account, &args.address, id, Utc::now(), &said));
    // A question for the server's address that nobody answers must not delay the end.
    runtime.shutdown_background();
    sent.map_err(failure)?;
    let mail = TestMail {
        server: account.server(),
        from: account.from(),
        to: args.address.reveal().to_owned(),
    };
    output::print_change(&if args.json {
        output::json(&mail)?
    } else {
        format!("{} has the mail to {}.\n", mail.server, mail.to)
    })
}

/// The terminal gets what the server wrote, too.
fn failure(error: SendError) -> Failure {
    let hint = error.hint();
    let detail = error.detail();
    match error {
        SendError::Unreachable { .. } | SendError::TimedOut { .. } | SendError::Broken { .. } => {
            Failure::environment(detail).hint(hint)
        }
        _ => Failure::input(detail).hint(hint),
    }
}
