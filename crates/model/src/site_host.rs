//! Site hosts: the normal form of a `site_url`, and the only form that is stored, compared and signed.
//!
//! Browsers (WHATWG URL) and PHP's `parse_url` read some odd addresses differently. Those are refused with a reason,
//! so that no two sites share a host by accident.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use compact_str::CompactString;
use url::Host;

use crate::checked_text::checked_text;

/// The longest `site_url` in bytes, without surrounding spaces.
const MAX_INPUT: usize = 2_048;

/// RFC 1035 section 2.3.4: 255 octets on the wire are 253 characters of text.
const MAX_DOMAIN: usize = 253;

/// RFC 1035 section 2.3.4.
const MAX_LABEL: usize = 63;

/// A lower-case ASCII domain without `www.`, a dotted IPv4 address, or a bracketed IPv6 address (RFC 5952).
///
/// Scheme, port, path and user are dropped; a subdomain is another site. Parsing is idempotent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteHost(CompactString);

checked_text!(SiteHost);

/// Why a text is not the address of a site.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
pub enum SiteHostError {
    /// Empty, or only spaces.
    #[error("it is empty")]
    Empty,
    /// More than 2,048 bytes, or a domain of more than 253.
    #[error("it is too long")]
    TooLong,
    /// It contains a control character, space, backslash or byte order mark.
    #[error("it contains a space, a control character or a backslash")]
    BadCharacter,
    /// A scheme other than http and https, or one without `://`.
    #[error("its scheme is not http:// or https://")]
    BadScheme,
    /// The host is missing.
    #[error("it has no host")]
    NoHost,
    /// More than one `@`, or one without a scheme: an e-mail address.
    #[error("it contains an '@' in the wrong place")]
    BadUserinfo,
    /// A port that is not 1 to 65535.
    #[error("its port is not a number from 1 to 65535")]
    BadPort,
    /// The URL Standard's host parser refuses it.
    #[error("its host is not a valid domain or IP address")]
    BadHost,
    /// An IP address that is not in canonical form, or an IPv4 address in an IPv6 one.
    #[error("its IP address is not in canonical form")]
    OddIp,
    /// A label that is empty, over 63 bytes, or has characters that domains do not have.
    #[error("its host has a label that is empty, too long or has invalid characters")]
    BadLabel,
}

impl SiteHostError {
    /// The reason's stable name, for problem documents.
    pub fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::BadCharacter => "bad_character",
            Self::BadScheme => "bad_scheme",
            Self::NoHost => "no_host",
            Self::BadUserinfo => "bad_userinfo",
            Self::BadPort => "bad_port",
            Self::BadHost => "bad_host",
            Self::OddIp => "odd_ip",
            Self::BadLabel => "bad_label",
        }
    }
}

impl FromStr for SiteHost {
    type Err = SiteHostError;

    /// Normalizes a `site_url`. Each step checks before the next one.
    fn from_str(site_url: &str) -> Result<Self, SiteHostError> {
        let url = site_url.trim_matches([' ', '\t', '\r', '\n']);
        if url.is_empty() {
            return Err(SiteHostError::Empty);
        }
        if url.len() > MAX_INPUT {
            return Err(SiteHostError::TooLong);
        }
        let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '\u{FEFF}');
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && url.chars().any(odd) {
            return Err(SiteHostError::BadCharacter);
        }
        let (has_scheme, rest) = split_scheme(url)?;
        let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        let authority = &rest[..end.unwrap_or(rest.len())];
        if authority.is_empty() {
            return Err(SiteHostError::NoHost);
        }
        let host = without_port(without_userinfo(authority, has_scheme)?)?;
        if host.is_empty() {
            return Err(SiteHostError::NoHost);
        }
        // The URL Standard decodes percent-encoded hosts, PHP does not.
        if host.contains('%') {
            return Err(SiteHostError::BadHost);
        }
        let canonical = match Host::parse(host).map_err(|_| SiteHostError::BadHost)? {
            Host::Ipv4(address) => canonical_ipv4(address, host)?,
            Host::Ipv6(address) => canonical_ipv6(address)?,
            Host::Domain(domain) => canonical_domain(&domain)?.to_owned(),
        };
        Ok(Self(canonical.into()))
    }
}

/// Whether there was a scheme, and the rest.
fn split_scheme(url: &str) -> Result<(bool, &str), SiteHostError> {
    // The usual spelling.
    if let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) {
        return Ok((true, rest));
    }
    // A `://` after the authority belongs to a path or query.
    if let Some((scheme, rest)) = url
        .split_once("://")
        .filter(|(before, _)| !before.contains(['/', '?', '#']))
    {
        let known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        return if known {
            Ok((true, rest))
        } else {
            Err(SiteHostError::BadScheme)
        };
    }
    // `http:/example.com`: the URL Standard accepts it as a host, PHP reads a path.
    let starts_with = |scheme: &str| {
        url.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if starts_with("http:") || starts_with("https:") {
        return Err(SiteHostError::BadScheme);
    }
    Ok((false, url.strip_prefix("//").unwrap_or(url)))
}

// SECURITY: the part before the `@` may have a password. It must not leave this function.
fn without_userinfo(authority: &str, has_scheme: bool) -> Result<&str, SiteHostError> {
    match authority.split_once('@') {
        None => Ok(authority),
        Some((_, host)) if has_scheme && !host.contains('@') => Ok(host),
        Some(_) => Err(SiteHostError::BadUserinfo),
    }
}

fn without_port(host_and_port: &str) -> Result<&str, SiteHostError> {
    let end_of_host = if host_and_port.starts_with('[') {
        host_and_port.find(']').ok_or(SiteHostError::BadHost)? + 1
    } else {
        host_and_port.find(':').unwrap_or(host_and_port.len())
    };
    let (host, rest) = host_and_port.split_at(end_of_host);
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok(host),
        None => Err(SiteHostError::BadHost),
        Some("") => Ok(host),
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|n| n > 0) => Ok(host),
        Some(_) => Err(SiteHostError::BadPort),
    }
}

fn canonical_ipv4(address: Ipv4Addr, written: &str) -> Result<String, SiteHostError> {
    let canonical = address.to_string();
    if canonical == written {
        Ok(canonical)
    } else {
        Err(SiteHostError::OddIp)
    }
}

fn canonical_ipv6(address: Ipv6Addr) -> Result<String, SiteHostError> {
    match address.to_ipv4_mapped() {
        Some(_) => Err(SiteHostError::OddIp),
        None => Ok(Host::<&str>::Ipv6(address).to_string()),
    }
}

/// Removes a dot at the end, and `www.`.
fn canonical_domain(ascii: &str) -> Result<&str, SiteHostError> {
    let domain = without_www(ascii.strip_suffix('.').unwrap_or(ascii));
    if domain.len() > MAX_DOMAIN {
        return Err(SiteHostError::TooLong);
    }
    let last_holds = labels(domain).next_back().is_some_and(|last| !last.contains(&b'_'));
    if last_holds && labels(domain).all(is_label) {
        Ok(domain)
    } else {
        Err(SiteHostError::BadLabel)
    }
}

/// Removes `www.` before a domain of several labels.
fn without_www(mut domain: &str) -> &str {
    while let Some(rest) = domain.strip_prefix("www.").filter(|rest| rest.contains('.')) {
        domain = rest;
    }
    domain
}

fn labels(domain: &str) -> impl DoubleEndedIterator<Item = &[u8]> {
    domain.as_bytes().split(|&byte| byte == b'.')
}

fn is_label(label: &[u8]) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && !label.starts_with(b"-")
        && !label.ends_with(b"-")
        && label
            .iter()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}

impl SiteHost {
    /// As people read it, where that is another form: `münchen.example` of `xn--mnchen-3ya.example`.
    pub fn in_unicode(&self) -> Option<String> {
        let (unicode, valid) = idna::domain_to_unicode(&self.0);
        (valid.is_ok() && unicode != self.0.as_str()).then_some(unicode)
    }

    /// Whether this host is not reachable from the public internet, so that many sites may have the same one.
    ///
    /// One-label names; `.localhost`, `.test`, `.invalid` (RFC 6761), `.local` (RFC 6762), `.internal` (ICANN 2024)
    /// and `home.arpa` (RFC 8375); addresses that are not globally unique by the IANA special-purpose registries (RFC
    /// 6890).
    pub fn is_local(&self) -> bool {
        if let Some(address) = self.0.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return address.parse().is_ok_and(is_local_ipv6);
        }
        if let Ok(address) = self.0.parse() {
            return is_local_ipv4(address);
        }
        match self.0.rsplit_once('.') {
            None => true,
            Some((rest, "arpa")) => rest == "home" || rest.ends_with(".home"),
            Some((_, top)) => matches!(top, "localhost" | "test" | "invalid" | "local" | "internal"),
        }
    }

    /// The domains above this one that have a dot themselves, nearest first. An address has none.
    pub fn parents(&self) -> impl Iterator<Item = &str> {
        let is_address = self.0.starts_with('[') || self.0.parse::<Ipv4Addr>().is_ok();
        let domain = if is_address { "" } else { self.as_str() };
        let above = domain.match_indices('.').map(|(dot, _)| &domain[dot + 1..]);
        above.filter(|parent| parent.contains('.'))
    }

    /// Whether its name is under another one, as `a.example.com` under `example.com`.
    pub fn is_under(&self, other: &Self) -> bool {
        let rest = self.0.strip_suffix(other.as_str());
        rest.is_some_and(|rest| rest.ends_with('.'))
    }
}

fn is_local_ipv4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || matches!((a, b), (0 | 240..=255, _) | (100, 64..=127) | (198, 18..=19))
}

fn is_local_ipv6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || (first, second) == (0x2001, 0x0db8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of input (a JSON string literal), expected host or `!reason`, class, note; separated by tabs.
    const VECTORS: &str = include_str!("../../../tests/vectors/hosts.tsv");

    #[test]
    fn every_vector_normalizes_as_it_says() {
        let mut seen = 0;
        for line in VECTORS.lines().skip(2) {
            let [input, expected, class, note] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("not four columns: {line}")
            };
            let input: String = serde_json::from_str(input).unwrap();
            let found = match input.parse::<SiteHost>() {
                Ok(host) => {
                    assert_eq!(host.is_local(), class == "local", "{input}: {class}");
                    host.to_string()
                }
                Err(reason) => format!("!{}", reason.code()),
            };
            assert_eq!(found, expected, "{input}: {note}");
            seen += 1;
        }
        assert_eq!(seen, 104);
    }

    #[test]
    fn the_domains_above_a_host_have_a_dot_and_an_address_has_none() {
        let above = |host: &str| {
            let host: SiteHost = host.parse().unwrap();
            host.parents().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(above("https://a.b.example.com/"), "b.example.com example.com");
        for alone in [
            "example.com",
            "localhost",
            "127.0.0.1",
            "[2001:db8::1]",
            "www.example.com",
        ] {
            assert_eq!(above(alone), "", "{alone}");
        }
    }

    #[test]
    fn no_two_reasons_share_a_code() {
        use SiteHostError::*;
        let all = [
            Empty,
            TooLong,
            BadCharacter,
            BadScheme,
            NoHost,
            BadUserinfo,
            BadPort,
            BadHost,
            OddIp,
            BadLabel,
        ];
        let codes: std::collections::BTreeSet<_> = all.iter().map(|reason| reason.code()).collect();
        assert_eq!(codes.len(), all.len());
    }

    proptest::proptest! {
        #[test]
        fn parsing_is_idempotent_and_agrees_with_the_url_standard(text in site_urls()) {
            if let Ok(host) = text.parse::<SiteHost>() {
                proptest::prop_assert_eq!(host.as_str().parse::<SiteHost>(), Ok(host.clone()));
                let url = url::Url::parse(&format!("https://{host}")).unwrap();
                proptest::prop_assert_eq!(url.host_str(), Some(host.as_str()));
            }
        }
    }

    /// Texts that are nearly URLs, and some that are not at all.
    fn site_urls() -> impl proptest::strategy::Strategy<Value = String> {
        proptest::prop_oneof![
            "(https?://)?(www\\.){0,2}[a-zA-Z0-9_.ßéü-]{0,20}(\\.[a-z]{2,5}){0,2}\\.?(:[0-9]{0,5})?(/.{0,5})?",
            "(https?://)?[0-9x.]{1,16}",
            "https?://\\[[0-9a-f:.]{2,30}\\]",
            ".{0,40}",
        ]
    }
}
