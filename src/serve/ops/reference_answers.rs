//! `POST /references` of the admin socket: erases the text of an order, for commands beside a running server.
//!
//! SECURITY: the order may be personal. It is in no log and in no error.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::serve::ledger_licenses::refresh;
use crate::serve::state::Service;
use countersign_ledger::{Bindings, ErasedReference, StoreError};
use countersign_model::issued_license::Hex128;

/// The order whose text is erased.
#[derive(Serialize, Deserialize)]
pub struct ErasureOrder {
    /// Its text.
    pub reference: String,
}

impl fmt::Debug for ErasureOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErasureOrder(redacted)")
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureReply {
    /// Its text is erased, durably.
    Erased {
        /// Since when.
        time: DateTime<Utc>,
        /// Whether there was a text until now.
        had_text: bool,
        /// How many licenses the order has.
        licenses: usize,
    },
    /// There is neither a text nor a license of this order.
    Unknown,
    /// There is no key for references, so orders have no names.
    NoKey,
}

/// Erases the text of the order that lines of the ledger name so.
///
/// # Errors
/// It is not known whether the text is erased. The same order may be given again.
pub async fn erase(bindings: &dyn Bindings, names: Vec<Hex128>) -> Result<ErasureReply, StoreError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs);
    }
    refresh(bindings).await?;
    let licenses = bindings.issued_of_order(&names).len();
    let Some(erased) = bindings.erase_reference(names, Utc::now()).await? else {
        return Ok(ErasureReply::Unknown);
    };
    let ErasedReference { time, had_text } = erased;
    tracing::info!(
        licenses,
        had_text,
        by = "operator:cli",
        "the text of an order is erased"
    );
    Ok(ErasureReply::Erased {
        time,
        had_text,
        licenses,
    })
}

/// The result of an order to the running server.
pub(super) async fn carry_out(service: Arc<Service>, order: ErasureOrder) -> Result<ErasureReply, StoreError> {
    let snapshot = service.gate.snapshot();
    let Some(secrets) = &snapshot.secrets.licensing else {
        return Ok(ErasureReply::NoKey);
    };
    erase(service.gate.bindings(), secrets.hidden(&order.reference)).await
}
