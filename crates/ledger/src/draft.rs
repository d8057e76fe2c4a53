//! What one attempt of a group commit knows and adds, before memory has it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::binding::Binding;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::site_claim::SiteClaim;

use crate::bindings::{BindingsRef, BoundSites, LicenseBindings};
use crate::issued_licenses::IssuedLicenses;
use crate::ledger_tables::EventTables;
use crate::log::LedgerEntry;
use crate::log::record::LedgerEvent;
use crate::memory::{self, BindingMemory};
use crate::texts::NewTexts;

/// The lines of one commit that release the staging copies of a site which another one takes its seat back from.
pub(crate) const LEAVING_COPIES: usize = 200;

/// The state that a commit decides on: memory, the lines that other nodes appended since, and the lines of this commit.
pub(crate) struct CommitDraft<'m> {
    /// What is in force before this commit.
    pub memory: &'m BindingMemory,
    /// The time of a log that several nodes share, whose own clocks may differ.
    clock: Option<DateTime<Utc>>,
    /// The licenses that other nodes or this one appended.
    pub licenses: LicenseBatch<'m>,
    /// The events of other kinds that other nodes or this one appended.
    pub events: EventTables,
    /// The bindings of licenses that changed since memory has them.
    bindings: HashMap<LicenseId, Arc<LicenseBindings>>,
    /// Bindings that this commit adds and `bindings` lacks: a license with very many sites is not copied for one more.
    pub under_way: HashMap<LicenseId, Vec<Binding>>,
    /// What other nodes appended, in the order of the log.
    learned: Vec<LedgerEvent>,
    /// What this node appends.
    appended: Vec<LedgerEvent>,
    /// How many more staging copies may leave in this commit, so that it stays within its most lines.
    pub copies_may_leave: usize,
    /// The texts of orders to keep with what was decided.
    pub texts: NewTexts,
}

impl<'m> CommitDraft<'m> {
    pub(crate) fn new(memory: &'m BindingMemory) -> Self {
        Self {
            memory,
            clock: None,
            licenses: LicenseBatch::new(&memory.issued),
            events: EventTables::default(),
            bindings: HashMap::new(),
            under_way: HashMap::new(),
            learned: Vec::new(),
            appended: Vec::new(),
            copies_may_leave: LEAVING_COPIES,
            texts: NewTexts::default(),
        }
    }

    /// Sets the time of a log that several nodes share.
    pub(crate) fn set_clock(&mut self, clock: Option<DateTime<Utc>>) {
        self.clock = clock;
    }

    /// The time of a request that was made at `asked`: a shared log uses its own clock.
    pub(crate) fn now(&self, asked: DateTime<Utc>) -> DateTime<Utc> {
        self.clock.unwrap_or(asked)
    }

    /// Takes the event of a line that another node appended.
    pub(crate) fn learn(&mut self, event: LedgerEvent) {
        self.apply(&event);
        self.learned.push(event);
    }

    /// Adds a line. What is decided after it counts with it.
    pub(crate) fn append(&mut self, event: LedgerEvent) {
        self.apply(&event);
        self.appended.push(event);
    }

    /// Adds the line of a binding that [`Self::stored`] lacks: the caller counts it.
    pub(crate) fn append_beside(&mut self, entry: LedgerEntry) {
        self.appended.push(LedgerEvent::Bound(entry));
    }

    fn apply(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::Bound(entry) => self.apply_to_sites(entry.license, event.clone()),
            LedgerEvent::Released(entry) => self.apply_to_sites(entry.license, event.clone()),
            LedgerEvent::License(license) => self.licenses.take(Arc::clone(license)),
            event => {
                match event {
                    LedgerEvent::Sale(entry) => self.events.sales.assume(entry, &self.memory.events().sales),
                    LedgerEvent::Rollout(entry) => {
                        let memory = self.memory.events();
                        self.events.rollouts.assume(&entry.slug, &memory.rollouts);
                    }
                    _ => {}
                }
                self.events.take(event);
            }
        }
    }

    /// Applies a change to the bindings of a license.
    fn apply_to_sites(&mut self, license: LicenseId, change: LedgerEvent) {
        match self.bindings.get_mut(&license) {
            Some(bindings) => memory::apply(Arc::make_mut(bindings), change),
            None => {
                let changed = memory::changed(self.memory.of(&license).to_changed(), change);
                let changed = changed.map(|bindings| (license, Arc::new(bindings)));
                self.bindings.extend(changed);
            }
        }
    }

    /// The bindings of a license as they are before this request, without those in `under_way`.
    pub(crate) fn stored(&self, license: &LicenseId) -> BoundSites<'m> {
        match self.bindings.get(license) {
            Some(bindings) => BoundSites(Some(BindingsRef::Changed(Arc::clone(bindings)))),
            None => self.memory.of(license),
        }
    }

    /// The bindings of a license as they are before this request. Applies those in `under_way` for the rest of this commit.
    pub(crate) fn stored_with(&mut self, license: LicenseId) -> BoundSites<'m> {
        for binding in self.under_way.remove(&license).unwrap_or_default() {
            self.apply_to_sites(license, LedgerEvent::Bound(LedgerEntry { license, binding }));
        }
        self.stored(&license)
    }

    /// The claims of a license's sites as they are before this request.
    pub(crate) fn claims_of(&self, license: &LicenseId) -> Vec<SiteClaim> {
        let ahead = self.events.claims.of(license);
        let is_ahead = |claim: &SiteClaim| ahead.iter().any(|newer| newer.host == claim.host);
        let memory = self.memory.events();
        let known = memory.claims.of(license).iter().filter(|claim| !is_ahead(claim));
        known.chain(ahead).cloned().collect()
    }

    /// The current version of a request's license, which may have changed, or been adopted, while the request waited.
    pub(crate) fn current<'r>(&self, license: &'r License) -> Cow<'r, License> {
        match self.licenses.of(&license.id) {
            Some(current) => Cow::Owned(current.license.clone()),
            None => Cow::Borrowed(license),
        }
    }

    /// The events to append.
    pub(crate) fn appended(&self) -> &[LedgerEvent] {
        &self.appended
    }

    /// Puts in force what is durable by now.
    pub(crate) fn put_in_force(self) {
        self.memory.add(self.learned.into_iter().chain(self.appended));
    }
}

/// The licenses of one group commit, before memory has them.
pub(crate) struct LicenseBatch<'m> {
    memory: &'m IssuedLicenses,
    /// Those of lines that were learned or decided.
    ahead: HashMap<LicenseId, Arc<IssuedLicense>>,
    by_key: HashMap<Hex128, LicenseId>,
}

impl<'m> LicenseBatch<'m> {
    fn new(memory: &'m IssuedLicenses) -> Self {
        Self {
            memory,
            ahead: HashMap::new(),
            by_key: HashMap::new(),
        }
    }

    /// Takes the license of a line.
    fn take(&mut self, license: Arc<IssuedLicense>) {
        self.by_key.insert(license.origin.key, license.license.id);
        self.ahead.insert(license.license.id, license);
    }

    /// Takes a license that no line has yet, for a change that is based on it.
    pub(crate) fn assume(&mut self, license: Arc<IssuedLicense>) {
        self.ahead.insert(license.license.id, license);
    }

    /// Whether there is still no line of a license that was assumed.
    pub(crate) fn is_assumed(&self, id: &LicenseId) -> bool {
        self.ahead.get(id).is_some_and(|license| license.revision == 0)
    }

    /// Forgets the license if there is still no line of it.
    pub(crate) fn forget_assumed(&mut self, id: &LicenseId) {
        if self.is_assumed(id) {
            self.ahead.remove(id);
        }
    }

    /// The license as it is now.
    pub(crate) fn of(&self, id: &LicenseId) -> Option<Arc<IssuedLicense>> {
        let in_memory = || self.memory.of(id).map(|held| held.to_shared());
        self.ahead.get(id).cloned().or_else(in_memory)
    }

    /// The license that was issued with this key of an origin, as it is now.
    pub(crate) fn of_key(&self, key: Hex128) -> Option<Arc<IssuedLicense>> {
        match self.by_key.get(&key) {
            Some(id) => self.of(id),
            None => self.of(&self.memory.of_key(key)?.license.id),
        }
    }
}
