//! Tests of the store on a real disk, and on one that fails when told to.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::*;
use crate::backend::Backend;
use crate::binding_batch::BindingBatch;
use crate::bindings::BindingsRef;
use crate::checksum::BindingsByLicense;
use crate::command::{WaitingRequest, waiting};
use crate::error::BackendError;
use crate::ledger_tables::LedgerTables;
use crate::log::LedgerEntry;
use crate::log::record::LedgerEvent;
use crate::memory::BindingMemory;
use crate::pending::QUEUE;
use crate::seats::WantedSeat;
use crate::telemetry::Reports;
use crate::texts::customer_search::{CustomerSearch, FoldedCustomers};
use crate::texts::{ErasedText, FoundTexts, TextErasure};
use countersign_model::binding::{Binding, CheckIn, SiteReport, Stored};
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license::{Details, License, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::seat::Seat;
use countersign_model::site_host::SiteHost;

mod adopting;
mod binding;
mod feeding;
mod holding;
mod issuing;
mod moving;
mod opening;
mod recorded;
mod reminding;
mod reporting;
mod rollouts;
mod sessions;
mod sharing;

fn license(number: u8, sites: u32) -> License {
    License {
        id: LicenseId::from_bytes([number; 32]),
        status: LicenseStatus::Active,
        expires: NaiveDate::MAX,
        modules: Arc::default(),
        sites: SiteLimit::Limited(NonZeroU32::new(sites).unwrap()),
        grace_period_hours: None,
        details: Details::default(),
        is_declared: false,
    }
}

fn host(text: &str) -> SiteHost {
    text.parse().unwrap()
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

fn seen(seconds: i64) -> CheckIn<'static> {
    CheckIn {
        time: at(seconds),
        build_id: None,
        plugin_version: None,
        current_version: None,
    }
}

fn hosts_of(store: &Ledger, license: &License) -> Vec<String> {
    store
        .of(&license.id)
        .iter()
        .map(|binding| binding.host.to_string())
        .collect()
}

fn elsewhere(first: &str) -> BindOutcome {
    BindOutcome::Elsewhere { first: host(first) }
}

/// A disk in memory that records what is done to it. A test sets when and how it syncs.
#[derive(Default)]
struct Memory {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ledger: Vec<LedgerEntry>,
    reports: telemetry::Batch,
    /// Whether reports cannot be written.
    refuses_reports: bool,
    events: Vec<&'static str>,
    /// The result of each next sync; while it is empty, the group commit waits. `None`: all succeed.
    script: Option<VecDeque<bool>>,
}

impl Memory {
    fn note(&self, event: &'static str) {
        self.state.lock().unwrap().events.push(event);
        self.changed.notify_all();
    }

    fn events(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().events.clone()
    }

    fn bound(&self) -> Vec<String> {
        self.state
            .lock()
            .unwrap()
            .ledger
            .iter()
            .map(|entry| entry.binding.host.to_string())
            .collect()
    }

    /// From now on every sync waits for [`Memory::end_sync`].
    fn hold(&self) {
        self.state.lock().unwrap().script = Some(VecDeque::new());
    }

    fn end_sync(&self, well: bool) {
        self.state.lock().unwrap().script.as_mut().unwrap().push_back(well);
        self.changed.notify_all();
    }

    /// From now on every sync succeeds at once.
    fn let_go(&self) {
        self.state.lock().unwrap().script = None;
        self.changed.notify_all();
    }

    /// Blocks until `event` was recorded `times` times.
    fn wait_for(&self, event: &str, times: usize) {
        let seen = |state: &mut State| state.events.iter().filter(|noted| **noted == event).count() < times;
        drop(self.changed.wait_while(self.state.lock().unwrap(), seen).unwrap());
    }
}

impl Backend for Arc<Memory> {
    fn commit(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        let entries = batch.decide(None);
        if entries.is_empty() {
            return Ok(());
        }
        self.note("written");
        self.probe()?;
        let bindings = entries.iter().cloned().filter_map(LedgerEvent::binding);
        self.state.lock().unwrap().ledger.extend(bindings);
        Ok(())
    }

    fn find_texts(&self, _: &[Hex128]) -> Result<FoundTexts, BackendError> {
        Ok(Vec::new())
    }

    fn erase_texts(&self, _: &TextErasure) -> Result<Option<ErasedText>, BackendError> {
        Ok(None)
    }

    fn keep_customers(&self, _: &[NewCustomer]) -> Result<Vec<Hex128>, BackendError> {
        Ok(Vec::new())
    }

    fn find_customers(&self, _: &BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, BackendError> {
        Ok(Vec::new())
    }

    fn customer_search(&self) -> Arc<dyn CustomerSearch> {
        Arc::new(FoldedCustomers::default())
    }

    fn forget_customers(&self, _: &[Hex128]) -> Result<usize, BackendError> {
        Ok(0)
    }

    fn probe(&self) -> Result<(), BackendError> {
        self.note("sync begins");
        let untold = |state: &mut State| state.script.as_ref().is_some_and(VecDeque::is_empty);
        let mut state = self.changed.wait_while(self.state.lock().unwrap(), untold).unwrap();
        let well = state.script.as_mut().and_then(VecDeque::pop_front).unwrap_or(true);
        drop(state);
        self.note(if well { "synced" } else { "sync failed" });
        if well {
            Ok(())
        } else {
            Err(io::Error::other("the disk is full").into())
        }
    }

    fn look(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn catch_up(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn write_reports(&self, reports: &telemetry::Batch) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.refuses_reports {
            state.events.push("reports refused");
            self.changed.notify_all();
            return Err(io::Error::other("the disk is full"));
        }
        state.reports.sites.extend(reports.sites.clone());
        state.reports.refused.extend(reports.refused.clone());
        Ok(())
    }

    fn sync_index(&self) -> io::Result<()> {
        self.note("index synced");
        Ok(())
    }
}

/// A store that until it is closed writes only what somebody waits for.
fn on_memory() -> (Arc<Memory>, Arc<Ledger>) {
    const NEVER: Duration = Duration::from_secs(3600);
    let memory = Arc::new(Memory::default());
    (
        memory.clone(),
        Arc::new(Ledger::new(
            crate::source::LedgerPlace::Folder(std::path::PathBuf::new()),
            memory,
            BindingMemory::new(LedgerTables::default()),
            NEVER,
        )),
    )
}

type Binder = tokio::task::JoinHandle<Result<BindOutcome, StoreError>>;

/// Binds in its own task; returns once the group commit is writing or the task is waiting for another one.
async fn start_binding(store: &Arc<Ledger>, license: &License, name: &str) -> Binder {
    let store = store.clone();
    let license = license.clone();
    let host = host(name);
    let (asked, has_asked) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut binding = std::pin::pin!(store.bind(SeatRequest::new(&license, &host, at(1))));
        let mut asked = Some(asked);
        std::future::poll_fn(|context| {
            let answer = binding.as_mut().poll(context);
            asked.take().map(|asked| asked.send(()));
            answer
        })
        .await
    });
    has_asked.await.unwrap();
    task
}
