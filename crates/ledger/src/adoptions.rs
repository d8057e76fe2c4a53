//! Adoption: the ledger takes licenses that files declare. What is asked for, and what the committing thread decides.
//!
//! A change of a declared license is one line with its adoption, so that no node sees the one without the other.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, IssueOrigin};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::LicenseStep;
use countersign_model::remarks::{Author, NamedText, NewRemarks};
use countersign_model::staging_hosts::StagingRule;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::ledger_change::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange};

/// A declared license to adopt.
#[derive(Clone, Debug)]
pub struct AdoptionRequest {
    /// As the file declares it.
    pub declared: License,
    /// The vendor's note in the file; it goes to the license that comes out of it.
    pub note: Option<NamedText>,
    /// The server's setting about staging copies.
    pub staging: StagingRule,
    /// A step in the same line as the adoption; `None` for an adoption alone. If the ledger has the license already, the step
    /// changes the ledger's license.
    pub then: Option<AdoptedStep>,
    /// Who asks for it.
    pub scope: Arc<ChangeScope>,
    /// The person who asks for it, and why.
    pub author: Author,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// What happens to a declared license when the ledger takes it.
#[derive(Clone, Debug)]
pub enum AdoptedStep {
    /// It changes.
    Step(LicenseStep),
    /// A new license takes its place.
    Rekey {
        /// The new license.
        id: LicenseId,
        /// Where the new license comes from.
        origin: IssueOrigin,
        /// As of [`ChangeBasis::Issue`].
        retired: Vec<IssueOrigin>,
    },
}

impl LedgerCommand for AdoptionRequest {
    type Outcome = ChangeOutcome;
    const TURN: CommitTurn = CommitTurn::License;
    /// A new license may take its place.
    const MOST_LINES: usize = 2;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> ChangeOutcome {
        let id = self.declared.id;
        if let Some(current) = draft.licenses.of(&id) {
            return match &self.then {
                Some(then) => self.following(then).decide(draft),
                None if current.adopted_grant() == Some(self.declared.grant_digest()) => {
                    ChangeOutcome::Repeated(current)
                }
                None => ChangeOutcome::Refused(ChangeRefusal::Exists),
            };
        }
        let now = draft.now(self.now);
        let adopted = self
            .declared
            .adopted(&draft.stored_with(id), &self.staging, &self.scope, now);
        let as_declared = self.change(adopted.license.clone(), ChangeBasis::Revision(adopted.revision));
        draft.licenses.assume(Arc::new(adopted));
        let outcome = match &self.then {
            Some(then) => match self.following(then).decide(draft) {
                // It is so already, and the license is taken all the same.
                ChangeOutcome::Repeated(_) if draft.licenses.is_assumed(&id) => as_declared.decide(draft),
                outcome => outcome,
            },
            None => as_declared.decide(draft),
        };
        draft.licenses.forget_assumed(&id);
        outcome
    }
}

impl AdoptionRequest {
    /// What happens to the license once the ledger has it.
    fn following(&self, then: &AdoptedStep) -> LedgerChange {
        let license = self.declared.clone();
        match then {
            AdoptedStep::Step(step) => {
                let step = step.clone();
                self.change(license, ChangeBasis::Step { step, revision: None })
            }
            AdoptedStep::Rekey { id, origin, retired } => {
                let basis = ChangeBasis::Rekey {
                    origin: origin.clone(),
                    retired: retired.clone(),
                    old: license.id,
                    revision: None,
                };
                self.change(License { id: *id, ..license }, basis)
            }
        }
    }

    fn change(&self, license: License, basis: ChangeBasis) -> LedgerChange {
        LedgerChange {
            license,
            remarks: NewRemarks {
                note: self.note.clone().map(Some),
                ..NewRemarks::default()
            },
            reference: None,
            scope: Arc::clone(&self.scope),
            author: self.author.clone(),
            status_by: None,
            now: self.now,
            basis,
        }
    }
}
