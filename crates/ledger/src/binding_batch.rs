//! One group commit: the requests that share it, who of them gets a seat, and which licenses change.
//!
//! A backend first passes on what other nodes appended ([`BindingBatch::learn`]), then asks for the lines to append
//! ([`BindingBatch::decide`]), and makes them durable. Only then does memory change, and the requests are answered.

mod commit_attempt;
mod import;
mod seats;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::binding::Binding;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;

use crate::bindings::{BindingsRef, BoundSites, LicenseBindings};
use crate::checksum::BindingsByLicense;
use crate::issued_table::IssuedTable;
use crate::ledger_change::ChangeBasis;
use crate::license_changes::LicenseBatch;
use crate::log::SaleEntry;
use crate::log::record::LedgerEvent;
use crate::log::{LedgerEntry, Position, ReleaseEntry};
use crate::memory::{self, BindingMemory};
use crate::pending::{LEAVING_COPIES, WaitingRequests};
use crate::references::texts::NewReference;
use crate::sales::SaleBatch;
use crate::site_moves::{self, DecidedRelease, ReleaseRequest, SiteReleaseOutcome};
use crate::token_changes::TokenBatch;

use commit_attempt::CommitAttempt;

/// The requests of one group commit.
pub(crate) struct BindingBatch<'m> {
    memory: &'m BindingMemory,
    requests: WaitingRequests,
    /// The licenses that other nodes or this one appended.
    licenses: LicenseBatch<'m>,
    /// The tokens that other nodes or this one appended.
    tokens: TokenBatch<'m>,
    /// The same of sales.
    sales: SaleBatch<'m>,
    /// The changes to bindings that other nodes appended since the last commit, in the order of the log.
    learned: Vec<LedgerEvent>,
    /// The bindings of licenses that changed since memory has them.
    ahead: HashMap<LicenseId, Arc<LicenseBindings>>,
    /// What this node appends.
    appended: Vec<LedgerEvent>,
    /// How many more staging copies may leave in this commit, so that it stays within its most lines.
    copies_may_leave: usize,
    attempt: CommitAttempt,
    /// What takes memory's place, if the log differs from it.
    anew: Option<(BindingsByLicense, IssuedTable)>,
}

impl<'m> BindingBatch<'m> {
    /// A batch of these requests, which may be none.
    pub(crate) fn new(memory: &'m BindingMemory, requests: WaitingRequests) -> Self {
        Self {
            memory,
            requests,
            licenses: LicenseBatch::new(&memory.issued),
            tokens: TokenBatch::new(&memory.issued),
            sales: SaleBatch::new(&memory.sales),
            learned: Vec::new(),
            ahead: HashMap::new(),
            appended: Vec::new(),
            copies_may_leave: LEAVING_COPIES,
            attempt: CommitAttempt::default(),
            anew: None,
        }
    }

    /// What is in force before this commit.
    pub(crate) fn memory(&self) -> &'m BindingMemory {
        self.memory
    }

    /// Forgets what was learned: another attempt begins. What was decided counts if its lines turn out to be in the log.
    pub(crate) fn begin_again(&mut self) {
        let was_sent = self.attempt.begin_again();
        self.requests.begin_again(was_sent);
        self.learned.clear();
        self.ahead.clear();
        self.appended.clear();
        self.copies_may_leave = LEAVING_COPIES;
        self.licenses.begin_again();
        self.tokens.begin_again();
        self.sales.begin_again();
    }

    /// Takes the event of a line that another node appended.
    pub(crate) fn learn(&mut self, change: LedgerEvent) {
        let license = match &change {
            LedgerEvent::Bound(entry) => entry.license,
            LedgerEvent::Released(entry) => entry.license,
            LedgerEvent::License(license) => return self.licenses.take(Arc::clone(license)),
            LedgerEvent::Sale(entry) => return self.sales.take(SaleEntry::clone(entry)),
            LedgerEvent::Token(token) => return self.tokens.take(Arc::clone(token)),
            LedgerEvent::Compacted(_) => return,
        };
        self.go_ahead(license, change.clone());
        self.learned.push(change);
    }

    /// Takes the position of a line that was read: it may be one that an earlier attempt of this commit sent.
    pub(crate) fn read_to(&mut self, line: Position) {
        self.attempt.read(line);
    }

    /// Notes the last line of this attempt before it is sent.
    pub(crate) fn send(&mut self, last: Position) {
        self.attempt.send(last);
    }

    /// Applies a change that memory does not have yet.
    fn go_ahead(&mut self, license: LicenseId, change: LedgerEvent) {
        match self.ahead.get_mut(&license) {
            Some(bindings) => memory::apply(Arc::make_mut(bindings), change),
            None => {
                let changed = memory::changed(self.memory.of(&license).to_changed(), change);
                let changed = changed.map(|bindings| (license, Arc::new(bindings)));
                self.ahead.extend(changed);
            }
        }
    }

    /// Has memory replaced: the log differs from it, and is right. For a batch without requests.
    pub(crate) fn replace_memory(&mut self, by_license: BindingsByLicense, issued: IssuedTable) {
        self.anew = Some((by_license, issued));
    }

    /// The bindings of a license with everything before this request, but not those `under_way`.
    fn stored(&self, license: &LicenseId) -> BoundSites<'m> {
        match self.ahead.get(license) {
            Some(bindings) => BoundSites(Some(BindingsRef::Changed(Arc::clone(bindings)))),
            None => self.memory.of(license),
        }
    }

    /// The same with those `under_way`, which are put in force for the rest of this commit.
    fn stored_with(&mut self, license: &LicenseId, under_way: &mut HashMap<LicenseId, Vec<Binding>>) -> BoundSites<'m> {
        for binding in under_way.remove(license).unwrap_or_default() {
            let license = *license;
            self.go_ahead(license, LedgerEvent::Bound(LedgerEntry { license, binding }));
        }
        self.stored(license)
    }

    /// The license of a request as it is now, whatever happened to it while the request waited.
    fn current<'r>(&self, license: &'r License) -> Cow<'r, License> {
        let of_ledger = || self.licenses.of(&license.id);
        match (!license.is_declared).then(of_ledger).flatten() {
            Some(current) => Cow::Owned(current.license.clone()),
            None => Cow::Borrowed(license),
        }
    }

    /// Decides every request; returns the events to append. `clock` is the time of a log that several nodes share,
    /// whose own clocks may differ.
    ///
    /// An earlier attempt whose lines are in the log has decided: a second decision could be another one, because others
    /// went on from these lines.
    pub(crate) fn decide(&mut self, clock: Option<DateTime<Utc>>) -> &[LedgerEvent] {
        if self.attempt.is_confirmed() {
            self.requests.confirm();
            return &self.appended;
        }
        let mut requests = std::mem::take(&mut self.requests);
        // First, so that the seats are free for those who ask for one.
        for waiting in &mut requests.releases {
            waiting.decide(|request| self.release(request, clock));
        }
        let mut under_way: HashMap<LicenseId, Vec<Binding>> = HashMap::new();
        for waiting in &mut requests.binds {
            let beside = under_way.entry(waiting.request.license.id).or_default();
            waiting.decide(|request| self.bind(request, beside, clock));
        }
        for waiting in &mut requests.changes {
            waiting.decide(|change| {
                let bound = match change.basis {
                    // After those who asked for a seat, so that the step knows who has one.
                    ChangeBasis::Step { .. } => self.stored_with(&change.license.id, &mut under_way),
                    _ => BoundSites(None),
                };
                self.licenses.decide(change, &bound, clock, &mut self.appended)
            });
        }
        for waiting in &mut requests.tokens {
            waiting.decide(|change| self.tokens.decide(change, clock, &mut self.appended));
        }
        for waiting in &mut requests.sales {
            waiting.decide(|change| self.sales.decide(change, clock, &mut self.appended));
        }
        if let Some(waiting) = &mut requests.import {
            waiting.decide(|import| self.import(&import.import, clock));
        }
        self.requests = requests;
        &self.appended
    }

    /// Decides about a seat that its site gives back, or that the vendor takes from it.
    fn release(&mut self, request: &ReleaseRequest, clock: Option<DateTime<Utc>>) -> SiteReleaseOutcome {
        let license = request.license.id;
        let current = self.current(&request.license);
        // Not in the head of the `match`: what `stored` shares would live to its end, and each change below would copy all
        // bindings of the license.
        let decided = site_moves::release(request, &current, &self.stored(&license), clock);
        match decided {
            Err(refusal) => SiteReleaseOutcome::Refused(refusal),
            Ok(None) => SiteReleaseOutcome::AlreadyReleased,
            Ok(Some(DecidedRelease { release, successor })) => {
                let released = LedgerEvent::Released(ReleaseEntry { license, release });
                let bound = successor.map(|binding| LedgerEvent::Bound(LedgerEntry { license, binding }));
                for change in [released].into_iter().chain(bound) {
                    self.go_ahead(license, change.clone());
                    self.appended.push(change);
                }
                SiteReleaseOutcome::Released
            }
        }
    }

    /// The texts of orders to keep with what was decided.
    pub(crate) fn texts(&self) -> &[NewReference] {
        self.licenses.texts.all()
    }

    /// The events to append.
    pub(crate) fn appended(&self) -> &[LedgerEvent] {
        &self.appended
    }

    /// How many requests wait for this commit.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Puts durable changes in force, and answers. After a failure, nothing is in force and every request fails.
    pub(crate) fn complete(self, result: Result<(), Arc<str>>) {
        if result.is_ok() {
            if let Some((by_license, mut issued)) = self.anew {
                self.memory.sales.replace(std::mem::take(&mut issued.sales));
                self.memory.replace(&by_license);
                self.memory.issued.replace(issued);
            }
            self.memory.add(self.learned.into_iter().chain(self.appended));
            self.memory.issued.add(self.licenses.into_licenses());
            self.memory.sales.add(self.sales.into_entries());
            self.memory.issued.add_tokens(self.tokens.into_tokens());
        }
        self.requests.finish(&result);
    }
}
