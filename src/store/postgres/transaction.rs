//! One transaction on the log: lock the head, read what others appended, decide, append, commit.
//!
//! SECURITY: only a COMMIT without a warning counts. Under synchronous replication a cancelled COMMIT returns success with
//! a warning, and its lines can be lost in a failover. A locked head that is committed proves everything up to it, because
//! a primary that was replaced hangs there; a plain read proves nothing.

use chrono::{DateTime, Utc};

use crate::model::digest::Digest;
use crate::store::binding_batch::BindingBatch;
use crate::store::ledger_state::LedgerState;
use crate::store::log::Position;
use crate::store::log::chain::Chain;
use crate::store::log::record::{LedgerEvent, LedgerRecord};
use crate::store::postgres::failure::{TransactionFailure, failure};
use crate::store::postgres::session::{Session, lines_lost, pooler};

/// The settings are in the transaction, so that nothing that leaks into the session can weaken them. A node that is
/// stopped while it holds the lock loses it after two seconds.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; \
     SET LOCAL lock_timeout = '3s'; SET LOCAL idle_in_transaction_session_timeout = '2s'";

const LOCK_HEAD: &str =
    "SELECT sequence, digest, time, epoch, clock_timestamp(), pg_backend_pid() FROM countersign.head FOR UPDATE";

/// In a statement of its own: in the same one, PostgreSQL would read as of before the lock.
const READ_LINES: &str = "SELECT line FROM countersign.ledger WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence";

const APPEND: &str = "INSERT INTO countersign.ledger (sequence, line) SELECT * FROM unnest($1::bigint[], $2::text[])";

const MOVE_HEAD: &str = "UPDATE countersign.head SET sequence = $1, digest = $2, time = $3";

/// The head of the log, as its row has it.
pub(super) struct LockedHead {
    pub end: Position,
    pub epoch: i32,
    time: DateTime<Utc>,
    clock: DateTime<Utc>,
}

impl LockedHead {
    /// The database's time. Never before the line before, whatever happens to its clock.
    pub(super) fn now(&self) -> DateTime<Utc> {
        self.clock.max(self.time)
    }
}

/// Brings the batch up to the head, has it decided, and appends its lines. `end` is where memory ends. Returns the new end.
pub(super) async fn run(
    session: &Session,
    end: Position,
    batch: &mut BindingBatch<'_>,
) -> Result<Position, TransactionFailure> {
    let head = lock_head(session).await?;
    learn(session, end, &head, batch).await?;
    let changes = batch.decide(Some(head.now()));
    let end = match changes {
        [] => head.end,
        changes => append(session, &head, changes).await?,
    };
    commit(session).await?;
    Ok(end)
}

/// Begins a transaction that holds the head until it ends.
pub(super) async fn lock_head(session: &Session) -> Result<LockedHead, TransactionFailure> {
    session.client.batch_execute(BEGIN).await?;
    let row = session.client.query_one(LOCK_HEAD, &[]).await?;
    if row.get::<_, i32>(5) != session.process {
        return Err(TransactionFailure::Ended(pooler()));
    }
    let digest = row.get::<_, &str>(1).parse::<Digest>();
    let digest = digest.map_err(|_| damaged("the table countersign.head has no digest".into()))?;
    Ok(LockedHead {
        end: Position {
            sequence: row.get::<_, i64>(0) as u64,
            digest,
        },
        time: row.get(2),
        epoch: row.get(3),
        clock: row.get(4),
    })
}

/// Passes on the lines between memory and the head.
async fn learn(
    session: &Session,
    end: Position,
    head: &LockedHead,
    batch: &mut BindingBatch<'_>,
) -> Result<(), TransactionFailure> {
    if head.end.sequence < end.sequence || (head.end.sequence == end.sequence && head.end != end) {
        return Err(TransactionFailure::LinesLost(lines_lost(format!(
            "{}: its log ends with line {}, and lacks what this node has read up to line {}",
            session.server, head.end.sequence, end.sequence
        ))));
    }
    let mut chain = Chain::after(end);
    if head.end.sequence > end.sequence {
        let rows = session
            .client
            .query(READ_LINES, &[&(end.sequence as i64), &(head.end.sequence as i64)])
            .await?;
        for row in rows {
            let line = format!("{}\n", row.get::<_, &str>(0));
            let change = chain.accept(line.as_bytes()).map_err(|refused| {
                damaged(format!(
                    "line {} of the ledger: {}",
                    chain.end.sequence + 1,
                    refused.what
                ))
            })?;
            if let Some(change) = change {
                batch.learn(change);
            }
        }
    }
    match chain.end == head.end {
        true => Ok(()),
        false => Err(damaged(format!(
            "the ledger's lines end with {}, but its head says {}",
            chain.end.sequence, head.end.sequence
        ))),
    }
}

fn damaged(what: String) -> TransactionFailure {
    TransactionFailure::Ended(failure(LedgerState::Damaged, what))
}

/// Appends lines and moves the head.
pub(super) async fn append(
    session: &Session,
    head: &LockedHead,
    changes: &[LedgerEvent],
) -> Result<Position, TransactionFailure> {
    let mut end = head.end;
    let mut time = head.time;
    let mut sequences = Vec::with_capacity(changes.len());
    let mut lines = Vec::with_capacity(changes.len());
    for change in changes {
        let mut line = Vec::new();
        end = LedgerRecord {
            previous: end,
            synced: head.end.sequence,
            change: change.clone(),
        }
        .write(&mut line)
        .map_err(|error| damaged(error.to_string()))?;
        time = time.max(change.time());
        sequences.push(end.sequence as i64);
        // JSON is UTF-8. The line feed is the row's end.
        lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
    session.client.execute(APPEND, &[&sequences, &lines]).await?;
    let moved = session
        .client
        .execute(MOVE_HEAD, &[&(end.sequence as i64), &end.digest.to_string(), &time])
        .await?;
    match moved {
        1 => Ok(end),
        _ => Err(damaged("the table countersign.head has no row".into())),
    }
}

/// Commits; an error unless the server confirmed it without a warning.
pub(super) async fn commit(session: &Session) -> Result<(), TransactionFailure> {
    session.take_warning();
    session.client.batch_execute("COMMIT").await?;
    match session.take_warning() {
        false => Ok(()),
        true => Err(TransactionFailure::Ended(failure(
            LedgerState::Unreachable,
            "the database does not know whether its standby has the binding",
        ))),
    }
}
