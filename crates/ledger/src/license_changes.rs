//! Changes to licenses of the ledger: what the committing thread decides.
//!
//! A retry finds its license by the key of its origin, under the ledger's lock: two nodes never issue twice for one
//! request. The lines are added to the [`draft`](crate::draft) of the commit.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::binding::Binding;
use countersign_model::issued_license::{ChangeKind, ChangeScope, Hex128, IssueOrigin, IssuedLicense};
use countersign_model::license::{Details, License, LicenseStatus};
use countersign_model::license_step::{LicenseStep, StepRefusal};
use countersign_model::remarks::{Author, Remarks};
use countersign_model::sale::edits::Sold;

use crate::bindings::BoundSites;
use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::{CommitDraft, LicenseBatch};
use crate::ledger_change::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange};
use crate::log::license_line;
use crate::log::record::{self, LedgerEvent};
use crate::sales;

impl LedgerCommand for LedgerChange {
    type Outcome = ChangeOutcome;
    const TURN: CommitTurn = CommitTurn::License;
    /// A new license may replace an old one.
    const MOST_LINES: usize = 2;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> ChangeOutcome {
        let now = draft.now(self.now);
        let bound = match self.basis {
            ChangeBasis::Step { .. } => draft.stored_with(self.license.id),
            _ => BoundSites(None),
        };
        let outcome = match draft.licenses.changed(self, &bound, now) {
            Ok(outcome) => outcome,
            Err(refusal) => return ChangeOutcome::Refused(self.explained(refusal, draft)),
        };
        let new = match &outcome {
            ChangeOutcome::Recorded(license) => Some(Arc::clone(license)),
            _ => None,
        };
        // Of a repeated request, too: the text may be missing since a restore.
        if let ChangeOutcome::Recorded(license) | ChangeOutcome::Repeated(license) = &outcome {
            draft.texts.keep(self.reference.as_ref(), license);
        }
        if new.is_some() {
            self.remarks
                .note
                .iter()
                .flatten()
                .for_each(|note| draft.texts.keep_named(note));
        }
        // After the new license: if power fails between the two lines, a retry revokes the old one.
        let lines: Vec<_> = new.into_iter().chain(draft.licenses.revoked(self, now)).collect();
        if !lines.is_empty() {
            draft.texts.keep_author(&self.author);
        }
        for license in lines {
            draft.append(LedgerEvent::License(license));
        }
        outcome
    }
}

impl LedgerChange {
    /// A refusal with what the sale says about it.
    fn explained(&self, refusal: ChangeRefusal, draft: &CommitDraft<'_>) -> ChangeRefusal {
        let ChangeRefusal::Step(StepRefusal::ShopSuspended(None)) = refusal else {
            return refusal;
        };
        let license = draft.licenses.of(&self.license.id);
        let sold = license.and_then(|license| Some(license.license.details.remarks().sold.as_ref()?.sale));
        let facts = sold.and_then(|sale| sales::known(draft, sale));
        let cause = facts.and_then(|(_, facts)| facts.suspension_cause());
        ChangeRefusal::Step(StepRefusal::ShopSuspended(cause))
    }
}

impl LicenseBatch<'_> {
    /// The license that this change replaces, revoked; `None` if there is none, or if it is so already.
    fn revoked(&self, change: &LedgerChange, now: DateTime<Utc>) -> Option<Arc<IssuedLicense>> {
        let ChangeBasis::Rekey { old, .. } = &change.basis else {
            return None;
        };
        let current = self.of(old)?;
        if current.license.status == LicenseStatus::Revoked {
            return None;
        }
        let mut revoked = IssuedLicense::clone(&current);
        revoked.license.status = LicenseStatus::Revoked;
        revoked.kind = ChangeKind::Revoked;
        revoked.revision = current.revision.checked_add(1)?;
        revoked.scope = Arc::clone(&change.scope);
        revoked.status_by = Some(Arc::clone(&change.scope));
        revoked.time = now.max(current.time);
        let remarks = current.license.details.remarks().lasting();
        revoked.license.set_remarks(with_author(remarks, &change.author));
        Some(Arc::new(revoked))
    }

    /// The license as it shall be, and its order.
    fn successor(&self, change: &LedgerChange) -> Result<(License, Option<Hex128>), ChangeRefusal> {
        let (old, revision) = match &change.basis {
            ChangeBasis::Rekey { old, revision, .. } => (old, revision),
            ChangeBasis::Revision(_) | ChangeBasis::Step { .. } => {
                let current = self.of(&change.license.id);
                return Ok((change.license.clone(), current.and_then(|current| current.reference)));
            }
            ChangeBasis::Issue { .. } | ChangeBasis::Lost(..) => {
                let name = change.reference.as_ref().map(|reference| reference.name);
                return Ok((change.license.clone(), name));
            }
        };
        let current = self.of(old).ok_or(ChangeRefusal::Unknown)?;
        if current.license.status == LicenseStatus::Revoked {
            return Err(ChangeRefusal::Revoked);
        }
        if revision.is_some_and(|revision| revision != current.revision) {
            let revision = current.revision;
            return Err(ChangeRefusal::Revised { revision });
        }
        let mut license = License {
            id: change.license.id,
            details: Details::default(),
            ..current.license.clone()
        };
        license.take_limits(&current.license.details);
        license.details.replaces = Some(*old);
        Ok((license, current.reference))
    }

    /// The remarks of the license as it shall be.
    fn remarks(&self, change: &LedgerChange) -> Remarks {
        let before = match &change.basis {
            // As the node that lost the line had it.
            ChangeBasis::Lost(..) => return change.license.details.remarks().clone(),
            ChangeBasis::Rekey { old, .. } => self.of(old),
            ChangeBasis::Issue { .. } => None,
            ChangeBasis::Revision(_) | ChangeBasis::Step { .. } => self.of(&change.license.id),
        };
        let after = match before {
            Some(before) => change.remarks.after(before.license.details.remarks()),
            None => change.remarks.after(&Remarks::NONE),
        };
        with_author(after, &change.author)
    }

    /// Has a license that a shop sold be as a person wants it as far as the shop allows. Gives the license before, if it is one.
    fn follow_sale(&self, change: &LedgerChange, license: &mut License) -> Option<Arc<IssuedLicense>> {
        let is_persons = change.remarks.sold.is_none() && matches!(change.basis, ChangeBasis::Revision(_));
        let before = is_persons.then(|| self.of(&license.id)).flatten()?;
        let mut remarks = license.details.remarks().clone();
        let is_withdrawn = change.status_by.is_some();
        let of_before = before.license.sold_grant();
        let sold = remarks.sold.take()?;
        let (sold, in_force) = sold.after_person(&of_before, &license.sold_grant(), is_withdrawn);
        license.take_sold(&in_force);
        remarks.sold = Some(Box::new(sold));
        license.set_remarks(remarks);
        Some(before)
    }

    /// Who suspended or revoked the license: whom the change names, or else who did it before if the status stays, or else who
    /// asks.
    fn status_by(&self, change: &LedgerChange, license: &License) -> Option<Arc<ChangeScope>> {
        if license.status == LicenseStatus::Active {
            return None;
        }
        let before = match &change.basis {
            ChangeBasis::Rekey { old, .. } => self.of(old),
            _ => self.of(&license.id),
        };
        let before = before.filter(|before| before.license.status == license.status);
        let before = before.and_then(|before| before.status_by.clone());
        let asked = change.status_by.clone().or(before);
        Some(asked.unwrap_or_else(|| Arc::clone(&change.scope)))
    }

    /// Takes a step from the license and its bindings as they are now.
    fn stepped(
        &self,
        change: &LedgerChange,
        (step, expected): (&LicenseStep, Option<u32>),
        bound: &[Binding],
        now: DateTime<Utc>,
    ) -> Result<ChangeOutcome, ChangeRefusal> {
        let current = self.of(&change.license.id).ok_or(ChangeRefusal::Unknown)?;
        let revision = current.revision;
        if expected.is_some_and(|expected| expected != revision) {
            return Err(ChangeRefusal::Revised { revision });
        }
        let remarks = current.license.details.remarks();
        let is_shops = |sold: &Sold| sold.is_suspended_by_shop_alone(&current.license.sold_grant());
        if *step == LicenseStep::Resume && remarks.sold.as_deref().is_some_and(is_shops) {
            return Err(ChangeRefusal::Step(StepRefusal::ShopSuspended(None)));
        }
        let has_news = change.remarks.after(remarks) != remarks.lasting();
        let (license, status_by) = match step
            .applied(&current.license, bound, now)
            .map_err(ChangeRefusal::Step)?
        {
            Some(license) => (license, None),
            None if has_news => (current.license.clone(), None),
            // Who withdraws what somebody else has withdrawn already keeps it so, whatever the other does.
            None if step.withdraws() && current.status_by.as_ref() != Some(&change.scope) => {
                (current.license.clone(), Some(Arc::clone(&change.scope)))
            }
            None => return Ok(ChangeOutcome::Repeated(current)),
        };
        let change = LedgerChange {
            license,
            status_by,
            basis: ChangeBasis::Revision(revision),
            ..change.clone()
        };
        self.changed(&change, bound, now)
    }

    fn changed(
        &self,
        change: &LedgerChange,
        bound: &[Binding],
        now: DateTime<Utc>,
    ) -> Result<ChangeOutcome, ChangeRefusal> {
        let id = change.license.id;
        let (origin, revision, time, kind) = match &change.basis {
            ChangeBasis::Issue { origin, retired } | ChangeBasis::Rekey { origin, retired, .. } => {
                let of_origin = |origin: &IssueOrigin| Some((origin.body, self.of_key(origin.key)?));
                if let Some((body, first)) = std::iter::once(origin).chain(retired).find_map(of_origin) {
                    return match first.origin.body == body {
                        true => Ok(ChangeOutcome::Repeated(first)),
                        false => Err(ChangeRefusal::OtherRequest),
                    };
                }
                if self.of(&id).is_some() {
                    return Err(ChangeRefusal::Exists);
                }
                let issued = now;
                let origin = IssueOrigin {
                    issued,
                    ..origin.clone()
                };
                (origin, 1, now, ChangeKind::Issued)
            }
            ChangeBasis::Lost(origin, revision) => {
                let of_origin = self.of_key(origin.key).is_some_and(|first| first.license.id != id);
                let current = self.of(&id);
                let kind = kind_after(current.as_deref(), &change.license);
                match current {
                    _ if of_origin => return Err(ChangeRefusal::OtherRequest),
                    Some(current) if current.origin != *origin => return Err(ChangeRefusal::Exists),
                    // It was changed after the loss: the newer decision counts.
                    Some(current) if current.revision >= *revision || current.time > change.now => {
                        let revision = current.revision;
                        return Err(ChangeRefusal::Revised { revision });
                    }
                    _ => (origin.clone(), *revision, now, kind),
                }
            }
            ChangeBasis::Step { step, revision } => return self.stepped(change, (step, *revision), bound, now),
            ChangeBasis::Revision(expected) => {
                let current = self.of(&id).ok_or(ChangeRefusal::Unknown)?;
                let revision = current.revision;
                if revision != *expected {
                    return Err(ChangeRefusal::Revised { revision });
                }
                let next = revision.checked_add(1).ok_or(ChangeRefusal::Revised { revision })?;
                // Never before the revision before, whatever happens to the clock.
                let kind = kind_after(Some(&current), &change.license);
                (current.origin.clone(), next, now.max(current.time), kind)
            }
        };
        let (mut license, reference) = self.successor(change)?;
        if !license.details.note.is_empty() {
            license.details.note.clear();
        }
        license.set_remarks(self.remarks(change));
        let kind = match self.follow_sale(change, &mut license) {
            Some(before) => kind_after(Some(&before), &license),
            None => kind,
        };
        let license = IssuedLicense {
            status_by: self.status_by(change, &license),
            license,
            origin,
            reference,
            kind,
            revision,
            scope: Arc::clone(&change.scope),
            time,
        };
        match license_line::longest(&license) <= record::MAX_LICENSE {
            true => Ok(ChangeOutcome::Recorded(Arc::new(license))),
            false => Err(ChangeRefusal::TooLong),
        }
    }
}

fn with_author(remarks: Remarks, author: &Author) -> Remarks {
    Remarks {
        reason: author.reason_name(),
        who: author.number(),
        ..remarks
    }
}

fn kind_after(before: Option<&IssuedLicense>, after: &License) -> ChangeKind {
    // It is adopted by the same line.
    let before = before.filter(|before| before.revision > 0 || before.license != *after);
    before.map_or(ChangeKind::Issued, |before| ChangeKind::between(&before.license, after))
}
