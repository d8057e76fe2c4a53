//! What a failure of the database means for the log.

use std::fmt::Display;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::backend_error::BackendError;
use crate::store::ledger_state::LedgerState;
use crate::text::error_chain::ErrorChain;

/// Why a transaction ended without a result.
#[derive(Debug)]
pub(super) enum TransactionFailure {
    /// Another transaction was first; a new one may succeed.
    Again(BackendError),
    /// The connection must not be used any more. The lines may be in the log.
    Ended(BackendError),
    /// The node's memory has something that the log lacks.
    LinesLost(BackendError),
}

impl TransactionFailure {
    pub(super) fn error(self) -> BackendError {
        match self {
            Self::Again(error) | Self::Ended(error) | Self::LinesLost(error) => error,
        }
    }
}

impl From<Error> for TransactionFailure {
    fn from(error: Error) -> Self {
        let code = error.code();
        let retries = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
        ];
        match code.is_some_and(|code| retries.contains(code)) {
            true => Self::Again(database_error(&error)),
            false => Self::Ended(database_error(&error)),
        }
    }
}

/// An error that says what the database said.
pub(super) fn database_error(error: &Error) -> BackendError {
    let state = match error.code() {
        None => LedgerState::Unreachable,
        Some(code) if is_refusal(code) => LedgerState::Refused,
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => LedgerState::ReadOnly,
        Some(code) if is_of_schema(code) => LedgerState::Schema,
        Some(_) => LedgerState::Unreachable,
    };
    let message = match error.as_db_error() {
        Some(said) => format!("the database says: {}", said.message()),
        None => ErrorChain(error).to_string(),
    };
    let message = match state {
        LedgerState::Schema => format!("{message} (its tables are missing: run `countersign bindings schema`)"),
        _ => message,
    };
    failure(state, message)
}

fn is_refusal(code: &SqlState) -> bool {
    [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::INVALID_CATALOG_NAME,
    ]
    .contains(code)
}

fn is_of_schema(code: &SqlState) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::INVALID_SCHEMA_NAME,
    ]
    .contains(code)
}

/// A failure with this message.
pub(super) fn failure(state: LedgerState, message: impl Display) -> BackendError {
    BackendError {
        state,
        message: message.to_string(),
    }
}
