//! Permits to receive the bodies of deliveries: some for each address, so that one client does not take those of the shops.

use std::hash::{BuildHasher as _, RandomState};
use std::iter::repeat_with;
use std::net::IpAddr;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::serve::net::networks::Networks;

/// Bodies that are received at once: 64 MiB, whoever sends them.
const MOST_AT_ONCE: usize = 64;

/// Bodies of one address that are received at once.
const MOST_OF_ADDRESS: usize = 8;

/// Semaphores for all networks of one width. With a few attackers, a shop seldom shares one with them.
const SEMAPHORES: usize = 1_024;

/// The permits of all addresses.
#[derive(Debug)]
pub(crate) struct BodyPermits {
    hasher: RandomState,
    /// By width, in the order of [`Networks`]. A keyed hash maps networks to semaphores, so memory is constant.
    networks: [Vec<Semaphore>; Networks::WIDTHS],
    all: Semaphore,
}

impl BodyPermits {
    /// All permits.
    pub(super) fn new() -> Self {
        let of_width = |times: u32| {
            let semaphore = || Semaphore::new(MOST_OF_ADDRESS.saturating_mul(times as usize));
            repeat_with(semaphore).take(SEMAPHORES).collect()
        };
        Self {
            hasher: RandomState::new(),
            networks: Networks::ALLOWANCES.map(of_width),
            all: Semaphore::new(MOST_AT_ONCE),
        }
    }

    /// Waits for the permits to receive one body of this address. Always `Some`: no semaphore is closed.
    pub(crate) async fn acquire(&self, address: IpAddr) -> Option<Vec<SemaphorePermit<'_>>> {
        let mut permits = Vec::new();
        for (width, network) in Networks::of(address).all() {
            let place = self.hasher.hash_one(network) as usize % SEMAPHORES;
            permits.push(self.networks[width][place].acquire().await.ok()?);
        }
        // Last, so that nobody who waits holds a permit that other addresses need.
        permits.push(self.all.acquire().await.ok()?);
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
            permits.acquire(address).now_or_never().flatten()
        };
        let held: Vec<_> = (0..20).filter_map(|_| take("192.0.2.1")).collect();
        assert_eq!(held.len(), MOST_OF_ADDRESS);
        // Another address may share the semaphore of the first, but not all of ten do.
        assert!((1..=10).any(|number| take(&format!("198.51.100.{number}")).is_some()));
        let of_48: Vec<_> = (0..1_000)
            .filter_map(|n| take(&format!("2001:db8:1:{n:x}::1")))
            .collect();
        assert_eq!(of_48.len(), MOST_OF_ADDRESS * 4);
        drop(held);
        assert!(take("192.0.2.1").is_some());
    }
}
