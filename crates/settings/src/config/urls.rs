//! Addresses as settings: URLs of services that the server talks to, which are webhooks and the programming interface of a shop, and
//! pages of the vendor's shop, where licenses are renewed and upgraded.

use std::net::IpAddr;

use url::{Host, Url};

use crate::config::value::Setting;
use countersign_model::shop_link::ShopLink;

/// The longest URL in bytes.
const MAX_URL: usize = 2_048;

/// An `https` URL, or an `http` URL of this machine, without user, password and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl(Url);

impl ServiceUrl {
    /// The URL.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// Scheme, host and port. The path and the query may be a secret of the receiver.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }
}

impl Setting for ServiceUrl {
    const EXPECTED: &'static str =
        "expected an https URL, such as https://example.com/hooks/licenses, or an http URL of this machine";

    fn from_text(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok().filter(|url| url.as_str().len() <= MAX_URL)?;
        let is_here = match url.host()? {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => IpAddr::from(address).is_loopback(),
            Host::Ipv6(address) => IpAddr::from(address).is_loopback(),
        };
        let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_here);
        let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        (is_safe && is_plain).then_some(Self(url))
    }
}

/// The setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShopPage {
    /// None.
    Unset,
    /// This address.
    At(ShopLink),
}

impl Setting for ShopPage {
    const EXPECTED: &'static str = "expected an https address, with at most one {token} behind the host, such as https://shop.example/renew?license={token}";

    fn from_text(text: &str) -> Option<Self> {
        // An empty text means none, so that a flag or a variable can remove the setting of the file.
        match text.is_empty() {
            true => Some(Self::Unset),
            false => text.parse().ok().map(Self::At),
        }
    }
}

impl ShopPage {
    /// The address, if there is one.
    pub fn link(self) -> Option<ShopLink> {
        match self {
            Self::Unset => None,
            Self::At(link) => Some(link),
        }
    }
}
