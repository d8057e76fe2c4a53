//! The ledger: which sites are bound to which licenses, durably, and what those sites reported.
//!
//! `ledger` answers requests from memory (`memory`). Changes go through one queue (`group_commit`) to one thread
//! (`commit_writer`). The thread decides each request (`command`) of a `binding_batch`, and writes the `log` before it answers.
//! The `index` and `telemetry` are written later. `disk` is a `backend`. Commands use `source` to read, and `maintenance`.

#![forbid(unsafe_code)]

mod accepted;
mod adoptions;
mod backend;
mod binding_batch;
mod bindings;
mod checksum;
mod command;
mod commit_writer;
pub mod copying;
mod customer_erasure;
mod day_history;
mod day_lines;
mod disk;
mod draft;
mod error;
pub mod event_lines;
mod group_commit;
mod handout_table;
mod handouts;
mod health;
mod history;
mod host_list;
mod index;
mod issued_licenses;
mod issued_table;
mod latest_changes;
mod ledger;
mod ledger_change;
pub mod ledger_feed;
mod ledger_parts;
mod ledger_tables;
mod license_changes;
mod license_imports;
mod license_lines;
mod lock;
pub mod log;
pub mod maintenance;
mod memory;
mod pending;
mod postgres;
pub mod reader;
mod recovery;
mod reminder_claims;
mod reminder_table;
mod rollout_changes;
mod sale_table;
mod sales;
mod seats;
mod session_ends;
mod site_claims;
mod site_moves;
mod sleep_watch;
mod source;
pub mod stored_reports;
mod stored_sales;
mod telemetry;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod texts;
mod token_changes;
mod vouches;

pub use accepted::{Accepted, AcceptedReleases, accept_releases, accepted_releases};
pub use adoptions::{AdoptedStep, AdoptionRequest};
pub use bindings::BoundSites;
pub use customer_erasure::CustomerErasure;
pub use day_history::{DayHistory, append_history};
pub use day_lines::DayRange;
pub use error::{ClockLead, FORMAT, LedgerState, StoreError};
pub use handouts::NewHandout;
pub use health::{Figures, StoreHealth};
pub use history::{HistoryEntry, LineActor};
pub use index::SiteReports;
pub use issued_licenses::LedgerLicense;
pub use latest_changes::{ChangesBy, ChangesWanted, LatestChange, LatestChanges};
#[cfg(feature = "testing")]
pub use ledger::{InjectedFault, open_failing};
pub use ledger::{Ledger, open, open_shared};
pub use ledger_change::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange};
pub use license_imports::{ImportOutcome, ImportRequest, ImportResult, LicenseImport, MAX_IMPORT_LINES};
pub use lock::{NodeLock, is_in_use};
pub use pending::LedgerLook;
pub use postgres::endpoint_lease::{EndpointLease, HeldLease, SharedEndpoint, shared_endpoints};
pub use postgres::inspection;
pub use postgres::node_queues::{NodeQueues, OtherNode, QueueCounts, other_nodes};
pub use postgres::nodes::NodeSecrets;
pub use postgres::schema::{FORMAT as TABLES_FORMAT, script as shared_schema, upgrade_script as shared_schema_upgrade};
pub use postgres::settings::SettingsError;
pub use postgres::shared_compaction::compact_shared;
pub use postgres::shared_repair::{RepairOutcome, UnfitBinding, kept_files, repair_shared, set_kept_file_aside};
pub use texts::customer_search::CustomerSearch;
pub use texts::{ErasedText, FoundTexts, TextErasure, named_at_random};

pub use log::MAX_NAMES;
pub use log::{HandedEntry, HandedPackage, Handout, SessionEntry, SessionMark, VouchEntry};
pub use reminder_claims::{MOST_LICENSES as MOST_REMINDED, ReminderClaim, ReminderSwitch};
pub use rollout_changes::{NewestRelease, RolloutChange, RolloutOutcome};
pub use sale_table::{KnownFacts, KnownSale};
pub use sales::{HiddenId, SaleChange, SaleOutcome};
pub use seats::{BindOutcome, SeatRequest};
pub use session_ends::SessionEnd;
pub use site_claims::SeenHash;
pub use site_moves::{ReleaseRefusal, ReleaseRequest, Releaser, SiteReleaseOutcome, Successor};
pub use sleep_watch::since_boot;
pub use source::{
    StoreReader, StoreSource, bindings_of, customers, customers_with, has_bindings, history, issued_licenses,
    latest_changes, read_only, stored_sales, texts,
};
pub use stored_sales::StoredSales;
pub use telemetry::{FirstCopiesByLicense, RefusedByLicense};
pub use token_changes::{MAX_TOKENS, TokenChange, TokenOutcome, TokenRefusal, TokenStep};
pub use vouches::VouchChange;
