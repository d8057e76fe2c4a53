//! The networks that an address counts for: an IPv4 address for itself, an IPv6 address for three networks.

use std::net::IpAddr;

/// The networks of an address, narrowest first, each as a number. Only numbers of the same width are compared.
///
/// An IPv6 customer has at least a /64, mostly a /56 and sometimes a /48 (RFC 6177), and can use every address in it.
/// A /56 may have twice what a /64 may have, and a /48 four times as much: some hosters divide a /48 into /64s for
/// many customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// An IPv4 address is stored in `::/32`, where only loopback is (IANA reserves `::/8`).
    narrow: u64,
    is_ipv6: bool,
}

impl Networks {
    /// The number of widths.
    pub const WIDTHS: usize = 3;

    /// The allowance of each width as a multiple of one address's: /64 (or IPv4), /56, /48.
    pub const ALLOWANCES: [u32; Self::WIDTHS] = [1, 2, 4];

    /// The networks of an address. An IPv4-mapped address counts as IPv4.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self {
                narrow: address.to_bits().into(),
                is_ipv6: false,
            },
            IpAddr::V6(address) => Self {
                narrow: (address.to_bits() >> 64) as u64,
                is_ipv6: true,
            },
        }
    }

    /// Each network with the index of its width in [`Self::ALLOWANCES`].
    pub fn all(self) -> impl Iterator<Item = (usize, u64)> {
        let shifts = [0, 8, 16].into_iter().take(if self.is_ipv6 { Self::WIDTHS } else { 1 });
        shifts
            .enumerate()
            .map(move |(width, shift)| (width, self.narrow >> shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(text: &str) -> Vec<(usize, u64)> {
        Networks::of(text.parse().unwrap()).all().collect()
    }

    #[test]
    fn an_ipv6_address_is_of_three_networks_and_a_mapped_one_is_ipv4() {
        assert_eq!(networks("2001:db8:0:1::1"), networks("2001:db8:0:1:ffff::2"));
        let common = |one: &str, other: &str| {
            networks(one)
                .into_iter()
                .zip(networks(other))
                .map(|(one, other)| one == other)
                .collect::<Vec<_>>()
        };
        assert_eq!(common("2001:db8:0:1::1", "2001:db8:0:2::1"), [false, true, true]);
        assert_eq!(common("2001:db8:0:1::1", "2001:db8:0:ff01::1"), [false, false, true]);
        assert_eq!(common("2001:db8:0:1::1", "2001:db8:1:1::1"), [false, false, false]);
        assert_eq!(networks("::ffff:192.0.2.1"), networks("192.0.2.1"));
        assert_eq!(networks("192.0.2.1").len(), 1);
    }
}
