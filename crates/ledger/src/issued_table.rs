//! The licenses that a ledger had when it was read, in one table.
//!
//! [`issued_licenses`](mod@crate::issued_licenses) keeps this table in memory, and the changes since then beside it.

use std::collections::HashSet;
use std::sync::Arc;

use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license::Modules;
use countersign_model::license_table::LicenseTable;

/// A million licenses take 192 MB, and their keys and orders 8 MB.
const _: () = assert!(size_of::<IssuedLicense>() <= 192);

/// The licenses that a ledger had when it was read.
#[derive(Debug, Default)]
pub(crate) struct IssuedTable {
    /// Sorted by id.
    pub held: LicenseTable<IssuedLicense>,
    /// The numbers of the licenses, sorted by the keys of their origins.
    pub by_key: Vec<u32>,
    /// The numbers of those with an order, sorted by it.
    pub by_order: Vec<u32>,
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
        let mut by_order: Vec<u32> = (0..self.licenses.len() as u32).collect();
        by_order.retain(|number| self.licenses[*number as usize].reference.is_some());
        by_order.shrink_to_fit();
        by_order.sort_unstable_by_key(|number| self.licenses[*number as usize].reference);
        IssuedTable {
            held: LicenseTable::new(self.licenses),
            by_key,
            by_order,
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

    /// The licenses, sorted by id.
    pub(crate) fn into_licenses(self) -> Vec<IssuedLicense> {
        self.held.into_values()
    }

    pub(crate) fn of_key(&self, key: Hex128) -> Option<usize> {
        let key_of = |number: &u32| self.held.get(*number as usize).origin.key;
        let at = self.by_key.binary_search_by_key(&key, key_of).ok()?;
        Some(self.by_key[at] as usize)
    }
}
