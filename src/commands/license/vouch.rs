//! `license vouch` and `license unvouch`: a person says that a license which looks shared is fine until a day, or takes that back.

use chrono::NaiveDate;
use serde::Serialize;

use crate::commands::license::arguments::Expires;
use crate::commands::license::change::ChangeOptions;
use crate::commands::license::order::carry_out;
use crate::commands::license::selector::LicenseArg;
use crate::commands::store::licenses;
use crate::commands::{Exit, Failure, output};
use crate::serve::ops::license_answers::{LicenseAction, LicenseReply};
use crate::serve::vouches;
use countersign_model::license_key::LicenseId;
use countersign_registry::Registry;
use countersign_settings::config::Config;

/// Arguments of `vouch`.
#[derive(clap::Args, Debug)]
pub(super) struct VouchArgs {
    #[command(flatten)]
    license: LicenseArg,
    /// Last day that it is fine, in UTC: a date, or a period from today such as +6m; at most 5 years ahead [default: +1y]
    #[arg(long, value_name = "DATE|+1y|+30d")]
    until: Option<Expires>,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Arguments of `unvouch`.
#[derive(clap::Args, Debug)]
pub(super) struct UnvouchArgs {
    #[command(flatten)]
    license: LicenseArg,
    #[command(flatten)]
    options: ChangeOptions,
}

#[derive(Serialize)]
struct VouchDocument<'a> {
    id: LicenseId,
    changed: bool,
    message: &'a str,
    /// The last day that it is fine.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<NaiveDate>,
}

/// Vouches for a license.
pub(super) fn vouch(args: &VouchArgs, config: &Config, today: NaiveDate) -> Result<Exit, Failure> {
    let until = args.until.map(|until| until.from(today));
    let until = until.unwrap_or_else(|| vouches::usual_end(today));
    run(&args.license, &args.options, Some(until), config)
}

/// Takes that back.
pub(super) fn unvouch(args: &UnvouchArgs, config: &Config) -> Result<Exit, Failure> {
    run(&args.license, &args.options, None, config)
}

fn run(
    license: &LicenseArg,
    options: &ChangeOptions,
    until: Option<NaiveDate>,
    config: &Config,
) -> Result<Exit, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let id = license.select(&issued, &registry)?.license().id;
    let order = options.order(id, LicenseAction::Vouch { until });
    let reply = carry_out(config, &registry, &order)?;
    let changed = matches!(reply, LicenseReply::Done { changed: true });
    let tag = id.log_tag();
    let message = match (until, changed) {
        (Some(until), true) => format!("License {tag} is fine until {until}: no list of findings has it."),
        (Some(until), false) => format!("License {tag} is fine until {until} already."),
        (None, true) => format!("Nobody vouches for license {tag} any more."),
        (None, false) => format!("Nobody vouched for license {tag}."),
    };
    let print = if changed { output::print_change } else { output::print };
    print(&match options.json {
        true => output::json(&VouchDocument {
            id,
            changed,
            message: &message,
            until,
        })?,
        false => format!("{message}\n"),
    })
}
