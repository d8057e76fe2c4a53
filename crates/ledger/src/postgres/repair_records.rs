//! Appends lost lines about licenses that machines issued, tokens and sales: the part of a repair that gives no seats.

use std::sync::Arc;

use crate::backend_error::BackendError;
use crate::ledger_change::{ChangeBasis, ChangeOutcome, LedgerChange};
use crate::postgres::shared_repair::{BATCH, Repair};
use crate::sales::SaleChange;
use crate::token_changes::{TokenChange, TokenOutcome};
use countersign_model::issued_license::IssuedLicense;
use countersign_model::order_reference::OrderReference;
use countersign_model::remarks::{Author, NewRemarks};

impl Repair<'_> {
    pub(super) async fn licenses(&mut self, lost: &[Arc<IssuedLicense>]) -> Result<(), BackendError> {
        for part in lost.chunks(BATCH) {
            let changes = part.iter().map(|issued| LedgerChange {
                license: issued.license.clone(),
                remarks: NewRemarks::default(),
                author: Author::default(),
                reference: issued.reference.map(OrderReference::from),
                scope: Arc::clone(&issued.scope),
                status_by: issued.status_by.clone(),
                now: issued.time,
                basis: ChangeBasis::Lost(issued.origin.clone(), issued.revision),
            });
            let outcomes = self.decide(changes.collect()).await?;
            for (issued, outcome) in part.iter().zip(outcomes) {
                match outcome {
                    ChangeOutcome::Recorded(_) | ChangeOutcome::Repeated(_) => self.outcome.licenses += 1,
                    ChangeOutcome::Refused(why) => self.outcome.unfit_licenses.push((issued.license.id, why)),
                }
            }
        }
        Ok(())
    }

    pub(super) async fn tokens(&mut self, lost: Vec<TokenChange>) -> Result<(), BackendError> {
        if lost.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = lost.iter().map(|change| change.name.clone()).collect();
        for (name, outcome) in names.into_iter().zip(self.decide(lost).await?) {
            match outcome {
                TokenOutcome::Recorded(_) => self.outcome.tokens += 1,
                TokenOutcome::Refused(_) => self.outcome.unfit_tokens.push(name),
            }
        }
        Ok(())
    }

    /// Each as its shop would deliver it again. Memory does not say which shop it was, so the lines name the operator.
    pub(super) async fn sales(&mut self, lost: &[SaleChange]) -> Result<(), BackendError> {
        // A sale has as many lines as facts.
        for change in lost {
            // One that is part of another may be there by now.
            let parts = change.parts(&self.memory.events().sales);
            if !parts.is_empty() {
                self.outcome.sales += 1;
            }
            for part in parts.chunks(BATCH / 4) {
                self.decide(part.to_vec()).await?;
            }
        }
        Ok(())
    }
}
