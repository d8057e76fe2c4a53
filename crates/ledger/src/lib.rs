//! The store: which sites are bound to which licenses, durably, and what those sites reported.
//!
//! Requests are answered from memory (`memory`). Changes go through one queue (`group_commit`) to one thread
//! (`commit_writer`). The thread decides each request (`command`) of a `binding_batch`, and writes the `log` before it answers.
//! The `index` and `telemetry` are written later. `disk` is a `backend`. Commands use `source` to read, and `maintenance`.

#![forbid(unsafe_code)]

mod accepted;
mod adoptions;
mod answer;
mod backend;
mod backend_error;
mod binding_batch;
mod bindings;
mod checksum;
mod clock_lead;
mod command;
mod commit_status;
mod commit_writer;
mod copy_outcome;
pub mod copying;
mod disk;
mod draft;
mod error;
pub mod event_lines;
mod futures;
mod group_commit;
mod health;
mod history;
mod host_list;
mod index;
mod issued_licenses;
mod issued_table;
mod ledger_change;
pub mod ledger_feed;
mod ledger_parts;
mod ledger_state;
mod ledger_tables;
mod license_changes;
mod license_imports;
mod lock;
pub mod log;
pub mod maintenance;
mod memory;
mod new_ledger;
mod operations;
mod pending;
mod postgres;
pub mod reader;
mod recovery;
mod requests;
mod sales;
mod seats;
mod site_moves;
mod sleep_watch;
mod source;
pub mod stored_reports;
mod telemetry;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod texts;
mod token_changes;
mod unindexed;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};

use countersign_model::api_token::ApiToken;
use countersign_model::binding::CheckIn;
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::sale_state::SaleState;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::SiteRelease;

use backend::Backend;
use group_commit::GroupCommit;
use log::Position;
use memory::BindingMemory;
use pending::Message;
use stored_reports::StoredReports;
use telemetry::Reports;

pub use accepted::{Accepted, AcceptedReleases, accept_releases, accepted_releases};
pub use adoptions::{AdoptedStep, AdoptionRequest};
pub use bindings::BoundSites;
pub use clock_lead::ClockLead;
pub use error::StoreError;
pub use futures::{
    BindFuture, ChangeFuture, EraseTextsFuture, FindTextsFuture, ImportFuture, RefreshFuture, ReleaseFuture,
    SaleFuture, TokenFuture,
};
pub use health::{Figures, StoreHealth};
pub use index::SiteReports;
pub use issued_licenses::LedgerLicense;
pub use ledger_change::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange};
pub use ledger_state::LedgerState;
pub use license_imports::{ImportOutcome, ImportRequest, ImportResult, LicenseImport, MAX_IMPORT_LINES};
pub use lock::{NodeLock, is_in_use};
pub use operations::Bindings;
pub use pending::LedgerLook;
pub use postgres::endpoint_lease::{EndpointLease, HeldLease, SharedEndpoint, shared_endpoints};
pub use postgres::nodes::NodeSecrets;
pub use postgres::repair_outcome::{RepairOutcome, UnfitBinding, kept_files, set_kept_file_aside};
pub use postgres::schema::{script as shared_schema, upgrade_script as shared_schema_upgrade};
pub use postgres::{inspection, role_rights, settings::SettingsError};
pub use postgres::{shared_compaction::compact_shared, shared_repair::repair_shared};
pub use texts::erasure::{ErasedText, FoundTexts, TextErasure};
pub use texts::new_texts::named_at_random;

pub use log::MAX_NAMES;
pub use sales::{SaleChange, SaleOutcome};
pub use seats::{BindOutcome, SeatRequest};
pub use site_moves::{ReleaseRefusal, ReleaseRequest, Releaser, SiteReleaseOutcome};
pub use sleep_watch::since_boot;
pub use source::{StoreReader, StoreSource, bindings_of, has_bindings, history, issued_licenses, read_only, texts};
pub use telemetry::RefusedByLicense;
pub use token_changes::{MAX_TOKENS, TokenChange, TokenOutcome, TokenRefusal, TokenStep};

/// Opens or creates the store in the folder `path`, and reads all bindings.
///
/// Waits a second for another process to close it, as at a restart.
pub fn open(path: &Path) -> Result<Arc<dyn Bindings>, StoreError> {
    let (disk, tables) = disk::StoreDisk::open(path)?;
    let memory = BindingMemory::new(tables);
    Ok(Arc::new(Store::new(disk, memory, group_commit::WRITE_BEHIND)))
}

/// Opens the log that several nodes share in a database, and reads all bindings. `folder` is for what belongs to this
/// node alone; it is created. Without a synchronous standby it warns, unless its work is `assumed` to be done elsewhere.
pub fn open_shared(address: &str, folder: &Path, assumed: bool) -> Result<Arc<dyn Bindings>, StoreError> {
    let (log, tables) = postgres::PostgresLog::open(address, folder, assumed)?;
    let memory = BindingMemory::new(tables);
    Ok(Arc::new(Store::new(log, memory, group_commit::WRITE_BEHIND)))
}

struct Store {
    memory: Arc<BindingMemory>,
    reports: Arc<Reports>,
    /// Weak, so that the thread closes the files when it ends.
    stored_reports: Option<Weak<dyn StoredReports>>,
    group_commit: GroupCommit,
    /// This node's name, if several share the ledger.
    node: Option<String>,
    /// One import at a time: a commit has the lines of one.
    import_turn: Arc<tokio::sync::Mutex<()>>,
}

impl Store {
    fn new(backend: impl Backend, memory: BindingMemory, write_behind: Duration) -> Self {
        let memory = Arc::new(memory);
        let reports = Arc::new(Reports::default());
        Self {
            stored_reports: backend.stored_reports(),
            node: backend.node().map(str::to_owned),
            group_commit: GroupCommit::start(backend, memory.clone(), reports.clone(), write_behind),
            memory,
            reports,
            import_turn: Arc::default(),
        }
    }
}

impl Bindings for Store {
    fn of(&self, license: &LicenseId) -> BoundSites<'_> {
        self.memory.of(license)
    }

    fn bind<'a>(&'a self, request: SeatRequest<'a>) -> BindFuture<'a> {
        Box::pin(self.bind(request))
    }

    fn release(&self, request: ReleaseRequest) -> ReleaseFuture<'_> {
        Box::pin(self.group_commit.ask(request))
    }

    fn issued(&self, license: &LicenseId) -> Option<LedgerLicense> {
        self.memory.issued.of(license)
    }

    fn issued_beginning_with(&self, beginning: &[u8; 16]) -> Option<LedgerLicense> {
        self.memory.issued.beginning_with(beginning)
    }

    fn issued_for(&self, request: Hex128) -> Option<LedgerLicense> {
        self.memory.issued.of_key(request)
    }

    fn sale(&self, name: Hex128) -> Option<SaleState> {
        self.memory.events().sales.of(name)
    }

    fn record_sale(&self, change: SaleChange) -> SaleFuture<'_> {
        Box::pin(self.group_commit.ask(change))
    }

    fn issued_of_order(&self, orders: &[Hex128]) -> Vec<LicenseId> {
        self.memory.issued.of_order(orders)
    }

    fn issued_after(
        &self,
        after: Option<&LicenseId>,
        limit: usize,
        keep: &dyn Fn(&License) -> bool,
    ) -> Vec<LedgerLicense> {
        self.memory.issued.after(after, limit, keep)
    }

    fn licenses_of_host(&self, host: &SiteHost) -> Vec<LicenseId> {
        self.memory.licenses_of(host)
    }

    fn moves(&self, now: DateTime<Utc>) -> Vec<(LicenseId, Vec<SiteRelease>)> {
        self.memory.moves(now)
    }

    fn issued_count(&self) -> usize {
        self.memory.issued.len()
    }

    fn change_license(&self, change: LedgerChange) -> ChangeFuture<'_> {
        Box::pin(self.group_commit.ask(change))
    }

    fn adopt(&self, adoption: AdoptionRequest) -> ChangeFuture<'_> {
        Box::pin(self.group_commit.ask(adoption))
    }

    fn import(&self, import: ImportRequest) -> ImportFuture<'_> {
        Box::pin(self.import(import))
    }

    fn preview_import(&self, import: &ImportRequest) -> Vec<ImportOutcome> {
        self.preview(import)
    }

    fn texts(&self, names: Vec<Hex128>) -> FindTextsFuture<'_> {
        Box::pin(self.find_texts(names))
    }

    fn erase_texts(&self, erasure: TextErasure) -> EraseTextsFuture<'_> {
        Box::pin(self.erase_texts(erasure))
    }

    fn tokens(&self) -> Vec<Arc<ApiToken>> {
        self.memory.events().tokens.all()
    }

    fn token_of(&self, hash: &Digest) -> Option<Arc<ApiToken>> {
        self.memory.events().tokens.of_hash(hash)
    }

    fn note_token_use(&self, change: TokenChange) {
        let (request, _) = command::waiting(change);
        // If the queue is full, the next use is noted.
        let _ = self.group_commit.enqueue(Message::Request(request));
    }

    fn change_token(&self, change: TokenChange) -> TokenFuture<'_> {
        Box::pin(self.group_commit.ask(change))
    }

    fn refresh(&self, look: LedgerLook) -> Option<RefreshFuture<'_>> {
        let is_needed = match look {
            LedgerLook::AfterSleep => self.group_commit.is_behind(),
            LedgerLook::Read | LedgerLook::Proved => self.group_commit.is_shared(),
        };
        is_needed.then(|| -> RefreshFuture<'_> { Box::pin(self.look(look)) })
    }

    fn report(&self, license: &LicenseId, bound: &BoundSites<'_>, host: &SiteHost, check_in: &CheckIn<'_>) {
        if let Some(news) = bound.news(host, check_in)
            && self.reports.add(license, host, check_in)
        {
            news.was_noted();
        }
    }

    fn stored_reports(&self) -> Option<Arc<dyn StoredReports>> {
        self.stored_reports.as_ref()?.upgrade()
    }

    fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    fn announce(&self, secrets: NodeSecrets) {
        self.group_commit.announce(secrets);
    }

    fn may_issue(&self) -> bool {
        !self.group_commit.is_shared() || self.group_commit.health().ledger != LedgerState::NodesDiffer
    }

    fn health(&self) -> StoreHealth {
        self.group_commit.health()
    }

    fn ledger_end(&self) -> Option<Position> {
        self.group_commit.ledger_end()
    }

    fn figures(&self) -> Figures {
        self.group_commit.figures(Figures {
            bindings: self.memory.count(),
            reports_dropped: self.reports.dropped(),
            ..Figures::default()
        })
    }

    fn close(&self) -> Result<(), StoreError> {
        self.group_commit.close()
    }
}
