//! Rate limits: how often one address may ask, with a token bucket (GCRA) each.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::problem::Problem;

/// Buckets kept before those that are full again are thrown away.
const SWEEP_ABOVE: usize = 100_000;

/// One bucket an address.
#[derive(Debug)]
pub struct Limits {
    by_address: DefaultKeyedRateLimiter<IpAddr>,
}

impl Limits {
    /// Lets each address ask `per_minute` times in a burst and as often a minute in the long run.
    pub fn new(per_minute: NonZeroU32) -> Self {
        Self { by_address: RateLimiter::dashmap(Quota::per_minute(per_minute)) }
    }

    /// Takes one from the bucket of `address`, or says when there will be one.
    pub fn check(&self, address: IpAddr) -> Result<(), Problem> {
        self.by_address.check_key(&bucket(address)).map_err(|not_until| {
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            Problem::TooManyRequests(wait.as_secs_f64().ceil().max(1.0) as u64)
        })
    }

    /// Forgets the addresses whose buckets are full again; called now and then, so that memory stays bounded.
    pub fn sweep(&self) {
        if self.by_address.len() > SWEEP_ABOVE {
            self.by_address.retain_recent();
            self.by_address.shrink_to_fit();
        }
    }
}

/// How often [`Limits::sweep`] is worth calling.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// An IPv6 customer has a whole /64 (RFC 6177), so its addresses share a bucket.
fn bucket(address: IpAddr) -> IpAddr {
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

    #[test]
    fn an_address_that_asks_too_often_is_told_when_to_come_back() {
        let limits = Limits::new(NonZeroU32::new(2).unwrap());
        let address = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(limits.check(address), Ok(()));
        assert_eq!(limits.check(address), Ok(()));
        assert_eq!(limits.check(address), Err(Problem::TooManyRequests(30)));
        assert_eq!(limits.check(IpAddr::from([192, 0, 2, 2])), Ok(()), "another address is not affected");
    }

    #[test]
    fn a_whole_ipv6_customer_shares_a_bucket_and_a_mapped_address_is_ipv4() {
        let address = |text: &str| bucket(text.parse().unwrap());
        assert_eq!(address("2001:db8:0:1::1"), address("2001:db8:0:1:ffff::2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }
}
