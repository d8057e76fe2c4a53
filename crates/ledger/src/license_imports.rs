//! Licenses of another system, with the sites that are active there: what is asked for, and what the committing thread
//! decides.
//!
//! One import at a time, and at most [`MAX_IMPORT_LINES`] lines of it in a commit, so that others wait for no more than
//! that. What an import says again changes nothing, and what was changed here since stays as it is.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;

use countersign_model::binding::{Binding, Stored};
use countersign_model::issued_license::{ChangeKind, ChangeScope, Hex128, IssueOrigin, IssuedLicense};
use countersign_model::license::License;
use countersign_model::license::LicenseStatus;
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Remarks;
use countersign_model::site_host::SiteHost;
use countersign_model::stored_text::OrderReference;

use crate::bindings::BoundSites;
use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::record::{self, LedgerEvent};
use crate::log::{LedgerEntry, license_line};

/// The most lines of one import in a commit.
pub const MAX_IMPORT_LINES: usize = 500;

/// A license of another system.
#[derive(Clone, Debug)]
pub struct LicenseImport {
    /// The license. Its details are not looked at.
    pub license: License,
    /// What the other system calls it.
    pub reference: Option<OrderReference>,
    /// The customer's number, for a license that is new. A later import does not alter it.
    pub holder: Option<Hex128>,
    /// A digest of what the other system says of it, sites included.
    pub content: Hex128,
    /// The sites that are active there, and since when.
    pub sites: Vec<(SiteHost, DateTime<Utc>)>,
}

/// Licenses to import in one commit. Each counts as one line, and each of its sites.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The licenses.
    pub licenses: Vec<LicenseImport>,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl ImportRequest {
    /// The lines that it has at most.
    pub fn lines(&self) -> usize {
        self.licenses.iter().map(|import| 1 + import.sites.len()).sum()
    }
}

/// What became of one license.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportOutcome {
    /// The license itself.
    pub license: ImportResult,
    /// How many of its sites were bound.
    pub bound: usize,
}

/// What became of a license itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportResult {
    /// It is new.
    Issued,
    /// An earlier import had it otherwise.
    Changed,
    /// It is so already.
    Unchanged,
    /// It was changed here since it was imported, and says something new: both are decisions of people.
    ChangedHere,
    /// The ledger has a license with this key that was not imported.
    NotImported,
    /// It has too many modules or features for a line of the ledger.
    TooLong,
}

impl ImportResult {
    /// Whether the license is as the other system says.
    pub(crate) fn is_taken(self) -> bool {
        matches!(self, Self::Issued | Self::Changed | Self::Unchanged)
    }
}

/// Licenses of another system, and the turn of their import, which ends when it is answered.
#[derive(Debug)]
pub(crate) struct ImportInTurn {
    import: ImportRequest,
    _turn: OwnedMutexGuard<()>,
}

impl ImportInTurn {
    pub(crate) fn new(import: ImportRequest, turn: OwnedMutexGuard<()>) -> Self {
        Self { import, _turn: turn }
    }
}

impl LedgerCommand for ImportInTurn {
    /// An outcome for each of its licenses, in their order.
    type Outcome = Vec<ImportOutcome>;
    const TURN: CommitTurn = CommitTurn::Import;
    const MOST_LINES: usize = MAX_IMPORT_LINES;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> Vec<ImportOutcome> {
        let now = draft.now(self.import.now);
        let bound = |event: &LedgerEvent| match event {
            LedgerEvent::Bound(LedgerEntry { license, binding }) => Some((*license, binding.host.clone())),
            _ => None,
        };
        let mut beside: HashSet<_> = draft.appended().iter().filter_map(bound).collect();
        let mut outcomes = Vec::new();
        for import in &self.import.licenses {
            let license = import.license.id;
            let current = draft.licenses.of(&license);
            let stored = draft.stored(&license);
            let decided = decide(import, current.as_deref(), &stored, &beside, now);
            if decided.outcome.license.is_taken()
                && let Some(license) = decided.license.as_ref().or(current.as_deref())
            {
                draft.texts.keep(import.reference.as_ref(), license);
            }
            if let Some(issued) = decided.license {
                draft.append(LedgerEvent::License(Arc::new(issued)));
            }
            for binding in decided.bindings {
                beside.insert((license, binding.host.clone()));
                draft.append_beside(LedgerEntry { license, binding });
            }
            outcomes.push(decided.outcome);
        }
        outcomes
    }
}

/// What one license of an import needs in the ledger.
pub(crate) struct ImportDecision {
    pub outcome: ImportOutcome,
    /// The license as it shall be, unless it is so already.
    pub license: Option<IssuedLicense>,
    /// The sites to bind.
    pub bindings: Vec<Binding>,
}

impl LicenseImport {
    /// The HMAC that the license's line has. It stays if a secret was rotated and the order is the same.
    fn line_reference(&self, current: Option<&IssuedLicense>) -> Option<Hex128> {
        let reference = self.reference.as_ref()?;
        let known = current.and_then(|current| current.reference);
        let is_same = |known: &Hex128| reference.names().any(|name| name == *known);
        Some(known.filter(is_same).unwrap_or(reference.name))
    }
}

/// Who imports.
pub(crate) fn import_scope() -> Arc<ChangeScope> {
    Arc::new(ChangeScope::importer())
}

/// Decides about one license. `current` is the license as it is, `stored` its bindings, and `beside` the hosts of those that
/// the same commit adds.
pub(crate) fn decide(
    import: &LicenseImport,
    current: Option<&IssuedLicense>,
    stored: &BoundSites<'_>,
    beside: &HashSet<(LicenseId, SiteHost)>,
    now: DateTime<Utc>,
) -> ImportDecision {
    let (result, license) = of_license(import, current, now);
    let bindings = match result.is_taken() {
        true => new_bindings(import, current, stored, beside, now),
        false => Vec::new(),
    };
    let outcome = ImportOutcome {
        license: result,
        bound: bindings.len(),
    };
    ImportDecision {
        outcome,
        license,
        bindings,
    }
}

fn of_license(
    import: &LicenseImport,
    current: Option<&IssuedLicense>,
    now: DateTime<Utc>,
) -> (ImportResult, Option<IssuedLicense>) {
    let scope = import_scope();
    let reference = import.line_reference(current);
    let mut license = import.license.clone();
    license.details = Default::default();
    let is_withdrawn = license.status != LicenseStatus::Active;
    let (result, issued) = match current {
        None => {
            let remarks = Remarks {
                holder: import.holder,
                ..Remarks::NONE
            };
            license.set_remarks(remarks);
            let origin = IssueOrigin {
                body: import.content,
                key: request_key(&license.id),
                // The key is the other system's, so nothing is derived from these.
                salt: Hex128([0; 16]),
                secret: 0,
                scope: Arc::clone(&scope),
                issued: now,
            };
            let issued = IssuedLicense {
                kind: ChangeKind::Issued,
                license,
                origin,
                reference,
                revision: 1,
                status_by: is_withdrawn.then(|| Arc::clone(&scope)),
                scope,
                time: now,
            };
            (ImportResult::Issued, issued)
        }
        Some(current) if current.origin.scope != scope => return (ImportResult::NotImported, None),
        Some(current) => {
            // What was decided here of its hosts stays.
            license.details = current.license.details.clone();
            if license == current.license && reference == current.reference {
                return (ImportResult::Unchanged, None);
            }
            if current.scope != scope {
                // The person who changed it here knew what the first import said.
                let is_news = import.content != current.origin.body;
                let result = if is_news {
                    ImportResult::ChangedHere
                } else {
                    ImportResult::Unchanged
                };
                return (result, None);
            }
            let Some(revision) = current.revision.checked_add(1) else {
                return (ImportResult::ChangedHere, None);
            };
            let kind = ChangeKind::between(&current.license, &license);
            license.set_remarks(current.license.details.remarks().lasting());
            let issued = IssuedLicense {
                kind,
                license,
                origin: current.origin.clone(),
                reference,
                revision,
                status_by: is_withdrawn.then(|| Arc::clone(&scope)),
                scope,
                time: now.max(current.time),
            };
            (ImportResult::Changed, issued)
        }
    };
    match license_line::longest(&issued) <= record::MAX_LICENSE {
        true => (result, Some(issued)),
        false => (ImportResult::TooLong, None),
    }
}

/// The sites that were never bound here. A site that was released here stays so.
fn new_bindings(
    import: &LicenseImport,
    current: Option<&IssuedLicense>,
    stored: &BoundSites<'_>,
    beside: &HashSet<(LicenseId, SiteHost)>,
    now: DateTime<Utc>,
) -> Vec<Binding> {
    let id = import.license.id;
    let details = current.map(|current| &*current.license.details);
    let released = details.map(|details| &details.released);
    let mut seen = HashSet::new();
    let mut bindings = Vec::new();
    for (host, since) in &import.sites {
        let was_decided =
            details.is_some_and(|details| details.hosts.contains(host) || details.released.hosts.contains_key(host));
        let was_bound = stored.find(host).is_some() || stored.moves().iter().any(|moved| moved.host == *host);
        if was_decided || was_bound || beside.contains(&(id, host.clone())) || !seen.insert(host) {
            continue;
        }
        // Newer than every release, or the release would void it.
        let by_vendor = released.and_then(|released| released.time_of(host));
        let by_client = stored.moves().last().map(|moved| moved.time);
        let since = (*since).min(now);
        let bound_at = by_vendor.max(by_client).map_or(since, |release| release.max(since));
        bindings.push(Binding::new(host.clone(), bound_at));
    }
    bindings
}

/// What an idempotency key is for other licenses. Those of requests are HMACs, so none is equal to it.
fn request_key(id: &LicenseId) -> Hex128 {
    Hex128::of_words("import\n", format_args!("{id}"))
}
