//! Rate limits: how often one address, one license and one guesser may ask, with a token bucket (GCRA) each.
//!
//! An address's bucket that is full again is as good as none, so memory is bounded by what asks within a bucket's filling
//! time. A license's has a place of its own: there are as many as licenses, and one is found without a search.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{io, thread};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed, StateStore};
use governor::{NotUntil, Quota, RateLimiter};
use rustix::time::{ClockId, clock_gettime};

use super::label::labels;
use super::problem::Problem;

/// Between two looks for buckets that are full again.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Buckets held after a look, at most. Beyond it, that many addresses all ask more often than their buckets fill: all are
/// forgotten, because a server without memory serves nobody.
const MAX_BUCKETS: usize = 1 << 19;

/// The buckets of everyone who asks.
#[derive(Debug)]
pub struct Limits {
    addresses: Arc<AddressBuckets>,
    failures: Arc<AddressBuckets>,
    licenses: ArcSwap<LicenseBuckets>,
    per_license: Quota,
    licenses_refused: AtomicU64,
}

impl Limits {
    /// How often each may ask in a minute: at once, and in the long run. Nobody knows a license before there are any.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub fn start(address: NonZeroU32, license: NonZeroU32, failures: NonZeroU32) -> io::Result<Self> {
        let per_license = Quota::per_minute(license);
        let limits = Self {
            addresses: Arc::new(AddressBuckets::new(address)),
            failures: Arc::new(AddressBuckets::new(failures)),
            licenses: ArcSwap::from_pointee(license_buckets(per_license, 0)),
            per_license,
            licenses_refused: AtomicU64::new(0),
        };
        let buckets = [&limits.addresses, &limits.failures].map(Arc::downgrade);
        thread::Builder::new().name("sweep".to_owned()).spawn(move || sweep(&buckets))?;
        Ok(limits)
    }

    /// Other licenses are in force, so many: their buckets start anew, because their numbers are others.
    pub fn count_licenses(&self, licenses: usize) {
        self.licenses.store(Arc::new(license_buckets(self.per_license, licenses)));
    }

    /// Whether `address` may ask now; it is counted.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Problem> {
        self.addresses.take(address)
    }

    /// Whether somebody may ask about the license of this number now; it is counted.
    pub fn check_license(&self, number: usize) -> Result<(), Problem> {
        self.licenses.load().check_key(&number).map_err(|not_until| {
            self.licenses_refused.fetch_add(1, Ordering::Relaxed);
            come_back(&not_until)
        })
    }

    /// Whether `address` may be told that it guessed wrong; it is counted.
    pub fn check_failure(&self, address: IpAddr) -> Result<(), Problem> {
        self.failures.take(address)
    }

    /// How many were told to come back.
    pub fn refused(&self, limit: Limit) -> u64 {
        let refused = match limit {
            Limit::Address => &self.addresses.refused,
            Limit::License => &self.licenses_refused,
            Limit::Failures => &self.failures.refused,
        };
        refused.load(Ordering::Relaxed)
    }

    /// How many addresses' buckets are held.
    pub fn buckets(&self) -> [(Limit, usize); 2] {
        [(Limit::Address, self.addresses.len()), (Limit::Failures, self.failures.len())]
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

/// A bucket for each license, by its number.
type LicenseBuckets = RateLimiter<usize, Row, Ticks, NoOpMiddleware<Duration>>;

fn license_buckets(quota: Quota, licenses: usize) -> LicenseBuckets {
    let row = (0..licenses).map(|_| InMemoryState::default()).collect();
    RateLimiter::new(quota, Row(row), Ticks)
}

/// Buckets side by side.
#[derive(Debug)]
struct Row(Box<[InMemoryState]>);

impl StateStore for Row {
    type Key = usize;

    fn measure_and_replace<T, F, E>(&self, number: &usize, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        match self.0.get(*number) {
            Some(bucket) => bucket.measure_and_replace(&NotKeyed::NonKey, decide),
            // Asked with a number of before or after a reload: the first question is free.
            None => decide(None).map(|(taken, _)| taken),
        }
    }
}

/// The system's clock as of its last tick, some milliseconds ago: it is cheaper to ask than the exact one, and a bucket fills
/// in seconds.
#[derive(Clone, Copy, Debug)]
struct Ticks;

impl Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
    }
}

fn come_back(not_until: &NotUntil<Duration>) -> Problem {
    Problem::TooManyRequests(not_until.wait_time_from(Ticks.now()).as_secs_f64().ceil().max(1.0) as u64)
}

/// A bucket for each address that asked lately.
#[derive(Debug)]
struct AddressBuckets {
    per_minute: Quota,
    limiter: ArcSwap<AddressLimiter>,
    refused: AtomicU64,
}

type AddressLimiter = RateLimiter<IpAddr, DashMapStateStore<IpAddr, RandomState>, Ticks, NoOpMiddleware<Duration>>;

fn address_limiter(quota: Quota) -> AddressLimiter {
    RateLimiter::dashmap_with_clock_and_hasher(quota, Ticks, RandomState::default())
}

impl AddressBuckets {
    fn new(per_minute: NonZeroU32) -> Self {
        let per_minute = Quota::per_minute(per_minute);
        Self { per_minute, limiter: ArcSwap::from_pointee(address_limiter(per_minute)), refused: AtomicU64::new(0) }
    }

    /// Takes one from the bucket of `address`, or says in how many seconds there will be one.
    fn take(&self, address: IpAddr) -> Result<(), Problem> {
        self.limiter.load().check_key(&network(address)).map_err(|not_until| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            come_back(&not_until)
        })
    }

    /// Forgets the buckets that are full again.
    fn sweep(&self) {
        let limiter = self.limiter.load_full();
        limiter.retain_recent();
        if limiter.len() > MAX_BUCKETS {
            tracing::warn!(buckets = limiter.len(), "too many ask too often: all rate limits start anew");
            self.limiter.store(Arc::new(address_limiter(self.per_minute)));
            // Requests hold it for some nanoseconds more; it is dropped here and not by one of them.
            while Arc::strong_count(&limiter) > 1 {
                thread::yield_now();
            }
        } else {
            limiter.shrink_to_fit();
        }
    }

    fn len(&self) -> usize {
        self.limiter.load().len()
    }
}

/// Sweeps, as long as there are buckets, in a thread of its own: no request waits while a million are looked at.
fn sweep(buckets: &[Weak<AddressBuckets>]) {
    loop {
        thread::sleep(SWEEP_EVERY);
        for buckets in buckets {
            match buckets.upgrade() {
                Some(buckets) => buckets.sweep(),
                None => return,
            }
        }
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
        let limits = Limits::start(per_minute(address), per_minute(license), per_minute(1)).unwrap();
        limits.count_licenses(2);
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
        assert!((0..2).all(|_| limits.check_license(1).is_ok()));
        assert_eq!(limits.check_license(1), Err(Problem::TooManyRequests(30)));
        assert_eq!(limits.check_license(0), Ok(()), "another license is not affected");
        assert_eq!(limits.check_license(2), Ok(()), "a number from before a reload");
        limits.count_licenses(2);
        assert_eq!(limits.check_license(1), Ok(()));
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
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }

    fn buckets(per_minute: u32) -> AddressBuckets {
        AddressBuckets::new(NonZeroU32::new(per_minute).unwrap())
    }

    #[test]
    fn a_million_addresses_leave_few_buckets_behind() {
        // A bucket of 60,000 a minute is full again after a millisecond.
        let buckets = buckets(60_000);
        for number in 0..1_000_000 {
            assert_eq!(buckets.take(address(number)), Ok(()));
            if number % 50_000 == 0 {
                buckets.sweep();
            }
        }
        thread::sleep(Duration::from_millis(20));
        buckets.sweep();
        assert_eq!(buckets.len(), 0);
    }

    #[test]
    fn buckets_that_fill_slowly_are_bounded_too_and_a_bound_that_is_met_lets_everybody_ask() {
        // Full again after a minute: none of these can be forgotten in time.
        let buckets = buckets(1);
        let mut most = 0;
        for number in 0..2_000_000 {
            assert_eq!(buckets.take(address(number)), Ok(()));
            if number % 50_000 == 0 {
                buckets.sweep();
                most = most.max(buckets.len());
            }
        }
        assert!((MAX_BUCKETS - 50_000..=MAX_BUCKETS).contains(&most), "{most} buckets");
    }

    #[test]
    fn buckets_are_swept_without_anybody_asking_and_the_sweeper_goes_with_them() {
        let limits = limits(60_000, 1);
        assert_eq!(limits.check_address(address(1)), Ok(()));
        let buckets = Arc::downgrade(&limits.addresses);
        let swept = || buckets.upgrade().is_none_or(|buckets| buckets.len() == 0);
        let deadline = std::time::Instant::now() + 10 * SWEEP_EVERY;
        while !swept() && std::time::Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(swept());
        drop(limits);
        while buckets.strong_count() > 0 && std::time::Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(buckets.strong_count(), 0);
    }
}
