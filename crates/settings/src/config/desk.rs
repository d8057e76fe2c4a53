//! Table `[desk]`: where the vendor's page listens, and by which address people reach it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use url::{Position, Url};

use crate::config::address::Listen;
use crate::config::tables::settings_table;
use crate::config::value::Setting;

/// Where it listens if only `url` is set.
const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8082));

/// The longest URL in bytes.
const MAX_URL: usize = 256;

settings_table! {
    /// Table `[desk]`.
    DeskSettings {
        listen: DeskListen,
        url: DeskUrlSetting,
    }
}

/// The setting `listen`.
#[derive(Clone, Debug)]
enum DeskListen {
    Off,
    At(Listen),
}

/// The setting `url`.
#[derive(Clone, Debug)]
pub(super) enum DeskUrlSetting {
    Unset,
    Is(DeskUrl),
}

impl DeskUrlSetting {
    /// The address, if there is one.
    pub(super) fn url(self) -> Option<DeskUrl> {
        match self {
            Self::Is(url) => Some(url),
            Self::Unset => None,
        }
    }
}

/// The address by which people reach the desk, or the customer's page: `https`, a host of its own, and nothing behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeskUrl {
    origin: String,
    authority: String,
}

impl DeskUrl {
    /// Scheme, host and port, as browsers send it in `Origin`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Host and port, as browsers send it in `Host`: without the port of https.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl Setting for DeskListen {
    const EXPECTED: &'static str = "expected \"off\", or an address or a name with a port, such as 127.0.0.1:8082";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "" | "off" => Some(Self::Off),
            text => text.parse().ok().map(Self::At),
        }
    }
}

impl Setting for DeskUrlSetting {
    const EXPECTED: &'static str = "expected an https address with a host of its own, such as https://desk.example.com";

    fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Unset);
        }
        let url = Url::parse(text).ok().filter(|url| url.as_str().len() <= MAX_URL)?;
        let is_plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
        let has_nothing_behind = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        (is_plain && has_nothing_behind).then(|| {
            Self::Is(DeskUrl {
                origin: url.origin().ascii_serialization(),
                authority: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            })
        })
    }
}

/// The resolved settings of `[desk]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeskConfig {
    /// Where it listens, without TLS.
    pub listen: Listen,
    /// By which address people reach it through a proxy.
    pub url: Option<DeskUrl>,
}

impl DeskConfig {
    /// The settings of the file; `None` if there is no desk.
    ///
    /// # Errors
    /// Other machines can reach it, and there is no `url`.
    pub(super) fn of_file(file: DeskSettings) -> Result<Option<Self>, String> {
        let url = file.url.and_then(DeskUrlSetting::url);
        let listen = match file.listen {
            Some(DeskListen::Off) => return Ok(None),
            Some(DeskListen::At(listen)) => listen,
            None if url.is_some() => LISTEN.into(),
            None => return Ok(None),
        };
        // SECURITY: an eavesdropper on the way would have the session.
        if url.is_none() && !is_loopback(&listen) {
            return Err(format!(
                "[desk] listen = \"{listen}\" lets other machines in without TLS: listen on 127.0.0.1, or set \"url\" to the \
                 https address of a proxy in front"
            ));
        }
        Ok(Some(Self { listen, url }))
    }
}

fn is_loopback(listen: &Listen) -> bool {
    match listen.host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        // This name always means this machine (RFC 6761 section 6.3).
        Err(_) => listen.host == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<DeskConfig>, String> {
        let settings = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        DeskConfig::of_file(settings)
    }

    #[test]
    fn there_is_a_desk_where_it_listens_or_has_an_address() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("listen = \"off\"\nurl = \"https://desk.example.com\""), Ok(None));
        let local = read("listen = \"localhost:9000\"").unwrap().unwrap();
        assert_eq!((local.listen.to_string().as_str(), local.url), ("localhost:9000", None));
        let named = read("url = \"https://Desk.example.com:443/\"").unwrap().unwrap();
        assert_eq!(named.listen.to_string(), "127.0.0.1:8082");
        let url = named.url.unwrap();
        assert_eq!(
            (url.origin(), url.authority()),
            ("https://desk.example.com", "desk.example.com")
        );
        let port = read("url = \"https://desk.example.com:8443\"")
            .unwrap()
            .unwrap()
            .url
            .unwrap();
        assert_eq!(port.authority(), "desk.example.com:8443");
    }

    #[test]
    fn other_machines_reach_it_over_https_alone() {
        for listen in ["0.0.0.0:8082", ":8082", "[::]:8082", "10.0.0.7:8082", "desk:8082"] {
            let text = format!("listen = \"{listen}\"");
            assert!(read(&text).unwrap_err().contains("https"), "{listen}");
            assert!(read(&format!("{text}\nurl = \"https://desk.example.com\"")).is_ok());
        }
        for url in [
            "http://desk.example.com",
            "https://a:b@desk.example.com",
            "https://example.com/desk",
            "desk",
        ] {
            assert_eq!(read(&format!("url = \"{url}\"")).unwrap_err(), DeskUrlSetting::EXPECTED);
        }
    }
}
