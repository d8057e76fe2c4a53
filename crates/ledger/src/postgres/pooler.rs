//! Finds out a pooler that gives each transaction another connection: settings of other clients would leak into ours.
//!
//! Every transaction compares its process, too (`transaction`).

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::backend_error::BackendError;
use crate::ledger_state::LedgerState;
use crate::postgres::failure::{database_error, failure};

/// Refuses a pooler that gives each transaction another connection. `process` is what served `ours` before, and `other` is a
/// second connection.
///
/// While the second connection is in a transaction, the first one must still have its own process; and afterwards, too, when
/// a pooler would give it the one that became free.
pub(super) async fn refuse(ours: &Client, process: i32, other: &Client) -> Result<(), BackendError> {
    // A pooler that takes what was used last would give this one to the other connection.
    process_of(ours).await?;
    other
        .batch_execute("BEGIN")
        .await
        .map_err(|error| database_error(&error))?;
    let theirs = process_of(other).await?;
    if theirs == process || process_of(ours).await? != process {
        return Err(found());
    }
    other
        .batch_execute("COMMIT")
        .await
        .map_err(|error| database_error(&error))?;
    // Poolers take the process that was used last, or take turns.
    for _ in 0..3 {
        if process_of(ours).await? != process {
            return Err(found());
        }
    }
    Ok(())
}

/// What is wrong with such a pooler.
pub(super) fn found() -> BackendError {
    failure(
        LedgerState::Pooler,
        "a pooler gives each transaction another connection: connect directly, or set pool_mode = session",
    )
}

/// The server's process. A simple query leaves nothing behind that a pooler would still be busy with.
pub(super) async fn process_of(client: &Client) -> Result<i32, BackendError> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await;
    let answer = answer.map_err(|error| database_error(&error))?;
    let text = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let process = text.and_then(|text| text.parse().ok());
    process.ok_or_else(|| {
        failure(
            LedgerState::Unreachable,
            "does not tell which process serves this connection",
        )
    })
}
