//! Seats: how many connections each address holds, so that none holds them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::limits::Network;

/// The addresses that hold connections, and how many each.
#[derive(Debug)]
pub struct Seats {
    taken: Mutex<HashMap<Network, usize>>,
    limit: usize,
}

/// A place among the connections of an address; free again when it is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    network: Network,
}

impl Seats {
    /// Seats for at most `limit` connections an address.
    pub fn new(limit: usize) -> Self {
        Self { taken: Mutex::default(), limit }
    }

    /// One more connection of `address`; `None` where it has all it may have.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let network = Network::of(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(network).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Seat { seats: Arc::clone(self), network })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_seats_and_no_more_until_one_is_free() {
        let seats = Arc::new(Seats::new(2));
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let held = [seats.take(address("2001:db8::1")), seats.take(address("2001:db8::2"))];
        assert!(held.iter().all(Option::is_some));
        assert!(seats.take(address("2001:db8::3")).is_none(), "the same /64");
        assert!(seats.take(address("192.0.2.1")).is_some());
        drop(held);
        assert!(seats.take(address("2001:db8::3")).is_some());
        assert!(seats.taken.lock().unwrap().is_empty(), "who holds nothing is forgotten");
    }
}
