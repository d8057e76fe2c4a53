//! Staging hosts: the names under which web hosts put staging copies and unfinished sites of all their customers.
//!
//! A pattern matches whole labels, so `*.kinsta.cloud` matches neither `evilkinsta.cloud` nor `kinsta.cloud.evil.example`.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::hash::BuildHasher;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use compact_str::CompactString;
use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use crate::site_host::SiteHost;

/// The default list. `docs/sites.md` has the source of each.
pub const DEFAULT: [&str; 14] = [
    "*.wpengine.com",
    "*.wpenginepowered.com",
    "*.kinsta.cloud",
    "*.flywheelsites.com",
    "*.myftpupload.com",
    "*.instawp.xyz",
    "*.pantheonsite.io",
    "*.wpcomstaging.com",
    "*.mystagingwebsite.com",
    "*.ngrok.io",
    "*.ngrok.app",
    "*.ngrok.dev",
    "*.ngrok-free.app",
    "*.ngrok-free.dev",
];

/// The server's settings about staging copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingRule {
    /// How many staging copies of a license need no seat.
    pub sites: u32,
    /// Where a site is a staging copy, if the license has another site elsewhere.
    pub hosts: StagingHosts,
}

impl StagingRule {
    /// Every staging copy needs a seat.
    pub const NONE: Self = Self {
        sites: 0,
        hosts: StagingHosts(None),
    };
}

impl From<u32> for StagingRule {
    /// So many subdomains need no seat.
    fn from(sites: u32) -> Self {
        Self { sites, ..Self::NONE }
    }
}

/// A host, or all hosts under a name: `staging.example.com` or `*.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StagingPattern {
    /// Lower-case ASCII with a dot, not an address.
    name: CompactString,
    /// Whether it matches the names below this name, and not the name itself.
    is_wildcard: bool,
}

impl FromStr for StagingPattern {
    type Err = &'static str;

    /// Normalizes as [`SiteHost`] does: lower case, IDNs in ASCII, no dot at the end.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected the name of a host such as staging.example.com, all hosts under a name such as \
                                *.example.com, or \"default\" for the default list";
        const TOP_LEVEL: &str =
            "a name of one label has sites of everybody: expected one with a dot, such as *.example.com";
        let text = text.trim();
        let (name, is_wildcard) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let is_odd = |c: char| c.is_whitespace() || matches!(c, '/' | ':' | '@' | '?' | '#' | '*' | '[' | ']');
        if name.is_empty() || name.contains(is_odd) {
            return Err(EXPECTED);
        }
        // A site under the name: `www.` is no part of a host, but is one of the labels above a host.
        let under = format!("a.{name}");
        let written = if is_wildcard { &under } else { name };
        let host: SiteHost = written.parse().map_err(|_| EXPECTED)?;
        let name = match is_wildcard {
            true => host.as_str().strip_prefix("a.").ok_or(EXPECTED)?,
            false => host.as_str(),
        };
        match name.contains('.') {
            false => Err(TOP_LEVEL),
            true if name.parse::<Ipv4Addr>().is_ok() => Err(EXPECTED),
            true => Ok(Self {
                name: name.into(),
                is_wildcard,
            }),
        }
    }
}

impl Display for StagingPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let wildcard = if self.is_wildcard { "*." } else { "" };
        write!(f, "{wildcard}{}", self.name)
    }
}

/// An entry of the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingEntry {
    /// The whole default list.
    Default,
    /// Nothing: a list of this alone is empty.
    None,
    /// One more pattern.
    Pattern(StagingPattern),
}

impl FromStr for StagingEntry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "default" => Ok(Self::Default),
            "none" => Ok(Self::None),
            pattern => pattern.parse().map(Self::Pattern),
        }
    }
}

/// A list of patterns. Cloning it copies nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct StagingHosts(Option<Arc<HostPatterns>>);

/// The patterns by what they match.
#[derive(Debug, Default, PartialEq, Eq)]
struct HostPatterns {
    hosts: BTreeSet<CompactString>,
    /// Names whose subdomains match.
    above: BTreeSet<CompactString>,
    fingerprint: u64,
}

impl StagingHosts {
    /// The list of a setting. `None` for the default list.
    pub fn of_setting(entries: Option<&[StagingEntry]>) -> Self {
        // A test checks that the defaults are patterns.
        let default = || DEFAULT.iter().filter_map(|pattern| pattern.parse().ok());
        let entries = entries.unwrap_or(&[StagingEntry::Default]);
        let patterns = entries.iter().flat_map(|entry| -> Vec<StagingPattern> {
            match entry {
                StagingEntry::Default => default().collect(),
                StagingEntry::None => Vec::new(),
                StagingEntry::Pattern(pattern) => vec![pattern.clone()],
            }
        });
        patterns.collect()
    }

    /// Whether a pattern matches the host. No pattern matches an address.
    pub fn has(&self, host: &SiteHost) -> bool {
        let Some(patterns) = &self.0 else { return false };
        patterns.hosts.contains(host.as_str()) || host.parents().any(|parent| patterns.above.contains(parent))
    }

    /// Whether no pattern matches the host or a name above it: beside such a site, those that a pattern matches are copies.
    pub fn is_outside(&self, host: &SiteHost) -> bool {
        let Some(patterns) = &self.0 else { return true };
        !self.has(host) && !host.parents().any(|parent| patterns.hosts.contains(parent))
    }

    /// Whether `host` is a staging copy beside `site`, if a license has both.
    pub fn is_copy_beside(&self, host: &SiteHost, site: &SiteHost) -> bool {
        host.parents().any(|parent| parent == site.as_str()) || (self.has(host) && self.is_outside(site))
    }

    /// A hash of the list.
    pub fn fingerprint(&self) -> u64 {
        self.0.as_ref().map_or(0, |patterns| patterns.fingerprint)
    }
}

impl FromIterator<StagingPattern> for StagingHosts {
    fn from_iter<I: IntoIterator<Item = StagingPattern>>(patterns: I) -> Self {
        let mut all = HostPatterns::default();
        for StagingPattern { name, is_wildcard } in patterns {
            let names = if is_wildcard { &mut all.above } else { &mut all.hosts };
            names.insert(name);
        }
        if all == HostPatterns::default() {
            return Self(None);
        }
        all.fingerprint = FixedState::default().hash_one((&all.hosts, &all.above));
        Self(Some(Arc::new(all)))
    }
}

impl TryFrom<Vec<String>> for StagingHosts {
    type Error = &'static str;

    fn try_from(patterns: Vec<String>) -> Result<Self, Self::Error> {
        patterns
            .iter()
            .map(|pattern| pattern.parse::<StagingPattern>())
            .collect()
    }
}

impl From<StagingHosts> for Vec<String> {
    fn from(hosts: StagingHosts) -> Self {
        let Some(patterns) = hosts.0 else { return Self::new() };
        let above = patterns.above.iter().map(|name| format!("*.{name}"));
        patterns.hosts.iter().map(ToString::to_string).chain(above).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(patterns: &[&str]) -> StagingHosts {
        patterns
            .iter()
            .map(|pattern| pattern.parse::<StagingPattern>().unwrap())
            .collect()
    }

    #[test]
    fn a_pattern_matches_whole_labels_and_nothing_that_only_looks_like_it() {
        let hosts = list(&[
            "*.kinsta.cloud",
            "staging.agency.example",
            "*.bücher.example",
            "*.www.b.example",
        ]);
        let long = format!("{}kinsta.cloud", "a.".repeat(120));
        for (url, expected) in [
            ("stg.kinsta.cloud", true),
            ("https://STG.Kinsta.Cloud:8443/wp/?a#b", true),
            ("stg.kinsta.cloud.", true),
            ("www.stg.kinsta.cloud", true),
            ("a.b.c.kinsta.cloud", true),
            (&long, true),
            ("kinsta.cloud", false),
            ("www.kinsta.cloud", false),
            ("evilkinsta.cloud", false),
            ("a.evilkinsta.cloud", false),
            ("evil-kinsta.cloud", false),
            ("kinsta.cloud.evil.example", false),
            ("stg.kinsta.cloud.evil.example", false),
            ("stg-kinsta-cloud.evil.example", false),
            ("https://user@evil.example/stg.kinsta.cloud", false),
            ("evil.example/?.kinsta.cloud", false),
            ("a.kinsta.cloud.example", false),
            ("cloud", false),
            ("staging.agency.example", true),
            ("www.staging.agency.example", true),
            ("x.staging.agency.example", false),
            ("xstaging.agency.example", false),
            ("agency.example", false),
            ("a.bücher.example", true),
            ("a.xn--bcher-kva.example", true),
            ("A.XN--BCHER-KVA.example", true),
            ("a.xn--bcher-kva.example.evil.example", false),
            ("a.bucher.example", false),
            ("a.www.b.example", true),
            ("a.b.example", false),
            ("127.0.0.1", false),
            ("[::1]", false),
            ("localhost", false),
        ] {
            let host: SiteHost = url.parse().unwrap();
            assert_eq!(hosts.has(&host), expected, "{url}");
        }
        for refused in [
            "kinsta.cloud..",
            &"a.".repeat(300),
            &format!("{}kinsta.cloud", "a.".repeat(300)),
            "xn--.kinsta.cloud",
        ] {
            assert!(refused.parse::<SiteHost>().is_err(), "{refused}");
        }
    }

    #[test]
    fn what_stands_under_a_staging_host_is_not_outside() {
        let hosts = list(&["*.kinsta.cloud", "agency.example"]);
        for (name, expected) in [
            ("a.kinsta.cloud", false),
            ("agency.example", false),
            ("x.agency.example", false),
            ("kinsta.cloud", true),
            ("evilagency.example", true),
            ("shop.example", true),
        ] {
            assert_eq!(hosts.is_outside(&name.parse().unwrap()), expected, "{name}");
        }
        let nothing = StagingHosts::default();
        let any = "a.kinsta.cloud".parse().unwrap();
        assert!(nothing.is_outside(&any) && !nothing.has(&any));
    }

    #[test]
    fn a_pattern_is_normalized_or_refused() {
        for (text, expected) in [
            ("*.Kinsta.CLOUD", "*.kinsta.cloud"),
            (" *.kinsta.cloud ", "*.kinsta.cloud"),
            ("*.kinsta.cloud.", "*.kinsta.cloud"),
            ("Staging.Agency.Example", "staging.agency.example"),
            ("www.agency.example", "agency.example"),
            ("*.www.agency.example", "*.www.agency.example"),
            ("*.BÜCHER.example", "*.xn--bcher-kva.example"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("*.a_b.example", "*.a_b.example"),
        ] {
            let pattern: StagingPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), expected);
            assert_eq!(expected.parse(), Ok(pattern));
        }
        for top_level in ["com", "*.com", "*.COM.", "*.рф", "localhost", "*.localhost"] {
            let error = top_level.parse::<StagingPattern>().unwrap_err();
            assert!(error.starts_with("a name of one label"), "{top_level}: {error}");
        }
        let long = format!("*.{}example", "a.".repeat(300));
        for bad in [
            "",
            " ",
            "*",
            "*.",
            "*..",
            "*.*",
            "*.*.com",
            "**.com",
            "*kinsta.cloud",
            "a.*.com",
            ".kinsta.cloud",
            "*..kinsta.cloud",
            "1.2.3.4",
            "*.1.2.3.4",
            "*.3.4",
            "[::1]",
            "::1",
            "2001:db8::1",
            "https://a.example",
            "https://a.example/",
            "//a.example",
            "a.example/",
            "a.example/x",
            "a.example:443",
            "*.a.example:443",
            "u@a.example",
            "a.example?b",
            "a.example#b",
            "a b.example",
            "*. a.example",
            "a\\b.example",
            "-a.example",
            "*.-a.example",
            "xn--.example",
            "*.xn--.example",
            "%61.example",
            &long,
        ] {
            let error = bad.parse::<StagingPattern>().unwrap_err();
            assert!(error.starts_with("expected the name of a host"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_setting_replaces_the_default_list_and_default_in_it_keeps_it() {
        let default = StagingHosts::of_setting(None);
        assert_eq!(default, list(&DEFAULT));
        let read = |texts: &[&str]| {
            let entries: Vec<StagingEntry> = texts.iter().map(|text| text.parse().unwrap()).collect();
            StagingHosts::of_setting(Some(&entries))
        };
        assert_eq!(read(&["default"]), default);
        assert_eq!(read(&["*.agency.example"]), list(&["*.agency.example"]));
        let more = [&DEFAULT[..], &["*.agency.example"]].concat();
        assert_eq!(read(&["default", "*.agency.example"]), list(&more));
        assert_eq!(read(&["none"]), StagingHosts::default());
        assert_eq!(read(&[]), StagingHosts::default());
    }

    #[test]
    fn a_rule_reaches_a_command_as_it_is() {
        for patterns in [&["*.b.example", "a.example", "*.a.example"][..], &[]] {
            let rule = StagingRule {
                sites: 3,
                hosts: list(patterns),
            };
            let sent = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<StagingRule>(&sent).unwrap(), rule, "{sent}");
        }
        assert!(serde_json::from_str::<StagingRule>(r#"{"sites":1,"hosts":["*.com"]}"#).is_err());
        assert_eq!(
            list(&["*.b.example", "a.example"]).fingerprint(),
            list(&["a.example", "*.b.example"]).fingerprint()
        );
        assert_ne!(list(&["a.example"]).fingerprint(), list(&["*.a.example"]).fingerprint());
    }
}
