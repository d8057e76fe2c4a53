//! For a sorted list of ids: where the ids with each prefix begin, one byte for each prefix.
//!
//! Every request reads it at an unpredictable place, so what it reads is on one cache line.

use crate::license_key::LicenseId;

/// The index.
#[derive(Debug, Default)]
pub(super) struct PrefixIndex {
    lines: Vec<CacheLine>,
    /// Bits of a prefix. Chosen so that there is about one id for each prefix.
    bits: u32,
}

/// Prefixes on a cache line.
const LINE: usize = 60;

/// Consecutive prefixes.
#[derive(Debug)]
#[repr(align(64))]
struct CacheLine {
    /// The rank of the first id.
    base: u32,
    /// The rank of each prefix, relative to `first`. Ids are digests, so it seldom reaches 100; for others 255 may be
    /// too small.
    distances: [u8; LINE],
}

const _: () = assert!(size_of::<CacheLine>() == 64);

impl PrefixIndex {
    /// Makes the index of sorted ids, fewer than 2^32.
    pub(super) fn new<'a>(ids: impl ExactSizeIterator<Item = &'a LicenseId>) -> Self {
        let count = ids.len();
        let bits = count.checked_ilog2().map_or(0, |bits| bits + 1);
        let mut index = Self {
            lines: Vec::with_capacity((1_usize << bits).div_ceil(LINE)),
            bits,
        };
        let mut next = 0;
        for (rank, id) in ids.enumerate() {
            index.fill(&mut next, first_bits(id, bits), rank);
        }
        index.fill(&mut next, (1 << bits) - 1, count);
        index
    }

    /// Sets the rank of the prefixes from `next` to `last`.
    fn fill(&mut self, next: &mut usize, last: usize, rank: usize) {
        while *next <= last {
            if next.is_multiple_of(LINE) {
                self.lines.push(CacheLine {
                    base: rank as u32,
                    distances: [0; LINE],
                });
            }
            let line = &mut self.lines[*next / LINE];
            line.distances[*next % LINE] = u8::try_from(rank - line.base as usize).unwrap_or(u8::MAX);
            *next += 1;
        }
    }

    /// The rank of the first id with this id's prefix, or of one shortly before it.
    pub(super) fn of(&self, id: &LicenseId) -> usize {
        let place = first_bits(id, self.bits);
        self.lines
            .get(place / LINE)
            .map_or(0, |line| line.base as usize + usize::from(line.distances[place % LINE]))
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

    fn id(number: u64) -> LicenseId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        LicenseId::from_bytes(bytes)
    }

    #[test]
    fn of_ids_as_digests_are_a_beginning_is_where_the_first_one_stands() {
        // Spread as evenly as digests, but not in steps: multiples of the golden ratio.
        let mut numbers: Vec<_> = (1..=10_000_u64)
            .map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .collect();
        numbers.sort_unstable();
        let ids: Vec<_> = numbers.iter().copied().map(id).collect();
        let index = PrefixIndex::new(ids.iter());
        for (rank, number) in numbers.iter().enumerate() {
            let first = numbers.partition_point(|other| other >> 50 < number >> 50);
            assert_eq!((index.of(&ids[rank]), index.bits), (first, 14));
        }
    }

    #[test]
    fn of_ids_that_are_close_together_a_beginning_is_never_too_late() {
        let ids: Vec<_> = (0..1_000).map(id).chain([id(u64::MAX)]).collect();
        let index = PrefixIndex::new(ids.iter());
        assert!(ids.iter().enumerate().all(|(rank, id)| index.of(id) <= rank));
        assert_eq!(index.of(&id(u64::MAX / 2)), 1_000, "behind all that begin with less");
    }
}
