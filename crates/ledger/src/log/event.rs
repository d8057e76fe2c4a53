//! What the lines of the ledger say, and what the line of each kind implements.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use countersign_model::api_token::ApiToken;
use countersign_model::digest::Digest;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license_key::LicenseId;

use crate::log::{
    ClaimEntry, Compaction, ErasureEntry, HandedEntry, LedgerEntry, ReleaseEntry, ReminderEntry, RolloutEntry,
    SaleEntry, SessionEntry, VouchEntry,
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
    /// A step of a rollout.
    Rollout(RolloutEntry),
    /// Somebody vouched for a license, or took that back.
    Vouched(Arc<VouchEntry>),
    /// The customer of a license got something.
    Handed(Arc<HandedEntry>),
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

    /// The license that it is about; `None` if it is about something else.
    pub fn license(&self) -> Option<&LicenseId> {
        match self {
            Self::Bound(entry) => Some(&entry.license),
            Self::Released(entry) => Some(&entry.license),
            Self::Claimed(entry) => Some(&entry.license),
            Self::License(issued) => Some(&issued.license.id),
            Self::Vouched(entry) => Some(&entry.license),
            Self::Handed(entry) => Some(&entry.license),
            Self::Sale(_)
            | Self::Token(_)
            | Self::Erased(_)
            | Self::Reminded(_)
            | Self::Session(_)
            | Self::Rollout(_)
            | Self::Compacted(_) => None,
        }
    }

    /// The texts that it names.
    pub fn texts(&self) -> EventTexts {
        match self {
            Self::License(issued) => {
                let remarks = issued.license.details.remarks();
                EventTexts {
                    note: remarks.note,
                    reason: remarks.reason,
                    who: remarks.who,
                }
            }
            Self::Vouched(entry) => EventTexts {
                reason: entry.reason,
                who: entry.who,
                ..EventTexts::default()
            },
            Self::Handed(entry) => EventTexts {
                reason: entry.reason,
                who: entry.who,
                ..EventTexts::default()
            },
            Self::Token(token) => EventTexts {
                reason: token.reason,
                who: token.who,
                ..EventTexts::default()
            },
            Self::Rollout(entry) => EventTexts {
                reason: entry.mark.reason,
                who: entry.mark.who,
                ..EventTexts::default()
            },
            Self::Erased(entry) => EventTexts {
                who: entry.who,
                ..EventTexts::default()
            },
            Self::Bound(_)
            | Self::Released(_)
            | Self::Sale(_)
            | Self::Claimed(_)
            | Self::Reminded(_)
            | Self::Session(_)
            | Self::Compacted(_) => EventTexts::default(),
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
            Self::Rollout(entry) => entry.mark.time,
            Self::Vouched(entry) => entry.time,
            Self::Handed(entry) => entry.time,
            Self::Compacted(compaction) => compaction.time,
        }
    }
}

/// The names of texts that stand beside the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTexts {
    /// The vendor's note of the license.
    pub note: Option<Hex128>,
    /// Why it happened.
    pub reason: Option<Hex128>,
    /// The name of the person.
    pub who: Option<Hex128>,
}

impl EventTexts {
    /// The texts about a license, which are erased with it. The name of a person is in other lines, too.
    pub fn about_license(self) -> impl Iterator<Item = Hex128> {
        let Self { note, reason, who: _ } = self;
        [note, reason].into_iter().flatten()
    }
}

/// A line of one kind: its members in the order of RFC 8785.
pub(super) trait EventLine: DeserializeOwned {
    /// Its `sequence`, `previous` and `synced`.
    fn place(&self) -> (u64, Digest, u64);

    /// What it says.
    fn event(self) -> serde_json::Result<LedgerEvent>;
}
