//! Changes to tokens of the management API: what is asked for, and what the committing thread decides.
//!
//! A change is decided under the ledger's lock, as those of licenses are in
//! [`license_changes`](crate::license_changes).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use countersign_model::api_token::{ApiToken, TokenScope};
use countersign_model::digest::Digest;
use countersign_model::name::Name;

use crate::issued_licenses::IssuedLicenses;
use crate::log::record::LedgerEvent;

/// The most tokens of a ledger. They are few, and every one is a secret that somebody has to keep.
pub const MAX_TOKENS: usize = 1_000;

/// A change to a token.
#[derive(Clone, Debug)]
pub struct TokenChange {
    /// Which token.
    pub name: Name,
    /// What changes.
    pub step: TokenStep,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// What happens to a token.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenStep {
    /// It is made. A revoked one with this name is replaced.
    Create {
        /// The SHA-256 of its secret.
        hash: Digest,
        /// What it may do.
        scopes: BTreeSet<TokenScope>,
    },
    /// It is no longer good.
    Revoke,
    /// It was used on this day.
    Use(NaiveDate),
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOutcome {
    /// It is in force, durably. The token as it is now.
    Recorded(Arc<ApiToken>),
    /// Nothing was changed.
    Refused(TokenRefusal),
}

/// Why a token was not made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// There is a token with this name.
    #[error("there is a token with this name")]
    Exists,
    /// There is none, or it is revoked.
    #[error("there is no such token, or it is revoked already")]
    Unknown,
    /// There are [`MAX_TOKENS`].
    #[error("there are {MAX_TOKENS} tokens")]
    TooMany,
}

/// The tokens of one group commit, before memory has them.
pub(crate) struct TokenBatch<'m> {
    memory: &'m IssuedLicenses,
    ahead: HashMap<Name, Arc<ApiToken>>,
}

impl<'m> TokenBatch<'m> {
    pub(crate) fn new(memory: &'m IssuedLicenses) -> Self {
        let ahead = HashMap::new();
        Self { memory, ahead }
    }

    /// Forgets what was learned and decided.
    pub(crate) fn begin_again(&mut self) {
        self.ahead.clear();
    }

    /// Takes the token of a line.
    pub(crate) fn take(&mut self, token: Arc<ApiToken>) {
        self.ahead.insert(token.name.clone(), token);
    }

    /// Every token that was taken, as it is now.
    pub(crate) fn into_tokens(self) -> impl Iterator<Item = Arc<ApiToken>> {
        self.ahead.into_values()
    }

    fn of(&self, name: &Name) -> Option<Arc<ApiToken>> {
        self.ahead.get(name).cloned().or_else(|| self.memory.token(name))
    }

    /// How many tokens there are, revoked ones included.
    fn count(&self) -> usize {
        let is_new = |name: &&Name| self.memory.token(name).is_none();
        self.memory.token_count() + self.ahead.keys().filter(is_new).count()
    }

    /// Decides a change; its line, if it has one, is added to `appended`.
    pub(crate) fn decide(
        &mut self,
        change: &TokenChange,
        clock: Option<DateTime<Utc>>,
        appended: &mut Vec<LedgerEvent>,
    ) -> TokenOutcome {
        let current = self.of(&change.name);
        match self.changed(change, current.as_deref(), clock.unwrap_or(change.now)) {
            Err(refusal) => TokenOutcome::Refused(refusal),
            Ok(token) => {
                let token = Arc::new(token);
                if current.as_ref() == Some(&token) {
                    return TokenOutcome::Recorded(token);
                }
                appended.push(LedgerEvent::Token(Arc::clone(&token)));
                self.take(Arc::clone(&token));
                TokenOutcome::Recorded(token)
            }
        }
    }

    fn changed(
        &self,
        change: &TokenChange,
        current: Option<&ApiToken>,
        now: DateTime<Utc>,
    ) -> Result<ApiToken, TokenRefusal> {
        let valid = current.filter(|token| !token.revoked);
        // Never before the line before, whatever happens to the clock.
        let time = current.map_or(now, |token| token.time.max(now));
        match &change.step {
            // The same order again, whose answer was lost.
            TokenStep::Create { hash, .. } if valid.is_some_and(|token| token.hash == *hash) => {
                valid.cloned().ok_or(TokenRefusal::Unknown)
            }
            TokenStep::Create { .. } if valid.is_some() => Err(TokenRefusal::Exists),
            TokenStep::Create { .. } if current.is_none() && self.count() >= MAX_TOKENS => Err(TokenRefusal::TooMany),
            TokenStep::Create { hash, scopes } => Ok(ApiToken {
                name: change.name.clone(),
                hash: *hash,
                scopes: scopes.clone(),
                issued: time,
                used: None,
                revoked: false,
                time,
            }),
            TokenStep::Revoke => Ok(ApiToken {
                revoked: true,
                time,
                ..valid.ok_or(TokenRefusal::Unknown)?.clone()
            }),
            TokenStep::Use(day) => {
                let token = valid.ok_or(TokenRefusal::Unknown)?.clone();
                // Another node may have noted a later day.
                if token.used >= Some(*day) {
                    return Ok(token);
                }
                let used = Some(*day);
                Ok(ApiToken { used, time, ..token })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::api_token;

    #[test]
    fn tokens_of_one_commit_count_before_memory_has_them() {
        let memory = IssuedLicenses::default();
        let known = (0..MAX_TOKENS - 1).map(|number| Arc::new(api_token(&format!("t{number}"))));
        memory.add_tokens(known);
        let mut batch = TokenBatch::new(&memory);
        let mut lines = Vec::new();
        let mut create = |name: &str| {
            let change = TokenChange {
                name: name.parse().unwrap(),
                step: TokenStep::Create {
                    hash: Digest::of(format!("new {name}").as_bytes()),
                    scopes: BTreeSet::new(),
                },
                now: DateTime::UNIX_EPOCH,
            };
            batch.decide(&change, None, &mut lines)
        };
        assert!(matches!(create("last"), TokenOutcome::Recorded(_)));
        assert_eq!(create("surplus"), TokenOutcome::Refused(TokenRefusal::TooMany));
        // One that is there already is no further one.
        assert_eq!(create("t1"), TokenOutcome::Refused(TokenRefusal::Exists));
        assert!(
            matches!(create("last"), TokenOutcome::Recorded(_)),
            "the same order again"
        );
        assert_eq!(lines.len(), 1);
    }
}
