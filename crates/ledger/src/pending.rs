//! What waits for the next group commit.
//!
//! `Store` queues requests to bind; `binding_batch` decides them, and answers once their lines are durable.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::OwnedMutexGuard;

use countersign_model::license::License;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

use crate::answer::{Answer, Pending, pending};
use crate::ledger_change::{ChangeOutcome, LedgerChange};
use crate::license_imports::{ImportOutcome, ImportRequest, MAX_IMPORT_LINES};
use crate::log::record;
use crate::postgres::nodes::NodeSecrets;
use crate::references::requests::ReferenceRequest;
use crate::sales::{SaleChange, SaleOutcome};
use crate::site_moves::{ReleaseRequest, SiteReleaseOutcome};
use crate::token_changes::{TokenChange, TokenOutcome};

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
pub(crate) struct WantedSeat {
    pub license: License,
    pub host: SiteHost,
    pub release_hash: Option<ReleaseHash>,
    pub staging_sites: u32,
    pub now: DateTime<Utc>,
}

impl From<SeatRequest<'_>> for WantedSeat {
    fn from(seat: SeatRequest<'_>) -> Self {
        Self {
            license: seat.license.clone(),
            host: seat.host.clone(),
            release_hash: seat.release_hash,
            staging_sites: seat.staging_sites,
            now: seat.now,
        }
    }
}

/// Licenses of another system, and the turn of their import, which ends when it is answered.
#[derive(Debug)]
pub(crate) struct ImportInTurn {
    pub import: ImportRequest,
    _turn: OwnedMutexGuard<()>,
}

impl ImportInTurn {
    pub(crate) fn new(import: ImportRequest, turn: OwnedMutexGuard<()>) -> Self {
        Self { import, _turn: turn }
    }
}

/// A request that waits for a group commit, with what the commit decides for it.
#[derive(Debug)]
pub(crate) struct WaitingRequest<R, O> {
    pub request: R,
    /// Until it is answered.
    answer: Option<Answer<O>>,
    decided: Option<O>,
    /// What an earlier attempt of the commit decided, which nobody confirmed.
    unconfirmed: Option<O>,
}

pub(crate) type BindRequest = WaitingRequest<WantedSeat, BindOutcome>;
pub(crate) type SeatRelease = WaitingRequest<ReleaseRequest, SiteReleaseOutcome>;
pub(crate) type ChangeRequest = WaitingRequest<LedgerChange, ChangeOutcome>;
pub(crate) type TokenRequest = WaitingRequest<TokenChange, TokenOutcome>;
pub(crate) type SaleRequest = WaitingRequest<SaleChange, SaleOutcome>;
pub(crate) type WaitingImport = WaitingRequest<ImportInTurn, Vec<ImportOutcome>>;

impl<R, O> WaitingRequest<R, O> {
    /// A request, and what waits for its answer.
    pub(crate) fn new(request: impl Into<R>) -> (Self, Pending<O>) {
        let (answer, pending) = pending();
        let waiting = Self {
            request: request.into(),
            answer: Some(answer),
            decided: None,
            unconfirmed: None,
        };
        (waiting, pending)
    }

    /// Decides it. The answer is sent once the commit is durable.
    pub(crate) fn decide(&mut self, decide: impl FnOnce(&R) -> O) {
        self.decided = Some(decide(&self.request));
    }
}

/// The steps of a commit, whatever a request asks for.
trait InCommit {
    fn begin_again(&mut self, was_sent: bool);
    fn confirm(&mut self);
    fn finish(&mut self, result: &Result<(), Arc<str>>);
}

impl<R, O> InCommit for WaitingRequest<R, O> {
    fn begin_again(&mut self, was_sent: bool) {
        let decided = self.decided.take();
        if was_sent {
            self.unconfirmed = decided;
        }
    }

    fn confirm(&mut self) {
        self.decided = self.unconfirmed.take();
    }

    fn finish(&mut self, result: &Result<(), Arc<str>>) {
        let decided = self.decided.take().ok_or_else(|| "the commit decided nothing".into());
        let outcome = result.clone().and(decided);
        // Who asked may have left.
        let _ = self.answer.take().map(|answer| answer.send(outcome));
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

    fn all(&mut self) -> impl Iterator<Item = &mut dyn InCommit> {
        fn of<R, O>(requests: &mut [WaitingRequest<R, O>]) -> impl Iterator<Item = &mut dyn InCommit> {
            requests.iter_mut().map(|request| request as &mut dyn InCommit)
        }
        of(&mut self.binds)
            .chain(of(&mut self.releases))
            .chain(of(&mut self.changes))
            .chain(of(&mut self.tokens))
            .chain(of(&mut self.sales))
            .chain(of(self.import.as_mut_slice()))
    }

    /// Another attempt of the commit begins. What this one decided is kept if its lines were sent.
    pub(crate) fn begin_again(&mut self, was_sent: bool) {
        self.all().for_each(|request| request.begin_again(was_sent));
    }

    /// The lines of an earlier attempt are in the log: what it decided counts.
    pub(crate) fn confirm(&mut self) {
        self.all().for_each(InCommit::confirm);
    }

    /// Answers each request with what was decided for it. After a failure nothing is in force, and every request fails.
    pub(crate) fn finish(mut self, result: &Result<(), Arc<str>>) {
        self.all().for_each(|request| request.finish(result));
    }
}
