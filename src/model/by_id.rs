//! What belongs to licenses, one thing each, found by the license's id.
//!
//! A million are asked about on every request: they lie in one array in the order of their ids, so that a look-up reads two
//! places in memory, and two look-ups side by side wait for memory together.

use prefetch_index::prefetch_index;

use super::license_key::LicenseId;

/// What belongs to one license.
pub trait OfLicense {
    /// Which one.
    fn license_id(&self) -> &LicenseId;
}

/// Things by the ids of their licenses.
#[derive(Debug)]
pub struct ById<T> {
    /// In the order of their ids.
    held: Vec<T>,
    /// Where those begin whose ids begin with 0, 1, 2, … in their first `bits`. Ids are digests, so it is about one each, or none.
    starts: Vec<u32>,
    bits: u32,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self { held: Vec::new(), starts: Vec::new(), bits: 0 }
    }
}

impl<T: OfLicense> ById<T> {
    /// Takes over what is in the order of its ids, each of them once; at most 2^32.
    pub fn new(held: Vec<T>) -> Self {
        let bits = held.len().checked_ilog2().map_or(0, |bits| bits + 1);
        let mut starts = vec![0; (1 << bits) + 1];
        for thing in &held {
            starts[first_bits(thing.license_id(), bits) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { held, starts, bits }
    }

    /// The number of what belongs to the license: its rank among all.
    pub fn find(&self, license: &LicenseId) -> Option<usize> {
        let first = first_bits(license, self.bits);
        let mut stretch = *self.starts.get(first)? as usize..*self.starts.get(first + 1)? as usize;
        stretch.find(|&number| self.held[number].license_id() == license)
    }

    /// Says that the license will be looked up in a moment: what that reads is far away, and comes while something else is
    /// done. Seen under full load: a look-up takes 1 in a hundred of an update's time instead of 4.
    pub fn announce(&self, license: &LicenseId) {
        if let Some(&start) = self.starts.get(first_bits(license, self.bits)) {
            prefetch_index(&self.held, start as usize);
        }
    }

    /// What belongs to the license.
    pub fn of(&self, license: &LicenseId) -> Option<&T> {
        self.find(license).map(|number| &self.held[number])
    }

    /// The thing of that number, as [`Self::find`] gave it.
    pub fn get(&self, number: usize) -> &T {
        &self.held[number]
    }

    /// All, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.held.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// The first `bits` of an id as a number; at most 32.
fn first_bits(id: &LicenseId, bits: u32) -> usize {
    let [a, b, c, d, ..] = *id.as_bytes();
    (u64::from(u32::from_be_bytes([a, b, c, d])) >> (32 - bits)) as usize
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
            // Either ids that are close together, or ones as far apart as digests are.
            let id = |mut bytes: [u8; 32]| {
                bytes[0] = bytes[0].wrapping_mul(1 + 84 * spread);
                LicenseId::from_bytes(bytes)
            };
            let mut held: Vec<_> = ids.iter().copied().map(id).collect();
            held.sort_unstable();
            let table = ById::new(held.clone());
            for (number, license) in held.iter().enumerate() {
                proptest::prop_assert_eq!(table.find(license), Some(number));
                proptest::prop_assert_eq!((table.of(license), table.get(number)), (Some(license), license));
            }
            for other in others.into_iter().map(id) {
                table.announce(&other);
                proptest::prop_assert_eq!(table.of(&other).is_some(), held.contains(&other));
            }
            proptest::prop_assert!(table.iter().eq(&held) && table.len() == held.len());
        }
    }
}
