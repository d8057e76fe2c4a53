//! Permits to receive the bodies of deliveries: some for each address, so that one client does not take those of the shops.
//!
//! Small bodies have permits of their own: nearly all deliveries are small, and a stranger who shares a shop's address, such as
//! behind a proxy, can send more slowly than a few permits allow.

use std::hash::{BuildHasher as _, RandomState};
use std::iter::repeat_with;
use std::net::IpAddr;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::serve::net::client_ip::Networks;

/// The largest small body in bytes. A sale with some lines has less than 10 KiB.
const SMALL: u64 = 32 << 10;

/// Small bodies that are received at once: 64 MiB of all senders together; and those of one address.
const SMALL_AT_ONCE: usize = 2_048;
const SMALL_OF_ADDRESS: usize = 256;

/// The same of larger ones, and of those whose length is not announced: another 64 MiB.
const LARGE_AT_ONCE: usize = 64;
const LARGE_OF_ADDRESS: usize = 8;

/// Semaphores for all networks of one width. With a few attackers, a shop seldom shares one with them.
const SEMAPHORES: usize = 1_024;

/// The permits of all addresses.
#[derive(Debug)]
pub(crate) struct BodyPermits {
    hasher: RandomState,
    small: Pool,
    large: Pool,
}

#[derive(Debug)]
struct Pool {
    /// By width, in the order of [`Networks`]. A keyed hash maps networks to semaphores, so memory is constant.
    networks: [Vec<Semaphore>; Networks::WIDTHS],
    all: Semaphore,
}

impl Pool {
    fn new(of_address: usize, at_once: usize) -> Self {
        let of_width = |times: u32| {
            let semaphore = || Semaphore::new(of_address.saturating_mul(times as usize));
            repeat_with(semaphore).take(SEMAPHORES).collect()
        };
        Self {
            networks: Networks::ALLOWANCES.map(of_width),
            all: Semaphore::new(at_once),
        }
    }
}

impl BodyPermits {
    /// All permits.
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            small: Pool::new(SMALL_OF_ADDRESS, SMALL_AT_ONCE),
            large: Pool::new(LARGE_OF_ADDRESS, LARGE_AT_ONCE),
        }
    }

    /// Waits for the permits to receive one body of this address. `announced` is its greatest length in bytes, where the head
    /// says it. Always `Some`: no semaphore is closed.
    pub(crate) async fn acquire(&self, address: IpAddr, announced: Option<u64>) -> Option<Vec<SemaphorePermit<'_>>> {
        let pool = match announced {
            Some(length) if length <= SMALL => &self.small,
            _ => &self.large,
        };
        let mut permits = Vec::new();
        for (width, network) in Networks::of(address).all() {
            let place = self.hasher.hash_one(network) as usize % SEMAPHORES;
            permits.push(pool.networks[width][place].acquire().await.ok()?);
        }
        // Last, so that nobody who waits holds a permit that other addresses need.
        permits.push(pool.all.acquire().await.ok()?);
        Some(permits)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn an_address_gets_a_few_and_leaves_some_to_others() {
        let permits = BodyPermits::new();
        let take = |address: &str| {
            let address = address.parse().unwrap();
            permits.acquire(address, None).now_or_never().flatten()
        };
        let held: Vec<_> = (0..20).filter_map(|_| take("192.0.2.1")).collect();
        assert_eq!(held.len(), LARGE_OF_ADDRESS);
        let take_small = || {
            permits
                .acquire("192.0.2.1".parse().unwrap(), Some(SMALL))
                .now_or_never()
                .flatten()
        };
        let small: Vec<_> = (0..300).map_while(|_| take_small()).collect();
        assert_eq!(small.len(), SMALL_OF_ADDRESS, "however many large ones there are");
        // Another address may share the semaphore of the first, but not all of ten do.
        assert!((1..=10).any(|number| take(&format!("198.51.100.{number}")).is_some()));
        let of_48: Vec<_> = (0..1_000)
            .filter_map(|n| take(&format!("2001:db8:1:{n:x}::1")))
            .collect();
        assert_eq!(of_48.len(), LARGE_OF_ADDRESS * 4);
        drop(held);
        assert!(take("192.0.2.1").is_some());
    }
}
