//! The line of a site that was bound, in the order of RFC 8785.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::binding::Binding;
use countersign_model::digest::Digest;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

use crate::log::line_event::{ChangesBy, EventLine, LineActor, LineEvent, append};
use crate::log::position::Position;

/// A site was bound to a license. It replaces an earlier binding of the same site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The license.
    pub license: LicenseId,
    /// The site, and when it was bound.
    pub binding: Binding,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoundLine {
    event: BoundTag,
    host: SiteHost,
    license: LicenseId,
    previous: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release_hash: Option<ReleaseHash>,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BoundTag {
    Bound,
}

impl BoundLine {
    /// The line of this binding after `previous`.
    fn new(LedgerEntry { license, binding }: &LedgerEntry, previous: Position, synced: u64) -> Self {
        Self {
            event: BoundTag::Bound,
            host: binding.host.clone(),
            license: *license,
            previous: previous.digest,
            release_hash: binding.release_hash(),
            sequence: previous.sequence + 1,
            synced,
            time: binding.bound_at,
        }
    }
}

impl EventLine for BoundLine {
    type Event = LedgerEntry;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let binding = Binding::new(self.host, self.time).guarded(self.release_hash);
        let license = self.license;
        Ok(LedgerEntry { license, binding })
    }
}

impl LineEvent for LedgerEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &BoundLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.binding.bound_at
    }

    fn license(&self) -> Option<&LicenseId> {
        Some(&self.license)
    }

    fn actor(&self) -> LineActor {
        LineActor::Site
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        ("bound", vec![format!("{} bound", self.binding.host)])
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(ChangesBy::Anyone)
    }
}
