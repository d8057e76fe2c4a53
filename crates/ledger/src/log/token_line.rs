//! The line of a token that was made, revoked, or used on a new day: the whole token, in the order of RFC 8785.
//!
//! The line has the SHA-256 of the token's secret, never the secret. [`event`](crate::log::event) lists the kinds of lines.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::api_token::{ApiToken, TokenScope};
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::name::Name;

use crate::log::line_event::{ChangesBy, EventLine, EventTexts, LineEvent, append};
use crate::log::position::Position;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenLine {
    event: TokenTag,
    hash: Digest,
    issued: DateTime<Utc>,
    name: Name,
    previous: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason_ref: Option<Hex128>,
    revoked: bool,
    /// Sorted by their names.
    scopes: BTreeSet<TokenScope>,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used: Option<NaiveDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    who: Option<Hex128>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TokenTag {
    Token,
}

impl TokenLine {
    /// The line of this token after `previous`.
    pub(super) fn new(token: &ApiToken, previous: Position, synced: u64) -> Self {
        Self {
            event: TokenTag::Token,
            hash: token.hash,
            issued: token.issued,
            name: token.name.clone(),
            previous: previous.digest,
            reason_ref: token.reason,
            revoked: token.revoked,
            scopes: token.scopes.clone(),
            sequence: previous.sequence + 1,
            synced,
            time: token.time,
            used: token.used,
            who: token.who,
        }
    }
}

impl EventLine for TokenLine {
    type Event = Arc<ApiToken>;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let token = ApiToken {
            name: self.name,
            hash: self.hash,
            scopes: self.scopes,
            issued: self.issued,
            used: self.used,
            revoked: self.revoked,
            time: self.time,
            who: self.who,
            reason: self.reason_ref,
        };
        Ok(Arc::new(token))
    }
}

impl LineEvent for ApiToken {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &TokenLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn texts(&self) -> EventTexts {
        EventTexts::of_change(self.reason, self.who)
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        let (word, what) = match (self.revoked, self.used) {
            (true, _) => ("token revoked", "revoked"),
            (false, None) => ("token made", "made"),
            (false, Some(_)) => ("token used", "used"),
        };
        (word, vec![format!("token {} {what}", self.name)])
    }

    fn change(&self) -> Option<ChangesBy> {
        (self.revoked || self.used.is_none()).then_some(ChangesBy::People)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerEvent, LedgerRecord};
    use crate::testing::{api_token, written};

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        let used = ApiToken {
            used: NaiveDate::from_ymd_opt(2026, 11, 24),
            revoked: true,
            who: Some(Hex128([1; 16])),
            reason: Some(Hex128([2; 16])),
            ..api_token("shop")
        };
        for token in [api_token("shop"), used] {
            let line = written(LedgerEvent::Token(Arc::new(token)));
            assert!(line.starts_with("{\"event\":\"token\""));
            let text = line.replace("licenses:write", "licenses:all");
            assert_ne!(text, line);
            assert!(LedgerRecord::read(text.as_bytes()).is_err());
        }
    }
}
