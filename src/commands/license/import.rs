//! `license import`: takes licenses from the export of another system into the ledger, with their keys and sites.
//!
//! `batches` reads the file, `keys` finds rows of one key, `products` says what a product covers, `preview` shows the first
//! licenses of a dry run, `totals` and `rejects` tell what became of the rows.

mod adoption;
mod batches;
mod keys;
mod module_lines;
mod preview;
mod products;
mod reader;
mod rejects;
mod totals;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, Utc};
use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::commands::license::arguments::parse_sites;
use crate::commands::shop::attach;
use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::imports::{self, ImportOrderError};
use crate::serve::ops::attach_answers::{AttachOrder, MAX_ATTACHED};
use crate::serve::waiting_sales;
use countersign_files::regular_file;
use countersign_ledger::StoreError;
use countersign_model::license::SiteLimit;
use countersign_model::offer::SalesMode;
use countersign_model::period::{self, NEVER};
use countersign_model::slug::Slug;
use countersign_model::text::stderr;
use countersign_registry::Registry;
use countersign_settings::config::{Config, LocalHosts, ShopConfig};
use countersign_settings::keys::secret_keys::{ReferenceKeys, SecretKeys};
use countersign_shops::import::columns::ColumnError;
use countersign_shops::import::csv_rows::CsvError;
use countersign_shops::import::export_field::ExportField;
use countersign_shops::import::export_file::{ExportError, ExportFile};
use countersign_shops::import::exported_license::{DateOrder, RowRules};
use countersign_shops::import::preset::{NoNumber, PRESETS, Preset, StatusMeaning};
use countersign_shops::import::same_key::MergedEnd;

use batches::Batches;
use products::{ProductArg, Products};
use rejects::Rejects;

/// The most bytes of an export. It is read as a whole: rows of one key may be anywhere in it.
const MAX_FILE: u64 = 1 << 30;

/// Arguments of `import`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The export, a CSV or JSON file; '-' reads it from stdin. With --from registry, files of registry/licenses/ and ids of licenses
    #[arg(value_name = "FILE|ID", required = true)]
    given: Vec<PathBuf>,
    /// What made the export
    #[arg(long, value_name = "SYSTEM")]
    from: From,
    /// Show the first ten licenses as they would be, tell what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// What a product of the export covers, by its name or number, and of one of its prices, if the plugin entries do not say so
    #[arg(long, value_name = "PRODUCT[#PRICE]=MODULE[=FEATURE,...][;MODULE...]")]
    map: Vec<ProductArg>,
    /// Which column or JSON member has a field, if the export names it otherwise: key, status, expires, valid_for, sites, hosts, reference, created, modules, product, product_id, price, customer, name, subscription or order
    #[arg(long, value_name = "FIELD=HEADER")]
    column: Vec<ColumnArg>,
    /// The last day of licenses without an end, or 'lifetime'
    #[arg(long, value_name = "lifetime|DATE", value_parser = no_end)]
    no_end: Option<NaiveDate>,
    /// Which number of dates such as 1/2/2027 or 1.2.2027 is the day
    #[arg(long, value_name = "ORDER")]
    date_format: Option<DateFormat>,
    /// Which of several ends of one key counts; then the smallest number of sites does
    #[arg(long, value_name = "END")]
    merge: Option<Merge>,
    /// What a word for the status means: active, expired, suspended, revoked, or skip for rows that are no licenses
    #[arg(long, value_name = "WORD=STATE")]
    status: Vec<ImportStatusArg>,
    /// How many sites a license has whose row does not say it
    #[arg(long, value_name = "N|unlimited", value_parser = parse_sites)]
    sites: Option<SiteLimit>,
    /// The shop whose subscriptions the export has: each renews its license from then on
    #[arg(long, value_name = "NAME")]
    shop: Option<Slug>,
    /// What separates the columns: one character, or 'tab'
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// Write the rows that were not taken to this file, to mend and import them; they have the keys
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What made an export.
#[derive(Clone, Copy, Debug)]
enum From {
    /// A system of the table.
    Preset(&'static Preset),
    /// Nothing: the ledger takes licenses that files declare.
    Registry,
}

static SOURCES: [From; PRESETS.len() + 1] = {
    let mut sources = [From::Registry; PRESETS.len() + 1];
    let mut number = 0;
    while number < PRESETS.len() {
        sources[number] = From::Preset(&PRESETS[number]);
        number += 1;
    }
    sources
};

impl ValueEnum for From {
    fn value_variants<'a>() -> &'a [Self] {
        &SOURCES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Preset(preset) => PossibleValue::new(preset.name).help(preset.about),
            Self::Registry => {
                PossibleValue::new("registry").help("The registry: the ledger takes licenses that files declare")
            }
        })
    }
}

/// Which number of a date is the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DateFormat {
    /// Day, month, year: 31/12/2027
    Dmy,
    /// Month, day, year: 12/31/2027
    Mdy,
}

/// Which of several ends counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Merge {
    /// The first one
    Earliest,
    /// The last one
    Latest,
}

/// A field and its column.
#[derive(Clone, Debug)]
struct ColumnArg(ExportField, String);

impl FromStr for ColumnArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a field and its column, such as expires='Valid until'";
        let (field, header) = text.split_once('=').ok_or(EXPECTED)?;
        let field = ExportField::named(field.trim()).ok_or(EXPECTED)?;
        Ok(Self(field, header.to_owned()))
    }
}

/// A word for the status and its meaning.
#[derive(Clone, Debug)]
struct ImportStatusArg(String, StatusMeaning);

impl FromStr for ImportStatusArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a word of the export and active, expired, suspended, revoked or skip, such as \
             private=suspended";
        let (word, state) = text.rsplit_once('=').ok_or(EXPECTED)?;
        let meaning = StatusMeaning::named(state.trim()).ok_or(EXPECTED)?;
        Ok(Self(word.trim().to_ascii_lowercase(), meaning))
    }
}

fn no_end(text: &str) -> Result<NaiveDate, &'static str> {
    match text {
        "lifetime" => Ok(NEVER),
        date => date
            .parse()
            .ok()
            .and_then(period::last_day)
            .ok_or("expected 'lifetime', or a date such as 2027-12-31"),
    }
}

fn delimiter(text: &str) -> Result<u8, &'static str> {
    match text.as_bytes() {
        b"tab" => Ok(b'\t'),
        [one] if one.is_ascii() && !one.is_ascii_alphanumeric() && !matches!(one, b'"' | b'\r' | b'\n') => Ok(*one),
        _ => Err("expected one character such as ';', or 'tab'"),
    }
}

/// Imports the file.
pub(super) fn run(args: &Args, config: &Config, now: DateTime<Utc>) -> Result<Exit, Failure> {
    let preset = match args.from {
        From::Preset(preset) => preset,
        From::Registry => {
            if args.is_for_exports() {
                return Err(Failure::usage(
                    "--map, --column, --no-end, --date-format, --merge, --status, --sites, --shop and --rejects are for exports of other \
                     systems",
                ));
            }
            return adoption::run(&args.given, args.dry_run, args.json, config);
        }
    };
    let [file] = &args.given[..] else {
        return Err(Failure::usage("an import reads one file").hint("join the files, or import one after the other"));
    };
    let registry = Registry::load(&config.paths.registry)?;
    let shop = args
        .shop
        .as_ref()
        .map(|name| attach::shop(Some(name), config))
        .transpose()?;
    let text = read_whole(file)?;
    let given: BTreeMap<_, _> = args
        .column
        .iter()
        .map(|ColumnArg(field, header)| (*field, header.clone()))
        .collect();
    let export = ExportFile::read(&text, preset, args.delimiter, &given).map_err(unopened)?;
    let columns = export.columns();
    let says_no_sites = preset.no_sites == NoNumber::Unknown && !columns.has(ExportField::Sites);
    if says_no_sites && args.sites.is_none() {
        return Err(
            Failure::usage("this export does not say for how many sites a license is")
                .hint("--sites N or --sites unlimited says it for all of them"),
        );
    }
    let references: Option<ReferenceKeys> = match config.paths.references_key.exists() {
        true => Some(
            SecretKeys::load(&config.paths.references_key, &config.paths.retired_keys)
                .map_err(Failure::input)?
                .0,
        ),
        false => None,
    };
    let mut notes = Vec::new();
    let named = [ExportField::Reference, ExportField::Order, ExportField::Customer];
    if named.iter().any(|field| columns.has(*field)) && references.is_none() {
        notes.push(
            "references and customers are left out, because this instance has no keys/references.key; after `countersign keys generate \
             --references`, import the file again"
                .to_owned(),
        );
    }
    if !config.serve.foreign_keys {
        notes.push("`foreign_keys` in [serve] is not set: the server refuses keys of another system".to_owned());
    }
    notes.iter().for_each(tell);
    let rejects = match &args.rejects {
        Some(path) if !args.dry_run => Some(Rejects::begin(path, export.header(), args.delimiter)?),
        _ => None,
    };
    let products = Products::new(&registry, &args.map);
    let batches = Batches::new(&export, products, args.rules(now), rejects)
        .map_err(unread)?
        .merging(args.merge.map(|merge| match merge {
            Merge::Earliest => MergedEnd::Earliest,
            Merge::Latest => MergedEnd::Latest,
        }))
        .dry(args.dry_run)
        .with_local_hosts(config.serve.local_hosts == LocalHosts::Bind)
        .naming_orders(references.is_some())
        .with_subscriptions(shop.map(|shop| shop.kind.ids))
        .at(now);
    let batches = RefCell::new(batches);
    let customers = config.serve.customers;
    // An order that no server answered is carried out by this command.
    let unanswered = RefCell::new(None);
    let next = || unanswered.take().or_else(|| batches.borrow_mut().order());
    let imported = ledger_access::through(
        config,
        || {
            while let Some(order) = next() {
                match server_questions::import(config, &order) {
                    Ok(replies) => batches.borrow_mut().take(replies),
                    Err(error) => {
                        unanswered.replace(Some(order));
                        return Err(error);
                    }
                }
            }
            Ok(())
        },
        async |bindings| {
            while let Some(order) = next() {
                let replies = imports::carry_out(&registry, bindings, references.as_ref(), customers, order).await;
                let replies = replies.map_err(|error| match error {
                    ImportOrderError::Store(error) => error,
                    ImportOrderError::TooManyLines => StoreError::Busy,
                })?;
                batches.borrow_mut().take(replies);
            }
            Ok(())
        },
    );
    let mut batches = batches.into_inner();
    let attached = shop.map_or(Ok(()), |shop| attach_all(&mut batches, shop, &registry, config));
    let (totals, unread_rest) = batches.finish()?;
    let of_modules = totals.modules.notes(&registry.sold_modules(), totals.counts);
    of_modules.iter().for_each(tell);
    notes.extend(of_modules);
    let text = match args.json {
        true => output::json(&totals.document(&notes, args.dry_run))?,
        false => totals.text(
            args.dry_run,
            imported.is_ok() && unread_rest.is_none(),
            now.date_naive(),
        ),
    };
    match totals.changes() > 0 && !args.dry_run {
        true => output::print_change(&text)?,
        false => output::print(&text)?,
    };
    // What was imported before stays, and the same import again goes on behind it.
    imported?;
    attached?;
    if let Some(error) = unread_rest {
        return Err(unread(error));
    }
    Ok(if totals.rejected() == 0 {
        Exit::Done
    } else {
        Exit::Input
    })
}

/// Attaches the subscriptions of licenses that the ledger took.
fn attach_all(
    batches: &mut Batches<'_, '_>,
    shop: &ShopConfig,
    registry: &Registry,
    config: &Config,
) -> Result<(), Failure> {
    let subscriptions = batches.subscriptions();
    for some in subscriptions.chunks(MAX_ATTACHED) {
        let order = AttachOrder {
            shop: shop.name.clone(),
            mode: shop.mode.unwrap_or(SalesMode::Live),
            subscriptions: some.to_vec(),
            reason: None,
        };
        let replies = attach::carry_out(&order, registry, config)?;
        replies.into_iter().for_each(|reply| batches.take_attached(reply));
    }
    match subscriptions.is_empty() {
        true => Ok(()),
        false => Ok(waiting_sales::retry_renewals(&config.paths.store, Utc::now())?),
    }
}

fn tell(note: &String) {
    stderr::line(format_args!("note: {note}"));
}

impl Args {
    /// Whether a flag was given that says something of an export.
    fn is_for_exports(&self) -> bool {
        let lists = [self.map.is_empty(), self.column.is_empty(), self.status.is_empty()];
        let options = [
            self.rejects.is_none(),
            self.no_end.is_none(),
            self.date_format.is_none(),
            self.merge.is_none(),
            self.sites.is_none(),
            self.shop.is_none(),
        ];
        lists.contains(&false) || options.contains(&false)
    }

    fn rules(&self, now: DateTime<Utc>) -> RowRules {
        RowRules {
            today: now.date_naive(),
            no_end: self.no_end,
            date_order: self.date_format.map(|format| match format {
                DateFormat::Dmy => DateOrder::DayFirst,
                DateFormat::Mdy => DateOrder::MonthFirst,
            }),
            statuses: self
                .status
                .iter()
                .map(|ImportStatusArg(word, meaning)| (word.clone(), *meaning))
                .collect(),
            sites: self.sites,
        }
    }
}

/// The bytes of the file, or of stdin.
fn read_whole(path: &Path) -> Result<Vec<u8>, Failure> {
    let not_read = |source| {
        Failure::environment(NotRead {
            path: path.to_owned(),
            source,
        })
    };
    let mut text = Vec::new();
    if path == Path::new("-") {
        let stdin = io::stdin().lock();
        stdin.take(MAX_FILE + 1).read_to_end(&mut text).map_err(not_read)?;
    } else {
        let file = open(path)?;
        file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(not_read)?;
    }
    match text.len() as u64 > MAX_FILE {
        true => {
            Err(Failure::input("the export is longer than 1 GiB").hint("split it, and import one part after the other"))
        }
        false => Ok(text),
    }
}

fn open(path: &Path) -> Result<std::fs::File, Failure> {
    regular_file::open(path, regular_file::UNLIMITED).map_err(|error| {
        let hint = match regular_file::is_unsuitable(&error) {
            true => "give a file; a pipe is read from stdin with '-'",
            false => "check its name and permissions",
        };
        Failure::input(NotOpened {
            path: path.to_owned(),
            source: error,
        })
        .hint(hint)
    })
}

/// The export cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be opened", path.display())]
struct NotOpened {
    path: PathBuf,
    source: io::Error,
}

/// The export cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
struct NotRead {
    path: PathBuf,
    source: io::Error,
}

fn unopened(error: ExportError) -> Failure {
    let hint = match &error {
        ExportError::Csv(CsvError::Utf16) => return Failure::input(error),
        ExportError::Csv(_) => "give a CSV file; nothing was imported",
        ExportError::Json(_) => "give the answers of the API as they came; nothing was imported",
        ExportError::Columns(ColumnError::Missing(_)) => {
            "--column FIELD=HEADER names a column, --delimiter ';' or tab what separates them; docs/import.md has the columns"
        }
        ExportError::Columns(_) => "name each column once",
    };
    Failure::input(error).hint(hint)
}

fn unread(error: CsvError) -> Failure {
    let hint = "the rows before are imported; mend the file, and import it again";
    match error {
        CsvError::Read { .. } => Failure::environment(error).hint(hint),
        CsvError::TooLong { .. } | CsvError::Unclosed { .. } => Failure::input(error).hint(hint),
        CsvError::Empty | CsvError::Utf16 => Failure::input(error),
    }
}
