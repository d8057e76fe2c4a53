//! Addresses and networks as settings. What is none is told with an example, on the command line and in the file alike.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::{Deserialize as _, Deserializer, Error as _};
use toml::Value;

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

/// Where health and metrics are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// Nowhere.
    Off,
    /// On a listener of its own.
    At(SocketAddr),
}

/// A network; an address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "expected an address with a port, such as 127.0.0.1:8080")
    }
}

impl FromStr for AdminListen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            address => address
                .parse()
                .map(Self::At)
                .map_err(|_| "expected \"off\" or an address with a port, such as 127.0.0.1:8081"),
        }
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(Self).map_err(|_| "expected an address such as 127.0.0.1 or a network such as 10.0.0.0/8")
    }
}

/// Reads a setting of the file. What is no text, such as a port alone, is told as a text that is none.
pub fn one<'de, T: FromStr<Err = &'static str>, D: Deserializer<'de>>(file: D) -> Result<Option<T>, D::Error> {
    read(&Value::deserialize(file)?).map(Some).map_err(D::Error::custom)
}

/// The same for a list; a text alone is a list of one.
pub fn many<'de, T: FromStr<Err = &'static str>, D: Deserializer<'de>>(file: D) -> Result<Option<Vec<T>>, D::Error> {
    let items = match Value::deserialize(file)? {
        Value::Array(items) => items,
        item => vec![item],
    };
    items.iter().map(read).collect::<Result<_, _>>().map(Some).map_err(D::Error::custom)
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
            assert!(text.parse::<Network>().unwrap_err().starts_with("expected an address such as"), "{text}");
        }
    }
}
