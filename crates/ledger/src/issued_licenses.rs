//! The licenses of the ledger in memory: those of the start in one table, and those that changed since.
//!
//! Only the thread of `commit_writer` changes them, after their lines are durable. The gate asks after the registry.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, Deref};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use countersign_model::issued_license::{Hex128, IssuedLicense, IssuedPlace};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;

use crate::issued_table::{IssuedTable, SharedName};

/// Licenses that are read under one lock. The committing thread waits for no more.
const PAGE: usize = 1_000;

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
    /// A copy that does not need the table.
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
    changed: BTreeMap<LicenseId, Arc<IssuedLicense>>,
    /// The licenses that were issued since the start, by the keys of their origins.
    by_key: HashMap<Hex128, LicenseId>,
    /// The names that a license had at some time since the start.
    by_name: BTreeSet<(SharedName, Hex128, LicenseId)>,
}

impl IssuedState {
    fn new(settled: IssuedTable) -> Self {
        Self {
            settled: Arc::new(settled),
            ..Self::default()
        }
    }

    fn of(&self, id: &LicenseId) -> Option<LedgerLicense> {
        if let Some(license) = self.changed.get(id) {
            return Some(LedgerLicense(Held::Changed(Arc::clone(license))));
        }
        let number = self.settled.held.find(id)?;
        Some(LedgerLicense(Held::Settled(Arc::clone(&self.settled), number)))
    }
}

/// A license of a page.
enum PagePlace {
    /// The number in the table of the start.
    Settled(usize),
    Changed(Arc<IssuedLicense>),
}

/// Licenses in the order of their ids, as they were at one moment.
struct IssuedPage {
    settled: Arc<IssuedTable>,
    places: Vec<PagePlace>,
}

impl PagePlace {
    fn license<'p>(&'p self, settled: &'p IssuedTable) -> &'p IssuedLicense {
        match self {
            Self::Settled(number) => settled.held.get(*number),
            Self::Changed(license) => license,
        }
    }

    fn held(self, settled: &Arc<IssuedTable>) -> Held {
        match self {
            Self::Settled(number) => Held::Settled(Arc::clone(settled), number),
            Self::Changed(license) => Held::Changed(license),
        }
    }
}

impl IssuedState {
    /// The next [`PAGE`] licenses after this id, or all if there are fewer.
    fn page(&self, after: Option<&LicenseId>) -> IssuedPage {
        let table = &self.settled.held;
        let mut number = after.map_or(0, |after| table.number_after(after));
        let first = after.map_or(Bound::Unbounded, |after| Bound::Excluded(*after));
        let mut changed = self.changed.range((first, Bound::Unbounded)).peekable();
        let mut places = Vec::new();
        while places.len() < PAGE {
            let settled = (number < table.len()).then(|| table.get(number).license.id);
            let next = changed.peek().map(|(id, _)| **id);
            let Some(id) = settled.into_iter().chain(next).min() else {
                break;
            };
            // A change counts in the place of what the table has.
            number += usize::from(settled == Some(id));
            places.push(match changed.next_if(|(changed, _)| **changed == id) {
                Some((_, license)) => PagePlace::Changed(Arc::clone(license)),
                None => PagePlace::Settled(number - 1),
            });
        }
        IssuedPage {
            settled: Arc::clone(&self.settled),
            places,
        }
    }
}

impl IssuedLicenses {
    pub(crate) fn new(settled: IssuedTable) -> Self {
        Self(RwLock::new(IssuedState::new(settled)))
    }

    fn state(&self) -> RwLockReadGuard<'_, IssuedState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The license with this id.
    pub(crate) fn of(&self, id: &LicenseId) -> Option<LedgerLicense> {
        self.state().of(id)
    }

    /// The license whose id begins so.
    pub(crate) fn beginning_with(&self, beginning: &[u8]) -> Option<LedgerLicense> {
        let state = self.state();
        let settled = state.settled.held.beginning_with(beginning).map(|held| held.license.id);
        let mut changed = state.changed.range(LicenseId::first_with(beginning)..);
        let is_meant = |id: &LicenseId| id.as_bytes().starts_with(beginning);
        let changed = changed.next().map(|(id, _)| *id).filter(is_meant);
        let id = settled.or(changed)?;
        state.of(&id)
    }

    /// The license that was issued with this key of an origin, as it is now.
    pub(crate) fn of_key(&self, key: Hex128) -> Option<LedgerLicense> {
        let state = self.state();
        let settled = || Some(state.settled.held.get(state.settled.of_key(key)?).license.id);
        let id = state.by_key.get(&key).copied().or_else(settled)?;
        state.of(&id)
    }

    /// The ids of the licenses with one of these names, sorted. The first call after a start sorts, which may take a second.
    pub(crate) fn named(&self, kind: SharedName, names: &[Hex128]) -> Vec<LicenseId> {
        // Nobody waits while it is sorted.
        let settled = Arc::clone(&self.state().settled);
        let mut ids: BTreeSet<LicenseId> = settled.named(kind, names).collect();
        let state = self.state();
        ids.retain(|id| !state.changed.contains_key(id));
        for name in names {
            let first = (kind, *name, LicenseId::from_bytes([0; 32]));
            let last = (kind, *name, LicenseId::from_bytes([0xff; 32]));
            let had = state.by_name.range(first..=last).map(|(.., id)| id);
            let has = had.filter(|id| {
                state
                    .changed
                    .get(id)
                    .is_some_and(|issued| kind.of(issued) == Some(*name))
            });
            ids.extend(has);
        }
        ids.into_iter().collect()
    }

    /// The places of at most `most` licenses behind this one, the newest first.
    pub(crate) fn newest(&self, after: Option<IssuedPlace>, most: usize) -> Vec<IssuedPlace> {
        let settled = Arc::clone(&self.state().settled);
        let mut places: Vec<_> = settled.newest(after).take(most).collect();
        let state = self.state();
        let new = state.changed.values().map(|issued| issued.place());
        let new = new.filter(|place| after.is_none_or(|after| *place < after));
        places.extend(new.filter(|(_, id)| settled.held.find(id).is_none()));
        places.sort_unstable_by(|one, other| other.cmp(one));
        places.truncate(most);
        places
    }

    /// At most `limit` licenses after this id that `keep` accepts, sorted by id.
    pub(crate) fn after(
        &self,
        after: Option<&LicenseId>,
        limit: usize,
        keep: &dyn Fn(&License) -> bool,
    ) -> Vec<LedgerLicense> {
        let mut found = Vec::new();
        self.look_at_pages(after.copied(), |page| {
            for place in page.places {
                if found.len() == limit {
                    return false;
                }
                let license = place.license(&page.settled);
                if keep(&license.license) {
                    found.push(LedgerLicense(place.held(&page.settled)));
                }
            }
            true
        });
        found
    }

    /// Passes on every license, sorted by id.
    pub(crate) fn each(&self, mut each: impl FnMut(&IssuedLicense)) {
        self.look_at_pages(None, |page| {
            page.places.iter().for_each(|place| each(place.license(&page.settled)));
            true
        });
    }

    /// Passes on the licenses after this id in pages, while `look` wants more. Nobody waits for `look`: the lock is held only
    /// while a page is put together.
    fn look_at_pages(&self, mut after: Option<LicenseId>, mut look: impl FnMut(IssuedPage) -> bool) {
        loop {
            let page = self.state().page(after.as_ref());
            let is_last = page.places.len() < PAGE;
            after = page.places.last().map(|place| place.license(&page.settled).license.id);
            if !look(page) || is_last {
                return;
            }
        }
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
        let mut state = self.change();
        for license in licenses {
            state.by_key.insert(license.origin.key, license.license.id);
            for kind in SharedName::ALL {
                let name = kind.of(&license);
                state.by_name.extend(name.map(|name| (kind, name, license.license.id)));
            }
            state.changed.insert(license.license.id, license);
        }
    }

    /// Replaces all licenses.
    pub(crate) fn replace(&self, settled: IssuedTable) {
        *self.change() = IssuedState::new(settled);
    }

    fn change(&self) -> RwLockWriteGuard<'_, IssuedState> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::issued_table::IssuedBuilder;
    use crate::testing::issued;

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
    fn an_order_names_all_its_licenses_wherever_they_are_held() {
        let of_order = |number, order| IssuedLicense {
            reference: Some(Hex128([order; 16])),
            ..issued(number)
        };
        let held = IssuedLicenses::new(read([of_order(1, 7), issued(2), of_order(3, 8)]));
        held.add([Arc::new(of_order(4, 7)), Arc::new(of_order(1, 7))]);
        let found = |orders: &[u8]| {
            let orders: Vec<_> = orders.iter().map(|order| Hex128([*order; 16])).collect();
            held.named(SharedName::Order, &orders)
                .iter()
                .map(|id| id.as_bytes()[0])
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (found(&[7]), found(&[8, 7]), found(&[9])),
            (vec![1, 4], vec![1, 3, 4], vec![])
        );
    }

    #[test]
    fn a_license_is_of_the_customer_that_it_has_now() {
        let of_customer = |number, customer: u8| {
            let mut issued = issued(number);
            let mut remarks = issued.license.details.remarks().clone();
            remarks.holder = Some(Hex128([customer; 16]));
            issued.license.set_remarks(remarks);
            issued
        };
        let held = IssuedLicenses::new(read([of_customer(1, 7), of_customer(2, 7), issued(3)]));
        let found = |customer: u8| {
            let ids = held.named(SharedName::Customer, &[Hex128([customer; 16])]);
            ids.iter().map(|id| id.as_bytes()[0]).collect::<Vec<_>>()
        };
        assert_eq!((found(7), found(8)), (vec![1, 2], vec![]));
        held.add([2, 4].map(|number| Arc::new(of_customer(number, 8))));
        assert_eq!((found(7), found(8)), (vec![1], vec![2, 4]));
        held.add([Arc::new(of_customer(2, 7)), Arc::new(issued(1))]);
        assert_eq!((found(7), found(8)), (vec![2], vec![4]));
    }

    #[test]
    fn the_newest_are_listed_in_parts_and_a_change_makes_no_license_newer() {
        let at = |number: u8, second: i64| {
            let mut issued = issued(number);
            issued.origin.issued = DateTime::from_timestamp(second, 0).unwrap();
            issued
        };
        let held = IssuedLicenses::new(read([at(1, 10), at(2, 30), at(3, 20), at(4, 20)]));
        held.add([Arc::new(at(3, 20)), Arc::new(at(5, 25))]);
        let mut listed = Vec::new();
        loop {
            let part = held.newest(listed.last().copied(), 2);
            if part.is_empty() {
                break;
            }
            listed.extend(part);
        }
        let ids: Vec<_> = listed.iter().map(|(_, id)| id.as_bytes()[0]).collect();
        assert_eq!(ids, [2, 5, 4, 3, 1]);
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
        let ids = |after: Option<&LicenseId>, limit| {
            let found = held.after(after, limit, &|_| true);
            found.iter().map(|issued| issued.license.id).collect::<Vec<_>>()
        };
        let [first, second] = [issued(1), issued(2)].map(|issued| issued.license.id);
        assert_eq!(ids(None, 9), [first, second]);
        assert_eq!((ids(None, 1), ids(Some(&first), 9)), (vec![first], vec![second]));
        let mut all = Vec::new();
        held.each(|license| all.push((license.license.id, license.revision)));
        assert_eq!(all, [(first, 2), (second, 1)]);
        held.replace(read([issued(3)]));
        assert_eq!((held.len(), held.of(&issued(1).license.id).is_none()), (1, true));
    }

    #[test]
    fn whoever_looks_at_every_license_keeps_nobody_from_adding_one() {
        let held = Arc::new(IssuedLicenses::new(read([issued(1), issued(2)])));
        held.add([Arc::new(issued(3))]);
        let can_add = |number| {
            let adding = Arc::clone(&held);
            let (done, added) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                adding.add([Arc::new(issued(number))]);
                done.send(())
            });
            added.recv_timeout(std::time::Duration::from_secs(60)).is_ok()
        };
        let mut seen = 0;
        held.each(|_| {
            seen += 1;
            assert!(can_add(200));
        });
        assert_eq!(seen, 3);
        let found = held.after(None, usize::MAX, &|_| {
            assert!(can_add(201));
            true
        });
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn pages_have_every_license_once_in_order_wherever_it_is_held() {
        let id = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
            LicenseId::from_bytes(bytes)
        };
        let license = |number: usize, revision| {
            let mut issued = issued(1);
            issued.license.id = id(number);
            IssuedLicense { revision, ..issued }
        };
        let held = IssuedLicenses::new(read((0..3 * PAGE).filter(|n| n % 3 > 0).map(|n| license(n, 1))));
        held.add((0..3 * PAGE).filter(|n| n % 2 == 0).map(|n| Arc::new(license(n, 2))));
        let expected: Vec<_> = (0..3 * PAGE)
            .filter(|n| n % 3 > 0 || n % 2 == 0)
            .map(|n| (id(n), 1 + u32::from(n % 2 == 0)))
            .collect();
        let mut all = Vec::new();
        held.each(|license| all.push((license.license.id, license.revision)));
        assert_eq!(all, expected);
        let some = held.after(Some(&id(500)), 1_500, &|license| license.id != id(502));
        let some: Vec<_> = some.iter().map(|license| license.license.id).collect();
        let wanted = expected
            .iter()
            .map(|(found, _)| *found)
            .filter(|found| *found > id(500) && *found != id(502));
        assert_eq!(some, wanted.take(1_500).collect::<Vec<_>>());
    }
}
