//! Rate limits: how often one address, one license and one guesser may ask, with a token bucket (GCRA) each.
//!
//! A bucket that is full again is as good as none, so memory is bounded by what asks within a bucket's filling time.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use arc_swap::ArcSwap;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::label::labels;
use super::problem::Problem;
use crate::model::license_key::LicenseId;

/// Questions between two looks for buckets that are full again, at least; where many are held, as many as are held, so that
/// looking stays cheap.
const SWEEP_EVERY: u64 = 8_192;

/// Buckets held after a look, at most. Beyond it, that many addresses all ask more often than their buckets fill: all are
/// forgotten, because a server without memory serves nobody.
const MAX_BUCKETS: usize = 1 << 19;

/// The buckets of everyone who asks.
#[derive(Debug)]
pub struct Limits {
    addresses: Arc<Buckets<IpAddr>>,
    /// By eight bytes of the id: it is a digest, so two licenses do not share them by accident.
    licenses: Arc<Buckets<u64>>,
    failures: Arc<Buckets<IpAddr>>,
}

impl Limits {
    /// How often each may ask in a minute: at once, and in the long run.
    pub fn new(address: NonZeroU32, license: NonZeroU32, failures: NonZeroU32) -> Self {
        Self { addresses: Buckets::new(address), licenses: Buckets::new(license), failures: Buckets::new(failures) }
    }

    /// Whether `address` may ask about `license` now; it is counted.
    pub fn check(&self, address: IpAddr, license: &LicenseId) -> Result<(), Problem> {
        self.addresses.take(&network(address))?;
        let [a, b, c, d, e, f, g, h, ..] = *license.as_bytes();
        self.licenses.take(&u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Whether `address` may be told that it guessed wrong; it is counted.
    pub fn check_failure(&self, address: IpAddr) -> Result<(), Problem> {
        self.failures.take(&network(address))
    }

    /// How many were told to come back.
    pub fn refused(&self, limit: Limit) -> u64 {
        let refused = match limit {
            Limit::Address => &self.addresses.refused,
            Limit::License => &self.licenses.refused,
            Limit::Failures => &self.failures.refused,
        };
        refused.load(Ordering::Relaxed)
    }

    /// How many buckets are held.
    pub fn buckets(&self, limit: Limit) -> usize {
        match limit {
            Limit::Address => self.addresses.len(),
            Limit::License => self.licenses.len(),
            Limit::Failures => self.failures.len(),
        }
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

/// One bucket for each of what is counted.
#[derive(Debug)]
struct Buckets<K: Hash + Eq + Clone> {
    per_minute: NonZeroU32,
    limiter: ArcSwap<DefaultKeyedRateLimiter<K>>,
    until_sweep: AtomicU64,
    refused: AtomicU64,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Buckets<K> {
    fn new(per_minute: NonZeroU32) -> Arc<Self> {
        Arc::new(Self {
            per_minute,
            limiter: ArcSwap::from_pointee(RateLimiter::dashmap(Quota::per_minute(per_minute))),
            until_sweep: AtomicU64::new(SWEEP_EVERY),
            refused: AtomicU64::new(0),
        })
    }

    /// Takes one from the bucket of `key`, or says in how many seconds there will be one.
    fn take(self: &Arc<Self>, key: &K) -> Result<(), Problem> {
        // Below 0 it goes on from the largest number: until the look is over, no other one begins.
        if self.until_sweep.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.start_sweep();
        }
        self.limiter.load().check_key(key).map_err(|not_until| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            Problem::TooManyRequests(wait.as_secs_f64().ceil().max(1.0) as u64)
        })
    }

    /// Sweeps in a thread of its own: no request waits while a million buckets are looked at.
    fn start_sweep(self: &Arc<Self>) {
        let buckets = Arc::clone(self);
        if let Err(error) = thread::Builder::new().name("sweep".to_owned()).spawn(move || buckets.sweep()) {
            tracing::warn!(%error, "rate limits cannot be swept now");
            self.until_sweep.store(SWEEP_EVERY, Ordering::Relaxed);
        }
    }

    /// Forgets the buckets that are full again.
    fn sweep(&self) {
        let limiter = self.limiter.load_full();
        limiter.retain_recent();
        if limiter.len() > MAX_BUCKETS {
            tracing::warn!(buckets = limiter.len(), "too many ask too often: all rate limits start anew");
            self.limiter.store(Arc::new(RateLimiter::dashmap(Quota::per_minute(self.per_minute))));
            // Requests hold it for some nanoseconds more; it is dropped here and not by one of them.
            while Arc::strong_count(&limiter) > 1 {
                thread::yield_now();
            }
        } else {
            limiter.shrink_to_fit();
        }
        self.until_sweep.store(SWEEP_EVERY.max(self.len() as u64), Ordering::Relaxed);
    }

    fn len(&self) -> usize {
        self.limiter.load().len()
    }
}

/// Whom an address stands for: an IPv6 customer has a whole /64 (RFC 6177).
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(address: u32, license: u32) -> Limits {
        let per_minute = |number| NonZeroU32::new(number).unwrap();
        Limits::new(per_minute(address), per_minute(license), per_minute(1))
    }

    fn id(number: u32) -> LicenseId {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        LicenseId::from_bytes(bytes)
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn an_address_that_asks_too_often_is_told_when_to_come_back() {
        let limits = limits(2, 100);
        assert_eq!(limits.check(address(1), &id(1)), Ok(()));
        assert_eq!(limits.check(address(1), &id(2)), Ok(()));
        assert_eq!(limits.check(address(1), &id(3)), Err(Problem::TooManyRequests(30)));
        assert_eq!(limits.check(address(2), &id(1)), Ok(()), "another address is not affected");
    }

    #[test]
    fn a_license_that_is_asked_about_from_everywhere_is_limited_too() {
        let limits = limits(100, 2);
        assert!((1..3).all(|from| limits.check(address(from), &id(1)).is_ok()));
        assert_eq!(limits.check(address(3), &id(1)), Err(Problem::TooManyRequests(30)));
        assert_eq!(limits.check(address(3), &id(2)), Ok(()), "another license is not affected");
    }

    #[test]
    fn a_guesser_is_told_so_once_and_then_only_to_come_back() {
        let limits = limits(100, 100);
        assert_eq!(limits.check_failure(address(1)), Ok(()));
        assert_eq!(limits.check_failure(address(1)), Err(Problem::TooManyRequests(60)));
    }

    #[test]
    fn a_whole_ipv6_customer_shares_a_bucket_and_a_mapped_address_is_ipv4() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }

    /// Waits until no look is under way, so that what is held does not depend on how threads take turns.
    fn finish_sweep<K: Hash + Eq + Clone>(buckets: &Buckets<K>) {
        while buckets.until_sweep.load(Ordering::Relaxed) > u64::MAX / 2
            || buckets.until_sweep.load(Ordering::Relaxed) == 0
        {
            thread::yield_now();
        }
    }

    #[test]
    fn a_million_addresses_leave_few_buckets_behind() {
        // A bucket of 60,000 a minute is full again after a millisecond.
        let buckets = Buckets::new(NonZeroU32::new(60_000).unwrap());
        for number in 0..1_000_000 {
            assert_eq!(buckets.take(&address(number)), Ok(()));
            finish_sweep(&buckets);
        }
        assert!(buckets.len() < 100_000, "{} buckets", buckets.len());
    }

    #[test]
    fn buckets_that_fill_slowly_are_bounded_too_and_a_bound_that_is_met_lets_everybody_ask() {
        // Full again after a minute: none of these can be forgotten in time.
        let buckets = Buckets::new(NonZeroU32::MIN);
        let mut most = 0;
        for number in 0..2_000_000 {
            assert_eq!(buckets.take(&address(number)), Ok(()));
            finish_sweep(&buckets);
            if number % 10_000 == 0 {
                most = most.max(buckets.len());
            }
        }
        assert!((MAX_BUCKETS..=2 * MAX_BUCKETS + 1).contains(&most), "{most} buckets");
    }
}
