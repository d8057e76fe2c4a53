//! `license forget`: erases texts that are kept beside the ledger, by the running server or by the command itself.
//!
//! The licenses stay, and so do the numbers by which the ledger names the texts.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::build::counted;
use crate::commands::keys::secrets;
use crate::commands::license::history;
use crate::commands::license::selector::LicenseArg;
use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::ops::text_answers::{self, ErasureOrder, ErasureReply, MOST_TEXTS, NamedTexts};
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::ReferenceKeys;

/// Arguments of `forget`.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("text").required(true).multiple(false).args(["reference", "person", "license"])))]
pub(super) struct Args {
    /// Erase an order of the shop, as it was given when the license was issued
    #[arg(long, value_name = "ORDER")]
    reference: Option<String>,
    /// Erase the name of a person who changed licenses, as `license history` shows it
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    #[command(flatten)]
    license: Option<LicenseArg>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ErasureOutput {
    /// Whether there was a text until now.
    changed: bool,
    /// Since when there is none.
    erased: String,
    /// How many texts there were until now.
    texts: usize,
    /// How many licenses the order has.
    licenses: usize,
}

/// What was erased.
#[derive(Clone, Copy, Debug)]
struct Erased {
    time: DateTime<Utc>,
    texts: usize,
    licenses: usize,
}

/// Erases the texts, and prints what was erased.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    if let Some(license) = &args.license {
        return forget_license(license, args.json, config);
    }
    let paths = &config.paths;
    let loaded = ReferenceKeys::load(&paths.references_key, &paths.retired_keys);
    let (keys, _) = loaded.map_err(secrets::failure)?;
    let (order, names) = match (&args.reference, &args.person) {
        (Some(order), _) => (ErasureOrder::Reference(order.clone()), keys.names(order)),
        (None, person) => {
            let name = person.as_deref().unwrap_or_default();
            (
                ErasureOrder::Person(name.to_owned()),
                keys.person(name).names().collect(),
            )
        }
    };
    let is_person = args.person.is_some();
    match erase(config, &order, NamedTexts::One(names))? {
        Ok(erased) if is_person => tell(args.json, erased, &message_of_person(erased)),
        Ok(erased) => tell(args.json, erased, &message(erased)),
        Err(failure) if is_person => Err(failure.hint("write the name as `countersign license history` shows it")),
        Err(failure) => Err(failure.hint(
            "write the order as the shop wrote it; `countersign license list --reference ORDER` finds its licenses",
        )),
    }
}

/// Erases the notes and reasons of all lines of a license.
fn forget_license(license: &LicenseArg, json: bool, config: &Config) -> Result<Exit, Failure> {
    let names = history::texts_of_lines(license, config)?;
    let mut erased = Erased {
        time: Utc::now(),
        texts: 0,
        licenses: 1,
    };
    for part in names.chunks(MOST_TEXTS) {
        let order = ErasureOrder::Texts(part.to_vec());
        let done = erase(config, &order, NamedTexts::Several(part.to_vec()))??;
        erased.time = done.time;
        erased.texts += done.texts;
    }
    let message = match erased.texts {
        0 => "The license has neither a note nor a reason of a change.\n".to_owned(),
        texts => format!(
            "{} of the license {} erased.\n",
            counted(texts, "text"),
            is_or_are(texts)
        ),
    };
    tell(json, erased, &message)
}

fn is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Has the running server erase texts; without one, this command does. The inner error says why there is nothing to erase.
fn erase(config: &Config, order: &ErasureOrder, texts: NamedTexts) -> Result<Result<Erased, Failure>, Failure> {
    let reply = ledger_access::through(
        config,
        || server_questions::erase_texts(config, order),
        async |bindings| text_answers::erase(bindings, texts).await,
    )?;
    Ok(match reply {
        ErasureReply::Erased { time, texts, licenses } => Ok(Erased { time, texts, licenses }),
        ErasureReply::Unknown => Err(Failure::input(match order {
            ErasureOrder::Reference(_) => "no license has this order, and no text of it is kept",
            ErasureOrder::Person(_) | ErasureOrder::Texts(_) => "no such text is kept",
        })),
        ErasureReply::NoKey => {
            return Err(Failure::input("the running server has no key for references")
                .hint("look at its log: it has not loaded keys/references.key"));
        }
    })
}

fn tell(json: bool, erased: Erased, message: &str) -> Result<Exit, Failure> {
    let Erased { time, texts, licenses } = erased;
    let text = match json {
        true => output::json(&ErasureOutput {
            changed: texts > 0,
            erased: time.to_rfc3339_opts(SecondsFormat::Secs, true),
            texts,
            licenses,
        })?,
        false => message.to_owned(),
    };
    match texts {
        0 => output::print(&text),
        _ => output::print_change(&text),
    }
}

fn message(erased: Erased) -> String {
    let of = match erased.licenses {
        0 => "No license has it.".to_owned(),
        1 => "Its license stays.".to_owned(),
        licenses => format!("Its {} stay.", counted(licenses, "license")),
    };
    match erased.texts {
        0 => format!(
            "No text of the order was kept; it is marked as erased since {}. {of}\n",
            erased.time.date_naive()
        ),
        _ => format!("The text of the order is erased. {of}\n"),
    }
}

fn message_of_person(erased: Erased) -> String {
    match erased.texts {
        0 => format!("The name is erased since {}.\n", erased.time.date_naive()),
        _ => "The name is erased. What the person changed stays.\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_was_erased_and_how_many_licenses_stay() {
        let erased = |texts, licenses| Erased {
            time: "2026-11-25T10:00:00Z".parse().unwrap(),
            texts,
            licenses,
        };
        assert_eq!(
            message(erased(1, 2)),
            "The text of the order is erased. Its 2 licenses stay.\n"
        );
        assert_eq!(
            message(erased(0, 1)),
            "No text of the order was kept; it is marked as erased since 2026-11-25. Its license stays.\n"
        );
    }
}
