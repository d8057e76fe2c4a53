//! `countersign mail preview`: the mail as a buyer gets it.

use chrono::Utc;
use serde::Serialize;

use crate::commands::mail::made_up;
use crate::commands::mail::made_up::account;
use crate::commands::output;
use crate::commands::{Exit, Failure};
use countersign_mail::MailKind;
use countersign_mail::address::MailAddress;
use countersign_mail::queued_mail::MailId;
use countersign_mail::sending::whole_mail;
use countersign_mail::texts::{MailTexts, RenderedMail};
use countersign_model::language::Language;
use countersign_model::text::printable::PrintableLines;
use countersign_settings::config::Config;

/// A buyer who is nobody (RFC 2606).
const BUYER: &str = "buyer@example.com";

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print the HTML alone
    #[arg(long, conflicts_with_all = ["raw", "json"])]
    html: bool,
    /// Print the whole mail, as the mail server gets it; needs the table `mail`
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Which mail: license, download, reminder-before, reminder-after or site-claimed
    #[arg(long, value_name = "MAIL", default_value = "license", value_parser = kind)]
    kind: MailKind,
    /// In this language, such as de or pt-BR; without a text in it, the one for everybody is shown
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<Language>,
    /// How many licenses it is about
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    licenses: u8,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The mail as it is printed.
#[derive(Serialize)]
struct PreviewedMail<'a> {
    /// Null without a mail server.
    from: Option<String>,
    reply_to: Option<String>,
    to: &'a str,
    #[serde(flatten)]
    said: &'a RenderedMail,
    /// The folder of the texts; null for the built-in ones.
    texts: Option<String>,
}

/// Fills in the texts and prints them.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let texts = MailTexts::load(&config.paths.registry)?;
    let said = texts.render(&made_up::content(
        config,
        args.kind,
        args.language.clone(),
        args.licenses,
    ))?;
    if args.html {
        let html = said.html.ok_or_else(|| {
            Failure::input("there is no HTML: you wrote the text alone")
                .hint("write the file that ends in .html beside it, or leave it: the mail is text")
        })?;
        return output::print(&html);
    }
    if args.raw {
        let to: MailAddress = BUYER.parse().map_err(Failure::input)?;
        let id = MailId::of_event("preview");
        let mail = whole_mail(&account(config)?, &to, id, Utc::now(), &said).map_err(Failure::environment)?;
        return output::print(&mail);
    }
    let account = config.mail.is_some().then(|| account(config)).transpose()?;
    let previewed = PreviewedMail {
        from: account.as_ref().map(|account| account.from()),
        reply_to: account.as_ref().and_then(|account| account.reply_to()),
        to: BUYER,
        said: &said,
        texts: texts.folder(args.kind).map(output::path_text),
    };
    output::print(&if args.json {
        output::json(&previewed)?
    } else {
        text(&previewed)
    })
}

fn kind(text: &str) -> Result<MailKind, &'static str> {
    text.parse()
        .map_err(|_| "expected license, download, reminder-before, reminder-after or site-claimed")
}

fn text(mail: &PreviewedMail<'_>) -> String {
    let from = mail.from.as_deref().unwrap_or("(mail.from is not set)");
    let reply_to = mail.reply_to.as_ref();
    let reply_to = reply_to.map_or(String::new(), |address| format!("Reply-To: {address}\n"));
    let html = match mail.said.html {
        Some(_) => "\nThere is HTML, too: --html prints it.\n",
        None => "",
    };
    PrintableLines(format!(
        "From:     {from}\n{reply_to}To:       {}\nSubject:  {}\n\n{}{html}",
        mail.to, mail.said.subject, mail.said.text
    ))
    .to_string()
}
