//! One group commit: the requests that share it, who of them gets a seat, and which licenses change.
//!
//! A backend first passes on what other nodes appended ([`BindingBatch::learn`]), then asks for the lines to append
//! ([`BindingBatch::decide`]), and makes them durable. Only then does memory change, and the requests are answered.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::binding::Binding;
use crate::model::license::Seat;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use crate::store::bindings::{BindingsRef, BoundSites, LicenseBindings};
use crate::store::checksum::BindingsByLicense;
use crate::store::issued_licenses::IssuedTable;
use crate::store::license_changes::{ChangeOutcome, LicenseBatch};
use crate::store::log::LedgerEntry;
use crate::store::log::record::LedgerEvent;
use crate::store::memory::BindingMemory;
use crate::store::pending::{BindOutcome, BindRequest, ChangeRequest};

/// The requests of one group commit.
pub(crate) struct BindingBatch<'m> {
    memory: &'m BindingMemory,
    requests: Vec<BindRequest>,
    changes: Vec<ChangeRequest>,
    /// The licenses that other nodes or this one appended.
    licenses: LicenseBatch<'m>,
    /// What other nodes bound since the last commit, in the order of the log.
    learned: Vec<LedgerEntry>,
    /// The bindings of the licenses in `learned`, with what was learned.
    ahead: HashMap<LicenseId, Arc<LicenseBindings>>,
    /// What this node appends.
    appended: Vec<LedgerEvent>,
    /// For each request that was decided.
    outcomes: Vec<BindOutcome>,
    /// For each change that was decided.
    changed: Vec<ChangeOutcome>,
    /// What takes memory's place, if the log differs from it.
    anew: Option<(BindingsByLicense, IssuedTable)>,
}

impl<'m> BindingBatch<'m> {
    /// A batch of these requests, which may be none.
    pub(crate) fn new(memory: &'m BindingMemory, requests: Vec<BindRequest>) -> Self {
        Self {
            memory,
            requests,
            changes: Vec::new(),
            licenses: LicenseBatch::new(&memory.issued),
            learned: Vec::new(),
            ahead: HashMap::new(),
            appended: Vec::new(),
            outcomes: Vec::new(),
            changed: Vec::new(),
            anew: None,
        }
    }

    /// Also has these changes to licenses.
    pub(crate) fn with_changes(self, changes: Vec<ChangeRequest>) -> Self {
        Self { changes, ..self }
    }

    /// Forgets what was learned and decided: another attempt begins.
    pub(crate) fn begin_again(&mut self) {
        self.learned.clear();
        self.ahead.clear();
        self.appended.clear();
        self.outcomes.clear();
        self.licenses.begin_again();
        self.changed.clear();
    }

    /// Takes the event of a line that another node appended.
    pub(crate) fn learn(&mut self, change: LedgerEvent) {
        let entry = match change {
            LedgerEvent::Bound(entry) => entry,
            LedgerEvent::License(license) => return self.licenses.take(license),
            LedgerEvent::Compacted(_) => return,
        };
        let LedgerEntry { license, binding } = &entry;
        match self.ahead.get_mut(license) {
            Some(bindings) => Arc::make_mut(bindings).add(binding.clone()),
            None => {
                let bindings = self.memory.of(license).with(*license, binding.clone());
                self.ahead.insert(*license, Arc::new(bindings));
            }
        }
        self.learned.push(entry);
    }

    /// Has memory replaced: the log differs from it, and is right. For a batch without requests.
    pub(crate) fn replace_memory(&mut self, by_license: BindingsByLicense, issued: IssuedTable) {
        self.anew = Some((by_license, issued));
    }

    /// Decides every request; returns the events to append. `clock` is the time of a log that several nodes share,
    /// whose own clocks may differ.
    pub(crate) fn decide(&mut self, clock: Option<DateTime<Utc>>) -> &[LedgerEvent] {
        let mut under_way: HashMap<LicenseId, Vec<SiteHost>> = HashMap::new();
        for request in &self.requests {
            let BindRequest { license, host, now, .. } = request;
            let stored = match self.ahead.get(&license.id) {
                Some(bindings) => BoundSites(Some(BindingsRef::Changed(bindings.clone()))),
                None => self.memory.of(&license.id),
            };
            let beside = under_way.entry(license.id).or_default();
            let outcome = match license.seat_beside(&stored, beside, host) {
                Seat::Held => BindOutcome::Bound,
                Seat::Taken { first } => BindOutcome::Elsewhere { first: first.clone() },
                Seat::Free => {
                    let now = clock.unwrap_or(*now);
                    // Every known release of the license is older than this binding, whatever the clocks say.
                    let released_at = license.details.released.time_of(host);
                    let binding = Binding {
                        host: host.clone(),
                        bound_at: released_at.map_or(now, |released_at| released_at.max(now)),
                    };
                    self.appended.push(LedgerEvent::Bound(LedgerEntry {
                        license: license.id,
                        binding,
                    }));
                    beside.push(host.clone());
                    BindOutcome::Bound
                }
            };
            self.outcomes.push(outcome);
        }
        for request in &self.changes {
            let outcome = self.licenses.decide(&request.change, clock, &mut self.appended);
            self.changed.push(outcome);
        }
        &self.appended
    }

    /// How many requests wait for this commit.
    pub(crate) fn len(&self) -> usize {
        self.requests.len() + self.changes.len()
    }

    /// Whether nobody asks for anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.changes.is_empty()
    }

    /// Puts durable bindings in force, and answers. After a failure, nothing is in force and every request fails.
    pub(crate) fn complete(self, result: Result<(), Arc<str>>) {
        match result {
            Ok(()) => {
                if let Some((by_license, issued)) = self.anew {
                    self.memory.replace(&by_license);
                    self.memory.issued.replace(issued);
                }
                let appended = self.appended.into_iter().filter_map(LedgerEvent::binding);
                self.memory.add(self.learned.into_iter().chain(appended));
                self.memory.issued.add(self.licenses.into_licenses());
                for (request, outcome) in self.requests.into_iter().zip(self.outcomes) {
                    request.answer(Ok(outcome));
                }
                for (request, outcome) in self.changes.into_iter().zip(self.changed) {
                    request.answer(Ok(outcome));
                }
            }
            Err(reason) => {
                for request in self.requests {
                    request.answer(Err(Arc::clone(&reason)));
                }
                for request in self.changes {
                    request.answer(Err(Arc::clone(&reason)));
                }
            }
        }
    }
}
