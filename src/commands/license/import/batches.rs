//! The rows of an export in orders of at most 500 lines of the ledger, and what became of each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;
use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use csv::ByteRecord;

use crate::commands::Failure;
use crate::serve::imports::{ImportOrder, ImportReply, ImportedLicense};
use countersign_ledger::{ImportOutcome, ImportResult, MAX_IMPORT_LINES};
use countersign_model::license::SiteLimit;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_shops::import::columns::{ExportColumns, ExportField};
use countersign_shops::import::csv_rows::{CsvError, CsvRows};
use countersign_shops::import::exported_license::{self, ExportedLicense};

use crate::commands::license::import::products::Products;
use crate::commands::license::import::rejects::Rejects;
use crate::commands::license::import::totals::Totals;

/// A row whose license is in an order.
struct PlacedRow {
    line: u64,
    row: Arc<ByteRecord>,
    /// Whether an earlier part of the license was in an order: a license may have more sites than an order has lines.
    goes_on: bool,
}

/// A part of a license that no order had room for. What the parts share is kept once: there may be hundreds of a long row.
struct LicensePart {
    placed: PlacedRow,
    /// The license without sites.
    license: Arc<ImportedLicense>,
    hosts: Vec<(SiteHost, DateTime<Utc>)>,
}

/// Reads an export and collects what becomes of it.
pub(super) struct Batches<R> {
    rows: CsvRows<R>,
    columns: ExportColumns,
    products: Products,
    rejects: Option<Rejects>,
    binds_local_hosts: bool,
    dry_run: bool,
    now: DateTime<Utc>,
    /// The order that is not answered yet.
    current: ImportOrder,
    placed: Vec<PlacedRow>,
    /// What the order had no room for, the next part last.
    rest: Vec<LicensePart>,
    /// The line of every license so far.
    seen: HashMap<LicenseId, u64>,
    totals: Totals,
    /// Why the file was not read to its end.
    unread: Option<CsvError>,
    /// Why the file of rejects was not written.
    failure: Option<Failure>,
    is_over: bool,
}

impl<R: Read> Batches<R> {
    pub(super) fn new(rows: CsvRows<R>, columns: ExportColumns, products: Products, rejects: Option<Rejects>) -> Self {
        let totals = Totals::new(&columns);
        Self {
            rows,
            columns,
            products,
            rejects,
            binds_local_hosts: true,
            dry_run: false,
            now: DateTime::UNIX_EPOCH,
            current: ImportOrder::default(),
            placed: Vec::new(),
            rest: Vec::new(),
            seen: HashMap::new(),
            totals,
            unread: None,
            failure: None,
            is_over: false,
        }
    }

    pub(super) fn dry(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Whether sites on private networks take seats.
    pub(super) fn with_local_hosts(self, binds_local_hosts: bool) -> Self {
        Self {
            binds_local_hosts,
            ..self
        }
    }

    pub(super) fn at(self, now: DateTime<Utc>) -> Self {
        Self { now, ..self }
    }

    /// The order that is to be carried out; the same again until it is answered. `None` at the end.
    pub(super) fn order(&mut self) -> Option<ImportOrder> {
        if self.current.licenses.is_empty() {
            self.fill();
        }
        (!self.current.licenses.is_empty()).then(|| self.current.clone())
    }

    /// Takes the replies to the order.
    pub(super) fn take(&mut self, replies: Vec<ImportReply>) {
        self.current = ImportOrder::default();
        for (placed, reply) in std::mem::take(&mut self.placed).into_iter().zip(replies) {
            let reason = match reply {
                ImportReply::Ledger(ImportOutcome { license, bound }) => {
                    self.totals.sites_bound += bound as u64;
                    if placed.goes_on {
                        continue;
                    }
                    match license {
                        ImportResult::Issued => self.totals.new += 1,
                        ImportResult::Changed => self.totals.changed += 1,
                        ImportResult::Unchanged => self.totals.unchanged += 1,
                        _ => {}
                    }
                    refusal(license)
                }
                ImportReply::InFile { file, line } => Some(format!(
                    "its license stands in {}:{line}; change it there",
                    file.display()
                )),
            };
            if let Some(reason) = reason.filter(|_| !placed.goes_on) {
                self.reject(placed.line, &placed.row, &reason);
            }
        }
    }

    /// What became of the rows, and why the file was not read to its end. The file of rejects is in its place then.
    pub(super) fn finish(mut self) -> Result<(Totals, Option<CsvError>), Failure> {
        if let Some(rejects) = self.rejects.take() {
            rejects.finish()?;
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok((self.totals, self.unread)),
        }
    }

    fn fill(&mut self) {
        self.current.dry_run = self.dry_run;
        let mut room = MAX_IMPORT_LINES;
        loop {
            while let Some(part) = self.rest.last() {
                let lines = 1 + part.hosts.len();
                if lines > room {
                    return;
                }
                room -= lines;
                self.place_last();
            }
            if self.is_over || self.failure.is_some() {
                return;
            }
            self.read_row();
        }
    }

    fn place_last(&mut self) {
        if let Some(LicensePart { placed, license, hosts }) = self.rest.pop() {
            self.placed.push(placed);
            let license = ImportedLicense::clone(&license);
            self.current.licenses.push(ImportedLicense { hosts, ..license });
        }
    }

    /// Reads a row into the rest.
    fn read_row(&mut self) {
        let (line, row) = match self.rows.next_row() {
            Ok(Some((line, row))) => (line, row.clone()),
            Ok(None) => {
                self.is_over = true;
                return;
            }
            Err(error) => {
                self.is_over = true;
                self.unread = Some(error);
                return;
            }
        };
        self.totals.rows += 1;
        let license = match exported_license::read(&self.columns, &row, self.now.date_naive()) {
            Ok(license) => license,
            Err(error) => return self.reject(line, &row, &error.to_string()),
        };
        let Some(modules) = self.products.modules(&license) else {
            let header = match self.columns.has(ExportField::Product) {
                true => self.columns.header(ExportField::Product),
                false => self.columns.header(ExportField::ProductId),
            };
            let reason = format!(
                "column {header:?}: no plugin entry has this product as its edd_item_name or edd_item_id, and no --map names it"
            );
            return self.reject(line, &row, &reason);
        };
        match self.seen.entry(license.id) {
            Entry::Vacant(vacant) => drop(vacant.insert(line)),
            Entry::Occupied(first) => {
                let reason = format!("line {} has the same key", first.get());
                return self.reject(line, &row, &reason);
            }
        }
        self.totals.modules.add(line, &modules);
        let content = license.content(&modules);
        let hosts = self.hosts(&license);
        let whole = ImportedLicense {
            id: license.id,
            status: license.status,
            expires: license.expires,
            modules,
            sites: match license.sites {
                SiteLimit::Limited(limit) => Some::<NonZeroU32>(limit),
                SiteLimit::Unlimited => None,
            },
            reference: license.reference,
            content,
            hosts: Vec::new(),
        };
        let mut parts: Vec<_> = hosts.chunks(MAX_IMPORT_LINES - 1).map(<[_]>::to_vec).collect();
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        let row = Arc::new(row);
        let license = Arc::new(whole);
        let parts = parts.into_iter().enumerate().map(|(number, hosts)| LicensePart {
            placed: PlacedRow {
                line,
                row: Arc::clone(&row),
                goes_on: number > 0,
            },
            license: Arc::clone(&license),
            hosts,
        });
        self.rest = parts.rev().collect();
    }

    /// The sites to bind, and since when.
    fn hosts(&mut self, license: &ExportedLicense) -> Vec<(SiteHost, DateTime<Utc>)> {
        let bought = license.created.unwrap_or(self.now);
        let (local, others): (Vec<_>, Vec<_>) = license
            .hosts
            .iter()
            .partition(|(host, _)| host.is_local() && !self.binds_local_hosts);
        self.totals.local_sites += local.len() as u64;
        others
            .into_iter()
            .map(|(host, since)| (host.clone(), since.unwrap_or(bought).min(self.now)))
            .collect()
    }

    fn reject(&mut self, line: u64, row: &ByteRecord, reason: &str) {
        self.totals.reject(line, reason);
        if let Some(rejects) = &mut self.rejects
            && let Err(failure) = rejects.add(row, line, reason)
        {
            self.failure.get_or_insert(failure);
        }
    }
}

/// Why the ledger did not take a license.
fn refusal(result: ImportResult) -> Option<String> {
    let reason = match result {
        ImportResult::Issued | ImportResult::Changed | ImportResult::Unchanged => return None,
        ImportResult::ChangedHere => {
            "its license was changed here since it was imported, and the export changed, too: change it here"
        }
        ImportResult::NotImported => "the ledger has a license with this key that was not imported",
        ImportResult::TooLong => "it has too many modules or features",
    };
    Some(reason.to_owned())
}
