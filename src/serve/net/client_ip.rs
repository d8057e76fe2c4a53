//! The client's address: the connection's, or the one that a trusted proxy has in `X-Forwarded-For`.

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
}
