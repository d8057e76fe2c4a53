//! What a group commit decided, request by request, and what became of an attempt that nobody confirmed.

use crate::store::ledger_change::ChangeOutcome;
use crate::store::license_imports::ImportOutcome;
use crate::store::log::Position;
use crate::store::pending::{BindOutcome, WaitingRequests};
use crate::store::sales::SaleOutcome;
use crate::store::site_moves::SiteReleaseOutcome;
use crate::store::token_changes::TokenOutcome;

/// The outcomes, in the order of the requests.
#[derive(Default)]
pub(crate) struct BatchOutcomes {
    pub bound: Vec<BindOutcome>,
    pub released: Vec<SiteReleaseOutcome>,
    pub changed: Vec<ChangeOutcome>,
    pub changed_tokens: Vec<TokenOutcome>,
    pub sold: Vec<SaleOutcome>,
    pub imported: Vec<ImportOutcome>,
}

impl BatchOutcomes {
    /// Answers the requests.
    pub(crate) fn answer(self, requests: WaitingRequests) {
        let WaitingRequests {
            binds,
            releases,
            changes,
            tokens,
            sales,
            import,
        } = requests;
        for (request, outcome) in binds.into_iter().zip(self.bound) {
            request.answer(Ok(outcome));
        }
        for (request, outcome) in releases.into_iter().zip(self.released) {
            request.answer(Ok(outcome));
        }
        for (request, outcome) in changes.into_iter().zip(self.changed) {
            request.answer(Ok(outcome));
        }
        for (request, outcome) in tokens.into_iter().zip(self.changed_tokens) {
            request.answer(Ok(outcome));
        }
        for (request, outcome) in sales.into_iter().zip(self.sold) {
            request.answer(Ok(outcome));
        }
        if let Some(request) = import {
            request.answer(Ok(self.imported));
        }
    }
}

/// Lines that were sent with a COMMIT. If no answer comes, they may be in the log.
#[derive(Default)]
pub(crate) struct CommitAttempt {
    /// The last of the lines that this attempt sends; `None` before it sends any.
    sent: Option<Position>,
    /// What an earlier attempt sent last, and what it decided.
    unconfirmed: Option<(Position, BatchOutcomes)>,
    /// Whether the lines of the earlier attempt were read in the log.
    is_there: bool,
}

impl CommitAttempt {
    /// Notes the last line before it is sent.
    pub(crate) fn send(&mut self, last: Position) {
        self.sent = Some(last);
    }

    /// Another attempt begins: keeps what this one decided if it sent lines.
    pub(crate) fn begin_again(&mut self, decided: BatchOutcomes) {
        self.is_there = false;
        if let Some(last) = self.sent.take() {
            self.unconfirmed = Some((last, decided));
        }
    }

    /// Looks whether a line that was read is the last one of the earlier attempt. Number and digest say so.
    pub(crate) fn read(&mut self, line: Position) {
        let sent = self.unconfirmed.as_ref().map(|(last, _)| *last);
        self.is_there |= sent == Some(line);
    }

    /// What the earlier attempt decided, if its lines are in the log.
    pub(crate) fn decided(&mut self) -> Option<BatchOutcomes> {
        let unconfirmed = self.unconfirmed.take().filter(|_| self.is_there);
        unconfirmed.map(|(_, decided)| decided)
    }
}
