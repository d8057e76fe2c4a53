//! Changes to tokens of the management API: what is asked for, and what the committing thread decides.
//!
//! A change is decided under the ledger's lock, as those of licenses are in
//! [`license_changes`](crate::license_changes).

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use countersign_model::api_token::{ApiToken, TokenScope};
use countersign_model::digest::Digest;
use countersign_model::name::Name;
use countersign_model::remarks::Author;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
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
    /// Who makes or revokes it, and why.
    pub author: Author,
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

impl LedgerCommand for TokenChange {
    type Outcome = TokenOutcome;
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> TokenOutcome {
        let ahead = draft.events.tokens.of(&self.name);
        let current = ahead.or_else(|| draft.memory.events().tokens.of(&self.name));
        match self.changed(current.as_deref(), draft) {
            Err(refusal) => TokenOutcome::Refused(refusal),
            Ok(token) => {
                let token = Arc::new(token);
                if current.as_ref() != Some(&token) {
                    draft.texts.keep_author(&self.author);
                    draft.append(LedgerEvent::Token(Arc::clone(&token)));
                }
                TokenOutcome::Recorded(token)
            }
        }
    }
}

impl TokenChange {
    /// The token after this change.
    fn changed(&self, current: Option<&ApiToken>, draft: &CommitDraft<'_>) -> Result<ApiToken, TokenRefusal> {
        let now = draft.now(self.now);
        let valid = current.filter(|token| !token.revoked);
        // Never before the line before, whatever happens to the clock.
        let time = current.map_or(now, |token| token.time.max(now));
        match &self.step {
            // The same order again, whose answer was lost.
            TokenStep::Create { hash, .. } if valid.is_some_and(|token| token.hash == *hash) => {
                valid.cloned().ok_or(TokenRefusal::Unknown)
            }
            TokenStep::Create { .. } if valid.is_some() => Err(TokenRefusal::Exists),
            TokenStep::Create { .. }
                if current.is_none() && draft.memory.events().tokens.len_with(&draft.events.tokens) >= MAX_TOKENS =>
            {
                Err(TokenRefusal::TooMany)
            }
            TokenStep::Create { hash, scopes } => Ok(ApiToken {
                name: self.name.clone(),
                hash: *hash,
                scopes: scopes.clone(),
                issued: time,
                used: None,
                revoked: false,
                time,
                who: self.author.number(),
                reason: self.author.reason_name(),
            }),
            TokenStep::Revoke => Ok(ApiToken {
                revoked: true,
                time,
                who: self.author.number(),
                reason: self.author.reason_name(),
                ..valid.ok_or(TokenRefusal::Unknown)?.clone()
            }),
            TokenStep::Use(day) => {
                let token = valid.ok_or(TokenRefusal::Unknown)?.clone();
                // Another node may have noted a later day.
                if token.used >= Some(*day) {
                    return Ok(token);
                }
                let used = Some(*day);
                Ok(ApiToken {
                    used,
                    time,
                    // A program used it.
                    who: None,
                    reason: None,
                    ..token
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger_tables::LedgerTables;
    use crate::memory::BindingMemory;
    use crate::testing::api_token;

    #[test]
    fn tokens_of_one_commit_count_before_memory_has_them() {
        let memory = BindingMemory::new(LedgerTables::default());
        let known = (0..MAX_TOKENS - 1).map(|number| Arc::new(api_token(&format!("t{number}"))));
        memory.add(known.map(LedgerEvent::Token));
        let mut draft = CommitDraft::new(&memory);
        let mut create = |name: &str| {
            let change = TokenChange {
                name: name.parse().unwrap(),
                step: TokenStep::Create {
                    hash: Digest::of(format!("new {name}").as_bytes()),
                    scopes: BTreeSet::new(),
                },
                author: Author::default(),
                now: DateTime::UNIX_EPOCH,
            };
            change.decide(&mut draft)
        };
        assert!(matches!(create("last"), TokenOutcome::Recorded(_)));
        assert_eq!(create("surplus"), TokenOutcome::Refused(TokenRefusal::TooMany));
        // One that is there already is no further one.
        assert_eq!(create("t1"), TokenOutcome::Refused(TokenRefusal::Exists));
        assert!(
            matches!(create("last"), TokenOutcome::Recorded(_)),
            "the same order again"
        );
        assert_eq!(draft.appended().len(), 1);
    }
}
