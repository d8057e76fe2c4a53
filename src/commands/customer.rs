//! `countersign customer`: what is kept of the vendor's customers beside the ledger, and how it is erased.

use std::io::{self, BufRead as _, IsTerminal as _};

use chrono::{NaiveDate, Utc};
use serde::Serialize;

use crate::build::counted;
use crate::commands::kept_customers::{self, CustomerArg};
use crate::commands::license::order::license_secrets;
use crate::commands::license::{self, LicenseOf};
use crate::commands::output::Table;
use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::ops::customer_answers::{self, CustomerOrder};
use countersign_model::customer::CustomerRow;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::Config;

/// Show and erase customers
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign customer show anna@example.com
  echo anna@example.com | countersign customer show -
  countersign customer forget anna@example.com

A customer is a number in the ledger. Addresses and names are kept beside the ledger, and can be erased. \
'-' reads the address from stdin, so that it stays out of the shell's history.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Show a customer: addresses, name and licenses
    #[command(after_help = "Examples:
  countersign customer show anna@example.com
  countersign customer show 3f9a0c21d4e53f9a0c21d4e53f9a0c21 --json")]
    Show(ShowArgs),
    /// Erase a customer: the addresses and the name. Licenses stay
    #[command(after_help = "Examples:
  countersign customer forget anna@example.com
  echo anna@example.com | countersign customer forget - --yes

No restart and no restored backup brings an erased customer back; who buys again is another customer. \
docs/customers.md says where else an address may be, such as mails that wait and parked deliveries.")]
    Forget(ForgetArgs),
}

#[derive(clap::Args, Debug)]
struct ShowArgs {
    /// One of the customer's addresses, or the number; '-' reads one of these from stdin
    #[arg(value_name = "ADDRESS|NUMBER|-")]
    customer: CustomerArg,
}

#[derive(clap::Args, Debug)]
struct ForgetArgs {
    /// One of the customer's addresses, or the number; '-' reads one of these from stdin
    #[arg(value_name = "ADDRESS|NUMBER|-")]
    customer: CustomerArg,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// A customer.
#[derive(Serialize)]
struct ShownCustomer {
    customer: Hex128,
    addresses: Vec<ShownAddress>,
    /// Whether the customer gets reminders, where they are sent.
    reminders: bool,
    licenses: Vec<LicenseOf>,
}

/// An address of a customer; without text where the server keeps none.
#[derive(Serialize)]
struct ShownAddress {
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Box<str>>,
    /// Who said so first.
    by: ChangeScope,
}

/// What was erased.
#[derive(Serialize)]
struct ForgottenCustomer {
    customer: Hex128,
    /// Whether an address was kept until now.
    changed: bool,
    /// How many addresses were kept until now.
    addresses: usize,
    /// How many licenses have the number. They stay.
    licenses: usize,
}

/// Neither a row nor a license has the number.
#[derive(Debug, thiserror::Error)]
#[error("there is no customer {0}")]
struct UnknownNumber(Hex128);

/// Nobody can be asked.
#[derive(Debug, thiserror::Error)]
#[error("nothing was erased: nobody confirmed it")]
struct NotConfirmed;

impl From<CustomerRow> for ShownAddress {
    fn from(row: CustomerRow) -> Self {
        Self {
            address: row.address,
            name: row.name,
            by: row.by,
        }
    }
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let today = Utc::now().date_naive();
    match &args.verb {
        Verb::Show(show) => {
            let shown = shown(&show.customer, config, today)?;
            output::print(&match args.json {
                true => output::json(&shown)?,
                false => shown.text(),
            })
        }
        Verb::Forget(forget) => self::forget(forget, args.json, config, today),
    }
}

fn shown(customer: &CustomerArg, config: &Config, today: NaiveDate) -> Result<ShownCustomer, Failure> {
    let number = customer.named()?.number(config)?;
    let rows = kept_customers::of(&[number].into(), config)?;
    let licenses = license::of_customer(number, config, today)?;
    if rows.is_empty() && licenses.is_empty() {
        return Err(
            Failure::input(UnknownNumber(number)).hint("give an address, or a number as `license show` shows it")
        );
    }
    Ok(ShownCustomer {
        customer: number,
        reminders: !rows.iter().any(|row| row.unsubscribed),
        addresses: rows
            .into_iter()
            .filter(CustomerRow::is_of_address)
            .map(ShownAddress::from)
            .collect(),
        licenses,
    })
}

impl ShownCustomer {
    fn text(&self) -> String {
        let mut text = format!("customer {}\n", self.customer);
        if self.addresses.is_empty() {
            text += "No address is kept.\n";
        }
        for address in &self.addresses {
            let shown = address
                .address
                .as_deref()
                .unwrap_or("an address, of which only an HMAC is kept");
            let name = address
                .name
                .as_ref()
                .map_or(String::new(), |name| format!(", {}", Printable(name)));
            text += &format!("{}{name} (by {})\n", Printable(shown), address.by.words());
        }
        if !self.reminders {
            text += "The customer wants no reminders.\n";
        }
        if self.licenses.is_empty() {
            return text + "No license has this customer.\n";
        }
        let mut table = Table::new(["LICENSE", "STATUS", "EXPIRES", "MODULES"]);
        for license in &self.licenses {
            table.row([
                &license.id.log_tag(),
                &license.standing,
                &license.expires,
                &license.modules_text(),
            ]);
        }
        format!("{text}\n{table}")
    }
}

fn forget(args: &ForgetArgs, json: bool, config: &Config, today: NaiveDate) -> Result<Exit, Failure> {
    let shown = shown(&args.customer, config, today)?;
    let number = shown.customer;
    if !args.yes {
        confirm(&shown, &args.customer)?;
    }
    let order = CustomerOrder { forget: number };
    let reply = ledger_access::through(
        config,
        || server_questions::erase_customer(config, &order),
        async |bindings| {
            // Without keys, nobody has a number to say who did it.
            let secrets = license_secrets(config).ok().flatten();
            let author = customer_answers::author(secrets.as_ref(), &server_questions::own_user());
            customer_answers::erase(bindings, author, &ChangeScope::operator(), order).await
        },
    )?;
    let licenses = shown.licenses.len();
    let text = match json {
        true => output::json(&ForgottenCustomer {
            customer: number,
            changed: reply.addresses > 0,
            addresses: reply.addresses,
            licenses,
        })?,
        false => format!(
            "Customer {number} is erased: {} {} kept until now. {} with this number {}.\n",
            addresses(reply.addresses),
            if reply.addresses == 1 { "was" } else { "were" },
            counted(licenses, "license"),
            if licenses == 1 { "stays" } else { "stay" },
        ),
    };
    match reply.addresses {
        0 => output::print(&text),
        _ => output::print_change(&text),
    }
}

/// Asks the person at the terminal.
fn confirm(shown: &ShownCustomer, customer: &CustomerArg) -> Result<(), Failure> {
    let refused = || Failure::usage(NotConfirmed).hint("--yes erases without asking");
    let stdin = io::stdin();
    if customer.is_stdin() || !stdin.is_terminal() {
        return Err(refused());
    }
    stderr::line(format_args!(
        "Erase customer {} with {} and {}? This cannot be undone. [y/N]",
        shown.customer,
        addresses(shown.addresses.len()),
        counted(shown.licenses.len(), "license")
    ));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(Failure::environment)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(refused()),
    }
}

fn addresses(count: usize) -> String {
    match count {
        1 => "1 address".to_owned(),
        count => format!("{count} addresses"),
    }
}
