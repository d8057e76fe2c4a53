//! What waits for the next group commit.
//!
//! `Store` queues requests to bind; `binding_batch` decides them, and answers once their lines are durable.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::OwnedMutexGuard;

use crate::model::license::License;
use crate::model::site_host::SiteHost;
use crate::model::site_release::ReleaseHash;

use crate::store::answer::{Answer, Pending, pending};
use crate::store::ledger_change::{ChangeOutcome, LedgerChange};
use crate::store::license_imports::{ImportOutcome, ImportRequest, MAX_IMPORT_LINES};
use crate::store::log::record;
use crate::store::postgres::nodes::NodeSecrets;
use crate::store::references::requests::ReferenceRequest;
use crate::store::sales::{SaleChange, SaleOutcome};
use crate::store::site_moves::{ReleaseRequest, SiteReleaseOutcome};
use crate::store::token_changes::{TokenChange, TokenOutcome};

/// The lines of one commit that release the staging copies of a site which another one takes its seat back from.
pub(crate) const LEAVING_COPIES: usize = 200;

/// The most requests that may wait for the thread. One may have two lines, the thread takes one more, and one may be an import.
pub(crate) const QUEUE: usize = (record::BATCH - LEAVING_COPIES - MAX_IMPORT_LINES) / 2 - 1;

/// What the thread is asked for.
pub(crate) enum Message {
    /// A seat.
    Bind(BindRequest),
    /// The end of a seat.
    Release(SeatRelease),
    /// A license to issue or to change.
    Change(ChangeRequest),
    /// What a shop tells of a sale.
    Sale(SaleRequest),
    /// A token to make or to change.
    Token(TokenRequest),
    /// Licenses of another system.
    Import(WaitingImport),
    /// Texts of orders, to read or to erase.
    Reference(ReferenceRequest),
    /// All lines that were in the log before this message.
    Refresh(LedgerLook, Answer<()>),
    /// Telling other nodes which secrets this one uses.
    Announce(NodeSecrets),
    /// The end.
    Close,
}

/// Why a request waits for a look at a log that other nodes write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerLook {
    /// Memory would say no.
    Read,
    /// Memory would say no, and the no is signed: the look is a transaction that commits. A primary that was replaced
    /// still answers reads.
    Proved,
    /// This process did not run for a while, such as on a machine that slept: memory is too old even for a yes. As a rule,
    /// it ran.
    AfterSleep,
}

/// The result of binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The host is bound, durably.
    Bound,
    /// The license has no free site, and is bound to other hosts.
    Elsewhere {
        /// The host that was bound first.
        first: SiteHost,
    },
}

/// A host that asks for a seat.
#[derive(Clone, Copy, Debug)]
pub struct SeatRequest<'a> {
    /// The license. One of the ledger may have changed when the thread decides; it decides by what the license is then.
    pub license: &'a License,
    /// The site.
    pub host: &'a SiteHost,
    /// The hash of the secret that shall release the site. It counts if this request binds.
    pub release_hash: Option<ReleaseHash>,
    /// The server's setting: how many staging copies need no seat.
    pub staging_sites: u32,
    /// The time of the request.
    pub now: DateTime<Utc>,
}

impl<'a> SeatRequest<'a> {
    /// A request without a release hash, to a server where staging copies need a seat.
    pub fn new(license: &'a License, host: &'a SiteHost, now: DateTime<Utc>) -> Self {
        Self {
            license,
            host,
            release_hash: None,
            staging_sites: 0,
            now,
        }
    }
}

/// The same, while it waits.
#[derive(Debug)]
pub(crate) struct BindRequest {
    pub license: License,
    pub host: SiteHost,
    pub release_hash: Option<ReleaseHash>,
    pub staging_sites: u32,
    pub now: DateTime<Utc>,
    answer: Answer<BindOutcome>,
}

/// A client that gives its seat back.
#[derive(Debug)]
pub(crate) struct SeatRelease {
    pub request: ReleaseRequest,
    answer: Answer<SiteReleaseOutcome>,
}

impl SeatRelease {
    /// A request, and what waits for its answer.
    pub(crate) fn new(request: ReleaseRequest) -> (Self, Pending<SiteReleaseOutcome>) {
        let (answer, pending) = pending();
        (Self { request, answer }, pending)
    }

    pub(crate) fn answer(self, outcome: Result<SiteReleaseOutcome, Arc<str>>) {
        let _ = self.answer.send(outcome);
    }
}

/// A license to issue or to change.
#[derive(Debug)]
pub(crate) struct ChangeRequest {
    pub change: LedgerChange,
    answer: Answer<ChangeOutcome>,
}

impl ChangeRequest {
    /// A request, and what waits for its answer.
    pub(crate) fn new(change: LedgerChange) -> (Self, Pending<ChangeOutcome>) {
        let (answer, pending) = pending();
        (Self { change, answer }, pending)
    }

    pub(crate) fn answer(self, outcome: Result<ChangeOutcome, Arc<str>>) {
        let _ = self.answer.send(outcome);
    }
}

/// A token to make or to change.
#[derive(Debug)]
pub(crate) struct TokenRequest {
    pub change: TokenChange,
    answer: Answer<TokenOutcome>,
}

impl TokenRequest {
    /// A request, and what waits for its answer.
    pub(crate) fn new(change: TokenChange) -> (Self, Pending<TokenOutcome>) {
        let (answer, pending) = pending();
        (Self { change, answer }, pending)
    }

    pub(crate) fn answer(self, outcome: Result<TokenOutcome, Arc<str>>) {
        let _ = self.answer.send(outcome);
    }
}

/// What a shop tells of a sale.
#[derive(Debug)]
pub(crate) struct SaleRequest {
    pub change: SaleChange,
    answer: Answer<SaleOutcome>,
}

impl SaleRequest {
    /// A request, and what waits for its answer.
    pub(crate) fn new(change: SaleChange) -> (Self, Pending<SaleOutcome>) {
        let (answer, pending) = pending();
        (Self { change, answer }, pending)
    }

    pub(crate) fn answer(self, outcome: Result<SaleOutcome, Arc<str>>) {
        let _ = self.answer.send(outcome);
    }
}

/// Licenses of another system.
#[derive(Debug)]
pub(crate) struct WaitingImport {
    pub import: ImportRequest,
    answer: Answer<Vec<ImportOutcome>>,
    /// Ends when it is answered.
    _turn: OwnedMutexGuard<()>,
}

impl WaitingImport {
    /// A request, and what waits for its answer.
    pub(crate) fn new(import: ImportRequest, turn: OwnedMutexGuard<()>) -> (Self, Pending<Vec<ImportOutcome>>) {
        let (answer, pending) = pending();
        let request = Self {
            import,
            answer,
            _turn: turn,
        };
        (request, pending)
    }

    pub(crate) fn answer(self, outcomes: Result<Vec<ImportOutcome>, Arc<str>>) {
        let _ = self.answer.send(outcomes);
    }
}

/// What one group commit decides.
#[derive(Debug, Default)]
pub(crate) struct WaitingRequests {
    pub binds: Vec<BindRequest>,
    pub releases: Vec<SeatRelease>,
    pub changes: Vec<ChangeRequest>,
    pub tokens: Vec<TokenRequest>,
    pub sales: Vec<SaleRequest>,
    pub import: Option<WaitingImport>,
}

impl WaitingRequests {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let import = usize::from(self.import.is_some());
        self.binds.len() + self.releases.len() + self.changes.len() + self.tokens.len() + self.sales.len() + import
    }

    /// Nothing is in force: every request fails.
    pub(crate) fn fail(self, reason: &Arc<str>) {
        let failed = || Arc::clone(reason);
        self.binds.into_iter().for_each(|request| request.answer(Err(failed())));
        self.releases
            .into_iter()
            .for_each(|request| request.answer(Err(failed())));
        self.changes
            .into_iter()
            .for_each(|request| request.answer(Err(failed())));
        self.tokens
            .into_iter()
            .for_each(|request| request.answer(Err(failed())));
        self.sales.into_iter().for_each(|request| request.answer(Err(failed())));
        self.import
            .into_iter()
            .for_each(|request| request.answer(Err(failed())));
    }
}

impl BindRequest {
    /// A request, and what waits for its answer.
    pub(crate) fn new(seat: SeatRequest<'_>) -> (Self, Pending<BindOutcome>) {
        let (answer, pending) = pending();
        let request = Self {
            license: seat.license.clone(),
            host: seat.host.clone(),
            release_hash: seat.release_hash,
            staging_sites: seat.staging_sites,
            now: seat.now,
            answer,
        };
        (request, pending)
    }

    pub(crate) fn answer(self, outcome: Result<BindOutcome, Arc<str>>) {
        let _ = self.answer.send(outcome);
    }
}
