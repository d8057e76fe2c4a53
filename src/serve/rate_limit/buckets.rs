//! Lock-free token buckets (GCRA), 8 bytes each, all created at the start.
//!
//! The cost of a request is known only afterwards, so a bucket can be charged later and go into debt. Rate limit
//! libraries cannot do that: they refuse what a bucket does not have, and take nothing.

use std::alloc::{Layout, handle_alloc_error};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zerocopy::FromZeros as _;

use crate::serve::coarse_clock;
use crate::serve::metrics::Counter;

/// The usual time in which an empty bucket fills.
pub const MINUTE: Duration = Duration::from_secs(60);

/// There is no token now; there will be one after this many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter(pub u64);

/// Buckets of the same size, by index.
#[derive(Debug)]
pub struct Buckets {
    /// When each bucket is full again, in nanoseconds of [`coarse_clock`]; a past time means that it is full.
    full_at: Box<[AtomicU64]>,
    /// The time for one token, in nanoseconds.
    interval: u64,
    /// The time to fill an empty bucket, in nanoseconds.
    whole: u64,
    refused: Counter,
}

impl Buckets {
    /// Creates `count` full buckets of `size` tokens that fill in `period`; refusals increment `refused`.
    pub fn new(size: NonZeroU64, period: Duration, count: usize, refused: Counter) -> Self {
        // Rounded down, which allows at most one in 13 more than configured, at four billion a minute.
        let interval = period.as_nanos() as u64 / size;
        let whole = interval * size.get();
        Self {
            // The kernel gives memory for those that are used.
            full_at: <[AtomicU64]>::new_box_zeroed_with_elems(count)
                .unwrap_or_else(|_| handle_alloc_error(Layout::new::<AtomicU64>())),
            interval,
            whole,
            refused,
        }
    }

    /// Takes `wanted` tokens from a bucket, or takes none and says in how many seconds there will be enough.
    pub fn take(&self, place: usize, wanted: u32) -> Result<(), RetryAfter> {
        self.take_at(place, wanted, now())
    }

    fn take_at(&self, place: usize, wanted: u32, now: u64) -> Result<(), RetryAfter> {
        let full_at = &self.full_at[place];
        let after = |before: u64| before.max(now) + self.interval * u64::from(wanted);
        let latest = now + self.whole;
        let taken = full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            Some(after(before)).filter(|after| *after <= latest)
        });
        taken.map(drop).map_err(|_| {
            self.refused.inc();
            self.wait_at(place, wanted, now)
        })
    }

    /// In how many seconds a bucket will have `wanted` tokens; at least 1.
    pub fn wait(&self, place: usize, wanted: u32) -> RetryAfter {
        self.wait_at(place, wanted, now())
    }

    fn wait_at(&self, place: usize, wanted: u32, now: u64) -> RetryAfter {
        let full_at = self.full_at[place].load(Ordering::Relaxed).max(now);
        let after = full_at + self.interval * u64::from(wanted);
        let wait = Duration::from_nanos(after.saturating_sub(now + self.whole));
        RetryAfter(wait.as_secs_f64().ceil().max(1.0) as u64)
    }

    /// Takes `more` tokens from a bucket, even if it does not have them. Its debt is at most its size.
    pub fn charge(&self, place: usize, more: u32) {
        self.charge_at(place, more, now());
    }

    fn charge_at(&self, place: usize, more: u32, now: u64) {
        let full_at = &self.full_at[place];
        let charge = self.interval.saturating_mul(more.into());
        let most = now + 2 * self.whole;
        let charged = |before: u64| Some(before.max(now).saturating_add(charge).min(most.max(before)));
        // It cannot fail, because there is always a new time.
        let _ = full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
    }

    /// Puts back a token that was taken.
    pub fn give_back(&self, place: usize) {
        let refund = |before: u64| Some(before.saturating_sub(self.interval));
        let _ = self.full_at[place].fetch_update(Ordering::Relaxed, Ordering::Relaxed, refund);
    }
}

fn now() -> u64 {
    coarse_clock::now().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE_NS: u64 = 60 * SECOND;

    fn buckets(per_minute: u32) -> Buckets {
        Buckets::new(
            NonZeroU64::new(per_minute.into()).unwrap(),
            MINUTE,
            2,
            Counter::default(),
        )
    }

    #[test]
    fn a_bucket_holds_a_minutes_worth_and_fills_in_a_minute() {
        for per_minute in [1, 2, 60, 6_000] {
            let buckets = buckets(per_minute);
            let at_once = (0..10_000)
                .take_while(|_| buckets.take_at(0, 1, SECOND).is_ok())
                .count();
            assert_eq!(at_once, per_minute as usize);
            let later = (0..10_000)
                .take_while(|_| buckets.take_at(0, 1, SECOND + MINUTE_NS).is_ok())
                .count();
            assert_eq!(later, per_minute as usize);
            assert_eq!(buckets.take_at(1, 1, SECOND), Ok(()), "another one is not affected");
        }
    }

    #[test]
    fn what_is_charged_afterwards_is_owed_and_never_more_than_the_bucket_holds() {
        let buckets = buckets(60);
        assert_eq!(buckets.take_at(0, 1, SECOND), Ok(()));
        buckets.charge_at(0, 60, SECOND);
        assert_eq!(
            buckets.take_at(0, 1, SECOND),
            Err(RetryAfter(2)),
            "one is owed, and one is wanted"
        );
        assert_eq!(buckets.take_at(0, 1, 3 * SECOND), Ok(()));
        for _ in 0..100 {
            buckets.charge_at(0, u32::MAX, 3 * SECOND);
        }
        assert_eq!(buckets.take_at(0, 1, 3 * SECOND), Err(RetryAfter(61)));
        assert_eq!(buckets.take_at(0, 1, 3 * SECOND + MINUTE_NS + SECOND), Ok(()));
        assert_eq!(buckets.refused.get(), 2);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let buckets = buckets(2);
        for _ in 0..10 {
            assert_eq!(buckets.take_at(0, 1, MINUTE_NS), Ok(()));
            buckets.give_back(0);
        }
        assert_eq!(buckets.take_at(0, 2, MINUTE_NS), Ok(()));
        assert!(buckets.take_at(0, 1, MINUTE_NS).is_err());
    }

    #[test]
    fn the_largest_setting_is_a_limit_like_any() {
        let buckets = buckets(u32::MAX);
        assert!((0..1_000_000).all(|_| buckets.take_at(0, 1, SECOND).is_ok()));
        buckets.charge_at(0, u32::MAX, SECOND);
        assert!(buckets.take_at(0, 1, SECOND).is_err());
    }

    #[test]
    fn several_are_taken_together_or_not_at_all_and_an_hour_fills_as_a_minute_does() {
        let size = NonZeroU64::new(60).unwrap();
        let buckets = Buckets::new(size, 60 * MINUTE, 1, Counter::default());
        assert_eq!(buckets.take_at(0, 50, SECOND), Ok(()));
        assert_eq!(buckets.take_at(0, 11, SECOND), Err(RetryAfter(60)));
        assert_eq!(buckets.take_at(0, 10, SECOND), Ok(()));
        assert_eq!(buckets.take_at(0, 60, SECOND), Err(RetryAfter(3_600)));
        assert_eq!(buckets.take_at(0, 2, SECOND + 2 * MINUTE_NS), Ok(()));
    }

    proptest::proptest! {
        /// A bucket as it is usually explained: tokens that drip in, and a debt.
        #[test]
        fn it_is_a_bucket_into_which_tokens_drip(steps in proptest::collection::vec((0_u64..5_000, 0_u32..3, 0_u32..200), 1..200)) {
            // 600 a minute: a tenth of a second each.
            let buckets = buckets(600);
            let mut now = SECOND; let mut tokens = 600.0_f64;
            for (milliseconds, kind, more) in steps {
                now += milliseconds * 1_000_000;
                tokens = (tokens + milliseconds as f64 / 100.0).min(600.0);
                if kind == 0 {
                    buckets.charge_at(0, more, now);
                    tokens = (tokens - f64::from(more)).max(-600.0);
                } else if (tokens - 1.0).abs() > 1e-6 {
                    let taken = buckets.take_at(0, 1, now).is_ok();
                    proptest::prop_assert_eq!(taken, tokens > 1.0);
                    tokens -= f64::from(u8::from(taken));
                } else if buckets.take_at(0, 1, now).is_ok() {
                    tokens -= 1.0;
                }
            }
        }
    }
}
