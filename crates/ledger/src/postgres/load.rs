//! Reads the whole log.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::timeout;
use tokio_postgres::{Client, ToStatement};

use crate::error::{BackendError, LedgerState};
use crate::ledger_tables::{LedgerBuilder, LedgerTables};
use crate::log::Position;
use crate::log::chain::{Chain, ParsedLine};
use crate::log::record::LedgerEvent;
use crate::postgres::failure::{database_error, failure, require_known};
use crate::postgres::{schema, statements};

/// Lines read at once: about 600 kB.
const PAGE: i64 = 2_000;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

const READ_PAGE: &str = "SELECT sequence, line FROM countersign.ledger WHERE sequence > $1 ORDER BY sequence LIMIT $2";

/// Everything that a log has.
pub(super) struct LoadedLog {
    pub tables: LedgerTables,
    pub end: Position,
}

/// Reads every line and checks the chain.
pub(super) async fn all(client: &Client) -> Result<LoadedLog, BackendError> {
    let mut builder = LedgerBuilder::default();
    let chain = each(client, |_, change| {
        change.into_iter().for_each(|change| builder.take(change));
    })
    .await?;
    require_known(&chain)?;
    Ok(LoadedLog {
        tables: builder.finish(),
        end: chain.end,
    })
}

/// Passes every line to `each`, with its line feed, and its event. The caller compares the end with the head, and then calls
/// [`require_known`].
pub(crate) async fn each(
    client: &Client,
    mut each: impl FnMut(&str, Option<LedgerEvent>),
) -> Result<Chain, BackendError> {
    let statement = client
        .prepare(READ_PAGE)
        .await
        .map_err(|error| database_error(&error))?;
    let mut chain = Chain::default();
    // A compacted log begins later than with 1.
    let mut last = 0_i64;
    loop {
        let rows = timeout(PATIENCE, client.query(&statement, &[&last, &PAGE])).await;
        let rows = rows
            .map_err(|_| failure(LedgerState::Unreachable, "the database does not answer"))?
            .map_err(|error| database_error(&error))?;
        for row in &rows {
            last = row.get(0);
            let line = format!("{}\n", row.get::<_, &str>(1));
            let refused = |what: String| failure(LedgerState::Damaged, format!("line {last} of the ledger: {what}"));
            let entry = chain
                .accept(ParsedLine::of(line.as_bytes()))
                .map_err(|fault| refused(fault.what))?;
            if chain.end.sequence != last as u64 {
                return Err(refused(format!("says that it is line {}", chain.end.sequence)));
            }
            each(&line, entry);
        }
        if rows.len() < PAGE as usize {
            return Ok(chain);
        }
    }
}

/// What the head's row says, without a lock.
pub(crate) struct PlainHead {
    pub sequence: u64,
    pub digest: String,
    pub epoch: i32,
    /// `synchronous_standby_names`.
    pub standbys: String,
    /// The database's clock.
    pub clock: DateTime<Utc>,
}

/// Reads the head's row.
///
/// # Errors
/// The tables may have another format since this node connected.
pub(crate) async fn head(client: &Client) -> Result<PlainHead, BackendError> {
    head_by(client, statements::LOOK).await
}

/// The same with a statement that is prepared.
pub(super) async fn head_by(
    client: &Client,
    statement: &(impl ToStatement + ?Sized),
) -> Result<PlainHead, BackendError> {
    let row = client.query_one(statement, &[]).await;
    let row = row.map_err(|error| database_error(&error))?;
    schema::is_known(row.get(5))?;
    Ok(PlainHead {
        sequence: row.get::<_, i64>(0) as u64,
        digest: row.get(1),
        epoch: row.get(2),
        standbys: row.get(3),
        clock: row.get(4),
    })
}
