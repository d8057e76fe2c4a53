//! Selects a license by its key, its id, or the first digits of its id.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;
use std::sync::OnceLock;

use clap_complete::engine::ArgValueCompleter;
use zeroize::Zeroizing;

use crate::commands::{Failure, candidates};
use countersign_model::foreign_key::ForeignKey;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::License;
use countersign_model::license_key::{LicenseId, LicenseKey, LicenseKeyError};
use countersign_registry::Registry;

/// Fewer digits are too easily mistyped into those of another id.
const MIN_PREFIX: usize = 8;

/// The most bytes to read from stdin: more than a key or an id has.
const MAX_STDIN: u64 = 1_024;

/// The argument that selects a license.
#[derive(clap::Args, Clone, Debug)]
pub(in crate::commands) struct LicenseArg {
    /// The license's key, its id, or the first 8 or more digits of its id; '-' reads one of these from stdin
    #[arg(value_name = "KEY|ID|-", add = ArgValueCompleter::new(candidates::licenses))]
    license: Selector,
}

impl LicenseArg {
    /// Whether it is read from stdin.
    pub(in crate::commands) fn is_stdin(&self) -> bool {
        self.license.given.as_str() == "-"
    }

    /// The selected license. `issued` are all of the ledger.
    ///
    /// # Errors
    /// There is none, or the digits are those of several.
    pub(in crate::commands) fn select<'l>(
        &self,
        issued: &'l [IssuedLicense],
        registry: &'l Registry,
    ) -> Result<SelectedLicense<'l>, Failure> {
        self.license.select(issued, registry)
    }
}

impl From<&str> for LicenseArg {
    fn from(text: &str) -> Self {
        Self {
            license: Selector::new(text),
        }
    }
}

/// The license that an argument selects.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) enum SelectedLicense<'l> {
    /// The ledger has it.
    Ledger(&'l IssuedLicense),
    /// Only a file of the registry has it.
    Declared(&'l License),
}

impl SelectedLicense<'_> {
    /// The license.
    pub(in crate::commands) fn license(&self) -> &License {
        match self {
            Self::Ledger(issued) => &issued.license,
            Self::Declared(license) => license,
        }
    }

    /// The license's id.
    ///
    /// # Errors
    /// Only a file has the license; `why_not` says why that is not enough.
    pub(in crate::commands) fn id_in_ledger(&self, why_not: &str) -> Result<LicenseId, Failure> {
        match self {
            Self::Ledger(issued) => Ok(issued.license.id),
            Self::Declared(license) => {
                let tag = license.id.log_tag();
                let error = format!("license {tag} is declared in a file, and {why_not}");
                Err(Failure::input(error).hint(format!(
                    "`countersign license import {tag} --from registry` takes it into the ledger"
                )))
            }
        }
    }
}

/// Neither the ledger nor a file has the license.
#[derive(Debug, thiserror::Error)]
#[error("there is no license {0}")]
struct UnknownLicense(String);

/// The argument as given.
// SECURITY: it may be a key. So it is parsed after clap, whose errors quote what they reject, and is never shown.
#[derive(Clone)]
struct Selector {
    given: Zeroizing<String>,
    /// The text from stdin, which is read once.
    read: OnceLock<Zeroizing<String>>,
}

impl FromStr for Selector {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Selector(redacted)")
    }
}

/// What the argument may mean. A key of another system may look like an id or the beginning of one.
struct SelectedIds {
    ids: Vec<LicenseId>,
    prefix: Option<String>,
    /// How a message names it.
    shown: String,
    /// Whether it is a key of ours with a mistake, unless it is one of another system.
    error: Option<LicenseKeyError>,
}

impl Selector {
    fn new(text: &str) -> Self {
        Self {
            given: Zeroizing::new(text.to_owned()),
            read: OnceLock::new(),
        }
    }

    fn wanted(&self) -> Result<SelectedIds, Failure> {
        let given = match (self.given.as_str(), self.read.get()) {
            ("-", Some(read)) => read,
            ("-", None) => {
                let read = key_of_stdin()?;
                self.read.get_or_init(|| read)
            }
            _ => &self.given,
        };
        wanted(given)
    }

    fn select<'l>(&self, issued: &'l [IssuedLicense], registry: &'l Registry) -> Result<SelectedLicense<'l>, Failure> {
        let wanted = self.wanted()?;
        let in_ledger = |id: &LicenseId| issued.iter().find(|issued| issued.license.id == *id);
        let with_id = |id: &LicenseId| {
            let declared = || registry.license(id).map(SelectedLicense::Declared);
            in_ledger(id).map(SelectedLicense::Ledger).or_else(declared)
        };
        if let Some(found) = wanted.ids.iter().find_map(with_id) {
            return Ok(found);
        }
        if let Some(prefix) = &wanted.prefix {
            let of_ledger = issued.iter().filter(|issued| has_prefix(&issued.license, prefix));
            let declared = registry
                .licenses()
                .filter(|license| has_prefix(license, prefix) && in_ledger(&license.id).is_none());
            let found = of_ledger
                .map(SelectedLicense::Ledger)
                .chain(declared.map(SelectedLicense::Declared));
            if let Some(found) = only(found, prefix)? {
                return Ok(found);
            }
        }
        Err(match wanted.error {
            Some(error) => Failure::usage(error),
            None => Failure::input(UnknownLicense(wanted.shown)).hint("`countersign license list` shows them all"),
        })
    }
}

fn has_prefix(license: &License, prefix: &str) -> bool {
    license.id.to_string().starts_with(prefix)
}

/// The only one, if there is one.
fn only<T>(mut found: impl Iterator<Item = T>, prefix: &str) -> Result<Option<T>, Failure> {
    let first = found.next();
    match found.next() {
        None => Ok(first),
        Some(_) => {
            Err(Failure::input(format!("more than one license id begins with {prefix}")).hint("give more digits"))
        }
    }
}

/// A key from stdin.
///
/// # Errors
/// It cannot be read.
pub(in crate::commands) fn key_of_stdin() -> Result<Zeroizing<String>, Failure> {
    read_key(io::stdin().lock())
}

fn read_key(stdin: impl Read) -> Result<Zeroizing<String>, Failure> {
    let mut given = Zeroizing::new(String::new());
    stdin
        .take(MAX_STDIN)
        .read_to_string(&mut given)
        .map_err(Failure::environment)?;
    Ok(given)
}

fn wanted(given: &str) -> Result<SelectedIds, Failure> {
    const HINT: &str = "`countersign license list` shows the licenses with the first digits of their ids";
    if given.trim().is_empty() {
        return Err(Failure::usage("no license is given: the argument or stdin is empty").hint(HINT));
    }
    let error = match given.parse::<LicenseKey>() {
        Ok(key) => {
            let id = key.id();
            return Ok(SelectedIds {
                ids: vec![id],
                prefix: None,
                shown: id.log_tag(),
                error: None,
            });
        }
        Err(error) => error,
    };
    let hex = given.trim().to_ascii_lowercase();
    let id: Option<LicenseId> = hex.parse().ok();
    let foreign = ForeignKey::parse(given).ok().map(|key| key.id());
    let is_prefix = (MIN_PREFIX..64).contains(&hex.len()) && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    // SECURITY: digits that may be a key are not shown.
    let shown = match (id, foreign) {
        (Some(id), _) => id.log_tag(),
        (None, Some(_)) => "with this key, or with an id that begins so".to_owned(),
        (None, None) => hex.clone(),
    };
    let ids: Vec<_> = id.into_iter().chain(foreign).collect();
    if ids.is_empty() && !is_prefix {
        return Err(match error {
            LicenseKeyError::Checksum => Failure::usage(error),
            LicenseKeyError::Malformed => {
                Failure::usage("expected a license key, an id, or the first 8 or more digits of an id").hint(HINT)
            }
        });
    }
    Ok(SelectedIds {
        ids,
        prefix: is_prefix.then_some(hex),
        shown,
        error: (error == LicenseKeyError::Checksum).then_some(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::license::testing::Instance;

    fn find(selector: &str) -> Result<String, String> {
        let instance = Instance::new();
        let registry = instance.registry();
        let selector: Selector = selector.parse().unwrap();
        selector
            .select(&[], &registry)
            .map(|selected| selected.license().details.note.clone())
            .map_err(|failure| failure.error.to_string())
    }

    #[test]
    fn a_license_is_found_by_key_by_id_and_by_the_beginning_of_its_id() {
        let key = Instance::key(1);
        let id = key.id().to_string();
        let typed = key.reveal().to_lowercase().replace('-', " ");
        for selector in [key.reveal(), &typed, &id, &id.to_uppercase(), &id[..12], &id[..8]] {
            assert_eq!(find(selector).as_deref(), Ok("first"), "{selector}");
        }
    }

    #[test]
    fn what_is_not_found_is_named_by_its_tag_and_never_by_the_key() {
        let stranger = Instance::key(99);
        assert_eq!(
            find(stranger.reveal()),
            Err(format!("there is no license {}", stranger.id().log_tag()))
        );
        assert_eq!(find("00000000"), Err("there is no license 00000000".into()));
        let mistyped = Instance::key(1).reveal().replacen('1', "2", 1);
        let neither = "there is no license with this key, or with an id that begins so";
        assert_eq!(find(&mistyped[1..]).unwrap_err(), neither);
        assert!(find(&mistyped).unwrap_err().contains("is mistyped"));
        assert_eq!(find("cc22c1ec86304b36883440e2e84cddff").unwrap_err(), neither);
        for text in ["", " \n"] {
            assert_eq!(
                find(text),
                Err("no license is given: the argument or stdin is empty".into())
            );
        }
        for text in ["0000000", "first", "0000000g"] {
            let reason = "expected a license key, an id, or the first 8 or more digits of an id";
            assert_eq!(find(text), Err(reason.into()));
        }
        assert!(!format!("{:?}", stranger.reveal().parse::<Selector>()).contains(stranger.reveal()));
    }

    #[test]
    fn stdin_is_read_up_to_a_limit() {
        assert_eq!(read_key(&b"abc\n"[..]).unwrap().as_str(), "abc\n");
        assert_eq!(read_key(io::repeat(b'a')).unwrap().len(), 1_024);
    }
}
