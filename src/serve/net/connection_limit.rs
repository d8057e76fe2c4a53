//! Limits the connections of each address.
//!
//! IPv6 is counted three times: by /64, /56 and /48, with the limits of [`Networks`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::serve::net::client_ip::Networks;

/// The networks with connections, and their number.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    /// By width, in the order of [`Networks`].
    taken: Mutex<[HashMap<u64, usize>; Networks::WIDTHS]>,
    limit: usize,
}

/// A permit for one connection of an address; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    connection_limit: Arc<ConnectionLimit>,
    networks: Networks,
}

impl ConnectionLimit {
    /// Allows `limit` connections for each address.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            taken: Mutex::default(),
            limit,
        }
    }

    /// A permit for another connection of `address`; `None` if it, or one of its networks, has reached its limit.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let networks = Networks::of(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |(width, network): (usize, u64)| {
            let held = taken[width].get(&network).copied().unwrap_or(0);
            held >= self.limit.saturating_mul(Networks::ALLOWANCES[width] as usize)
        };
        if networks.all().any(is_full) {
            return None;
        }
        for (width, network) in networks.all() {
            *taken[width].entry(network).or_default() += 1;
        }
        Some(ConnectionPermit {
            connection_limit: Arc::clone(self),
            networks,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self
            .connection_limit
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (width, network) in self.networks.all() {
            if let Entry::Occupied(mut held) = taken[width].entry(network) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_seats_and_no_more_until_one_is_free() {
        let connection_limit = Arc::new(ConnectionLimit::new(2));
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let held = [
            connection_limit.take(address("2001:db8::1")),
            connection_limit.take(address("2001:db8::2")),
        ];
        assert!(held.iter().all(Option::is_some));
        assert!(connection_limit.take(address("2001:db8::3")).is_none(), "the same /64");
        assert!(connection_limit.take(address("192.0.2.1")).is_some());
        drop(held);
        assert!(connection_limit.take(address("2001:db8::3")).is_some());
        assert!(
            connection_limit.taken.lock().unwrap().iter().all(HashMap::is_empty),
            "who holds nothing is forgotten"
        );
    }

    #[test]
    fn a_customer_with_many_ipv6_networks_gets_no_more_than_a_few_times_what_one_gets() {
        let taken = |address: fn(u128) -> u128| {
            let connection_limit = Arc::new(ConnectionLimit::new(16));
            let held: Vec<_> = (0..10_000)
                .filter_map(|n| connection_limit.take(IpAddr::V6(address(n).into())))
                .collect();
            held.len()
        };
        const SITE: u128 = 0x2001_0db8_0001 << 80;
        assert_eq!(taken(|n| SITE | n), 16, "one /64");
        assert_eq!(taken(|n| SITE | (n % 256) << 64), 32, "all of a /56");
        assert_eq!(taken(|n| SITE | (n % 65_536) << 64), 64, "all of a /48");
        assert_eq!(taken(|n| SITE + (n << 80)), 10_000, "others");
    }
}
