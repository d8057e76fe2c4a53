//! `license import`: takes licenses from the export of another system into the ledger, with their keys and sites.
//!
//! `batches` reads the file, `products` says what a product covers, `totals` and `rejects` tell what became of the rows.

mod adoption;
mod batches;
mod module_lines;
mod products;
mod rejects;
mod totals;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::{DateTime, Utc};
use clap::ValueEnum;

use crate::commands::{Exit, Failure, ledger_access, output, server_questions};
use crate::serve::imports::{self, ImportOrderError, NameReference};
use countersign_files::regular_file;
use countersign_ledger::StoreError;
use countersign_model::text::stderr;
use countersign_registry::Registry;
use countersign_settings::config::{Config, LocalHosts};
use countersign_settings::keys::secret_keys::{ReferenceKeys, SecretKeys};
use countersign_shops::import::columns::{ColumnError, ExportColumns, ExportField, ExportFormat};
use countersign_shops::import::csv_rows::{CsvError, CsvRows};

use batches::Batches;
use products::{ProductArg, Products};
use rejects::Rejects;

/// Arguments of `import`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The export, a CSV file; '-' reads it from stdin. With --from registry, files of registry/licenses/ and ids of licenses
    #[arg(value_name = "FILE|ID", required = true)]
    given: Vec<PathBuf>,
    /// What made the export
    #[arg(long, value_name = "SYSTEM")]
    from: From,
    /// Tell what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// What a product of the export covers, if the plugin entries do not say so
    #[arg(long, value_name = "PRODUCT=MODULE[=FEATURE,...][;MODULE...]")]
    map: Vec<ProductArg>,
    /// Which column has a field, if the export names it otherwise: key, status, expires, sites, hosts, reference, created, modules, product or product_id
    #[arg(long, value_name = "FIELD=HEADER")]
    column: Vec<ColumnArg>,
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
#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    /// EDD Software Licensing: "Export License Keys"
    Edd,
    /// A plain CSV file with the columns key, expires and modules, and others if you like
    Csv,
    /// The registry: the ledger takes licenses that files declare
    Registry,
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

fn delimiter(text: &str) -> Result<u8, &'static str> {
    match text.as_bytes() {
        b"tab" => Ok(b'\t'),
        [one] if one.is_ascii() && !one.is_ascii_alphanumeric() && !matches!(one, b'"' | b'\r' | b'\n') => Ok(*one),
        _ => Err("expected one character such as ';', or 'tab'"),
    }
}

/// Imports the file.
pub(super) fn run(args: &Args, config: &Config, now: DateTime<Utc>) -> Result<Exit, Failure> {
    let format = match args.from {
        From::Edd => ExportFormat::Edd,
        From::Csv => ExportFormat::Csv,
        From::Registry => {
            let is_for_exports = !args.map.is_empty() || !args.column.is_empty() || args.rejects.is_some();
            if is_for_exports {
                return Err(Failure::usage(
                    "--map, --column and --rejects are for exports of other systems",
                ));
            }
            return adoption::run(&args.given, args.dry_run, args.json, config);
        }
    };
    let [file] = &args.given[..] else {
        return Err(Failure::usage("an import reads one file").hint("join the files, or import one after the other"));
    };
    let registry = Registry::load(&config.paths.registry)?;
    let file = open(file)?;
    let rows = CsvRows::open(file, args.delimiter).map_err(unread)?;
    let given: BTreeMap<_, _> = args
        .column
        .iter()
        .map(|ColumnArg(field, header)| (*field, header.clone()))
        .collect();
    let columns = ExportColumns::find(rows.header(), format, &given).map_err(|error| {
        let hint = match &error {
            ColumnError::Missing(_) => {
                "--column FIELD=HEADER names a column, --delimiter ';' or tab what separates them; docs/coming-from-edd.md has \
                 the columns"
            }
            _ => "name each column once",
        };
        Failure::input(error).hint(hint)
    })?;
    let references: Option<ReferenceKeys> = match config.paths.references_key.exists() {
        true => Some(
            SecretKeys::load(&config.paths.references_key, &config.paths.retired_keys)
                .map_err(Failure::input)?
                .0,
        ),
        false => None,
    };
    let mut notes = Vec::new();
    if columns.has(ExportField::Reference) && references.is_none() {
        notes.push(
            "references are left out, because this instance has no keys/references.key; after `countersign keys generate \
             --references`, import the file again"
                .to_owned(),
        );
    }
    if !config.serve.foreign_keys {
        notes.push("`foreign_keys` in [serve] is not set: the server refuses keys of another system".to_owned());
    }
    notes.iter().for_each(tell);
    let rejects = match &args.rejects {
        Some(path) if !args.dry_run => Some(Rejects::begin(path, rows.header(), args.delimiter)?),
        _ => None,
    };
    let batches = Batches::new(rows, columns, Products::new(&registry, &args.map), rejects)
        .dry(args.dry_run)
        .with_local_hosts(config.serve.local_hosts == LocalHosts::Bind)
        .at(now);
    let batches = RefCell::new(batches);
    let name = references
        .as_ref()
        .map(|keys| |reference: &str| keys.reference(reference));
    let name = name.as_ref().map(|name| name as &NameReference<'_>);
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
                let replies = imports::carry_out(&registry, bindings, name, order).await;
                let replies = replies.map_err(|error| match error {
                    ImportOrderError::Store(error) => error,
                    ImportOrderError::TooManyLines => StoreError::Busy,
                })?;
                batches.borrow_mut().take(replies);
            }
            Ok(())
        },
    );
    let (totals, unread_rest) = batches.into_inner().finish()?;
    let of_modules = totals.modules.notes(&registry.sold_modules());
    of_modules.iter().for_each(tell);
    notes.extend(of_modules);
    let text = match args.json {
        true => output::json(&totals.document(&notes, args.dry_run))?,
        false => totals.text(args.dry_run, imported.is_ok() && unread_rest.is_none()),
    };
    match totals.changes() > 0 && !args.dry_run {
        true => output::print_change(&text)?,
        false => output::print(&text)?,
    };
    // What was imported before stays, and the same import again goes on behind it.
    imported?;
    if let Some(error) = unread_rest {
        return Err(unread(error));
    }
    Ok(if totals.rejected() == 0 {
        Exit::Done
    } else {
        Exit::Input
    })
}

fn tell(note: &String) {
    stderr::line(format_args!("note: {note}"));
}

fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    match regular_file::open(path, regular_file::UNLIMITED) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => {
            let hint = match regular_file::is_unsuitable(&error) {
                true => "give a file; a pipe is read from stdin with '-'",
                false => "check its name and permissions",
            };
            Err(Failure::input(NotOpened {
                path: path.to_owned(),
                source: error,
            })
            .hint(hint))
        }
    }
}

/// The export cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be opened", path.display())]
struct NotOpened {
    path: PathBuf,
    source: io::Error,
}

fn unread(error: CsvError) -> Failure {
    let hint = "the rows before are imported; mend the file, and import it again";
    match error {
        CsvError::Read { .. } => Failure::environment(error).hint(hint),
        CsvError::TooLong { .. } => Failure::input(error).hint(hint),
        CsvError::Empty | CsvError::Utf16 => Failure::input(error),
    }
}
