//! The line `handed`: a customer had a license key mailed again, or downloaded a package. Its members are in the order of RFC 8785.
//!
//! [`record`](crate::log::record) calls this.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

use crate::log::event::{EventLine, LedgerEvent};
use crate::log::{HandedEntry, HandedPackage, Position};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HandedLine {
    event: HandedTag,
    id: Hex128,
    license: LicenseId,
    /// A line without a package is about the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    package: Option<PackageMember>,
    previous: Digest,
    scope: ChangeScope,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HandedTag {
    Handed,
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
        let package = entry.package.clone().map(|package| PackageMember {
            host: package.host,
            plugin: package.plugin,
            version: package.version,
        });
        Self {
            event: HandedTag::Handed,
            id: entry.id,
            license: entry.license,
            package,
            previous: previous.digest,
            scope: ChangeScope::clone(&entry.scope),
            sequence: previous.sequence + 1,
            synced,
            time: entry.time,
        }
    }
}

impl EventLine for HandedLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let package = self.package.map(|package| HandedPackage {
            plugin: package.plugin,
            version: package.version,
            host: package.host,
        });
        let entry = HandedEntry {
            id: self.id,
            license: self.license,
            package,
            scope: Arc::new(self.scope),
            time: self.time,
        };
        Ok(LedgerEvent::Handed(entry.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerRecord, LineError};

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        let package = |host: Option<&str>| HandedPackage {
            plugin: "acme-forms".parse().unwrap(),
            version: "1.2.0".parse().unwrap(),
            host: host.map(|host| host.parse().unwrap()),
        };
        for package in [None, Some(package(None)), Some(package(Some("new.example")))] {
            let entry = HandedEntry {
                id: Hex128([7; 16]),
                license: LicenseId::from_bytes([1; 32]),
                package,
                scope: Arc::new(ChangeScope::account()),
                time: DateTime::UNIX_EPOCH,
            };
            let record = LedgerRecord {
                previous: Position::genesis(),
                synced: 0,
                change: LedgerEvent::Handed(entry.into()),
            };
            let mut line = Vec::new();
            record.write(&mut line).unwrap();
            let text = String::from_utf8(line.clone()).unwrap();
            assert!(text.starts_with("{\"event\":\"handed\""), "{text}");
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap() + "\n", text);
            assert_eq!(LedgerRecord::read(&line).unwrap(), record);
            // As this version reads a line of one that knows more of it.
            let newer = text.replace("\"license\"", "\"kind\":\"page\",\"license\"");
            assert!(matches!(LedgerRecord::read(newer.as_bytes()), Err(LineError::Newer(_))));
        }
    }
}
