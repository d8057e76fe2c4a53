//! Requests for a seat, and how the committing thread decides them.

use chrono::{DateTime, Utc};

use countersign_model::binding::Binding;
use countersign_model::license::License;
use countersign_model::seat::Seat;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;
use countersign_model::staging_hosts::StagingRule;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::record::LedgerEvent;
use crate::log::{LedgerEntry, ReleaseEntry};
use crate::site_moves;

/// The result of binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The host is bound, durably.
    Bound,
    /// The license has no free site, and is bound to other hosts.
    Elsewhere {
        /// The host that was bound first.
        first: SiteHost,
    },
}

static NO_COPIES: StagingRule = StagingRule::NONE;

/// A host that asks for a seat.
#[derive(Clone, Copy, Debug)]
pub struct SeatRequest<'a> {
    /// The license. One of the ledger may have changed when the thread decides; it decides by what the license is then.
    pub license: &'a License,
    /// The site.
    pub host: &'a SiteHost,
    /// The hash of the secret that shall release the site. It counts if this request binds.
    pub release_hash: Option<ReleaseHash>,
    /// The hash of the secret with which the site takes back the seat that it moved away from.
    pub proof: Option<ReleaseHash>,
    /// The server's setting.
    pub staging: &'a StagingRule,
    /// The time of the request.
    pub now: DateTime<Utc>,
}

impl<'a> SeatRequest<'a> {
    /// A request without a release hash, to a server where staging copies need a seat.
    pub fn new(license: &'a License, host: &'a SiteHost, now: DateTime<Utc>) -> Self {
        Self {
            license,
            host,
            release_hash: None,
            proof: None,
            staging: &NO_COPIES,
            now,
        }
    }
}

/// A request for a seat that waits for its commit.
#[derive(Debug)]
pub(crate) struct WantedSeat {
    pub license: License,
    pub host: SiteHost,
    pub release_hash: Option<ReleaseHash>,
    pub proof: Option<ReleaseHash>,
    pub staging: StagingRule,
    pub now: DateTime<Utc>,
}

impl From<SeatRequest<'_>> for WantedSeat {
    fn from(seat: SeatRequest<'_>) -> Self {
        Self {
            license: seat.license.clone(),
            host: seat.host.clone(),
            release_hash: seat.release_hash,
            proof: seat.proof,
            staging: seat.staging.clone(),
            now: seat.now,
        }
    }
}

impl LedgerCommand for WantedSeat {
    type Outcome = BindOutcome;
    const TURN: CommitTurn = CommitTurn::Bind;
    /// Another site may leave.
    const MOST_LINES: usize = 2;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> BindOutcome {
        let Self { host, .. } = self;
        let license = &*draft.current(&self.license);
        let now = draft.now(self.now);
        let stored = draft.stored(&license.id);
        let under_way = draft.under_way.entry(license.id).or_default();
        let first = match license.seat_beside(&stored, under_way, &self.staging, host) {
            Seat::Held => return BindOutcome::Bound,
            Seat::Free => {
                let bound_at = site_moves::bound_at(license, &stored, host, now);
                let binding = Binding::new(host.clone(), bound_at).guarded(self.release_hash);
                under_way.push(binding.clone());
                draft.append_beside(LedgerEntry {
                    license: license.id,
                    binding,
                });
                return BindOutcome::Bound;
            }
            Seat::Taken { first } => first.clone(),
        };
        let is_returning = site_moves::may_return(license, &stored, host, self.proof, now).is_some();
        if is_returning && self.take_back(license, draft, now) {
            return self.decide(draft);
        }
        BindOutcome::Elsewhere { first }
    }
}

impl WantedSeat {
    /// Frees a seat for a host that may take its own back; whether there is one then.
    fn take_back(&self, current: &License, draft: &mut CommitDraft<'_>, now: DateTime<Utc>) -> bool {
        let license = current.id;
        let stored = draft.stored_with(license);
        let leaving = site_moves::leaving(current, &stored, &self.staging, (&self.host, self.proof), now);
        // What it shares would live on, and each change below would copy all bindings of the license.
        drop(stored);
        let Some(releases) = leaving.filter(|releases| releases.len() <= draft.copies_may_leave + 1) else {
            return false;
        };
        draft.copies_may_leave -= releases.len() - 1;
        for release in releases {
            draft.append(LedgerEvent::Released(ReleaseEntry::new(license, release)));
        }
        true
    }
}
