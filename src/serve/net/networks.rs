//! Whom an address stands for: an IPv4 address for itself, an IPv6 address for three networks it belongs to.

use std::net::IpAddr;

/// The networks an address is counted by, narrowest first. Each is a number; numbers of one width do not meet those of
/// another, because they are never compared.
///
/// An IPv6 customer has a /64 at least, mostly a /56 and sometimes a /48 (RFC 6177), and can use every address in it. What
/// one /64 may have, a /56 may have twice and a /48 four times: some hosters give a /64 of one /48 to each of many customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// An IPv4 address stands in `::/32`, where nobody is but loopback (IANA reserves `::/8`).
    narrow: u64,
    is_ipv6: bool,
}

impl Networks {
    /// How many widths there are.
    pub const WIDTHS: usize = 3;

    /// How many times the allowance of one address a network of each width has: /64 (or IPv4), /56, /48.
    pub const ALLOWANCES: [u32; Self::WIDTHS] = [1, 2, 4];

    /// The networks of an address; one that maps IPv4 is that one.
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

    /// Each with the place of its width in [`Self::ALLOWANCES`].
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
