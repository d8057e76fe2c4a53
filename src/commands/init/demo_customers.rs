//! The customers of the demo, made up: licenses of another system with their sites, which run what the last day of the
//! [history](super::demo_history) says. Nobody knows their keys.

use std::num::NonZeroU32;

use chrono::{DateTime, Days, TimeDelta, Utc};

use crate::commands::Failure;
use crate::commands::init::demo_history;
use crate::commands::keys::secrets;
use crate::serve::imports::{self, ImportOrder, ImportOrderError, ImportedLicense};
use countersign_ledger::{Ledger, StoreError};
use countersign_model::binding::CheckIn;
use countersign_model::issued_license::Hex128;
use countersign_model::license::LicenseStatus;
use countersign_model::license_key::LicenseKey;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_registry::Registry;
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::ReferenceKeys;

/// The two halves of names; each pair is a customer.
const FIRST: [&str; 11] = [
    "Birch", "Harbour", "Linden", "Meadow", "Orchard", "Pebble", "Quarry", "Rowan", "Saffron", "Tidal", "Willow",
];
const SECOND: [&str; 13] = [
    "Bakery", "Books", "Ceramics", "Cycles", "Dental", "Design", "Florists", "Hotels", "Joinery", "Kitchens", "Museum",
    "Printing", "Yoga",
];

/// What tells the sites of a customer apart.
const SITE_NAMES: [&str; 9] = ["shop", "blog", "en", "de", "fr", "jobs", "news", "club", "help"];

/// How many sites licenses allow, one after the other, and how many days they last from today.
const SITES: [u32; 8] = [1, 3, 1, 5, 1, 1, 10, 3];
const DAYS: u64 = 340;

/// A site of the demo.
struct MadeUpSite {
    host: SiteHost,
    plugin: Slug,
    version: String,
}

/// A license with its sites.
struct MadeUpCustomer {
    license: ImportedLicense,
    sites: Vec<MadeUpSite>,
}

/// Writes the customers into the ledger of a new instance, with what their sites report.
pub(super) fn write(ledger: &Ledger, config: &Config, now: DateTime<Utc>) -> Result<(), Failure> {
    let keys = ReferenceKeys::load(&config.paths.references_key, &config.paths.retired_keys);
    let (keys, _) = keys.map_err(secrets::failure)?;
    let customers = customers(now)?;
    let order = ImportOrder {
        licenses: customers.iter().map(|customer| customer.license.clone()).collect(),
        dry_run: false,
    };
    // No file declares a license of theirs.
    let registry = Registry::default();
    let import = imports::carry_out(&registry, ledger, Some(&keys), config.serve.customers, order);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let imported = runtime.map_err(Failure::environment)?.block_on(import);
    imported.map_err(|error| match error {
        ImportOrderError::Store(error) => Failure::of_store(error),
        ImportOrderError::TooManyLines => Failure::of_store(StoreError::Busy),
    })?;
    for (number, customer) in (0..).zip(&customers) {
        let license = &customer.license.id;
        for site in &customer.sites {
            let report = CheckIn {
                time: now - TimeDelta::minutes(number * 11),
                build_id: None,
                plugin_version: Some(&site.version),
                current_version: Some((site.plugin.as_str(), &site.version)),
            };
            ledger.report(license, &ledger.of(license), &site.host, &report);
        }
    }
    Ok(())
}

/// Licenses of one plugin each, until every site has a seat.
fn customers(now: DateTime<Utc>) -> Result<Vec<MadeUpCustomer>, Failure> {
    let mut customers = Vec::new();
    for (plugin, versions) in demo_history::last_day(now.date_naive()) {
        let mut versions: Vec<_> = versions
            .into_iter()
            .flat_map(|(version, count)| (0..count).map(move |_| version.to_string()))
            .collect();
        while !versions.is_empty() {
            let number = customers.len();
            let most = SITES[number % SITES.len()];
            // Some have a seat left.
            let wanted = (most - u32::from(most > 1 && number.is_multiple_of(3))) as usize;
            // From both ends, so that most customers have sites with several versions.
            let taken: Vec<_> = (0..wanted.min(versions.len()))
                .map(|place| versions.remove(if place % 2 == 0 { versions.len() - 1 } else { 0 }))
                .collect();
            customers.push(customer(number, most, &plugin, taken, now)?);
        }
    }
    Ok(customers)
}

fn customer(
    number: usize,
    most: u32,
    plugin: &Slug,
    versions: Vec<String>,
    now: DateTime<Utc>,
) -> Result<MadeUpCustomer, Failure> {
    let first = FIRST[number % FIRST.len()];
    let second = SECOND[number % SECOND.len()];
    let name = format!("{first} {second}");
    let called = format!("{first}-{second}").to_lowercase();
    let host = |place: usize| match place {
        0 => format!("{called}.example"),
        // No subdomains: the first of them would need no seat.
        place => format!("{called}-{}.example", SITE_NAMES[(place - 1) % SITE_NAMES.len()]),
    };
    let mut random = [0; 20];
    getrandom::fill(&mut random).map_err(|error| Failure::environment(std::io::Error::other(error)))?;
    let day = number as u64;
    let sites = (0..).zip(versions).map(|(place, version)| {
        Ok(MadeUpSite {
            host: host(place).parse().map_err(Failure::input)?,
            plugin: plugin.clone(),
            version,
        })
    });
    let sites: Vec<_> = sites.collect::<Result<_, Failure>>()?;
    let since = now - Days::new(day * 17 % 60 + 1);
    Ok(MadeUpCustomer {
        license: ImportedLicense {
            id: LicenseKey::from_random(random).id(),
            status: match number % 29 {
                13 => LicenseStatus::Suspended,
                _ => LicenseStatus::Active,
            },
            expires: now.date_naive() + Days::new(day * 37 % DAYS) - Days::new(12),
            modules: [(plugin.as_str().parse().map_err(Failure::input)?, Vec::new())].into(),
            sites: NonZeroU32::new(most),
            reference: Some(format!("{}", 10_200 + number * 7)),
            customer: Some(format!("office@{called}.example").parse().map_err(Failure::input)?),
            name: Some(name),
            content: Hex128::of_words("demo", format_args!("{number}")),
            hosts: sites.iter().map(|site| (site.host.clone(), since)).collect(),
        },
        sites,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use countersign_ledger::MAX_IMPORT_LINES;

    use super::*;

    #[test]
    fn every_site_of_the_last_day_has_a_seat_of_one_license() {
        let now: DateTime<Utc> = "2026-11-25T12:00:00Z".parse().unwrap();
        let customers = customers(now).unwrap();
        let lines: usize = customers.iter().map(|customer| 1 + customer.sites.len()).sum();
        assert!((200..=MAX_IMPORT_LINES).contains(&lines), "{lines} lines");
        let sites: Vec<_> = customers.iter().flat_map(|customer| &customer.sites).collect();
        let hosts: HashSet<_> = sites.iter().map(|site| &site.host).collect();
        assert_eq!(hosts.len(), sites.len());
        let names: HashSet<_> = customers.iter().map(|customer| &customer.license.name).collect();
        assert_eq!(names.len(), customers.len());
        for (plugin, versions) in demo_history::last_day(now.date_naive()) {
            let mut running = BTreeMap::new();
            for site in sites.iter().filter(|site| site.plugin == plugin) {
                *running.entry(site.version.clone().into_boxed_str()).or_default() += 1_u64;
            }
            assert_eq!(running, versions);
        }
    }
}
