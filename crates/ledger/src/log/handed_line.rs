//! The line `handed`: the customer of a license got something. Its members are in the order of RFC 8785.
//!
//! [`event`](crate::log::event) lists the kinds of lines.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

use crate::log::line_event::{ChangesBy, EventLine, EventTexts, LineEvent, append};
use crate::log::position::Position;

/// A line about something that the customer of a license got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedEntry {
    /// Random, or made of the request: a form that is sent twice has one.
    pub id: Hex128,
    /// The license.
    pub license: LicenseId,
    /// What.
    pub what: Handout,
    /// The customer's page, the token, the command or the desk.
    pub scope: Arc<ChangeScope>,
    /// The name of the text that says why.
    pub reason: Option<Hex128>,
    /// The number of the person.
    pub who: Option<Hex128>,
    /// When.
    pub time: DateTime<Utc>,
}

/// What a customer got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handout {
    /// The license key, by mail.
    Key,
    /// The page of the first copies, by mail.
    Page,
    /// A package, by the customer's page.
    Package(HandedPackage),
    /// Another address, to which mails go from then on.
    Address,
}

/// A package that a customer downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedPackage {
    /// The plugin.
    pub plugin: Slug,
    /// The release.
    pub version: Version,
    /// The site that it is for, if the customer named one.
    pub host: Option<SiteHost>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HandedLine {
    event: HandedTag,
    id: Hex128,
    kind: HandedKind,
    license: LicenseId,
    /// Only of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    package: Option<PackageMember>,
    previous: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason_ref: Option<Hex128>,
    scope: ChangeScope,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    who: Option<Hex128>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HandedTag {
    Handed,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HandedKind {
    Key,
    Page,
    Package,
    Address,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageMember {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<SiteHost>,
    plugin: Slug,
    version: Version,
}

impl HandedLine {
    /// The line of this entry after `previous`.
    pub(super) fn new(entry: &HandedEntry, previous: Position, synced: u64) -> Self {
        let (kind, package) = match &entry.what {
            Handout::Key => (HandedKind::Key, None),
            Handout::Page => (HandedKind::Page, None),
            Handout::Package(package) => (HandedKind::Package, Some(package.clone())),
            Handout::Address => (HandedKind::Address, None),
        };
        Self {
            event: HandedTag::Handed,
            id: entry.id,
            kind,
            license: entry.license,
            package: package.map(|package| PackageMember {
                host: package.host,
                plugin: package.plugin,
                version: package.version,
            }),
            previous: previous.digest,
            reason_ref: entry.reason,
            scope: ChangeScope::clone(&entry.scope),
            sequence: previous.sequence + 1,
            synced,
            time: entry.time,
            who: entry.who,
        }
    }
}

impl EventLine for HandedLine {
    type Event = Arc<HandedEntry>;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let what = match (self.kind, self.package) {
            (HandedKind::Key, None) => Handout::Key,
            (HandedKind::Page, None) => Handout::Page,
            (HandedKind::Address, None) => Handout::Address,
            (HandedKind::Package, Some(package)) => Handout::Package(HandedPackage {
                plugin: package.plugin,
                version: package.version,
                host: package.host,
            }),
            _ => {
                return Err(serde_json::Error::custom(
                    "a line of the kind 'package', and no other, has a package",
                ));
            }
        };
        let entry = HandedEntry {
            id: self.id,
            license: self.license,
            what,
            scope: Arc::new(self.scope),
            reason: self.reason_ref,
            who: self.who,
            time: self.time,
        };
        Ok(Arc::new(entry))
    }
}

impl LineEvent for HandedEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &HandedLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn license(&self) -> Option<&LicenseId> {
        Some(&self.license)
    }

    fn texts(&self) -> EventTexts {
        EventTexts::of_change(self.reason, self.who)
    }

    fn scope(&self) -> Option<&ChangeScope> {
        Some(&self.scope)
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        let (word, what) = match &self.what {
            Handout::Key => ("key mailed", "the key was mailed again".to_owned()),
            Handout::Page => ("page mailed", "the download page was mailed again".to_owned()),
            Handout::Address => ("address", "the customer has a new mail address".to_owned()),
            Handout::Package(HandedPackage { plugin, version, host }) => {
                let host = host.as_ref().map_or(String::new(), |host| format!(" for {host}"));
                ("downloaded", format!("{plugin} {version} was downloaded{host}"))
            }
        };
        (word, vec![what])
    }

    fn change(&self) -> Option<ChangesBy> {
        // What customers took by themselves is no change of people.
        Some(match *self.scope == ChangeScope::account() {
            true => ChangesBy::Anyone,
            false => ChangesBy::People,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerEvent, LedgerRecord, LineError};
    use crate::testing::written;

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        let package = |host: Option<&str>| HandedPackage {
            plugin: "acme-forms".parse().unwrap(),
            version: "1.2.0".parse().unwrap(),
            host: host.map(|host| host.parse().unwrap()),
        };
        let person = Some(Hex128([2; 16]));
        for (what, who) in [
            (Handout::Key, None),
            (Handout::Page, person),
            (Handout::Package(package(None)), None),
            (Handout::Package(package(Some("new.example"))), None),
            (Handout::Address, person),
        ] {
            let entry = HandedEntry {
                id: Hex128([7; 16]),
                license: LicenseId::from_bytes([1; 32]),
                what,
                scope: Arc::new(ChangeScope::account()),
                reason: who,
                who,
                time: DateTime::UNIX_EPOCH,
            };
            let text = written(LedgerEvent::Handed(entry.into()));
            assert!(text.starts_with("{\"event\":\"handed\""), "{text}");
            // As this version reads a line of one that knows more of it.
            let newer = text.replace("\"license\"", "\"later\":1,\"license\"");
            assert!(matches!(LedgerRecord::read(newer.as_bytes()), Err(LineError::Newer(_))));
            let other = match text.contains("package") {
                true => text.replace("\"kind\":\"package\"", "\"kind\":\"key\""),
                false => text.replace("\"kind\":", "\"kind\":\"package\",\"was\":"),
            };
            assert!(LedgerRecord::read(other.as_bytes()).is_err(), "{other}");
        }
    }
}
