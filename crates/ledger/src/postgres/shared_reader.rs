//! The shared log for commands: reads it as of one moment, beside running nodes. Changes nothing.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::Row;

use crate::checksum::{BindingsBuilder, BindingsChecksum};
use crate::error::{BackendError, LedgerState, StoreError};
use crate::history::with_replaced;
use crate::index::SiteReports;
use crate::issued_table::IssuedBuilder;
use crate::latest_changes::{ChangesCollector, ChangesWanted, LatestChanges};
use crate::ledger_tables::{LedgerBuilder, LedgerTables};
use crate::log::chain::Chain;
use crate::log::compaction::LatestLines;
use crate::log::record::{LedgerEvent, LedgerRecord, LineError};
use crate::postgres::failure::{database_error, failure, newer, require_known};
use crate::postgres::session::Session;
use crate::postgres::{load, reports, text_rows};
use crate::reader::{IndexState, VerifiedLedger};
use crate::stored_sales::{StoredSales, StoredSalesBuilder};
use crate::telemetry::{FirstCopiesByLicense, RefusedByLicense};
use crate::texts::FoundTexts;
use countersign_model::binding::{Binding, SiteReport};
use countersign_model::customer::CustomerRow;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license_key::LicenseId;

/// How long one statement that looks at a whole table may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines and head as of the same moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

const LINES_OF: &str = "SELECT sequence, line FROM countersign.ledger WHERE license = $1 ORDER BY sequence";

/// The lines before one, the newest first.
const LINES_BEFORE: &str =
    "SELECT sequence, line FROM countersign.ledger WHERE sequence < $1 ORDER BY sequence DESC LIMIT 2000";

/// Why a line is not read.
fn unreadable(line: &str, error: &LineError) -> StoreError {
    StoreError::shared(match error {
        LineError::Newer(line_of_newer) => newer(format!("{line} {line_of_newer}")),
        LineError::Damaged(error) => failure(LedgerState::Damaged, format!("{line}: {error}")),
    })
}

/// A connection to the server that takes changes.
pub(crate) struct SharedReader {
    runtime: Runtime,
    session: Session,
}

impl SharedReader {
    pub(crate) fn open(address: &str) -> Result<Self, StoreError> {
        let (runtime, session) = Session::open_here(address)?;
        Ok(Self { runtime, session })
    }

    /// Runs `work`; its errors name the server.
    fn ask<T>(&self, work: impl Future<Output = Result<T, BackendError>>) -> Result<T, StoreError> {
        let named = |error: BackendError| BackendError {
            message: format!("{}: {}", self.session.server, error.message),
            ..error
        };
        self.runtime
            .block_on(work)
            .map_err(|error| StoreError::shared(named(error)))
    }

    pub(super) fn client(&self) -> &tokio_postgres::Client {
        &self.session.client
    }

    /// One statement that looks at a whole table, which must end.
    pub(super) fn query<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        self.query_within(PATIENCE, work)
    }

    /// One statement that must end in this time.
    pub(super) fn query_within<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        self.ask(async {
            match timeout(patience, work).await {
                Ok(done) => done.map_err(|error| database_error(&error)),
                Err(_) => Err(failure(
                    LedgerState::Unreachable,
                    format!("no answer within {} s", patience.as_secs()),
                )),
            }
        })
    }

    /// Whether a line was ever written.
    pub(crate) fn has_bindings(&self) -> Result<bool, StoreError> {
        let head = self.ask(load::head(&self.session.client))?;
        Ok(head.sequence > 0)
    }

    /// The bindings of a license in the order of binding, void ones included. Does not check the chain.
    pub(crate) fn bindings_of(&self, license: &LicenseId) -> Result<Vec<Binding>, StoreError> {
        let mut builder = BindingsBuilder::default();
        for (_, event) in self.events_of(license)? {
            builder.take(event);
        }
        let by_license = builder.finish();
        Ok(by_license
            .of(license)
            .map_or_else(Vec::new, |bindings| bindings.to_vec()))
    }

    /// The events of a license and of those that it replaced, in the order of the ledger. Does not check the chain.
    pub(crate) fn history(&self, license: &LicenseId) -> Result<Vec<LedgerEvent>, StoreError> {
        self.query(self.session.client.batch_execute(BEGIN))?;
        with_replaced(license, |license| {
            let events = self.events_of(license)?;
            Ok(events
                .into_iter()
                .map(|(sequence, event)| (sequence.unsigned_abs(), event))
                .collect())
        })
    }

    /// The last changes that somebody wants to see. Does not check the chain.
    pub(crate) fn latest_changes(&self, wanted: ChangesWanted) -> Result<LatestChanges, StoreError> {
        let mut collector = ChangesCollector::new(wanted);
        let mut before = wanted
            .before
            .and_then(|before| i64::try_from(before).ok())
            .unwrap_or(i64::MAX);
        loop {
            let rows = self.query(self.session.client.query(LINES_BEFORE, &[&before]))?;
            for row in &rows {
                before = row.get(0);
                let line = format!("{}\n", row.get::<_, &str>(1));
                let taken = collector
                    .take(line.as_bytes())
                    .map_err(|error| unreadable(&format!("line {before}"), &error))?;
                if taken.is_break() {
                    return Ok(collector.finish(false));
                }
            }
            if rows.is_empty() {
                return Ok(collector.finish(true));
            }
        }
    }

    /// The numbers and events of a license's lines.
    fn events_of(&self, license: &LicenseId) -> Result<Vec<(i64, LedgerEvent)>, StoreError> {
        let rows = self.query(self.session.client.query(LINES_OF, &[&license.to_string()]))?;
        let event = |row: &Row| {
            let line = format!("{}\n", row.get::<_, &str>(1));
            match LedgerRecord::read(line.as_bytes()) {
                Ok(record) => Ok((row.get(0), record.change)),
                Err(error) => Err(unreadable(&format!("a line of license {}", license.log_tag()), &error)),
            }
        };
        rows.iter().map(event).collect()
    }

    /// The same with what their sites reported to any node.
    pub(crate) fn of(&self, license: &LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError> {
        let bindings = self.bindings_of(license)?;
        let reported = self.query(reports::of(&self.session.client, license))?;
        let mut by_host: HashMap<_, _> = reported.into_iter().map(|(_, host, report)| (host, report)).collect();
        let report = |binding: &Binding| by_host.remove(&binding.host).unwrap_or_default();
        let reports: Vec<_> = bindings.iter().map(report).collect();
        Ok(bindings.into_iter().zip(reports).collect())
    }

    pub(crate) fn reports(&self) -> Result<SiteReports, StoreError> {
        self.query(reports::sites(&self.session.client))
    }

    pub(crate) fn refused(&self) -> Result<RefusedByLicense, StoreError> {
        self.query(reports::licenses(&self.session.client))
    }

    pub(crate) fn first_copies(&self) -> Result<FirstCopiesByLicense, StoreError> {
        self.query(reports::licenses(&self.session.client))
    }

    /// What is kept of these orders.
    pub(crate) fn texts(&self, names: &[Hex128]) -> Result<FoundTexts, StoreError> {
        self.query(text_rows::find(&self.session.client, names))
    }

    /// The rows of these customers.
    pub(crate) fn customers(&self, numbers: &BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, StoreError> {
        self.query(text_rows::customers_of(&self.session.client, numbers))
    }

    /// At most `most` rows of customers whose address or name contains a folded text.
    pub(crate) fn customers_with(&self, text: &str, most: usize) -> Result<Vec<CustomerRow>, StoreError> {
        let names = self.query(text_rows::customers_with(&self.session.client, text, most))?;
        let found = self.texts(&names)?;
        Ok(found
            .iter()
            .filter_map(|(_, stored)| stored.customer().cloned())
            .collect())
    }

    /// Passes on every event that is not superseded, in their order. Checks every line first.
    pub(crate) fn current(self, mut each: impl FnMut(LedgerEvent)) -> Result<(), StoreError> {
        let mut latest = LatestLines::default();
        let mut count = 0;
        self.query(self.session.client.batch_execute(BEGIN))?;
        self.read(|change| {
            count += 1;
            latest.take(count, &change);
        })?;
        let mut number = 0;
        let mut wanted = Vec::new();
        self.read(|change| {
            number += 1;
            if latest.has(number, &change) {
                wanted.push((number, change));
            }
        })?;
        // The caller may take long to process the lines; the snapshot ends first.
        drop(self);
        for (number, change) in wanted {
            each(latest.as_now(number, change));
        }
        Ok(())
    }

    /// The licenses of the ledger as they are now, sorted by id.
    pub(crate) fn issued_licenses(&self) -> Result<Vec<IssuedLicense>, StoreError> {
        let mut builder = IssuedBuilder::default();
        self.query(self.session.client.batch_execute(BEGIN))?;
        self.read(|change| {
            if let LedgerEvent::License(license) = change {
                builder.add(license);
            }
        })?;
        Ok(builder.finish().into_licenses())
    }

    /// The sales of shops and their licenses.
    pub(crate) fn stored_sales(&self) -> Result<StoredSales, StoreError> {
        let mut builder = StoredSalesBuilder::default();
        self.query(self.session.client.batch_execute(BEGIN))?;
        self.read(|change| builder.take(change))?;
        Ok(builder.finish())
    }

    /// Checks the chain up to the head.
    pub(crate) fn verify(&self) -> Result<VerifiedLedger, StoreError> {
        let mut builder = LedgerBuilder::default();
        self.query(self.session.client.batch_execute(BEGIN))?;
        let chain = self.read(|change| builder.take(change))?;
        let texts = self.query(text_rows::count(&self.session.client))?;
        self.query(self.session.client.batch_execute("COMMIT"))?;
        let LedgerTables { by_license, issued, .. } = builder.finish();
        let bindings = by_license.iter().flat_map(|bindings| bindings.iter());
        Ok(VerifiedLedger {
            lines: chain.lines,
            sequence: chain.end.sequence,
            torn: false,
            digest: chain.end.digest,
            bindings: BindingsChecksum::of(&by_license).count,
            licenses: by_license.len(),
            issued: issued.len(),
            texts,
            latest: bindings.map(|binding| binding.bound_at).max(),
            index: IndexState::Database,
        })
    }

    /// Reads every line, and compares the end with the head's row.
    fn read(&self, mut each: impl FnMut(LedgerEvent)) -> Result<Chain, StoreError> {
        self.ask(async {
            let client = &self.session.client;
            let head = timeout(PATIENCE, load::head(client)).await;
            let head = head.map_err(|_| failure(LedgerState::Unreachable, "no answer"))??;
            let chain = load::each(client, |_, change| {
                if let Some(change) = change {
                    each(change);
                }
            })
            .await?;
            if chain.end.sequence != head.sequence {
                return Err(failure(
                    LedgerState::Damaged,
                    format!(
                        "the ledger ends with line {}, but the table countersign.head says {}",
                        chain.end.sequence, head.sequence
                    ),
                ));
            }
            match chain.end.digest.to_string() == head.digest {
                true => require_known(&chain).map(|()| chain),
                false => Err(failure(
                    LedgerState::Damaged,
                    format!(
                        "line {} of the ledger is not the one that the table countersign.head has",
                        head.sequence
                    ),
                )),
            }
        })
    }
}

/// The table in use.
const LEDGER: &str = "countersign.ledger";

/// Selects the tables of lines that compactions replaced, as far as this role may read them, the newest first.
const SET_ASIDE: &str = "SELECT 'countersign.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'countersign' AND c.relkind = 'r' AND c.relname ~ '^ledger_until_[0-9]+$' \
     AND has_table_privilege(c.oid, 'SELECT') ORDER BY length(c.relname) DESC, c.relname DESC";

impl SharedReader {
    /// The tables with lines, the one in use first.
    pub(crate) fn ledger_tables(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.query(self.client().query(SET_ASIDE, &[]))?;
        let aside = rows.iter().map(|row| row.get(0));
        Ok(std::iter::once(LEDGER.to_owned()).chain(aside).collect())
    }

    /// At most `limit` lines of a table whose numbers are `first` to `last`, each with its line feed.
    pub(crate) fn lines_of(
        &self,
        table: &str,
        first: u64,
        last: u64,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        // SECURITY: the name is one of `ledger_tables`.
        let lines = format!("SELECT line FROM {table} WHERE sequence BETWEEN $1 AND $2 ORDER BY sequence LIMIT $3");
        let [first, last] = [first, last].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let limit = limit as i64;
        let rows = self.query(self.client().query(&lines, &[&first, &last, &limit]))?;
        let line = |row: &tokio_postgres::Row| format!("{}\n", row.get::<_, &str>(0)).into_bytes();
        Ok(rows.iter().map(line).collect())
    }
}
