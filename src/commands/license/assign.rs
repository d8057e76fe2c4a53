//! `license assign`: says whose a license is, and who gets the mails about it.

use chrono::NaiveDate;

use crate::commands::kept_customers::CustomerArg;
use crate::commands::{Exit, Failure};
use crate::serve::license_mails::{MailsOrder, RemindersTo};
use crate::serve::ops::license_answers::{LicenseAction, LicenseReply};
use countersign_model::language::Language;
use countersign_registry::Registry;
use countersign_settings::config::Config;

use crate::commands::license::change::{ChangeOptions, report};
use crate::commands::license::order::carry_out;
use crate::commands::license::selector::LicenseArg;
use crate::commands::store::licenses;

/// The word for the customer, in place of an address.
const CUSTOMER: &str = "customer";

/// Arguments of `assign`.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(super) struct Args {
    #[command(flatten)]
    license: LicenseArg,
    /// The customer's mail address; '-' reads it from stdin
    #[arg(long, value_name = "ADDRESS|-", group = "what")]
    customer: Option<CustomerArg>,
    /// The address is a new one of the customer whose it is: number, name and licenses stay
    #[arg(long, requires = "customer")]
    same_customer: bool,
    /// Who gets the reminders of its end: a mail address, '-' to read one from stdin, or 'customer' for the customer
    #[arg(long, value_name = "ADDRESS|-|customer", group = "what")]
    reminders_to: Option<CustomerArg>,
    /// The language of the mails about it, such as de or pt-BR
    #[arg(long, value_name = "LANGUAGE", group = "what")]
    language: Option<Language>,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Who gets the reminders, as it is typed.
pub(super) fn reminders_to(typed: &CustomerArg) -> Result<RemindersTo, Failure> {
    match typed.is(CUSTOMER) {
        true => Ok(RemindersTo::Customer),
        false => typed.address().map(RemindersTo::Address),
    }
}

/// Refuses two addresses from stdin, which has one.
pub(super) fn refuse_two_from_stdin(addresses: [Option<&CustomerArg>; 2]) -> Result<(), Failure> {
    match addresses.iter().flatten().filter(|address| address.is_stdin()).count() {
        2 => {
            Err(Failure::usage("two addresses are '-', and stdin has one of them")
                .hint("give one of them as an argument"))
        }
        _ => Ok(()),
    }
}

/// Has the license be the customer's, and its mails be so.
pub(super) fn run(args: &Args, config: &Config, today: NaiveDate) -> Result<Exit, Failure> {
    let addresses = [args.customer.as_ref(), args.reminders_to.as_ref()];
    refuse_two_from_stdin(addresses)?;
    if args.license.is_stdin() && addresses.iter().flatten().any(|address| address.is_stdin()) {
        return Err(
            Failure::usage("license and address are both '-', and stdin has one of them")
                .hint("give the first digits of the license's id"),
        );
    }
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let issued = licenses(config)?;
    let selected = args.license.select(&issued, &registry)?;
    let id = selected.id_in_ledger("a file names no customer")?;
    let customer = args.customer.as_ref().map(CustomerArg::address).transpose()?;
    let mails = MailsOrder {
        language: args.language.clone(),
        reminders_to: args.reminders_to.as_ref().map(reminders_to).transpose()?,
    };
    let tag = id.log_tag();
    let mut changed = false;
    let mut said = Vec::new();
    let mut carry = |action, what: &dyn Fn(&str) -> String| -> Result<(), Failure> {
        let reply = carry_out(config, &registry, &args.options.order(id, action))?;
        let is_new = matches!(reply, LicenseReply::Done { changed: true });
        changed |= is_new;
        said.push(what(if is_new { "now" } else { "already" }));
        Ok(())
    };
    if let Some(customer) = customer {
        match args.same_customer {
            true => carry(LicenseAction::NewAddress(customer), &|word| {
                format!("The customer of license {tag} has {word} this address.")
            }),
            false => carry(LicenseAction::Assign(customer), &|word| {
                format!("License {tag} is {word} the customer's.")
            }),
        }?;
    }
    if mails != MailsOrder::default() {
        carry(LicenseAction::Mails(mails), &|word| {
            format!("The mails about license {tag} are {word} so.")
        })?;
    }
    let message = said.join(" ");
    // As it is after the change.
    let issued = licenses(config)?;
    let after = args.license.select(&issued, &registry)?;
    report(&args.options, changed, &message, &[], after, &registry, today)
}
