//! One group commit: the requests that share it, and who of them gets a seat.
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
use crate::store::log::LedgerEntry;
use crate::store::memory::BindingMemory;
use crate::store::pending::{BindOutcome, BindRequest};

/// The requests of one group commit.
pub(crate) struct BindingBatch<'m> {
    memory: &'m BindingMemory,
    requests: Vec<BindRequest>,
    /// What other nodes appended since the last commit, in the order of the log.
    learned: Vec<LedgerEntry>,
    /// The bindings of the licenses in `learned`, with what was learned.
    ahead: HashMap<LicenseId, Arc<LicenseBindings>>,
    /// What this node appends.
    appended: Vec<LedgerEntry>,
    /// For each request that was decided.
    outcomes: Vec<BindOutcome>,
    /// What takes memory's place, if the log differs from it.
    anew: Option<BindingsByLicense>,
}

impl<'m> BindingBatch<'m> {
    /// A batch of these requests, which may be none.
    pub(crate) fn new(memory: &'m BindingMemory, requests: Vec<BindRequest>) -> Self {
        Self {
            memory,
            requests,
            learned: Vec::new(),
            ahead: HashMap::new(),
            appended: Vec::new(),
            outcomes: Vec::new(),
            anew: None,
        }
    }

    /// Forgets what was learned and decided: another attempt begins.
    pub(crate) fn begin_again(&mut self) {
        self.learned.clear();
        self.ahead.clear();
        self.appended.clear();
        self.outcomes.clear();
    }

    /// Takes the binding of a line that another node appended.
    pub(crate) fn learn(&mut self, entry: LedgerEntry) {
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
    pub(crate) fn replace_memory(&mut self, by_license: BindingsByLicense) {
        self.anew = Some(by_license);
    }

    /// Decides every request; returns the bindings to append. `clock` is the time of a log that several nodes share,
    /// whose own clocks may differ.
    pub(crate) fn decide(&mut self, clock: Option<DateTime<Utc>>) -> &[LedgerEntry] {
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
                    self.appended.push(LedgerEntry {
                        license: license.id,
                        binding,
                    });
                    beside.push(host.clone());
                    BindOutcome::Bound
                }
            };
            self.outcomes.push(outcome);
        }
        &self.appended
    }

    /// How many requests wait for this commit.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether nobody asks for a seat.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Puts durable bindings in force, and answers. After a failure, nothing is in force and every request fails.
    pub(crate) fn complete(self, result: Result<(), Arc<str>>) {
        match result {
            Ok(()) => {
                if let Some(by_license) = self.anew {
                    self.memory.replace(&by_license);
                }
                self.memory.add(self.learned.into_iter().chain(self.appended));
                for (request, outcome) in self.requests.into_iter().zip(self.outcomes) {
                    request.answer(Ok(outcome));
                }
            }
            Err(reason) => {
                for request in self.requests {
                    request.answer(Err(Arc::clone(&reason)));
                }
            }
        }
    }
}
