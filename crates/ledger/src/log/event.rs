//! What the lines of the ledger say, and what the line of each kind implements.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use countersign_model::api_token::ApiToken;
use countersign_model::digest::Digest;
use countersign_model::issued_license::IssuedLicense;

use crate::log::{
    ClaimEntry, Compaction, ErasureEntry, LedgerEntry, ReleaseEntry, ReminderEntry, SaleEntry, SessionEntry,
};

/// The event of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerEvent {
    /// A site was bound.
    Bound(LedgerEntry),
    /// A client released a site, or moved it to another host.
    Released(ReleaseEntry),
    /// A license was issued or changed: the whole license as it is now.
    License(Arc<IssuedLicense>),
    /// A shop reported a change of a sale.
    Sale(Arc<SaleEntry>),
    /// A token was made, revoked, or used on a new day: the whole token as it is now.
    Token(Arc<ApiToken>),
    /// A site that was installed again claimed its binding, or what became of that.
    Claimed(ClaimEntry),
    /// A customer was erased.
    Erased(ErasureEntry),
    /// A mail reminds of licenses, or all reminders were switched.
    Reminded(Arc<ReminderEntry>),
    /// A session or code of pages ended early.
    Session(SessionEntry),
    /// The first line of a compacted ledger.
    Compacted(Compaction),
}

impl LedgerEvent {
    /// The binding, if it makes one.
    pub fn binding(self) -> Option<LedgerEntry> {
        match self {
            Self::Bound(entry) => Some(entry),
            Self::Released(ReleaseEntry { license, successor, .. }) => {
                successor.map(|binding| LedgerEntry { license, binding })
            }
            _ => None,
        }
    }

    /// When it happened.
    pub fn time(&self) -> DateTime<Utc> {
        match self {
            Self::Bound(entry) => entry.binding.bound_at,
            Self::Released(entry) => entry.release.time,
            Self::License(issued) => issued.time,
            Self::Sale(entry) => entry.time,
            Self::Token(token) => token.time,
            Self::Claimed(entry) => entry.claim.time,
            Self::Erased(entry) => entry.time,
            Self::Reminded(entry) => entry.time(),
            Self::Session(entry) => entry.time,
            Self::Compacted(compaction) => compaction.time,
        }
    }
}

/// A line of one kind: its members in the order of RFC 8785.
pub(super) trait EventLine: DeserializeOwned {
    /// Its `sequence`, `previous` and `synced`.
    fn place(&self) -> (u64, Digest, u64);

    /// What it says.
    fn event(self) -> serde_json::Result<LedgerEvent>;
}
