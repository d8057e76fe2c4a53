//! A table of values by license id.
//!
//! The values are in one array, sorted by id. A look-up reads two places in memory, however many values there are.

use std::cmp::Ordering;

use crate::license_key::LicenseId;
use crate::prefix_index::PrefixIndex;

/// A value that belongs to a license.
pub trait OfLicense {
    /// The id of its license.
    fn license_id(&self) -> &LicenseId;
}

/// Values by the ids of their licenses.
#[derive(Debug)]
pub struct LicenseTable<T> {
    /// Sorted by id.
    held: Vec<T>,
    index: PrefixIndex,
}

impl<T> Default for LicenseTable<T> {
    fn default() -> Self {
        Self {
            held: Vec::new(),
            index: PrefixIndex::default(),
        }
    }
}

impl<T: OfLicense> LicenseTable<T> {
    /// Makes a table of values sorted by id, without duplicates and fewer than 2^32.
    pub fn new(held: Vec<T>) -> Self {
        let index = PrefixIndex::new(held.iter().map(T::license_id));
        Self { held, index }
    }

    /// The number of a license's value: its rank among all ids.
    pub fn find(&self, license: &LicenseId) -> Option<usize> {
        let start = self.index.of(license);
        for (number, thing) in self.held.iter().enumerate().skip(start) {
            match thing.license_id().cmp(license) {
                Ordering::Less => {}
                Ordering::Equal => return Some(number),
                Ordering::Greater => return None,
            }
        }
        None
    }

    /// The value of a license.
    pub fn of(&self, license: &LicenseId) -> Option<&T> {
        self.find(license).map(|number| &self.held[number])
    }

    /// What belongs to the license whose id begins so.
    pub fn beginning_with(&self, beginning: &[u8]) -> Option<&T> {
        let first = LicenseId::first_with(beginning);
        let behind = self.held.iter().skip(self.index.of(&first));
        let found = behind.into_iter().find(|thing| *thing.license_id() >= first);
        found.filter(|thing| thing.license_id().as_bytes().starts_with(beginning))
    }

    /// The value with this number, from [`Self::find`].
    pub fn get(&self, number: usize) -> &T {
        &self.held[number]
    }

    /// The number of the first value of a license after this id; [`Self::len`] if there is none.
    pub fn number_after(&self, license: &LicenseId) -> usize {
        self.held.partition_point(|held| held.license_id() <= license)
    }

    /// All values, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.held.iter()
    }

    /// The values, sorted by id.
    pub fn into_values(self) -> Vec<T> {
        self.held
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl OfLicense for LicenseId {
        fn license_id(&self) -> &LicenseId {
            self
        }
    }

    proptest::proptest! {
        #[test]
        fn each_is_found_by_its_id_and_nothing_else_is(
            ids in proptest::collection::btree_set(proptest::array::uniform32(0..3_u8), 0..40),
            others in proptest::collection::vec(proptest::array::uniform32(0..3_u8), 20),
            spread in 0..2_u8,
        ) {
            // Either ids that are close together, or ids that are spread like digests.
            let id = |mut bytes: [u8; 32]| {
                bytes[0] = bytes[0].wrapping_mul(1 + 84 * spread);
                LicenseId::from_bytes(bytes)
            };
            let mut held: Vec<_> = ids.iter().copied().map(id).collect();
            held.sort_unstable();
            let table = LicenseTable::new(held.clone());
            for (number, license) in held.iter().enumerate() {
                proptest::prop_assert_eq!(table.find(license), Some(number));
                proptest::prop_assert_eq!((table.of(license), table.get(number)), (Some(license), license));
                let beginning: [u8; 16] = std::array::from_fn(|at| license.as_bytes()[at]);
                let first = held.iter().find(|id| id.as_bytes().starts_with(&beginning));
                proptest::prop_assert_eq!(table.beginning_with(&beginning), first);
            }
            for other in others.into_iter().map(id) {
                proptest::prop_assert_eq!(table.of(&other).is_some(), held.contains(&other));
                let beginning: [u8; 16] = std::array::from_fn(|at| other.as_bytes()[at]);
                let first = held.iter().find(|id| id.as_bytes().starts_with(&beginning));
                proptest::prop_assert_eq!(table.beginning_with(&beginning), first);
            }
            proptest::prop_assert!(table.iter().eq(&held) && table.len() == held.len());
        }
    }

    #[test]
    fn ids_that_are_no_digests_are_found_too() {
        let id = |first: u8, last: u16| {
            let mut bytes = [0; 32];
            (bytes[0], bytes[30], bytes[31]) = (first, (last >> 8) as u8, last as u8);
            LicenseId::from_bytes(bytes)
        };
        // All but two with the same prefix, one of them on the same cache line.
        let held: Vec<_> = (0..1_000)
            .map(|last| id(0, last))
            .chain([id(7, 0), id(255, 0)])
            .collect();
        let table = LicenseTable::new(held.clone());
        assert!(
            held.iter()
                .enumerate()
                .all(|(number, license)| table.find(license) == Some(number))
        );
        assert!(
            [id(0, 1_000), id(1, 0), id(7, 1), id(8, 0), id(255, 1)]
                .iter()
                .all(|id| table.find(id).is_none())
        );
    }
}
