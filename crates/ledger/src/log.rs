//! The log: every event of the ledger, as a chain of lines. It is the truth, an audit trail and a backup.
//!
//! **A line** is one RFC 8785 JSON object and a line feed, at most [`record::MAX`] bytes ([`record`], which lists the kinds):
//!
//! ```text
//! {"event":"bound","host":"shop.example","license":"<64 hex>","previous":"<64 hex>","sequence":8,"synced":6,"time":"…Z"}
//! ```
//!
//! No line has a key, and no line has anything personal. `sequence` counts the lines from 1 through all compactions. `synced` is the
//! last line that was on disk when this one was written.
//!
//! **The chain.** `previous` is the SHA-256 of the line before, with its line feed: `sed -n 7p ledger.jsonl | sha256sum` is line 8's
//! `previous`. The very first line continues a fixed text ([`Position::genesis`]). A [`Position`] is a sequence and the digest of its
//! line, so it proves everything up to there.
//!
//! **A torn end.** A power failure can only tear what was never acknowledged: the last batch ([`record::BATCH`]). A start
//! ([`reader`]) removes an unreadable end if all of this holds; everything else is damage, and the store does not open:
//!
//! - The last line has no line feed, or the rest has zeros where the file system had not written yet.
//! - The rest is not longer than a batch can be.
//! - None of its lines has a `synced` beyond the end of the chain.
//! - It does not include lines kept by a compaction, which were on disk before the file got its name.
//!
//! **Compaction** begins a new file without superseded lines. Its first line has `"compacted"`, the number of kept lines, and in
//! `previous` the digest of the old file's last line, so old and new form one chain. The new file is synced and then renamed into
//! place; the old one stays beside it.
//!
//! `commit_writer` decides what a batch has, `disk` or `postgres` keeps it, and `recovery` compares the index with it.

pub(crate) mod chain;
pub(crate) mod claim_line;
pub(crate) mod compaction;
mod erasure_line;
mod event;
pub(crate) mod file;
mod handed_line;
pub(crate) mod license_line;
mod line_members;
pub mod reader;
pub mod record;
mod release_line;
mod reminder_line;
mod rollout_line;
pub(crate) mod sale_line;
mod session_line;
#[cfg(test)]
mod tests;
pub(crate) mod token_line;
mod vouch_line;
pub(crate) mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use countersign_model::binding::Binding;
use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::ShopId;
use countersign_model::reminder::ReminderKind;
use countersign_model::rollout::RolloutMark;
use countersign_model::sale::fact::{Fact, SalePlace};
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;
use countersign_model::site_claim::SiteClaim;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::SiteRelease;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// The ledger's name in the store's folder.
pub(crate) const NAME: &str = "ledger.jsonl";

/// The most names in one delivery. Shops name fewer than ten.
pub const MAX_NAMES: usize = 64;

/// What the very first line continues. Another line format needs another text.
const GENESIS: &[u8] = b"countersign ledger 1\n";

/// A site was bound to a license. It replaces an earlier binding of the same site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The license.
    pub license: LicenseId,
    /// The site, and when it was bound.
    pub binding: Binding,
}

/// A client released a site of a license, or moved it to another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseEntry {
    /// The license.
    pub license: LicenseId,
    /// The site, when, and how.
    pub release: SiteRelease,
    /// The binding of the new host, if the site moved and this binding was not superseded.
    pub successor: Option<Binding>,
}

impl ReleaseEntry {
    /// The release of a site. Where it moved, the line binds the new host, without a hash unless `successor` has one.
    pub fn new(license: LicenseId, release: SiteRelease) -> Self {
        Self {
            license,
            release,
            successor: None,
        }
    }
}

/// The claim of a site that was installed again, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEntry {
    /// The license.
    pub license: LicenseId,
    /// The claim as it is now.
    pub claim: SiteClaim,
}

/// A customer was erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasureEntry {
    /// The customer's number.
    pub number: Hex128,
    /// When.
    pub time: DateTime<Utc>,
    /// The number of the person who did it.
    pub who: Option<Hex128>,
}

/// A line about reminders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReminderEntry {
    /// A mail reminds of licenses. The line is there before the mail.
    Sent(SentReminder),
    /// All reminders are sent from now on, or none.
    Switched {
        /// Whether they are.
        on: bool,
        /// When.
        time: DateTime<Utc>,
    },
}

impl ReminderEntry {
    /// The mail, if it is about one.
    pub fn sent(&self) -> Option<&SentReminder> {
        match self {
            Self::Sent(sent) => Some(sent),
            Self::Switched { .. } => None,
        }
    }

    /// When it was written.
    pub fn time(&self) -> DateTime<Utc> {
        match self {
            Self::Sent(sent) => sent.time,
            Self::Switched { time, .. } => *time,
        }
    }
}

/// A line about a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutEntry {
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// What happened, when, and who did it.
    pub mark: RolloutMark,
}

/// A line about a license that somebody vouched for: what looks like sharing is fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VouchEntry {
    /// The license.
    pub license: LicenseId,
    /// The last day that it is fine; `None` if that was taken back.
    pub until: Option<NaiveDate>,
    /// The token, the command or the desk.
    pub scope: Arc<ChangeScope>,
    /// The name of the text that says why.
    pub reason: Option<Hex128>,
    /// The number of the person.
    pub who: Option<Hex128>,
    /// When.
    pub time: DateTime<Utc>,
}

impl VouchEntry {
    /// Whether the license is fine on this day.
    pub fn is_in_force(&self, today: NaiveDate) -> bool {
        self.until.is_some_and(|until| today <= until)
    }
}

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

/// How much longer than its end a line about a session is known, for clocks that differ.
pub(crate) const SESSION_SLACK: TimeDelta = TimeDelta::hours(1);

/// Something that pages gave to a browser, and that ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionMark {
    /// A code or link that signs in once.
    Code(Hex128),
    /// A session.
    Session(Hex128),
    /// All sessions of somebody that began before.
    Owner(Hex128),
}

/// A line about the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    /// What ended.
    pub mark: SessionMark,
    /// When it would have ended anyway.
    pub until: DateTime<Utc>,
    /// When it ended.
    pub time: DateTime<Utc>,
}

impl SessionEntry {
    /// Whether somebody may still ask for it.
    pub(crate) fn matters_at(&self, now: DateTime<Utc>) -> bool {
        now.signed_duration_since(self.until) < SESSION_SLACK
    }
}

/// A mail that reminds of licenses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentReminder {
    /// The last day of the licenses.
    pub expires: NaiveDate,
    /// Which reminder.
    pub kind: ReminderKind,
    /// The licenses.
    pub licenses: Vec<LicenseId>,
    /// The mail's number.
    pub mail: Hex128,
    /// When it was claimed.
    pub time: DateTime<Utc>,
}

/// A line about a sale: what became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleEntry {
    /// The sale: the name that it was first called by.
    pub sale: Hex128,
    /// Facts.
    pub facts: Vec<Fact<Hex128>>,
    /// Names that are this sale's from now on. One of them may be the id of a sale that is the same one.
    pub names: Vec<Hex128>,
    /// The places of a subscription from now on.
    pub places: BTreeMap<Hex128, Vec<SalePlace<Hex128>>>,
    /// What prices of a subscription or a payment grant from now on.
    pub terms: Vec<SoldTerms>,
    /// Whether deliveries of it were applied before facts were kept.
    pub is_earlier: bool,
    /// What is known of the sale after this line. Only the node that wrote the line has it; it is in no file.
    pub after: Option<Arc<SaleFacts<Hex128>>>,
    /// The shop.
    pub scope: Arc<ChangeScope>,
    /// When it was written.
    pub time: DateTime<Utc>,
}

/// What a price grants that a sale named.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoldTerms {
    /// What was sold.
    pub price: ShopId,
    /// The subscription or the payment.
    pub sale: Hex128,
    /// What it grants.
    pub terms: Terms,
}

/// A position in the chain, which identifies everything up to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// From 1 through all compactions. In messages, `line` is a line of the file.
    pub sequence: u64,
    /// The SHA-256 of the line, with its line feed.
    pub digest: Digest,
}

impl Position {
    /// Before the first line.
    pub fn genesis() -> Self {
        Self {
            sequence: 0,
            digest: Digest::of(GENESIS),
        }
    }

    /// The position of the next line.
    pub(crate) fn after(self, line: &[u8]) -> Self {
        Self {
            sequence: self.sequence + 1,
            digest: Digest::of(line),
        }
    }
}

/// The first line of a compacted ledger, with the position that it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The number of kept lines after it.
    pub kept: u64,
    /// When it was made.
    pub time: DateTime<Utc>,
}
