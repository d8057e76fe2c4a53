//! The licenses that a ledger had when it was read, in one table, and what finds some of them without a look at all.
//!
//! [`issued_licenses`](mod@crate::issued_licenses) keeps this table in memory, and the changes since then beside it.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense, IssuedPlace};
use countersign_model::license::Modules;
use countersign_model::license_key::LicenseId;
use countersign_model::license_table::LicenseTable;

/// A million licenses take 192 MB, and each order of them 4 MB.
const _: () = assert!(size_of::<IssuedLicense>() <= 192);

/// The licenses that a ledger had when it was read.
#[derive(Debug, Default)]
pub(crate) struct IssuedTable {
    /// Sorted by id.
    pub held: LicenseTable<IssuedLicense>,
    /// The numbers of the licenses, sorted by the keys of their origins.
    pub by_key: Vec<u32>,
    /// For each kind of name, the numbers of the licenses that have one, sorted by it. The first call sorts, not the start.
    by_name: [OnceLock<Vec<u32>>; 3],
    newest_first: OnceLock<Vec<u32>>,
}

/// What several licenses may have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SharedName {
    Customer,
    /// As lines name the order.
    Order,
    /// The sale, by the id that it had at the license's last change.
    Sale,
}

impl SharedName {
    pub(crate) const ALL: [Self; 3] = [Self::Customer, Self::Order, Self::Sale];

    pub(crate) fn of(self, issued: &IssuedLicense) -> Option<Hex128> {
        match self {
            Self::Customer => issued.license.details.remarks().holder,
            Self::Order => issued.reference,
            Self::Sale => issued.license.details.remarks().sold.as_deref().map(|sold| sold.sale),
        }
    }
}

/// The numbers of what has a key, sorted by it.
fn sorted<'t, K: Ord>(
    licenses: impl Iterator<Item = &'t IssuedLicense>,
    key: impl Fn(&'t IssuedLicense) -> Option<K>,
) -> Vec<u32> {
    let keys = (0..)
        .zip(licenses)
        .filter_map(|(number, issued)| Some((key(issued)?, number)));
    let mut keys: Vec<(K, u32)> = keys.collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, number)| number).collect()
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
        // The keys alone are sorted, so that each license moves once.
        self.licenses.sort_by_cached_key(|issued| issued.license.id);
        self.licenses.dedup_by_key(|issued| issued.license.id);
        self.licenses.shrink_to_fit();
        let by_key = sorted(self.licenses.iter(), |issued| Some(issued.origin.key));
        IssuedTable {
            held: LicenseTable::new(self.licenses),
            by_key,
            ..IssuedTable::default()
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
    /// The ids of the licenses with one of these names.
    pub(crate) fn named<'t>(&'t self, kind: SharedName, names: &'t [Hex128]) -> impl Iterator<Item = LicenseId> + 't {
        let order = self.by_name[kind as usize].get_or_init(|| sorted(self.held.iter(), |issued| kind.of(issued)));
        let name_of = move |number: &u32| kind.of(self.held.get(*number as usize));
        names.iter().flat_map(move |name| {
            let start = order.partition_point(|number| name_of(number) < Some(*name));
            let same = order[start..]
                .iter()
                .take_while(move |number| name_of(number) == Some(*name));
            same.map(|number| self.held.get(*number as usize).license.id)
        })
    }

    /// The places behind this one, the newest first.
    pub(crate) fn newest(&self, after: Option<IssuedPlace>) -> impl Iterator<Item = IssuedPlace> {
        let place = |number: &u32| self.held.get(*number as usize).place();
        let order = self
            .newest_first
            .get_or_init(|| sorted(self.held.iter(), |issued| Some(Reverse(issued.place()))));
        let start = after.map_or(0, |after| order.partition_point(|number| place(number) >= after));
        order[start..].iter().map(place)
    }
}
