//! Requests of the store that wait for the thread which commits. A host that is bound is answered from memory.

use std::collections::HashSet;
use std::sync::Arc;

use countersign_model::issued_license::Hex128;
use countersign_model::seat::Seat;

use crate::Store;
use crate::answer::pending;
use crate::error::StoreError;
use crate::license_imports::{self, ImportInTurn, ImportOutcome, ImportRequest, MAX_IMPORT_LINES};
use crate::pending::{LedgerLook, Message};
use crate::seats::{BindOutcome, SeatRequest, WantedSeat};
use crate::site_moves;
use crate::texts::erasure::{ErasedText, FoundTexts, TextErasure};
use crate::texts::requests::TextRequest;

impl Store {
    pub(super) async fn bind(&self, request: SeatRequest<'_>) -> Result<BindOutcome, StoreError> {
        let SeatRequest { license, host, now, .. } = request;
        let stored = self.memory.of(&license.id);
        let returns = || site_moves::may_return(license, &stored, host, now).is_some();
        let outcome = match license.seat(&stored, request.staging_sites, host) {
            Seat::Held => return Ok(BindOutcome::Bound),
            // Only a log that nobody else writes to is known as a whole.
            Seat::Taken { first } if !self.group_commit.is_shared() && !returns() => {
                BindOutcome::Elsewhere { first: first.clone() }
            }
            Seat::Taken { .. } | Seat::Free => self.group_commit.ask(WantedSeat::from(request)).await?,
        };
        if matches!(outcome, BindOutcome::Elsewhere { .. }) {
            self.reports.refuse(&license.id, host, now);
        }
        Ok(outcome)
    }

    pub(super) async fn import(&self, import: ImportRequest) -> Result<Vec<ImportOutcome>, StoreError> {
        if import.lines() > MAX_IMPORT_LINES {
            return Err(StoreError::Busy);
        }
        let turn = Arc::clone(&self.import_turn).lock_owned().await;
        self.group_commit.ask(ImportInTurn::new(import, turn)).await
    }

    pub(super) async fn find_texts(&self, names: Vec<Hex128>) -> Result<FoundTexts, StoreError> {
        let (request, pending) = TextRequest::find(names);
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await
    }

    pub(super) async fn erase_texts(&self, erasure: TextErasure) -> Result<Option<ErasedText>, StoreError> {
        let (request, pending) = TextRequest::erase(erasure);
        self.group_commit.enqueue(Message::Text(request))?;
        pending.wait().await.map_err(|error| match error {
            StoreError::NotDurable(reason) => StoreError::NotErased(reason),
            error => error,
        })
    }

    /// What an import would do, as far as memory knows.
    pub(super) fn preview(&self, import: &ImportRequest) -> Vec<ImportOutcome> {
        let none = HashSet::new();
        let decided = import.licenses.iter().map(|license| {
            let id = &license.license.id;
            let current = self.memory.issued.of(id);
            let stored = self.memory.of(id);
            license_imports::decide(license, current.as_deref(), &stored, &none, import.now).outcome
        });
        decided.collect()
    }

    pub(super) async fn look(&self, look: LedgerLook) -> Result<(), StoreError> {
        let (answer, pending) = pending();
        self.group_commit.enqueue(Message::Refresh(look, answer))?;
        pending.wait().await
    }
}
