//! Rate limits: how often one address, one license and one guesser may ask.
//!
//! A license has a bucket of its own, found by its number. Addresses find theirs by a keyed hash and may share it, so that any
//! number of them takes the same memory.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use governor::Quota;

use super::buckets::Buckets;
use super::label::{Label, labels};
use super::problem::Problem;

/// Buckets that all addresses share, by a hash that nobody outside knows. Who keeps buckets empty must keep asking: 80,000
/// requests a second, more than two cores answer, from as many addresses, keep 800 buckets empty at 6,000 a minute. One
/// address in 300 then shares one of those.
const ADDRESS_BUCKETS: usize = 1 << 18;

/// The buckets of everyone who asks.
#[derive(Debug)]
pub struct Limits {
    addresses: AddressBuckets,
    failures: AddressBuckets,
    licenses: ArcSwap<Buckets>,
    per_license: Quota,
    refused: [Arc<AtomicU64>; Limit::ALL.len()],
}

impl Limits {
    /// How often each may ask in a minute: at once, and in the long run. Nobody knows a license before there are any.
    pub fn new(address: NonZeroU32, license: NonZeroU32, failures: NonZeroU32) -> Self {
        let refused: [Arc<AtomicU64>; Limit::ALL.len()] = Default::default();
        let refused_by = |limit: Limit| Arc::clone(&refused[limit.place()]);
        let per_license = Quota::per_minute(license);
        Self {
            addresses: AddressBuckets::new(Quota::per_minute(address), refused_by(Limit::Address)),
            failures: AddressBuckets::new(Quota::per_minute(failures), refused_by(Limit::Failures)),
            licenses: ArcSwap::from_pointee(Buckets::new(per_license, 0, refused_by(Limit::License))),
            per_license,
            refused,
        }
    }

    /// Full buckets for so many licenses.
    pub fn new_buckets(&self, licenses: usize) -> Buckets {
        Buckets::new(self.per_license, licenses, Arc::clone(&self.refused[Limit::License.place()]))
    }

    /// Licenses have other numbers now, and new buckets.
    pub fn renumber(&self, buckets: Buckets) {
        self.licenses.store(Arc::new(buckets));
    }

    /// Whether `address` may ask now; it is counted.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Problem> {
        self.addresses.take(address)
    }

    /// The buckets of licenses, by their numbers. For a moment while a reload renumbers them, one may have another's, or none.
    pub fn licenses(&self) -> Guard<Arc<Buckets>> {
        self.licenses.load()
    }

    /// Whether `address` may be told that it guessed wrong; it is counted.
    pub fn check_failure(&self, address: IpAddr) -> Result<(), Problem> {
        self.failures.take(address)
    }

    /// How many were told to come back.
    pub fn refused(&self, limit: Limit) -> u64 {
        self.refused[limit.place()].load(Ordering::Relaxed)
    }
}

labels! {
    /// What is limited.
    Limit {
        /// Requests of one address.
        Address = "address",
        /// Questions about one license.
        License = "license",
        /// Wrong keys of one address.
        Failures = "failures",
    }
}

/// The buckets of addresses.
#[derive(Debug)]
struct AddressBuckets {
    buckets: Buckets,
    // SECURITY: SipHash with a random key, so that nobody finds an address that shares its bucket with another's.
    places: RandomState,
}

impl AddressBuckets {
    fn new(quota: Quota, refused: Arc<AtomicU64>) -> Self {
        Self { buckets: Buckets::new(quota, ADDRESS_BUCKETS, refused), places: RandomState::default() }
    }

    /// Takes one from the bucket of `address`, or says in how many seconds there will be one.
    fn take(&self, address: IpAddr) -> Result<(), Problem> {
        self.buckets.take(self.place(address))
    }

    fn place(&self, address: IpAddr) -> usize {
        self.places.hash_one(Network::of(address)) as usize % ADDRESS_BUCKETS
    }
}

/// Whom an address stands for: an IPv6 customer has a whole /64 (RFC 6177). IPv4 addresses have the numbers of networks in
/// `::/32`, where nobody is but loopback (IANA reserves `::/8`): one number is hashed faster than an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(u64);

impl Network {
    /// The network of an address; one that maps IPv4 is that one.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_bits().into()),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(address: u32, license: u32) -> Limits {
        let per_minute = |number| NonZeroU32::new(number).unwrap();
        let limits = Limits::new(per_minute(address), per_minute(license), per_minute(1));
        limits.renumber(limits.new_buckets(2));
        limits
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn an_address_that_asks_too_often_is_told_when_to_come_back() {
        let limits = limits(2, 100);
        assert_eq!(limits.check_address(address(1)), Ok(()));
        assert_eq!(limits.check_address(address(1)), Ok(()));
        assert_eq!(limits.check_address(address(1)), Err(Problem::TooManyRequests(30)));
        assert_eq!(limits.check_address(address(2)), Ok(()), "another address is not affected");
        assert_eq!(limits.refused(Limit::Address), 1);
    }

    #[test]
    fn a_license_that_is_asked_about_too_often_is_limited_until_licenses_change() {
        let limits = limits(100, 2);
        assert!((0..2).all(|_| limits.licenses().take(1).is_ok()));
        assert_eq!(limits.licenses().take(1), Err(Problem::TooManyRequests(30)));
        assert_eq!(limits.licenses().take(0), Ok(()), "another license is not affected");
        assert_eq!(limits.licenses().take(2), Ok(()), "a number from before a reload");
        limits.renumber(limits.new_buckets(2));
        assert_eq!(limits.licenses().take(1), Ok(()));
        assert_eq!(limits.refused(Limit::License), 1);
    }

    #[test]
    fn a_guesser_is_told_so_once_and_then_only_to_come_back() {
        let limits = limits(100, 100);
        assert_eq!(limits.check_failure(address(1)), Ok(()));
        assert_eq!(limits.check_failure(address(1)), Err(Problem::TooManyRequests(60)));
    }

    #[test]
    fn a_whole_ipv6_customer_shares_a_bucket_and_a_mapped_address_is_ipv4() {
        let network = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }

    #[test]
    fn three_million_addresses_are_each_limited_in_the_memory_of_none() {
        let limits = limits(1, 1);
        let refused = (0..3_000_000).filter(|&number| limits.check_address(address(number)).is_err()).count();
        // One from each bucket, as this takes less than the minute in which one fills again.
        assert!(refused >= 3_000_000 - ADDRESS_BUCKETS, "{refused}");
        assert!((0..100).all(|number| limits.check_address(address(number)).is_err()), "nobody was forgotten");
    }

    #[test]
    fn addresses_are_spread_over_all_buckets_and_differently_in_each_server() {
        let places =
            |limits: &Limits| (0..1_000).map(|number| limits.addresses.place(address(number))).collect::<Vec<_>>();
        let (one, other) = (places(&limits(1, 1)), places(&limits(1, 1)));
        let distinct = one.iter().collect::<std::collections::HashSet<_>>().len();
        assert!(distinct > 950, "{distinct} places for 1,000 addresses");
        assert_ne!(one, other);
    }
}
