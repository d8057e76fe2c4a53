//! Claims of sites that were installed again, decided by the committing thread.
//!
//! A bound host that validates with another hash begins a claim, ends one, carries one out, or takes its binding back:
//! [`next_step`](site_claim::next_step) says which. What a validation with the bound hash shows is written only while a claim waits.

use chrono::{DateTime, Utc};

use countersign_model::binding::{Binding, Stored as _};
use countersign_model::license::{License, LicenseState};
use countersign_model::site_claim::{self, ClaimStep, SiteClaim};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

use crate::bindings::BoundSites;
use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::record::LedgerEvent;
use crate::log::{ClaimEntry, LedgerEntry};
use crate::site_moves;

/// A release hash that a host sent with a validation.
#[derive(Clone, Copy, Debug)]
pub struct SeenHash<'a> {
    /// The license. One of the ledger may have changed when the thread decides.
    pub license: &'a License,
    /// The host.
    pub host: &'a SiteHost,
    /// The hash.
    pub hash: ReleaseHash,
    /// Whether the license is active.
    pub is_active: bool,
    /// Whether the request may begin a claim: only where the server can mail the customer.
    pub may_begin: bool,
    /// The time of the request. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl SeenHash<'_> {
    /// The claim after this validation; `None` if it changes nothing. `claims` are those of the license.
    pub(crate) fn follows(&self, stored: &BoundSites<'_>, claims: &[SiteClaim]) -> Option<SiteClaim> {
        let Self { license, now, .. } = *self;
        let is_held = |binding: &&Binding| !license.is_void(binding);
        let bound = stored.find(self.host).filter(is_held)?.release_hash()?;
        let claim = claims.iter().find(|claim| claim.host == *self.host);
        let others = claims
            .iter()
            .filter(|claim| claim.host != *self.host && claim.is_recent(now));
        let may_begin = self.may_begin && others.count() < site_claim::MOST_CLAIMS;
        let step = site_claim::next_step(claim, [bound, self.hash], (self.is_active, may_begin), now)?;
        Some(match claim.filter(|_| step != ClaimStep::Begun) {
            Some(claim) => SiteClaim {
                step,
                time: now,
                ..claim.clone()
            },
            None => SiteClaim {
                host: self.host.clone(),
                hash: self.hash,
                replaces: bound,
                step,
                time: now,
            },
        })
    }
}

/// A release hash that waits for its commit.
#[derive(Debug)]
pub(crate) struct NotedHash {
    license: License,
    host: SiteHost,
    hash: ReleaseHash,
    is_active: bool,
    may_begin: bool,
    now: DateTime<Utc>,
}

impl From<SeenHash<'_>> for NotedHash {
    fn from(seen: SeenHash<'_>) -> Self {
        Self {
            license: seen.license.clone(),
            host: seen.host.clone(),
            hash: seen.hash,
            is_active: seen.is_active,
            may_begin: seen.may_begin,
            now: seen.now,
        }
    }
}

impl LedgerCommand for NotedHash {
    type Outcome = Option<ClaimStep>;
    const TURN: CommitTurn = CommitTurn::Release;
    /// The claim, and the binding.
    const MOST_LINES: usize = 2;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> Option<ClaimStep> {
        let license = self.license.id;
        let now = draft.now(self.now);
        let claims = draft.claims_of(&license);
        let current = draft.current(&self.license);
        let stored = draft.stored(&license);
        let seen = SeenHash {
            license: &current,
            host: &self.host,
            hash: self.hash,
            is_active: self.is_active,
            may_begin: self.may_begin,
            now,
        };
        let claim = seen.follows(&stored, &claims)?;
        let bound_at = site_moves::bound_at(&current, &stored, &self.host, now);
        // What it shares would live on, and the change below would copy all bindings of the license.
        drop(stored);
        let step = claim.step;
        write(draft, ClaimEntry { license, claim }, bound_at);
        Some(step)
    }
}

/// Writes a step, and the binding where it has another hash from then on.
fn write(draft: &mut CommitDraft<'_>, entry: ClaimEntry, bound_at: DateTime<Utc>) {
    let ClaimEntry { license, claim } = &entry;
    let license = *license;
    let hash = match claim.step {
        ClaimStep::Begun | ClaimStep::Ended => None,
        ClaimStep::Taken | ClaimStep::Confirmed => Some(claim.hash),
        ClaimStep::Returned => Some(claim.replaces),
    };
    let binding = Binding::new(claim.host.clone(), bound_at).guarded(hash);
    draft.append(LedgerEvent::Claimed(entry));
    if hash.is_some() {
        draft.append(LedgerEvent::Bound(LedgerEntry { license, binding }));
    }
}

/// The customer says that a claim is right. It is carried out if it waits as it was read, its time is not over, and the license is
/// active.
#[derive(Debug)]
pub(crate) struct ConfirmedClaim {
    pub license: License,
    pub claim: SiteClaim,
    pub now: DateTime<Utc>,
}

impl LedgerCommand for ConfirmedClaim {
    type Outcome = bool;
    const TURN: CommitTurn = CommitTurn::Release;
    /// The claim, and the binding.
    const MOST_LINES: usize = 2;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> bool {
        let license = self.license.id;
        let now = draft.now(self.now);
        let is_known = draft.claims_of(&license).contains(&self.claim);
        let current = draft.current(&self.license);
        let stored = draft.stored(&license);
        let held = stored
            .find(&self.claim.host)
            .filter(|binding| !current.is_void(binding));
        let bound = held.and_then(Binding::release_hash);
        let waits = is_known && bound.is_some_and(|bound| self.claim.may_be_confirmed(bound, now));
        if !waits || current.state(now.date_naive()) != LicenseState::Active {
            return false;
        }
        let bound_at = site_moves::bound_at(&current, &stored, &self.claim.host, now);
        // As above.
        drop(stored);
        let claim = SiteClaim {
            step: ClaimStep::Confirmed,
            time: now,
            ..self.claim.clone()
        };
        write(draft, ClaimEntry { license, claim }, bound_at);
        true
    }
}

/// Ends a claim that waits, because lines were lost that may have ended it.
#[derive(Debug)]
pub(crate) struct EndedClaim {
    pub entry: ClaimEntry,
    pub now: DateTime<Utc>,
}

impl LedgerCommand for EndedClaim {
    type Outcome = ();
    const TURN: CommitTurn = CommitTurn::Release;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) {
        let ClaimEntry { license, claim } = &self.entry;
        if draft.claims_of(license).contains(claim) {
            let time = draft.now(self.now);
            draft.append(LedgerEvent::Claimed(ClaimEntry {
                license: *license,
                claim: SiteClaim {
                    step: ClaimStep::Ended,
                    time,
                    ..claim.clone()
                },
            }));
        }
    }
}
