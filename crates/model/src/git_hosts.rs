//! The git hosts that a build may fetch from. The vendor sets them, because anybody can put an address in a pull
//! request.
//!
//! `config` parses the list; `build` checks it before it fetches.

use std::str::FromStr;

use url::Url;

/// The default: public forges, over https and ssh. None is in the vendor's own network. Otherwise the author of a pull
/// request could make the build machine connect to machines there.
pub const DEFAULT: [&str; 4] = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

/// Schemes and their default ports.
const PORTS: [(&str, u16); 4] = [("https", 443), ("ssh", 22), ("http", 80), ("git", 9418)];

/// The schemes of a host without one: both encrypt and authenticate the server.
const SAFE: [&str; 2] = ["https", "ssh"];

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitHost {
    /// A host.
    Host {
        /// `https`, `ssh`, `http` or `git`; `None` for `https` and `ssh`.
        scheme: Option<String>,
        /// As in the address, in lower case.
        host: String,
        /// `None` for the scheme's default.
        port: Option<u16>,
    },
    /// All `file://` addresses.
    Files,
}

impl FromStr for GitHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a host such as git.example.com or git.example.com:8443, \
                                an unencrypted one such as http://git.example.com, or file://";
        if text == "file://" {
            return Ok(Self::Files);
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text),
        };
        let is_known = |scheme: &str| PORTS.iter().any(|(known, _)| *known == scheme);
        // The URL standard does not check the hosts of ssh, so anything would pass.
        let url = Url::parse(&format!("https://{rest}/")).map_err(|_| EXPECTED)?;
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && !rest.contains('@');
        let host = url.host_str().filter(|host| !host.contains('*')).ok_or(EXPECTED)?;
        if !is_bare || rest.ends_with('/') || scheme.is_some_and(|scheme| !is_known(scheme)) {
            return Err(EXPECTED);
        }
        // The parser drops the default port.
        let port = if rest.ends_with(":443") { Some(443) } else { url.port() };
        Ok(Self::Host {
            scheme: scheme.map(str::to_owned),
            host: host.to_owned(),
            port,
        })
    }
}

impl GitHost {
    /// Whether git may fetch from this address.
    pub fn allows(&self, url: &Url) -> bool {
        match self {
            Self::Files => url.scheme() == "file",
            Self::Host { scheme, host, port } => {
                let expected = port.or_else(|| default_port(url.scheme()));
                scheme
                    .as_deref()
                    .map_or_else(|| SAFE.contains(&url.scheme()), |scheme| scheme == url.scheme())
                    && url.host_str().is_some_and(|named| named.eq_ignore_ascii_case(host))
                    && url.port().or_else(|| default_port(url.scheme())) == expected
            }
        }
    }

    /// The entry that would allow an address.
    pub fn that_allows(url: &Url) -> String {
        let Some(host) = url.host_str().filter(|_| url.scheme() != "file") else {
            return "file://".to_owned();
        };
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let scheme = if SAFE.contains(&url.scheme()) {
            String::new()
        } else {
            format!("{}://", url.scheme())
        };
        format!("{scheme}{host}{port}")
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    PORTS.iter().find(|(known, _)| *known == scheme).map(|(_, port)| *port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(entry: &str, url: &str) -> bool {
        entry.parse::<GitHost>().unwrap().allows(&url.parse().unwrap())
    }

    #[test]
    fn a_host_alone_stands_for_https_and_ssh_on_their_own_ports() {
        for good in [
            "https://git.example.com/a",
            "https://GIT.example.com:443/a",
            "ssh://git@git.example.com/a",
        ] {
            assert!(allows("git.example.com", good), "{good}");
        }
        for bad in [
            "http://git.example.com/a",
            "git://git.example.com/a",
            "https://git.example.com:8443/a",
            "ssh://git@git.example.com:2222/a",
            "https://example.com/a",
            "https://git.example.com.evil.example/a",
            "https://evil.example/git.example.com",
            "file:///git.example.com",
        ] {
            assert!(!allows("git.example.com", bad), "{bad}");
        }
    }

    #[test]
    fn what_is_not_encrypted_or_has_a_port_is_allowed_by_name_and_an_address_says_which() {
        for (entry, url) in [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000/a"),
            ("http://git.example.com", "http://git.example.com/a"),
            ("git://git.example.com", "git://git.example.com/a"),
            ("git.example.com:8443", "https://git.example.com:8443/a"),
            ("git.example.com:2222", "ssh://git@git.example.com:2222/a"),
            ("[::1]", "ssh://git@[::1]/a"),
            ("file://", "file:///srv/a"),
        ] {
            let url: Url = url.parse().unwrap();
            assert_eq!(GitHost::that_allows(&url), entry);
            assert!(entry.parse::<GitHost>().unwrap().allows(&url), "{entry}");
            assert!(!DEFAULT.iter().any(|entry| allows(entry, url.as_str())));
        }
        assert!(allows("github.com:443", "https://github.com/a"));
        assert!(!allows("github.com:443", "ssh://git@github.com/a"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for bad in [
            "",
            "*",
            "*.example.com",
            "a b",
            "https://a.com/path",
            "a.com/",
            "ext::x",
            "ftp://a.com",
            "me@a.com",
            "a.com?x",
            "file:///srv",
            "http://",
        ] {
            assert!(bad.parse::<GitHost>().is_err(), "{bad:?}");
        }
    }
}
