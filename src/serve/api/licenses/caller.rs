//! Who calls the management API: finds the token, checks what it may do and how often, and notes its use.

use std::sync::Arc;

use chrono::Utc;
use warp::http::{HeaderMap, header};

use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::{TokenChange, TokenStep};
use countersign_model::api_token::{ApiToken, TokenScope, TokenSecret};
use countersign_model::issued_license::ChangeScope;
use countersign_model::remarks::Author;

/// A caller with a valid token.
#[derive(Debug)]
pub(super) struct Caller {
    token: Arc<ApiToken>,
    /// How lines of the ledger name the caller.
    pub scope: Arc<ChangeScope>,
}

impl Caller {
    /// The caller whose token is in the `Authorization` header (RFC 6750 section 2.1).
    pub(super) fn of(service: &Service, headers: &HeaderMap) -> Result<Self, Problem> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let given = values.next().and_then(|value| value.to_str().ok());
        let only = given.filter(|_| values.next().is_none());
        let (scheme, text) = only
            .and_then(|value| value.split_once(' '))
            .ok_or(Problem::Unauthorized)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Problem::Unauthorized);
        }
        let secret: TokenSecret = text.parse().map_err(|_| Problem::Unauthorized)?;
        // SECURITY: only the SHA-256 is compared, so the time of the look-up tells nothing of a secret.
        let token = service.gate.bindings().token_of(&secret.hash());
        let token = token.filter(|token| !token.revoked).ok_or(Problem::Unauthorized)?;
        service.limits.check_token(&token.name)?;
        note_use(service, &token);
        let scope = ChangeScope::of_token(&token.name);
        Ok(Self {
            token,
            scope: Arc::new(scope),
        })
    }

    /// Fails if the token has not this scope.
    pub(super) fn require(&self, scope: TokenScope) -> Result<(), Problem> {
        match self.token.may(scope) {
            true => Ok(()),
            false => Err(Problem::InsufficientScope(scope)),
        }
    }

    /// Whether the token has this scope.
    pub(super) fn may(&self, scope: TokenScope) -> bool {
        self.token.may(scope)
    }
}

/// Has the ledger note the day, once a day. Nobody waits for it; if it fails, the next request tries again.
fn note_use(service: &Service, token: &ApiToken) {
    let now = Utc::now();
    let today = now.date_naive();
    if token.used >= Some(today) {
        return;
    }
    service.gate.bindings().note_token_use(TokenChange {
        author: Author::default(),
        name: token.name.clone(),
        step: TokenStep::Use(today),
        now,
    });
}
