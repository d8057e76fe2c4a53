//! `license forget`: erases the text of a shop's order, by the running server or by the command itself.
//!
//! The licenses of the order stay, and so does the HMAC by which who knows the order finds them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::build::counted;
use crate::commands::keys::secrets;
use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::ops::reference_answers::{self, ErasureOrder, ErasureReply};
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::ReferenceKeys;

/// Arguments of `forget`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The order of the shop, as it was given when the license was issued
    #[arg(long, value_name = "ORDER")]
    reference: String,
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
    /// How many licenses the order has.
    licenses: usize,
}

/// Erases the text, and prints what was erased.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let paths = &config.paths;
    let loaded = ReferenceKeys::load(&paths.references_key, &paths.retired_keys);
    let (keys, _) = loaded.map_err(secrets::failure)?;
    let names = keys.names(&args.reference);
    let reply = ledger_access::through(
        config,
        || {
            let order = ErasureOrder {
                reference: args.reference.clone(),
            };
            server_questions::erase_reference(config, &order)
        },
        async |bindings| reference_answers::erase(bindings, names).await,
    )?;
    match reply {
        ErasureReply::Erased {
            time,
            had_text,
            licenses,
        } => tell(args.json, time, had_text, licenses),
        ErasureReply::Unknown => Err(
            Failure::input("no license has this order, and no text of it is kept").hint(
                "write the order as the shop wrote it; `countersign license list --reference ORDER` finds its licenses",
            ),
        ),
        ErasureReply::NoKey => Err(Failure::input("the running server has no key for references")
            .hint("look at its log: it has not loaded keys/references.key")),
    }
}

fn tell(json: bool, time: DateTime<Utc>, had_text: bool, licenses: usize) -> Result<Exit, Failure> {
    let text = match json {
        true => output::json(&ErasureOutput {
            changed: had_text,
            erased: time.to_rfc3339_opts(SecondsFormat::Secs, true),
            licenses,
        })?,
        false => message(time, had_text, licenses),
    };
    match had_text {
        true => output::print_change(&text),
        false => output::print(&text),
    }
}

fn message(time: DateTime<Utc>, had_text: bool, licenses: usize) -> String {
    let of = match licenses {
        0 => "No license has it.".to_owned(),
        1 => "Its license stays.".to_owned(),
        licenses => format!("Its {} stay.", counted(licenses, "license")),
    };
    match had_text {
        true => format!("The text of the order is erased. {of}\n"),
        false => format!(
            "No text of the order was kept; it is marked as erased since {}. {of}\n",
            time.date_naive()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_was_erased_and_how_many_licenses_stay() {
        let time = "2026-11-25T10:00:00Z".parse().unwrap();
        assert_eq!(
            message(time, true, 2),
            "The text of the order is erased. Its 2 licenses stay.\n"
        );
        assert_eq!(
            message(time, false, 1),
            "No text of the order was kept; it is marked as erased since 2026-11-25. Its license stays.\n"
        );
    }
}
