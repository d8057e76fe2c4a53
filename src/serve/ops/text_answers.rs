//! `POST /texts` of the admin socket: erases texts that stand beside the ledger, for commands beside a running server.
//!
//! SECURITY: a text may be personal. It is in no log and in no error.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::serve::ledger_licenses::refresh;
use crate::serve::ops::command_user::GivenOrder;
use crate::serve::state::Service;
use countersign_ledger::{ErasedText, Ledger, StoreError, TextErasure};
use countersign_model::issued_license::Hex128;

/// The most texts of one order.
pub const MOST_TEXTS: usize = 1_000;

/// The texts to erase.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureOrder {
    /// An order of a shop.
    Reference(String),
    /// The name of a person who made changes.
    Person(String),
    /// Reasons and notes, at most [`MOST_TEXTS`], by the names that lines have.
    Texts(Vec<Hex128>),
}

impl fmt::Debug for ErasureOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErasureOrder(redacted)")
    }
}

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureReply {
    /// They are erased, durably.
    Erased {
        /// Since when.
        time: DateTime<Utc>,
        /// How many texts there were until now.
        texts: usize,
        /// How many licenses the order has.
        licenses: usize,
    },
    /// Nothing is kept of them, and no license is of this order.
    Unknown,
    /// There is no key for references, so orders and persons have no names.
    NoKey,
}

/// Texts to erase, as lines of the ledger name them.
#[derive(Clone, Debug)]
pub enum NamedTexts {
    /// All names of one order or person.
    One(Vec<Hex128>),
    /// The names of several texts, which lines have.
    Several(Vec<Hex128>),
}

/// Erases texts.
///
/// # Errors
/// It is not known whether they are erased. The same order may be given again.
pub async fn erase(bindings: &Ledger, texts: NamedTexts) -> Result<ErasureReply, StoreError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs);
    }
    refresh(bindings).await?;
    let (names, is_one) = match texts {
        NamedTexts::One(names) => (names, true),
        NamedTexts::Several(names) => (names, false),
    };
    let licenses = bindings.issued_of_order(&names).len();
    let erasure = TextErasure {
        names,
        is_one,
        is_named: licenses > 0 || !is_one,
        now: Utc::now(),
    };
    let Some(ErasedText { time, had_texts }) = bindings.erase_texts(erasure).await? else {
        return Ok(ErasureReply::Unknown);
    };
    tracing::info!(licenses, texts = had_texts, by = "operator:cli", "erased texts");
    Ok(ErasureReply::Erased {
        time,
        texts: had_texts,
        licenses,
    })
}

/// The result of an order to the running server.
pub(super) async fn carry_out(
    service: Arc<Service>,
    given: GivenOrder<ErasureOrder>,
) -> Result<ErasureReply, StoreError> {
    let snapshot = service.gate.snapshot();
    let texts = match (given.order, &snapshot.secrets.licensing) {
        (ErasureOrder::Texts(names), _) => NamedTexts::Several(names),
        (ErasureOrder::Reference(order), Some(secrets)) => NamedTexts::One(secrets.hidden(&order)),
        (ErasureOrder::Person(name), Some(secrets)) => NamedTexts::One(secrets.person(&name).names().collect()),
        (ErasureOrder::Reference(_) | ErasureOrder::Person(_), None) => return Ok(ErasureReply::NoKey),
    };
    erase(service.gate.bindings(), texts).await
}
