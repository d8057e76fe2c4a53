//! The shared log for commands: reads it as of one moment, beside running nodes. Changes nothing.

use std::collections::HashMap;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::model::binding::{Binding, SiteReport};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;
use crate::store::backend_error::BackendError;
use crate::store::checksum::{BindingsBuilder, BindingsChecksum};
use crate::store::error::StoreError;
use crate::store::index::SiteReports;
use crate::store::issued_licenses::IssuedBuilder;
use crate::store::ledger_state::LedgerState;
use crate::store::log::LedgerEntry;
use crate::store::log::chain::Chain;
use crate::store::log::record::{LedgerEvent, LedgerRecord};
use crate::store::postgres::failure::{database_error, failure};
use crate::store::postgres::load;
use crate::store::postgres::reports;
use crate::store::postgres::session::{KnownLog, Session};
use crate::store::postgres::settings::DatabaseSettings;
use crate::store::reader::{IndexState, VerifiedLedger};
use crate::store::telemetry::RefusedByLicense;

/// How long one statement that looks at a whole table may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines and head as of the same moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Lines are canonical JSON, and no host has a quote: the text stands nowhere else.
const LINES_OF: &str = "SELECT line FROM countersign.ledger WHERE position($1 in line) > 0 ORDER BY sequence";

/// A connection to the server that takes changes.
pub(in crate::store) struct SharedReader {
    runtime: Runtime,
    session: Session,
}

impl SharedReader {
    pub(in crate::store) fn open(address: &str) -> Result<Self, StoreError> {
        let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::shared(error.into()))?;
        let session = runtime.block_on(Session::open(&settings, KnownLog::none()));
        let session = session.map_err(StoreError::shared)?;
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

    /// One statement, which must end.
    fn query<T>(&self, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, StoreError> {
        self.ask(async {
            match timeout(PATIENCE, work).await {
                Ok(done) => done.map_err(|error| database_error(&error)),
                Err(_) => Err(failure(
                    LedgerState::Unreachable,
                    format!("no answer within {} s", PATIENCE.as_secs()),
                )),
            }
        })
    }

    /// Whether a line was ever written.
    pub(in crate::store) fn has_bindings(&self) -> Result<bool, StoreError> {
        let head = self.ask(load::head(&self.session.client))?;
        Ok(head.sequence > 0)
    }

    /// The bindings of a license in the order of binding, void ones included. Does not check the chain.
    pub(in crate::store) fn bindings_of(&self, license: &LicenseId) -> Result<Vec<Binding>, StoreError> {
        let part = format!("\"license\":\"{license}\"");
        let rows = self.query(self.session.client.query(LINES_OF, &[&part]))?;
        let mut builder = BindingsBuilder::default();
        for row in rows {
            let line = format!("{}\n", row.get::<_, &str>(0));
            let read = LedgerRecord::read(line.as_bytes());
            let record = read.map_err(|error| damaged(format!("a line of license {}: {error}", license.log_tag())))?;
            if let LedgerEvent::Bound(entry) = record.change {
                builder.add(entry);
            }
        }
        let by_license = builder.finish();
        Ok(by_license
            .of(license)
            .map_or_else(Vec::new, |bindings| bindings.to_vec()))
    }

    /// The same with what their sites reported to any node.
    pub(in crate::store) fn of(&self, license: &LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError> {
        let bindings = self.bindings_of(license)?;
        let reported = self.query(reports::of(&self.session.client, license))?;
        let mut by_host: HashMap<_, _> = reported.into_iter().map(|(_, host, report)| (host, report)).collect();
        let report = |binding: &Binding| by_host.remove(&binding.host).unwrap_or_default();
        let reports: Vec<_> = bindings.iter().map(report).collect();
        Ok(bindings.into_iter().zip(reports).collect())
    }

    pub(in crate::store) fn reports(&self) -> Result<SiteReports, StoreError> {
        self.query(reports::sites(&self.session.client))
    }

    pub(in crate::store) fn refused(&self) -> Result<RefusedByLicense, StoreError> {
        self.query(reports::refused(&self.session.client))
    }

    /// Passes on every binding that is not superseded, in the order of binding. Checks every line first.
    pub(in crate::store) fn export(self, mut each: impl FnMut(LicenseId, Binding)) -> Result<(), StoreError> {
        let mut latest: HashMap<(LicenseId, SiteHost), usize> = HashMap::new();
        let mut count = 0_usize;
        self.query(self.session.client.batch_execute(BEGIN))?;
        self.read(|change| {
            count += 1;
            if let LedgerEvent::Bound(entry) = change {
                latest.insert((entry.license, entry.binding.host), count);
            }
        })?;
        let mut number = 0_usize;
        let mut wanted = Vec::with_capacity(latest.len());
        self.read(|change| {
            number += 1;
            let Some(LedgerEntry { license, binding }) = change.binding() else {
                return;
            };
            if latest.get(&(license, binding.host.clone())) == Some(&number) {
                wanted.push((license, binding));
            }
        })?;
        // The caller may take long to process the lines; the snapshot ends first.
        drop(self);
        for (license, binding) in wanted {
            each(license, binding);
        }
        Ok(())
    }

    /// Checks the chain up to the head.
    pub(in crate::store) fn verify(&self) -> Result<VerifiedLedger, StoreError> {
        let mut builder = BindingsBuilder::default();
        let mut issued = IssuedBuilder::default();
        self.query(self.session.client.batch_execute(BEGIN))?;
        let chain = self.read(|change| match change {
            LedgerEvent::Bound(entry) => builder.add(entry),
            LedgerEvent::License(license) => issued.add(license),
            LedgerEvent::Compacted(_) => {}
        })?;
        self.query(self.session.client.batch_execute("COMMIT"))?;
        let by_license = builder.finish();
        let bindings = by_license.iter().flat_map(|bindings| bindings.iter());
        Ok(VerifiedLedger {
            lines: chain.lines,
            sequence: chain.end.sequence,
            torn: false,
            digest: chain.end.digest,
            bindings: BindingsChecksum::of(&by_license).count,
            licenses: by_license.len(),
            issued: issued.finish().len(),
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
                true => Ok(chain),
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

fn damaged(what: String) -> StoreError {
    StoreError::shared(failure(LedgerState::Damaged, what))
}
