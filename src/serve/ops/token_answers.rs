//! `/tokens` of the admin socket: lists, makes and revokes tokens of the management API, for commands beside a running server.
//!
//! A command makes the token's secret itself and sends its SHA-256.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::serve::ops::command_user::GivenOrder;
use crate::serve::state::Service;
use countersign_ledger::{Ledger, StoreError, TokenChange, TokenOutcome, TokenStep};
use countersign_model::api_token::{ApiToken, TokenScope};
use countersign_model::name::Name;
use countersign_model::remarks::Author;

/// What to do with a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenOrder {
    /// Which token.
    pub name: Name,
    /// What changes.
    pub step: TokenStep,
}

/// A token, as commands show it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListedToken {
    /// Its name.
    pub name: Name,
    /// What it may do.
    pub scopes: BTreeSet<TokenScope>,
    /// When it was made.
    pub issued: DateTime<Utc>,
    /// The last day on which it was used, in UTC.
    pub last_used: Option<NaiveDate>,
    /// When it was revoked.
    pub revoked: Option<DateTime<Utc>>,
}

/// What became of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenReply {
    /// It is carried out. The token as it is now.
    Done(ListedToken),
    /// Nothing was changed. Why.
    Refused(String),
}

impl From<&ApiToken> for ListedToken {
    fn from(token: &ApiToken) -> Self {
        Self {
            name: token.name.clone(),
            scopes: token.scopes.clone(),
            issued: token.issued,
            last_used: token.used,
            revoked: token.revoked.then_some(token.time),
        }
    }
}

/// Every token by name, also revoked ones.
pub fn listed(bindings: &Ledger) -> Vec<ListedToken> {
    bindings
        .tokens()
        .iter()
        .map(|token| ListedToken::from(&**token))
        .collect()
}

/// Carries out an order.
///
/// # Errors
/// Nothing was written. The same order may be given again.
pub async fn carry_out(bindings: &Ledger, order: TokenOrder, author: Author) -> Result<TokenReply, StoreError> {
    let TokenOrder { name, step } = order;
    let now = Utc::now();
    match bindings
        .change_token(TokenChange {
            name,
            step,
            author,
            now,
        })
        .await?
    {
        TokenOutcome::Recorded(token) => {
            tracing::info!(token = %token.name, revoked = token.revoked, by = "operator:cli", "changed a token");
            Ok(TokenReply::Done(ListedToken::from(&*token)))
        }
        TokenOutcome::Refused(refusal) => Ok(TokenReply::Refused(refusal.to_string())),
    }
}

/// The result of an order to the running server.
pub(super) async fn change(service: Arc<Service>, given: GivenOrder<TokenOrder>) -> Result<TokenReply, StoreError> {
    let secrets = service.gate.snapshot().secrets.licensing.clone();
    let author = Author {
        who: secrets.map(|secrets| secrets.person(given.user.as_str())),
        reason: None,
    };
    carry_out(service.gate.bindings(), given.order, author).await
}
