//! The public URL of this server, with which links to packages begin.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use url::Url;

use crate::config::address::Listen;
use crate::config::value::Setting;

/// The longest URL in bytes.
const MAX_LENGTH: usize = 256;

/// Ports from which WordPress downloads (`wp_http_validate_url`).
const WORDPRESS_PORTS: [u16; 3] = [80, 443, 8080];

/// An http or https URL without query, fragment and trailing `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    text: String,
    port: u16,
}

/// The setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicUrlSetting {
    /// None.
    Unset,
    /// This URL.
    Is(PublicUrl),
}

impl PublicUrl {
    /// The URL of a server on a loopback address; `None` on other addresses.
    pub fn of_loopback(listen: &Listen, tls: bool) -> Option<Self> {
        let is_loopback = match listen.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            // This name always means this machine (RFC 6761 section 6.3).
            Err(_) => listen.host == "localhost",
        };
        let scheme = if tls { "https" } else { "http" };
        is_loopback.then(|| Self {
            text: format!("{scheme}://{listen}"),
            port: listen.port,
        })
    }

    /// Without a trailing `/`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The port, if WordPress does not download from it: it accepts only 80, 443 and 8080.
    pub fn port_wordpress_refuses(&self) -> Option<u16> {
        Some(self.port).filter(|port| !WORDPRESS_PORTS.contains(port))
    }
}

impl Display for PublicUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Setting for PublicUrlSetting {
    const EXPECTED: &'static str =
        "expected the address of this server for sites, such as https://licenses.example.com";

    fn from_text(text: &str) -> Option<Self> {
        // An empty text means none, so that a flag or a variable can remove the setting of the file.
        if text.is_empty() {
            return Some(Self::Unset);
        }
        let url = Url::parse(text).ok()?;
        let is_plain = url.has_host() && url.username().is_empty() && url.password().is_none();
        let ends_with_path = !text.contains(['?', '#']) && url.as_str().len() <= MAX_LENGTH;
        let is_http = matches!(url.scheme(), "http" | "https");
        (is_plain && ends_with_path && is_http).then_some(())?;
        let port = url.port_or_known_default()?;
        let text = url.as_str().trim_end_matches('/').to_owned();
        Some(Self::Is(PublicUrl { text, port }))
    }
}

impl PublicUrlSetting {
    /// The URL, if there is one.
    pub fn url(self) -> Option<PublicUrl> {
        match self {
            Self::Unset => None,
            Self::Is(url) => Some(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_an_address_of_http_with_nothing_behind_its_path() {
        for (text, expected, refused) in [
            ("https://licenses.example.com", "https://licenses.example.com", None),
            (
                "HTTPS://Licenses.Example.com:443/",
                "https://licenses.example.com",
                None,
            ),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", None),
            (
                "https://example.com/countersign//",
                "https://example.com/countersign",
                None,
            ),
            ("https://[::1]:8443", "https://[::1]:8443", Some(8443)),
            ("https://müller.example", "https://xn--mller-kva.example", None),
        ] {
            let url = PublicUrlSetting::from_text(text).unwrap().url().unwrap();
            assert_eq!(
                (url.as_str(), url.port_wordpress_refuses()),
                (expected, refused),
                "{text}"
            );
        }
        assert_eq!(PublicUrlSetting::from_text(""), Some(PublicUrlSetting::Unset));
        let long = format!("https://example.com/{}", "a".repeat(MAX_LENGTH));
        for text in [
            "licenses.example.com",
            "ftp://example.com",
            "https://",
            "https://user@example.com",
            "https://:secret@example.com",
            "https://example.com/?a=b",
            "https://example.com/#a",
            "https://exa mple.com",
            "/path",
            &long,
        ] {
            assert_eq!(PublicUrlSetting::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_server_that_only_this_machine_reaches_has_one_by_itself() {
        let of = |listen: &str, tls| {
            let url = PublicUrl::of_loopback(&listen.parse().unwrap(), tls);
            url.map(|url| url.to_string())
        };
        assert_eq!(of("127.0.0.1:8080", false).as_deref(), Some("http://127.0.0.1:8080"));
        assert_eq!(of("[::1]:8443", true).as_deref(), Some("https://[::1]:8443"));
        assert_eq!(of("localhost:8480", false).as_deref(), Some("http://localhost:8480"));
        for others in [":8080", "0.0.0.0:80", "[::]:80", "192.0.2.1:80", "example.com:80"] {
            assert_eq!(of(others, false), None, "{others}");
        }
    }
}
