//! Appends lost lines about licenses that machines issued, tokens and sales: the part of a repair that gives no seats.

use std::iter;
use std::sync::Arc;

use chrono::Utc;

use crate::backend_error::BackendError;
use crate::ledger_change::{ChangeBasis, ChangeOutcome, LedgerChange};
use crate::postgres::lost_lines::{is_sale_lost, sale_events};
use crate::postgres::shared_repair::{BATCH, Repair};
use crate::sales::{SaleChange, SaleOutcome};
use crate::token_changes::{TokenChange, TokenOutcome};
use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::order_reference::OrderReference;
use countersign_model::remarks::{Author, NewRemarks};
use countersign_model::sale_state::SaleState;

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
    pub(super) async fn sales(&mut self, lost: &[(SaleState, Vec<Hex128>)]) -> Result<(), BackendError> {
        let scope = Arc::new(ChangeScope::operator());
        for part in lost.chunks(BATCH / 4) {
            let mut sales = Vec::new();
            // Of each sale, the last event.
            let mut ends = Vec::new();
            for (state, names) in part {
                // One that is part of another may be there by now.
                if !is_sale_lost(*state, names, &self.memory.events().sales) {
                    continue;
                }
                // The first name is the one that an unknown sale gets.
                let others = names.iter().copied().filter(|name| *name != state.id);
                let names: Vec<_> = iter::once(state.id).chain(others).collect();
                for (event, at) in sale_events(*state) {
                    sales.push(SaleChange {
                        names: names.clone(),
                        event,
                        at,
                        scope: Arc::clone(&scope),
                        now: Utc::now(),
                    });
                }
                ends.push(sales.len());
            }
            let outcomes = self.decide(sales).await?;
            for end in ends {
                match end.checked_sub(1).and_then(|last| outcomes.get(last)) {
                    Some(SaleOutcome::Recorded { .. }) => self.outcome.sales += 1,
                    Some(SaleOutcome::TwoSales) => self.outcome.unfit_sales += 1,
                    None => {}
                }
            }
        }
        Ok(())
    }
}
