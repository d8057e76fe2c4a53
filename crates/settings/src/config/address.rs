//! Addresses and networks as settings. Errors show an example, on the command line and in the file alike.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::{Deserialize as _, Deserializer, Error as _};
use toml::Value;

/// Where to listen: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// An address without brackets, or a name. Empty for every address of this machine.
    pub host: String,
    /// The port; 0 for a free one.
    pub port: u16,
}

/// Where to serve health and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// Nowhere.
    Off,
    /// On its own listener.
    At(SocketAddr),
}

/// A name that health and metrics are asked for, beside `localhost` and IP addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminHost(pub String);

/// A network; a single address is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::from(address));
        }
        let expected = "expected an address or a name with a port, such as 127.0.0.1:8080, localhost:8080 or :8080";
        let (host, port) = text.rsplit_once(':').ok_or(expected)?;
        let is_name = host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
        // `1.2.3:80` and `127.1:80` would resolve to an address that nobody means.
        let is_number = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match port.parse() {
            Ok(port) if is_name && !is_number => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(expected),
        }
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl Display for Listen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl Listen {
    /// The addresses to try, in order. For every address of this machine, IPv6 comes first, which also accepts IPv4
    /// if the system allows it.
    ///
    /// # Errors
    /// The name is unknown. Blocks while the system looks it up.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        if self.host.is_empty() {
            let all: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
            return Ok(all.map(|address| (address, self.port).into()).to_vec());
        }
        let mut found: Vec<SocketAddr> = Vec::new();
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        Ok(found)
    }

    /// The address at which a client on this machine reaches this server.
    pub fn reachable(&self) -> Self {
        let host = match self.host.as_str() {
            "" | "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        };
        Self {
            host: host.to_owned(),
            port: self.port,
        }
    }
}

impl FromStr for AdminListen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            // This name always means this machine (RFC 6761 section 6.3).
            address => address
                .replacen("localhost:", "127.0.0.1:", 1)
                .parse()
                .map(Self::At)
                .map_err(|_| "expected \"off\" or an address with a port, such as 127.0.0.1:8081"),
        }
    }
}

impl FromStr for AdminHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
        match is_name && !text.is_empty() {
            true => Ok(Self(text.to_owned())),
            false => Err("expected the name of a host without a port, such as countersign or metrics.example.com"),
        }
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network
            .map(Self)
            .map_err(|_| "expected an address such as 127.0.0.1 or a network such as 10.0.0.0/8")
    }
}

/// Parses a setting from the file. A value that is not a text, such as a bare port, gives the same error as a bad text.
pub(super) fn one<'de, T: FromStr<Err = &'static str>, D: Deserializer<'de>>(file: D) -> Result<Option<T>, D::Error> {
    read(&Value::deserialize(file)?).map(Some).map_err(D::Error::custom)
}

/// The same for a list; a text is a list of one.
pub(super) fn many<'de, T: FromStr<Err = &'static str>, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let items = match Value::deserialize(file)? {
        Value::Array(items) => items,
        item => vec![item],
    };
    items
        .iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map(Some)
        .map_err(D::Error::custom)
}

fn read<T: FromStr>(value: &Value) -> Result<T, T::Err> {
    value.as_str().unwrap_or_default().parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_listener_is_an_address_or_off() {
        assert_eq!("off".parse(), Ok(AdminListen::Off));
        assert_eq!("[::1]:9".parse(), Ok(AdminListen::At("[::1]:9".parse().unwrap())));
        assert!("localhost".parse::<AdminListen>().is_err());
        assert_eq!(
            "localhost:9".parse(),
            Ok(AdminListen::At("127.0.0.1:9".parse().unwrap()))
        );
    }

    #[test]
    fn a_server_listens_on_an_address_a_name_or_everywhere() {
        for (text, host, port, shown, reachable) in [
            ("127.0.0.1:8480", "127.0.0.1", 8480, "127.0.0.1:8480", "127.0.0.1:8480"),
            ("[::1]:0", "::1", 0, "[::1]:0", "[::1]:0"),
            ("[::]:80", "::", 80, "[::]:80", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0", 80, "0.0.0.0:80", "127.0.0.1:80"),
            ("localhost:8480", "localhost", 8480, "localhost:8480", "localhost:8480"),
            (
                "web-1.example.org:80",
                "web-1.example.org",
                80,
                "web-1.example.org:80",
                "web-1.example.org:80",
            ),
            (":8480", "", 8480, ":8480", "127.0.0.1:8480"),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!((listen.host.as_str(), listen.port), (host, port), "{text}");
            assert_eq!(
                (listen.to_string().as_str(), listen.reachable().to_string().as_str()),
                (shown, reachable)
            );
        }
        for text in [
            "",
            "8080",
            "localhost",
            "localhost:",
            "localhost:http",
            "a b:80",
            "::1:80",
            "[::1]",
            "http://a:80",
            "a:65536",
            "127.1:80",
            "1.2.3.4.5:80",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_has_all_its_addresses_in_their_order_and_none_twice() {
        let resolved = |text: &str| text.parse::<Listen>().unwrap().resolve().unwrap();
        assert_eq!(resolved("127.0.0.1:80"), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(
            resolved(":80"),
            ["[::]:80".parse().unwrap(), "0.0.0.0:80".parse().unwrap()]
        );
        let local = resolved("localhost:80");
        assert!(
            !local.is_empty() && local.iter().all(|address| address.ip().is_loopback()),
            "{local:?}"
        );
    }

    #[test]
    fn an_address_alone_is_a_network_of_one() {
        let same = |address: &str, network: &str| {
            assert_eq!(address.parse::<Network>().unwrap(), Network(network.parse().unwrap()));
        };
        same("127.0.0.1", "127.0.0.1/32");
        same("2001:db8::1", "2001:db8::1/128");
        same("10.0.0.0/8", "10.0.0.0/8");
        for text in ["", "localhost", "10.0.0.0/33", "127.0.0.1:80"] {
            assert!(
                text.parse::<Network>()
                    .unwrap_err()
                    .starts_with("expected an address such as"),
                "{text}"
            );
        }
    }
}
