//! The client's address, from the connection or from a trusted proxy's `X-Forwarded-For`, and the networks that rate limits count it
//! for.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use warp::http::HeaderMap;

/// The proxies in front of this server.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Their networks; no others are trusted.
    pub networks: Vec<IpNet>,
    /// How many of them a request passes: the client is that many entries from the right.
    pub hops: usize,
}

impl Proxies {
    /// Whether a connection comes from one of them.
    pub fn include(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// The client behind a connection from `peer`.
    // SECURITY: the client can invent every entry to the left of those that our own proxies appended.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.include(peer) {
            return peer;
        }
        let values = headers.get_all("x-forwarded-for").iter();
        // As bytes: an entry that is not text must be counted, too.
        let entries: Vec<&[u8]> = values
            .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
            .collect();
        let entry = entries
            .len()
            .checked_sub(self.hops)
            .and_then(|index| entries.get(index));
        entry
            .and_then(|entry| address(str::from_utf8(entry).ok()?.trim()))
            .unwrap_or(peer)
    }
}

/// Parses an entry: an address, with a port or in brackets. An address with a zone is ignored, because zones are
/// local to the machine that wrote them (RFC 4007 section 6).
fn address(entry: &str) -> Option<IpAddr> {
    if entry.contains('%') {
        return None;
    }
    let bare = entry.trim_start_matches('[').trim_end_matches(']');
    bare.parse()
        .ok()
        .or_else(|| entry.parse().map(|address: SocketAddr| address.ip()).ok())
}

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
    use warp::http::HeaderValue;

    use super::*;

    fn client(hops: usize, peer: &str, forwarded: &[impl AsRef<[u8]>]) -> String {
        let proxies = Proxies {
            networks: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
            hops,
        };
        let value = |text: &[u8]| HeaderValue::from_bytes(text).unwrap();
        let headers = forwarded
            .iter()
            .map(|text| ("x-forwarded-for".parse().unwrap(), value(text.as_ref())))
            .collect();
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_our_own_proxies_are_believed() {
        assert_eq!(client(1, "192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client(1, "10.1.2.3", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(1, "::ffff:10.1.2.3", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(1, "::1", &["2001:db8::7"]), "2001:db8::7");
    }

    #[test]
    fn the_client_is_as_many_entries_from_the_right_as_there_are_proxies() {
        let invented = ["1.1.1.1, 198.51.100.7, 10.9.9.9"];
        assert_eq!(client(1, "10.0.0.1", &invented), "10.9.9.9");
        assert_eq!(client(2, "10.0.0.1", &invented), "198.51.100.7");
        assert_eq!(
            client(2, "10.0.0.1", &["1.1.1.1, 198.51.100.7", "10.9.9.9"]),
            "198.51.100.7",
            "headers in order"
        );
    }

    #[test]
    fn bytes_that_are_no_text_invent_no_address() {
        assert_eq!(
            client(1, "10.0.0.1", &[&b"6.6.6.6"[..], b"\xff, 198.51.100.7"]),
            "198.51.100.7"
        );
        assert_eq!(
            client(2, "10.0.0.1", &[&b"6.6.6.6"[..], b"\xff, 198.51.100.7, 10.9.9.9"]),
            "198.51.100.7"
        );
        assert_eq!(
            client(1, "10.0.0.1", &[&b"6.6.6.6"[..], b"\xff"]),
            "10.0.0.1",
            "the entry that counts is no text"
        );
    }

    #[test]
    fn what_is_missing_or_no_address_leaves_the_proxys_own() {
        let zones = [
            "fe80::1%7",
            "[2001:db8::7%7]",
            "[2001:db8::7%7]:4711",
            "[2001:db8::7%0]:4711",
        ];
        let unknown = [&[""; 0][..], &["unknown"], &["198.51.100.7, "], &["_hidden"]];
        for forwarded in unknown.into_iter().chain(zones.chunks(1)) {
            assert_eq!(client(1, "10.0.0.1", forwarded), "10.0.0.1", "{forwarded:?}");
        }
        assert_eq!(
            client(3, "10.0.0.1", &["198.51.100.7"]),
            "10.0.0.1",
            "fewer entries than proxies"
        );
        assert_eq!(client(1, "10.0.0.1", &["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(client(1, "10.0.0.1", &["[2001:db8::7]:4711"]), "2001:db8::7");
        assert_eq!(client(1, "10.0.0.1", &["[2001:db8::7]"]), "2001:db8::7");
    }

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
