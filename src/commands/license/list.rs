//! `license list`: the licenses of the registry in file order, then those of the ledger by id.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};

use chrono::NaiveDate;
use clap::ValueEnum;
use clap_complete::engine::ArgValueCompleter;

use crate::commands::candidates;
use crate::commands::kept_customers::{self, CustomerArg};
use crate::commands::known_licenses::KnownLicenses;
use crate::commands::output;
use crate::commands::store::{self, KeptTexts, store_source};
use crate::commands::{Exit, Failure};
use countersign_ledger::StoreError;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::period::Period;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_model::text::{ErrorChain, contains_folded, folded, stderr};
use countersign_registry::{Registry, RegistryFiles, plugins};
use countersign_settings::config::{Config, CustomerRule};
use countersign_settings::keys::secret_keys::ReferenceKeys;

use crate::commands::keys::secrets;
use crate::commands::license::arguments::{parse_day, parse_host};
use crate::commands::license::list_table::{Listed, table};
use crate::commands::license::view::View;

/// The most rows of customers that `--find` takes.
const MOST_CUSTOMERS: usize = 1_000;

/// Arguments of `list`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Only licenses with this status today
    #[arg(long, value_name = "STATUS")]
    status: Option<StatusArg>,
    /// Only licenses that cover this module
    #[arg(long, value_name = "MODULE", add = ArgValueCompleter::new(candidates::modules))]
    module: Option<Name>,
    /// Only licenses that cover this plugin
    #[arg(long, value_name = "SLUG", add = ArgValueCompleter::new(candidates::slugs))]
    plugin: Option<Slug>,
    /// Only licenses that this site is bound to, or whose `hosts` name it
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    host: Option<SiteHost>,
    /// Only licenses whose last day is before this date
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    expires_before: Option<NaiveDate>,
    /// Only licenses that end within this time from today, such as 30d, 2w, 6m or 1y
    #[arg(long, value_name = "PERIOD")]
    expires_within: Option<Period>,
    /// Only licenses whose note contains this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Only licenses of this order: as a program named it, or the id of a payment, an invoice or a subscription in a shop
    #[arg(long, value_name = "ORDER")]
    reference: Option<String>,
    /// Only licenses of the customer with this mail address; '-' reads it from stdin
    #[arg(long, value_name = "ADDRESS|-")]
    customer: Option<CustomerArg>,
    /// Only licenses of customers whose address or name contains this text, in upper or lower case
    #[arg(long, value_name = "TEXT", conflicts_with = "customer")]
    find: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusArg {
    Active,
    Expired,
    Suspended,
    Revoked,
}

/// The filter.
struct Filter<'a> {
    args: &'a Args,
    today: NaiveDate,
    /// The module of the plugin.
    module: Option<Name>,
    /// The text of the note, in lower case.
    note: Option<String>,
    /// Licenses that the host is bound to.
    bound: HashSet<LicenseId>,
}

impl Filter<'_> {
    fn wants(&self, license: &License) -> bool {
        let Args {
            status,
            module,
            host,
            expires_before,
            expires_within,
            ..
        } = self.args;
        let has_state = |status: &StatusArg| {
            license.state(self.today)
                == match status {
                    StatusArg::Active => LicenseState::Active,
                    StatusArg::Expired => LicenseState::Expired,
                    StatusArg::Suspended => LicenseState::Suspended,
                    StatusArg::Revoked => LicenseState::Revoked,
                }
        };
        let covers = |module: &Name| license.modules.contains_key(module);
        let has = |host: &SiteHost| license.details.hosts.contains(host) || self.bound.contains(&license.id);
        let ends = |period: &Period| (self.today..=period.after(self.today)).contains(&license.expires);
        let says = |text: &String| contains_folded(&license.details.note, text);
        status.as_ref().is_none_or(has_state)
            && module.as_ref().is_none_or(covers)
            && self.module.as_ref().is_none_or(covers)
            && expires_before.is_none_or(|day| license.expires < day)
            && expires_within.as_ref().is_none_or(ends)
            && host.as_ref().is_none_or(has)
            && self.note.as_ref().is_none_or(says)
    }
}

/// Prints the table, or the JSON document.
pub(super) fn run(args: &Args, config: &Config, today: NaiveDate) -> Result<Exit, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match list(args, config, today, output::terminal_width(), &mut out)?.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::environment(error)),
        _ => Ok(Exit::Done),
    }
}

fn list(
    args: &Args,
    config: &Config,
    today: NaiveDate,
    width: Option<usize>,
    out: &mut impl Write,
) -> Result<io::Result<()>, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let known = KnownLicenses::new(registry, store::licenses_or_warning(config));
    let filter = Filter {
        args,
        today,
        module: args.plugin.as_ref().map(|slug| module_of(slug, config)).transpose()?,
        note: args.note.as_deref().map(folded),
        bound: args
            .host
            .as_ref()
            .map(|host| bound_to(host, &known, config))
            .unwrap_or_default(),
    };
    let orders = args
        .reference
        .as_deref()
        .map(|order| orders(order, config))
        .transpose()?;
    let is_of_order = |issued: &&IssuedLicense| match &orders {
        None => true,
        Some(orders) => orders.has(issued),
    };
    let customers = customers(args, config)?;
    let is_of_customer = |issued: &&IssuedLicense| match &customers {
        None => true,
        Some(numbers) => {
            let holder = issued.license.details.remarks().holder;
            holder.is_some_and(|number| numbers.contains(&number))
        }
    };
    let issued = known.issued().iter().filter(is_of_order).filter(is_of_customer);
    let of_files = known.declared().filter(|_| orders.is_none() && customers.is_none());
    let licenses: Vec<Listed<'_>> = of_files
        .map(|license| Listed { license, issued: None })
        .chain(issued.map(|issued| Listed {
            license: &issued.license,
            issued: Some(issued),
        }))
        .filter(|listed| filter.wants(listed.license))
        .collect();
    if args.json {
        let orders = KeptTexts::of_orders(licenses.iter().filter_map(|listed| listed.issued), config);
        return json(&licenses, known.registry(), &orders, today, out);
    }
    Ok(table(&licenses, today, width, out))
}

/// The numbers of the customers that are asked for; `None` for all licenses.
fn customers(args: &Args, config: &Config) -> Result<Option<HashSet<Hex128>>, Failure> {
    if let Some(customer) = &args.customer {
        let number = kept_customers::number_of(&customer.address()?, config)?;
        return Ok(Some(number.into_iter().collect()));
    }
    let Some(text) = &args.find else { return Ok(None) };
    if text.trim().is_empty() {
        return Err(Failure::usage("--find has no text"));
    }
    if config.serve.customers == CustomerRule::Hash {
        return Err(Failure::usage(
            "no part of an address can be found: [serve] customers is \"hash\", so no text is kept",
        )
        .hint("--customer finds the whole address"));
    }
    let mut found = kept_customers::with(text.trim(), MOST_CUSTOMERS + 1, config)?;
    if found.len() > MOST_CUSTOMERS {
        found.truncate(MOST_CUSTOMERS);
        stderr::line(format_args!(
            "note: more than {MOST_CUSTOMERS} addresses have this text, and the others are left off: give more of it"
        ));
    }
    Ok(Some(found.into_iter().map(|row| row.number).collect()))
}

/// The licenses of an order.
struct OfOrder {
    /// How their lines may name it.
    names: Vec<Hex128>,
    /// Those of the sale that has an object with this id.
    sold: HashSet<LicenseId>,
}

impl OfOrder {
    fn has(&self, issued: &IssuedLicense) -> bool {
        self.sold.contains(&issued.license.id) || issued.reference.is_some_and(|order| self.names.contains(&order))
    }
}

fn orders(order: &str, config: &Config) -> Result<OfOrder, Failure> {
    let paths = &config.paths;
    let loaded = ReferenceKeys::load(&paths.references_key, &paths.retired_keys);
    let (keys, _) = loaded.map_err(secrets::failure)?;
    let objects = config.shops.iter().flat_map(|shop| shop.sale_names(order));
    let objects: Vec<Hex128> = objects.flat_map(|name| keys.names(&name)).collect();
    let mut sold = HashSet::new();
    if !objects.is_empty() {
        let stored = store::sales(config)?;
        let sales: HashSet<Hex128> = objects.into_iter().filter_map(|name| stored.sale_of(name)).collect();
        let licenses = stored.licenses().filter(|(sale, _)| sales.contains(sale));
        sold.extend(licenses.map(|(_, issued)| issued.license.id));
    }
    Ok(OfOrder {
        names: keys.names(order),
        sold,
    })
}

/// One array with a license on each line, written piece by piece.
fn json(
    licenses: &[Listed<'_>],
    registry: &Registry,
    orders: &KeptTexts,
    today: NaiveDate,
    out: &mut impl Write,
) -> Result<io::Result<()>, Failure> {
    let mut write = || -> io::Result<()> {
        out.write_all(b"[")?;
        let mut room = Vec::new();
        for (number, listed) in licenses.iter().enumerate() {
            let view = match listed.issued {
                Some(issued) => View::of_ledger(issued, today).with_order(orders.order(issued)),
                None => View::new(listed.license, registry, today),
            };
            out.write_all(if number == 0 { b"\n  " } else { b",\n  " })?;
            out.write_all(output::json_line(&view, &mut room)?.as_bytes())?;
        }
        out.write_all(if licenses.is_empty() { b"]\n" } else { b"\n]\n" })
    };
    Ok(write())
}

/// The module that covers a plugin.
fn module_of(slug: &Slug, config: &Config) -> Result<Name, Failure> {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry))?;
    let entry = entries.into_iter().find(|entry| entry.slug.as_ref() == Some(slug));
    match entry.map(|entry| entry.plugin) {
        Some(Ok(plugin)) => Ok(plugin.module),
        Some(Err(diagnostics)) => Err(countersign_registry::RegistryError::Diagnostics(diagnostics).into()),
        None => Err(Failure::input(format!("there is no plugin {slug} in the registry"))
            .hint("give the name of a file in registry/plugins/, without .toml")),
    }
}

/// The licenses in the store that a host is bound to; none, with a warning, if the store cannot be read.
fn bound_to(host: &SiteHost, known: &KnownLicenses, config: &Config) -> HashSet<LicenseId> {
    let mut bound = HashSet::new();
    let exported = countersign_ledger::read_only(store_source(&config.paths)).and_then(|store| {
        store.export(|id, binding| {
            if binding.host == *host && !known.is_void(&id, &binding) {
                bound.insert(id);
            }
        })
    });
    match exported {
        Ok(()) | Err(StoreError::Missing(_)) => {}
        Err(error) => {
            let reason = ErrorChain(&error).first_line();
            stderr::line(format_args!(
                "warning: the store is not searched, only the hosts in license files: {}",
                Printable(reason)
            ));
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::{Instance, parse, today};

    fn listed(line: &str) -> String {
        listed_in(&Instance::new(), line, None)
    }

    fn listed_in(instance: &Instance, line: &str, width: Option<usize>) -> String {
        let mut out = Vec::new();
        list(&parse(line), &instance.config(), today(), width, &mut out)
            .unwrap()
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn licenses_are_listed_in_the_order_in_which_they_stand() {
        let first = Instance::key(1).id().log_tag();
        let second = Instance::key(2).id().log_tag();
        assert_eq!(
            listed(""),
            format!(
                "ID            STATUS     EXPIRES     SITES      MODULES             NOTE\n\
                 {first}  active     2027-12-31  1          base forms=pdf,api  first\n\
                 {second}  suspended  2027-01-31  unlimited  base                se\\u{{1b}}cond\n"
            )
        );
    }

    #[test]
    fn filters_narrow_the_list() {
        let rows = |line| listed(line).lines().count() - 1;
        assert_eq!(
            (
                rows("--status active"),
                rows("--status suspended"),
                rows("--status revoked")
            ),
            (1, 1, 0)
        );
        assert_eq!(
            (rows("--module forms"), rows("--module base"), rows("--module other")),
            (1, 2, 0)
        );
        assert_eq!(
            (rows("--expires-before 2027-01-31"), rows("--expires-before 2027-02-01")),
            (0, 1)
        );
        assert_eq!(
            (
                rows("--expires-within 71d"),
                rows("--expires-within 72d"),
                rows("--expires-within 2y")
            ),
            (0, 1, 2)
        );
        assert_eq!((rows("--note FIRST"), rows("--note i"), rows("--note zzz")), (1, 1, 0));
        let instance = Instance::new();
        std::fs::write(instance.path().join("plugins/acme-forms.toml"), "module = 'forms'\n").unwrap();
        std::fs::write(instance.path().join("plugins/acme-bad.toml"), "modul = 'forms'\n").unwrap();
        assert_eq!(listed_in(&instance, "--plugin acme-forms", None).lines().count() - 1, 1);
        for (slug, message) in [
            ("acme-form", "there is no plugin acme-form in the registry"),
            ("acme-bad", "unknown field"),
        ] {
            let line = format!("--plugin {slug}");
            let failure = list(&parse(&line), &instance.config(), today(), None, &mut Vec::new()).unwrap_err();
            assert!(
                failure.exit == Exit::Input && failure.error.to_string().contains(message),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn a_table_on_a_terminal_is_as_wide_as_the_terminal_and_tells_what_it_cut() {
        let instance = Instance::new();
        let text = instance.text().replace("'first'", &format!("'{}'", "Zoë ".repeat(40)));
        std::fs::write(instance.path().join("licenses/licenses.toml"), text).unwrap();
        for width in [80, 120, 70] {
            let table = listed_in(&instance, "", Some(width));
            assert!(
                table.lines().all(|line| line.chars().count() <= width),
                "{width}\n{table}"
            );
            assert!(table.lines().nth(1).unwrap().ends_with('…'), "{table}");
            assert!(table.contains("base") && table.contains("unlimited"), "{table}");
        }
        assert!(!listed_in(&instance, "", Some(1_000)).contains('…'));
    }

    #[test]
    fn json_has_every_field_and_the_place() {
        let list: serde_json::Value = serde_json::from_str(&listed("--json --status suspended")).unwrap();
        assert_eq!(list[0]["sites"], "unlimited");
        assert_eq!(list[0]["standing"], "suspended");
        assert_eq!(list[0]["modules"]["base"], serde_json::json!([]));
        assert!(list[0]["place"].as_str().unwrap().ends_with("licenses/licenses.toml:9"));
        assert_eq!(listed("--json --status revoked"), "[]\n");
        assert!(listed("--json").contains(r"se\u001bcond"));
        let instance = Instance::new();
        std::fs::write(
            instance.path().join("licenses/licenses.toml"),
            instance.text().replace("'first'", "'\u{202e}\u{9b}'"),
        )
        .unwrap();
        assert!(listed_in(&instance, "--json", None).contains(r#""note":"\u202e\u009b""#));
        let all: serde_json::Value = serde_json::from_str(&listed("--json")).unwrap();
        assert_eq!(all.as_array().map(Vec::len), Some(2));
    }
}
