//! Turns of sales: one delivery of a sale is applied at a time, so that none acts on a state that another one changes.
//!
//! A node has its own turns. Between nodes the ledger decides: a license is issued for a place once.

use tokio::sync::{Mutex, MutexGuard};

use countersign_model::issued_license::Hex128;

/// Many more than the deliveries that are applied at once, so that two sales seldom share a turn.
const TURNS: usize = 1_024;

/// The turns of all sales.
#[derive(Debug)]
pub(crate) struct SaleTurns(Vec<Mutex<()>>);

impl SaleTurns {
    pub(super) fn new() -> Self {
        Self(std::iter::repeat_with(Mutex::default).take(TURNS).collect())
    }

    /// Waits until no other delivery of this sale is applied.
    pub(crate) async fn of(&self, sale: Hex128) -> MutexGuard<'_, ()> {
        // An HMAC: its first bytes are spread evenly.
        let place = usize::from(u16::from_le_bytes([sale.0[0], sale.0[1]])) % TURNS;
        self.0[place].lock().await
    }
}
