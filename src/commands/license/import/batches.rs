//! The rows of an export in orders of at most 500 lines of the ledger, and what became of each.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::commands::Failure;
use crate::serve::imports::{ImportOrder, ImportReply, ImportedLicense};
use crate::serve::ops::attach_answers::AttachReply;
use countersign_ledger::{ImportOutcome, ImportResult, MAX_IMPORT_LINES};
use countersign_model::license::SiteLimit;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_shops::import::csv_rows::CsvError;
use countersign_shops::import::export_file::{ExportFile, ExportRow, ExportRows};
use countersign_shops::import::exported_license::{ExportedLicense, RowRules};
use countersign_shops::import::same_key::{self, MergedEnd};
use countersign_shops::shop::ObjectIds;

use crate::commands::license::import::keys::{KeyVerdict, Keys};
use crate::commands::license::import::preview::{MOST_SHOWN, PreviewedLicense};
use crate::commands::license::import::products::Products;
use crate::commands::license::import::reader::{RowReader, RowResult};
use crate::commands::license::import::rejects::Rejects;
use crate::commands::license::import::totals::Totals;

/// The rows of a license that is in an order.
#[derive(Clone)]
struct PlacedRows<'t> {
    rows: Arc<Vec<ExportRow<'t>>>,
    /// Its number among those that are shown.
    shown: Option<usize>,
    /// Whether an earlier part of the license was in an order: a license may have more sites than an order has lines.
    goes_on: bool,
    /// The subscription that renews it, by its name in facts.
    subscription: Option<String>,
}

/// A part of a license that no order had room for. What the parts share is kept once: there may be hundreds of a long row.
struct LicensePart<'t> {
    placed: PlacedRows<'t>,
    /// The license without sites.
    license: Arc<ImportedLicense>,
    hosts: Vec<(SiteHost, DateTime<Utc>)>,
}

/// Reads an export and collects what becomes of it.
pub(super) struct Batches<'f, 't> {
    rows: ExportRows<'f, 't>,
    reader: RowReader<'f>,
    keys: Keys,
    /// Rows of keys that several rows have, until the last of them.
    of_key: HashMap<LicenseId, Vec<(ExportRow<'t>, ExportedLicense)>>,
    merged_end: Option<MergedEnd>,
    rejects: Option<Rejects>,
    /// What a row is counted as.
    counts: &'static str,
    binds_local_hosts: bool,
    names_orders: bool,
    /// How the shop of the export numbers subscriptions.
    subscriptions: Option<ObjectIds>,
    /// Those of licenses that the ledger took.
    taken: Vec<(String, LicenseId)>,
    dry_run: bool,
    now: DateTime<Utc>,
    /// The order that is not answered yet.
    current: ImportOrder,
    placed: Vec<PlacedRows<'t>>,
    /// What the order had no room for, the next part last.
    rest: Vec<LicensePart<'t>>,
    totals: Totals,
    /// Why the file was not read to its end.
    unread: Option<CsvError>,
    /// Why the file of rejects was not written.
    failure: Option<Failure>,
    is_over: bool,
}

impl<'f, 't> Batches<'f, 't> {
    /// Reads the keys of the whole file.
    ///
    /// # Errors
    /// Nothing of it can be read.
    pub(super) fn new(
        file: &'f ExportFile<'t>,
        products: Products,
        rules: RowRules,
        rejects: Option<Rejects>,
    ) -> Result<Self, CsvError> {
        let reader = RowReader::new(file.columns(), products, rules);
        Ok(Self {
            rows: file.rows()?,
            keys: Keys::find(file, &reader)?,
            reader,
            of_key: HashMap::new(),
            merged_end: None,
            rejects,
            counts: file.columns().preset().form.counts(),
            binds_local_hosts: true,
            names_orders: false,
            subscriptions: None,
            taken: Vec::new(),
            dry_run: false,
            now: DateTime::UNIX_EPOCH,
            current: ImportOrder::default(),
            placed: Vec::new(),
            rest: Vec::new(),
            totals: Totals::new(file.columns()),
            unread: None,
            failure: None,
            is_over: false,
        })
    }

    /// Says which of several ends of a key counts.
    pub(super) fn merging(self, merged_end: Option<MergedEnd>) -> Self {
        Self { merged_end, ..self }
    }

    /// Whether the ledger can have names of orders, and numbers of customers.
    pub(super) fn naming_orders(self, names_orders: bool) -> Self {
        Self { names_orders, ..self }
    }

    /// Says how the shop of the export numbers the subscriptions that renew licenses.
    pub(super) fn with_subscriptions(mut self, subscriptions: Option<ObjectIds>) -> Self {
        self.totals.attaches = subscriptions.is_some();
        Self { subscriptions, ..self }
    }

    /// The subscriptions of licenses that the ledger took.
    pub(super) fn subscriptions(&mut self) -> Vec<(String, LicenseId)> {
        std::mem::take(&mut self.taken)
    }

    /// What became of a subscription.
    pub(super) fn take_attached(&mut self, reply: AttachReply) {
        match reply {
            AttachReply::Done { .. } => self.totals.subscriptions += 1,
            AttachReply::Refused(reason) => self.totals.leave_out(format!("subscription: {reason}")),
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
        let order = std::mem::take(&mut self.current);
        let placed = std::mem::take(&mut self.placed).into_iter().zip(order.licenses);
        for ((placed, ordered), reply) in placed.zip(replies) {
            let reason = match reply {
                ImportReply::Ledger(ImportOutcome { license, bound }) => {
                    self.totals.sites_bound += bound as u64;
                    if placed.goes_on {
                        continue;
                    }
                    let result = match license {
                        ImportResult::Issued => Some((&mut self.totals.new, "new")),
                        ImportResult::Changed => Some((&mut self.totals.changed, "changed")),
                        ImportResult::Unchanged => Some((&mut self.totals.unchanged, "as before")),
                        _ => None,
                    };
                    if let Some((count, word)) = result {
                        *count += 1;
                        self.totals.merged += placed.rows.len() as u64 - 1;
                        if let Some(shown) = placed.shown.and_then(|number| self.totals.shown.get_mut(number)) {
                            shown.result = word;
                        }
                        match placed.subscription {
                            Some(_) if self.dry_run => self.totals.subscriptions += 1,
                            subscription => self.taken.extend(subscription.map(|name| (name, ordered.id))),
                        }
                    }
                    refusal(license)
                }
                ImportReply::InFile { file, line } => {
                    Some(format!("its license is in {}:{line}; change it there", file.display()))
                }
            };
            if let Some(reason) = reason.filter(|_| !placed.goes_on) {
                placed.rows.iter().for_each(|row| self.reject(row, &reason));
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

    /// Reads a row, and its license into the rest if it is the last row of its key.
    fn read_row(&mut self) {
        let row = match self.rows.next_row() {
            Ok(Some(row)) => row,
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
        let license = match self.reader.read(&row.text) {
            RowResult::License(license) => *license,
            RowResult::Skipped(word) => return self.totals.skip(&word),
            RowResult::Refused { reason, .. } => return self.reject(&row, &reason),
        };
        match self.keys.verdict(&license.id, license.spelling) {
            KeyVerdict::Alone => self.place(vec![row], license),
            KeyVerdict::OneOf(count) => self.collect(row, license, count),
            KeyVerdict::OtherCase(other) => {
                let reason = format!(
                    "{}s {} and {} have keys that differ in case only, and case does not matter here",
                    self.counts,
                    row.line.min(other),
                    row.line.max(other)
                );
                self.reject(&row, &reason);
            }
            KeyVerdict::OtherRefused(other) => {
                let counts = self.counts;
                let reason =
                    format!("{counts} {other} has the same key, and cannot be taken: a license is taken whole");
                self.reject(&row, &reason);
            }
        }
    }

    /// Keeps a row of a key that `count` rows have, and makes one license of them once they are all there.
    fn collect(&mut self, row: ExportRow<'t>, license: ExportedLicense, count: usize) {
        let id = license.id;
        let rows = self.of_key.entry(id).or_default();
        rows.push((row, license));
        if rows.len() < count {
            return;
        }
        let (rows, licenses): (Vec<_>, Vec<_>) = self.of_key.remove(&id).unwrap_or_default().into_iter().unzip();
        let lines: Vec<u64> = rows.iter().map(|row: &ExportRow<'_>| row.line).collect();
        match same_key::merge(lines.into_iter().zip(licenses), self.merged_end) {
            Ok(Some(license)) => self.place(rows, license),
            Ok(None) => {}
            Err(difference) => {
                let reason = difference.text(self.counts);
                rows.iter().for_each(|row| self.reject(row, &reason));
            }
        }
    }

    /// Puts a license into the rest.
    fn place(&mut self, rows: Vec<ExportRow<'t>>, license: ExportedLicense) {
        let line = rows.first().map_or(0, |row| row.line);
        self.totals.modules.add(line, &license.modules);
        self.totals.count(&license, self.names_orders);
        let subscription = self.subscription(license.subscription.as_deref());
        let content = license.content(&license.modules);
        let hosts = self.hosts(&license);
        let whole = ImportedLicense {
            id: license.id,
            status: license.status,
            expires: license.expires,
            modules: license.modules,
            sites: match license.sites {
                SiteLimit::Limited(limit) => Some::<NonZeroU32>(limit),
                SiteLimit::Unlimited => None,
            },
            reference: license.reference.or(license.order),
            customer: license.customer.and_then(|address| address.parse().ok()),
            name: license.name,
            content,
            hosts: Vec::new(),
        };
        let shown = (self.dry_run && self.totals.shown.len() < MOST_SHOWN).then(|| {
            self.totals.shown.push(PreviewedLicense::new(line, &whole, hosts.len()));
            self.totals.shown.len() - 1
        });
        let mut parts: Vec<_> = hosts.chunks(MAX_IMPORT_LINES - 1).map(<[_]>::to_vec).collect();
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        let placed = PlacedRows {
            rows: Arc::new(rows),
            shown,
            goes_on: false,
            subscription,
        };
        let license = Arc::new(whole);
        let parts = parts.into_iter().enumerate().map(|(number, hosts)| LicensePart {
            placed: PlacedRows {
                goes_on: number > 0,
                ..placed.clone()
            },
            license: Arc::clone(&license),
            hosts,
        });
        self.rest = parts.rev().collect();
    }

    /// The name in facts of a subscription, if it can be attached.
    fn subscription(&mut self, id: Option<&str>) -> Option<String> {
        match self.subscriptions?.subscription(id?) {
            Ok(name) => Some(name),
            Err(error) => {
                self.totals.leave_out(format!("subscription: {error}"));
                None
            }
        }
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

    fn reject(&mut self, row: &ExportRow<'_>, reason: &str) {
        self.totals.reject(row.line, reason);
        if let Some(rejects) = &mut self.rejects
            && let Err(failure) = rejects.add(&row.text, row.line, reason)
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
