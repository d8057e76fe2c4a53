//! `license assign`: says whose a license is.

use chrono::NaiveDate;

use crate::commands::kept_customers::CustomerArg;
use crate::commands::{Exit, Failure};
use crate::serve::ops::license_answers::{LicenseAction, LicenseReply};
use countersign_registry::Registry;
use countersign_settings::config::Config;

use crate::commands::license::change::{ChangeOptions, report};
use crate::commands::license::issued::licenses;
use crate::commands::license::order::carry_out;
use crate::commands::license::selector::{LicenseArg, SelectedLicense};

/// Arguments of `assign`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    license: LicenseArg,
    /// The customer's mail address; '-' reads it from stdin
    #[arg(long, value_name = "ADDRESS|-")]
    customer: CustomerArg,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Has the license be the customer's.
pub(super) fn run(args: &Args, config: &Config, today: NaiveDate) -> Result<Exit, Failure> {
    if args.license.is_stdin() && args.customer.is_stdin() {
        return Err(
            Failure::usage("license and customer are both '-', and stdin has one of them")
                .hint("give the first digits of the license's id"),
        );
    }
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let id = match args.license.select(&issued, &registry)? {
        SelectedLicense::Ledger(issued) => issued.license.id,
        SelectedLicense::Declared(license) => {
            let tag = license.id.log_tag();
            return Err(Failure::input(format!(
                "license {tag} is declared in a file, and a file names no customer"
            ))
            .hint(format!(
                "`countersign license import {tag} --from registry` takes it into the ledger"
            )));
        }
    };
    let action = LicenseAction::Assign(args.customer.address()?);
    let reply = carry_out(config, &registry, &args.options.order(id, action))?;
    let changed = matches!(reply, LicenseReply::Done { changed: true });
    let word = if changed { "now" } else { "already" };
    let message = format!("License {} is {word} the customer's.", id.log_tag());
    // As it is after the change.
    let issued = licenses(config)?;
    let after = args.license.select(&issued, &registry)?;
    report(&args.options, changed, &message, &[], after, &registry, today)
}
