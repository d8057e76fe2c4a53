//! The licenses of the ledger in memory: those of the start in one table, and those that changed since.
//!
//! Only the thread of `commit_writer` changes them, after their lines are durable. The gate asks after the registry.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use crate::model::license::Modules;
use crate::model::license_key::LicenseId;
use crate::model::license_table::LicenseTable;

/// A million licenses take 176 MB, and their keys 4 MB.
const _: () = assert!(size_of::<IssuedLicense>() <= 176);

/// The licenses that a ledger had when it was read.
#[derive(Debug, Default)]
pub(crate) struct IssuedTable {
    held: LicenseTable<IssuedLicense>,
    /// The numbers of the licenses, sorted by the keys of their origins.
    by_key: Vec<u32>,
}

/// Collects licenses while a ledger is read. Those that grant the same share it.
#[derive(Default)]
pub(crate) struct IssuedBuilder {
    /// In ledger order.
    licenses: Vec<IssuedLicense>,
    modules: HashSet<Arc<Modules>>,
    scopes: HashSet<Arc<ChangeScope>>,
}

impl IssuedBuilder {
    pub(crate) fn add(&mut self, license: Arc<IssuedLicense>) {
        let mut license = Arc::unwrap_or_clone(license);
        share(&mut self.modules, &mut license.license.modules);
        share(&mut self.scopes, &mut license.scope);
        share(&mut self.scopes, &mut license.origin.scope);
        self.licenses.push(license);
    }

    /// Keeps the last line of each license.
    pub(crate) fn finish(mut self) -> IssuedTable {
        // Stable: the last line of a license comes first.
        self.licenses.reverse();
        self.licenses.sort_by_key(|issued| issued.license.id);
        self.licenses.dedup_by_key(|issued| issued.license.id);
        self.licenses.shrink_to_fit();
        let mut by_key: Vec<u32> = (0..self.licenses.len() as u32).collect();
        by_key.sort_unstable_by_key(|number| self.licenses[*number as usize].origin.key);
        IssuedTable {
            held: LicenseTable::new(self.licenses),
            by_key,
        }
    }
}

fn share<T: std::hash::Hash + Eq>(shared: &mut HashSet<Arc<T>>, value: &mut Arc<T>) {
    match shared.get(value) {
        Some(first) => *value = Arc::clone(first),
        None => drop(shared.insert(Arc::clone(value))),
    }
}

impl IssuedTable {
    /// The number of licenses.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    fn of_key(&self, key: Hex128) -> Option<usize> {
        let key_of = |number: &u32| self.held.get(*number as usize).origin.key;
        let at = self.by_key.binary_search_by_key(&key, key_of).ok()?;
        Some(self.by_key[at] as usize)
    }
}

/// A license of the ledger. A later change does not alter it.
#[derive(Debug)]
pub struct LedgerLicense(Held);

#[derive(Debug)]
enum Held {
    Settled(Arc<IssuedTable>, usize),
    Changed(Arc<IssuedLicense>),
}

impl Deref for LedgerLicense {
    type Target = IssuedLicense;

    fn deref(&self) -> &IssuedLicense {
        match &self.0 {
            Held::Settled(table, number) => table.held.get(*number),
            Held::Changed(license) => license,
        }
    }
}

impl LedgerLicense {
    /// A copy that stands alone.
    pub(crate) fn to_shared(&self) -> Arc<IssuedLicense> {
        match &self.0 {
            Held::Settled(table, number) => Arc::new(table.held.get(*number).clone()),
            Held::Changed(license) => Arc::clone(license),
        }
    }
}

/// All licenses of the ledger.
#[derive(Default)]
pub(crate) struct IssuedLicenses(RwLock<IssuedState>);

#[derive(Default)]
struct IssuedState {
    settled: Arc<IssuedTable>,
    changed: HashMap<LicenseId, Arc<IssuedLicense>>,
    /// The licenses that were issued since the start, by the keys of their origins.
    by_key: HashMap<Hex128, LicenseId>,
}

impl IssuedState {
    fn of(&self, id: &LicenseId) -> Option<LedgerLicense> {
        if let Some(license) = self.changed.get(id) {
            return Some(LedgerLicense(Held::Changed(Arc::clone(license))));
        }
        let number = self.settled.held.find(id)?;
        Some(LedgerLicense(Held::Settled(Arc::clone(&self.settled), number)))
    }
}

impl IssuedLicenses {
    pub(crate) fn new(settled: IssuedTable) -> Self {
        Self(RwLock::new(IssuedState {
            settled: Arc::new(settled),
            ..IssuedState::default()
        }))
    }

    fn state(&self) -> RwLockReadGuard<'_, IssuedState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The license with this id.
    pub(crate) fn of(&self, id: &LicenseId) -> Option<LedgerLicense> {
        self.state().of(id)
    }

    /// The license whose id begins so.
    pub(crate) fn beginning_with(&self, beginning: &[u8; 16]) -> Option<LedgerLicense> {
        let state = self.state();
        let settled = state.settled.held.beginning_with(beginning).map(|held| held.license.id);
        let is_meant = |id: &&LicenseId| id.as_bytes().starts_with(beginning);
        let id = settled.or_else(|| state.changed.keys().find(is_meant).copied())?;
        state.of(&id)
    }

    /// The license that was issued with this key of an origin, as it is now.
    pub(crate) fn of_key(&self, key: Hex128) -> Option<LedgerLicense> {
        let state = self.state();
        let settled = || Some(state.settled.held.get(state.settled.of_key(key)?).license.id);
        let id = state.by_key.get(&key).copied().or_else(settled)?;
        state.of(&id)
    }

    /// The number of licenses.
    pub(crate) fn len(&self) -> usize {
        let state = self.state();
        let is_new = |id: &&LicenseId| state.settled.held.find(id).is_none();
        state.settled.len() + state.changed.keys().filter(is_new).count()
    }

    /// Puts durable licenses in force.
    pub(crate) fn add(&self, licenses: impl IntoIterator<Item = Arc<IssuedLicense>>) {
        let mut licenses = licenses.into_iter().peekable();
        if licenses.peek().is_none() {
            return;
        }
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for license in licenses {
            state.by_key.insert(license.origin.key, license.license.id);
            state.changed.insert(license.license.id, license);
        }
    }

    /// Replaces all licenses.
    pub(crate) fn replace(&self, settled: IssuedTable) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *state = IssuedState {
            settled: Arc::new(settled),
            ..IssuedState::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::issued;

    fn read(licenses: impl IntoIterator<Item = IssuedLicense>) -> IssuedTable {
        let mut builder = IssuedBuilder::default();
        for license in licenses {
            builder.add(Arc::new(license));
        }
        builder.finish()
    }

    #[test]
    fn the_last_line_of_a_license_counts_and_equal_grants_are_shared() {
        let changed = IssuedLicense {
            revision: 2,
            ..issued(1)
        };
        let held = IssuedLicenses::new(read([issued(1), issued(2), changed]));
        let first = held.of(&issued(1).license.id).unwrap();
        let second = held.of_key(issued(2).origin.key).unwrap();
        assert_eq!((first.revision, held.len()), (2, 2));
        assert_eq!(*second, issued(2));
        assert!(Arc::ptr_eq(&first.license.modules, &second.license.modules));
        assert!(Arc::ptr_eq(&first.scope, &second.origin.scope));
        assert!(held.of(&issued(3).license.id).is_none());
    }

    #[test]
    fn a_change_is_found_by_id_by_its_beginning_and_by_key_and_who_reads_keeps_the_old_one() {
        let held = IssuedLicenses::new(read([issued(1)]));
        let before = held.of(&issued(1).license.id).unwrap();
        let changed = IssuedLicense {
            revision: 2,
            ..issued(1)
        };
        held.add([Arc::new(changed), Arc::new(issued(2))]);
        assert_eq!((before.revision, held.len()), (1, 2));
        for (number, revision) in [(1, 2), (2, 1)] {
            let Hex128(beginning) = issued(number).origin.key;
            assert_eq!(held.of(&issued(number).license.id).unwrap().revision, revision);
            assert_eq!(held.beginning_with(&beginning).unwrap().revision, revision);
            assert_eq!(held.of_key(Hex128(beginning)).unwrap().revision, revision);
        }
        held.replace(read([issued(3)]));
        assert_eq!((held.len(), held.of(&issued(1).license.id).is_none()), (1, true));
    }
}
