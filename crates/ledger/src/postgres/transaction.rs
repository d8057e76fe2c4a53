//! One transaction on the log: lock the head, read what others appended, decide, append, commit.
//!
//! SECURITY: only a COMMIT without a warning counts. Under synchronous replication a cancelled COMMIT returns success with
//! a warning, and its lines can be lost in a failover. A locked head that is committed proves everything up to it, because
//! a primary that was replaced hangs there; a plain read proves nothing.

use chrono::{DateTime, Utc};
use tokio::join;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::binding_batch::BindingBatch;
use crate::error::LedgerState;
use crate::log::Position;
use crate::log::chain::{Chain, ParsedLine};
use crate::log::record::LedgerRecord;
use crate::postgres::failure::{TransactionFailure, failure, lines_lost, older, require_known};
use crate::postgres::schema;
use crate::postgres::session::{self, KnownLog, Session, has_line};
use crate::postgres::text_rows::KeptRows;
use countersign_model::digest::Digest;

/// The settings are in the transaction, so that nothing that leaks into the session can weaken them. A node that is
/// stopped while it holds the lock loses it after two seconds.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; \
     SET LOCAL lock_timeout = '3s'; SET LOCAL idle_in_transaction_session_timeout = '2s'";

/// The head of the log, as its row has it.
pub(super) struct LockedHead {
    pub end: Position,
    pub epoch: i32,
    time: DateTime<Utc>,
    clock: DateTime<Utc>,
}

impl LockedHead {
    /// Reads its row.
    fn read(session: &Session, row: &Row) -> Result<Self, TransactionFailure> {
        if row.get::<_, i32>(5) != session.process {
            return Err(TransactionFailure::Ended(session::pooler_found()));
        }
        schema::is_known(row.get(6)).map_err(TransactionFailure::Ended)?;
        let digest = row.get::<_, &str>(1).parse::<Digest>();
        let digest = digest.map_err(|_| damaged("the table countersign.head has no digest".into()))?;
        Ok(Self {
            end: Position {
                sequence: row.get::<_, i64>(0) as u64,
                digest,
            },
            time: row.get(2),
            epoch: row.get(3),
            clock: row.get(4),
        })
    }

    /// The database's time. Never before the line before, whatever happens to its clock.
    pub(super) fn now(&self) -> DateTime<Utc> {
        self.clock.max(self.time)
    }
}

/// Brings the batch up to the head, has it decided, and appends its lines. `known` is where memory ends. Returns the new
/// end. Waits for the database twice: for what is there, and for the commit.
pub(super) async fn run(
    session: &Session,
    known: KnownLog,
    batch: &mut BindingBatch<'_>,
) -> Result<Position, TransactionFailure> {
    let statements = session.statements().await?;
    let after: [&(dyn ToSql + Sync); 1] = [&(known.end.sequence as i64)];
    // The server carries them out one after the other: no line is read before the head is locked.
    let (begun, head, lines) = join!(
        biased;
        session.client.batch_execute(BEGIN),
        session.client.query_one(&statements.lock_head, &[]),
        session.client.query(&statements.read_lines, &after),
    );
    begun?;
    let head = LockedHead::read(session, &head?)?;
    learn(session, known, &head, &lines?, batch).await?;
    batch.decide(Some(head.now()));
    if batch.appended().is_empty() && batch.texts().is_empty() {
        commit(session).await?;
        return Ok(head.end);
    }
    append(session, &head, batch).await
}

/// Begins a transaction that holds the head until it ends.
pub(super) async fn lock_head(session: &Session) -> Result<LockedHead, TransactionFailure> {
    let statements = session.statements().await?;
    let (begun, head) = join!(
        biased;
        session.client.batch_execute(BEGIN),
        session.client.query_one(&statements.lock_head, &[]),
    );
    begun?;
    LockedHead::read(session, &head?)
}

/// Passes on the `lines` between memory and the head.
async fn learn(
    session: &Session,
    known: KnownLog,
    head: &LockedHead,
    lines: &[Row],
    batch: &mut BindingBatch<'_>,
) -> Result<(), TransactionFailure> {
    let end = known.end;
    if head.epoch < known.epoch {
        return Err(TransactionFailure::LinesLost(lines_lost(older(end))));
    }
    if head.end.sequence < end.sequence || (head.end.sequence == end.sequence && head.end != end) {
        return Err(lacking(known, head));
    }
    let mut chain = Chain::after(end);
    for row in lines {
        let line = format!("{}\n", row.get::<_, &str>(0));
        let change = match chain.accept(ParsedLine::of(line.as_bytes())) {
            Ok(change) => change,
            Err(_) if chain.end == end && !has_line(&session.client, end).await? => {
                return Err(lacking(known, head));
            }
            Err(refused) => {
                let line = chain.end.sequence + 1;
                return Err(damaged(format!("line {line} of the ledger: {}", refused.what)));
            }
        };
        // The rest shows whether the chain is whole; memory takes nothing of it.
        if chain.newer.is_some() {
            continue;
        }
        if let Some(change) = change {
            batch.learn(change);
        }
        batch.read_to(chain.end);
    }
    match chain.end == head.end {
        true => require_known(&chain).map_err(TransactionFailure::Ended),
        false => Err(damaged(format!(
            "the ledger's lines end with {}, but its head says {}",
            chain.end.sequence, head.end.sequence
        ))),
    }
}

/// The log lacks the last line that the node has read.
fn lacking(known: KnownLog, head: &LockedHead) -> TransactionFailure {
    if head.epoch > known.epoch {
        return TransactionFailure::Ended(failure(
            LedgerState::Unreachable,
            "the ledger was compacted or repaired, and this node is about to read it again",
        ));
    }
    TransactionFailure::LinesLost(lines_lost(format!(
        "its log ends with line {}, and lacks what this node has read up to line {}",
        head.end.sequence, known.end.sequence
    )))
}

fn damaged(what: String) -> TransactionFailure {
    TransactionFailure::Ended(failure(LedgerState::Damaged, what))
}

/// Keeps texts of orders, appends lines, moves the head and commits, in one round trip. If the server appends nothing, it commits nothing: after
/// an error a COMMIT rolls back, and without a head the statement has no lines.
async fn append(
    session: &Session,
    head: &LockedHead,
    batch: &mut BindingBatch<'_>,
) -> Result<Position, TransactionFailure> {
    let changes = batch.appended();
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
    if !lines.is_empty() {
        batch.send(end);
    }
    let statements = session.statements().await?;
    let digest = end.digest.to_string();
    let sequence = end.sequence as i64;
    let row: [&(dyn ToSql + Sync); 5] = [&sequences, &lines, &sequence, &digest, &time];
    let kept = KeptRows::new(batch.texts());
    let texts: [&(dyn ToSql + Sync); 4] = [&kept.names, &kept.texts, &kept.of, &kept.others];
    let keep = async {
        match kept.names.is_empty() {
            true => Ok(0),
            false => session.client.execute(&statements.keep, &texts).await,
        }
    };
    let (kept, appended, committed) = join!(
        biased;
        keep,
        session.client.execute(&statements.append, &row),
        commit(session),
    );
    kept?;
    if appended? != lines.len() as u64 {
        return Err(damaged("the table countersign.head has no row".into()));
    }
    committed?;
    Ok(end)
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
