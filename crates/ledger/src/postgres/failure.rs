//! What a failure of the database means for the log.

use std::fmt::Display;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::error::{BackendError, LedgerState, NEWER};
use crate::log::Position;
use crate::log::chain::Chain;
use countersign_model::text::ErrorChain;

/// Why a transaction ended without a result.
#[derive(Debug)]
pub(super) enum TransactionFailure {
    /// Another transaction was first; a new one may succeed.
    Again(BackendError),
    /// The connection has ended. The lines may be in the log; a transaction on a new connection finds out.
    Gone(BackendError),
    /// The connection must not be used any more. The lines may be in the log.
    Ended(BackendError),
    /// The node's memory has something that the log lacks.
    LinesLost(BackendError),
}

impl TransactionFailure {
    pub(super) fn error(self) -> BackendError {
        match self {
            Self::Again(error) | Self::Gone(error) | Self::Ended(error) | Self::LinesLost(error) => error,
        }
    }
}

impl From<Error> for TransactionFailure {
    fn from(error: Error) -> Self {
        let is_one_of = |codes: &[SqlState]| error.code().is_some_and(|code| codes.contains(code));
        let retries = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
        ];
        // The database ended it: it was idle for too long, as after a sleep, or the server stops.
        let ends = [
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::IDLE_SESSION_TIMEOUT,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
        ];
        if is_one_of(&retries) {
            Self::Again(database_error(&error))
        } else if error.is_closed() || is_one_of(&ends) {
            Self::Gone(database_error(&error))
        } else {
            Self::Ended(database_error(&error))
        }
    }
}

/// An error that says what the database said.
pub(super) fn database_error(error: &Error) -> BackendError {
    let state = match error.code() {
        // The crate has no code for it.
        None if ErrorChain(error).to_string().contains("password missing") => LedgerState::Refused,
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

/// A line of the log is of a kind that this version does not know.
pub(super) fn newer(what: impl Display) -> BackendError {
    failure(LedgerState::NewerVersion, format!("{NEWER}: {what}"))
}

/// Fails if the chain has a line of a kind that this version does not know.
pub(super) fn require_known(chain: &Chain) -> Result<(), BackendError> {
    match &chain.newer {
        Some((line, what)) => Err(newer(format!("line {line} {what}"))),
        None => Ok(()),
    }
}

/// The log is from before a compaction or a repair that the node has read.
pub(super) fn older(end: Position) -> String {
    format!(
        "its log is from before the last compaction or repair, but this node has read up to line {}",
        end.sequence
    )
}

/// The log lacks lines. Nobody but a person can say whether they will come back.
pub(super) fn lines_lost(what: String) -> BackendError {
    failure(LedgerState::LinesLost, what)
}
