//! `countersign mail reminders`: which reminders go out when.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Days, NaiveDate, Utc};
use serde::Serialize;

use crate::build::counted;
use crate::commands::kept_customers;
use crate::commands::output::{self, Table};
use crate::commands::store::{store_failure, store_source};
use crate::commands::{Exit, Failure};
use crate::serve::reminders::{self, DueReminder, ReminderGroup};
use countersign_model::customer::mails_name;
use countersign_model::issued_license::Hex128;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::text::printable::PrintableLines;
use countersign_registry::Registry;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// From this day on, in UTC [default: today]
    #[arg(long, value_name = "DATE")]
    at: Option<NaiveDate>,
    /// For so many days
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=366))]
    days: u16,
    /// Show the mail addresses, too
    #[arg(long)]
    addresses: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// All of them.
#[derive(Serialize)]
struct PlannedReminders {
    reminders: Vec<PlannedReminder>,
}

/// One mail.
#[derive(Serialize)]
struct PlannedReminder {
    /// The day on which it is due.
    day: NaiveDate,
    /// Such as `before 7`.
    kind: String,
    /// The last day of its licenses.
    expires: NaiveDate,
    customer: Hex128,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    licenses: Vec<LicenseId>,
}

/// No days are set.
#[derive(Debug, thiserror::Error)]
#[error("nobody is reminded: neither reminders_before nor reminders_after is set in table [mail]")]
struct NoReminders;

/// Looks at every license, and prints what is due.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    if config.reminders.is_empty() {
        return Err(Failure::input(NoReminders).hint("docs/mail.md has an example"));
    }
    let planned = planned(args, config)?;
    output::print(&match args.json {
        true => output::json(&planned)?,
        false => planned.text(),
    })
}

fn planned(args: &Args, config: &Config) -> Result<PlannedReminders, Failure> {
    let registry = Registry::load(&config.paths.registry)?;
    let issued = countersign_ledger::issued_licenses(store_source(&config.paths)).map_err(store_failure)?;
    let sales = countersign_ledger::stored_sales(store_source(&config.paths)).map_err(store_failure)?;
    let sales: HashMap<_, _> = sales.all().into_iter().map(|sale| (sale.id, sale.facts)).collect();
    let from = args.at.unwrap_or_else(|| Utc::now().date_naive());
    let until = from
        .checked_add_days(Days::new(args.days.into()))
        .unwrap_or(NaiveDate::MAX);
    let mut by_moment: BTreeMap<DateTime<Utc>, Vec<(DueReminder, &License)>> = BTreeMap::new();
    for issued in &issued {
        let license = &issued.license;
        let sale = |sale| sales.get(&sale).cloned();
        if !reminders::ends(license) || reminders::is_test(issued, registry.offers(), sale) {
            continue;
        }
        for (moment, kind) in config.reminders.moments(license.expires) {
            if (from..until).contains(&moment.date_naive()) && moment > issued.origin.issued {
                let due = DueReminder {
                    license: license.id,
                    expires: license.expires,
                    kind,
                };
                by_moment.entry(moment).or_default().push((due, license));
            }
        }
    }
    let all = by_moment.values().flatten();
    let names: Vec<_> = all.map(|(due, _)| mails_name(&due.license)).collect();
    let texts = countersign_ledger::texts(store_source(&config.paths), &names).map_err(store_failure)?;
    let mut groups: Vec<(NaiveDate, ReminderGroup, Vec<LicenseId>)> = Vec::new();
    for (moment, due) in by_moment {
        let of_moment = reminders::groups(due, &texts).into_iter();
        groups.extend(of_moment.map(|(group, licenses)| (moment.date_naive(), group, licenses)));
    }
    let numbers = groups.iter().map(|(_, group, _)| group.to).collect();
    let rows = kept_customers::of(&numbers, config)?;
    let addresses = reminders::addresses(&rows);
    let mails = groups.into_iter().filter_map(|(day, group, licenses)| {
        let address = addresses.get(&group.to)?;
        Some(PlannedReminder {
            day,
            kind: group.kind.to_string(),
            expires: group.expires,
            customer: group.to,
            address: args.addresses.then(|| address.reveal().to_owned()),
            licenses,
        })
    });
    Ok(PlannedReminders {
        reminders: mails.collect(),
    })
}

impl PlannedReminders {
    fn text(&self) -> String {
        if self.reminders.is_empty() {
            return "No reminder is due on these days.\n".to_owned();
        }
        let mut table = Table::new(["DAY", "REMINDER", "LICENSES", "CUSTOMER"]);
        for mail in &self.reminders {
            let customer = mail.address.clone().unwrap_or_else(|| mail.customer.to_string());
            let licenses: Vec<_> = mail.licenses.iter().map(LicenseId::log_tag).collect();
            table.row([&mail.day.to_string(), &mail.kind, &licenses.join(" "), &customer]);
        }
        let count = counted(self.reminders.len(), "mail");
        PrintableLines(format!("{table}\n{count}\n")).to_string()
    }
}
