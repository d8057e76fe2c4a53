//! Copies lines into the shared log, and out of it: the same bytes, so the same chain.
//!
//! The head moves with its lines, 500 at once, so that nobody waits long for its lock. A copy that was cut short goes on
//! where it ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::error::{BackendError, LedgerState, StoreError};
use crate::log::Position;
use crate::log::chain::{Chain, ParsedLine};
use crate::postgres::failure::{TransactionFailure, database_error, failure, require_known};
use crate::postgres::session::Session;
use crate::postgres::{load, text_erasure, text_rows, transaction};
use crate::texts::FoundTexts;
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

/// Lines of one transaction.
const BATCH: usize = 500;

/// How long one transaction may take.
const PATIENCE: Duration = Duration::from_secs(10);

const APPEND: &str = "INSERT INTO countersign.ledger (sequence, line) SELECT * FROM unnest($1::bigint[], $2::text[])";

const FIRST_LINE: &str = "SELECT min(sequence) FROM countersign.ledger";

/// Nodes never bind before the line before.
const MOVE_HEAD: &str =
    "UPDATE countersign.head SET sequence = $1, digest = $2, time = greatest(time, $3::timestamptz)";

/// A connection to the server that takes changes.
pub(crate) struct SharedCopy {
    runtime: Runtime,
    session: Session,
}

/// Lines that wait for their transaction.
#[derive(Default)]
struct WaitingLines {
    sequences: Vec<i64>,
    lines: Vec<String>,
    time: Option<chrono::DateTime<chrono::Utc>>,
}

impl SharedCopy {
    pub(crate) fn open(address: &str) -> Result<Self, StoreError> {
        let (runtime, session) = Session::open_here(address)?;
        Ok(Self { runtime, session })
    }

    /// Appends the lines of a whole ledger that the table lacks. Returns their number and the position of the ledger's last
    /// line. Calls `note` with the number of lines so far.
    pub(crate) fn put(&self, ledger: impl Read, note: &mut dyn FnMut(u64)) -> Result<(u64, Position), StoreError> {
        self.runtime
            .block_on(self.put_lines(BufReader::new(ledger), note))
            .map_err(StoreError::shared)
    }

    /// Adds what is kept of orders. What was erased in the database stays erased.
    pub(crate) fn put_texts(&self, all: &[(Hex128, StoredText)]) -> Result<(), StoreError> {
        let put = async {
            text_erasure::put(&self.session, all)
                .await
                .map_err(TransactionFailure::error)
        };
        self.runtime.block_on(put).map_err(StoreError::shared)
    }

    /// What is kept of orders, as of the same moment as the lines that [`Self::take`] wrote.
    pub(crate) fn texts(&self) -> Result<FoundTexts, StoreError> {
        let all = async { Ok(text_rows::all(&self.session.client).await?) };
        self.runtime.block_on(in_time(all)).map_err(StoreError::shared)
    }

    async fn put_lines(
        &self,
        mut ledger: impl BufRead,
        note: &mut dyn FnMut(u64),
    ) -> Result<(u64, Position), BackendError> {
        let start = self.head().await?;
        let mut is_reached = start.sequence == 0;
        let mut chain = Chain::default();
        let mut waiting = WaitingLines::default();
        let mut end = start;
        let mut bytes = Vec::new();
        let mut copied = 0;
        while ledger.read_until(b'\n', &mut bytes)? > 0 {
            let change = chain.accept(ParsedLine::of(&bytes)).map_err(|refused| {
                let line = chain.lines + 1;
                failure(
                    LedgerState::Damaged,
                    format!("line {line} of the file: {}", refused.what),
                )
            })?;
            require_known(&chain)?;
            if is_reached {
                waiting.sequences.push(chain.end.sequence as i64);
                waiting
                    .lines
                    .push(String::from_utf8_lossy(&bytes).trim_end().to_owned());
                waiting.time = waiting.time.max(change.map(|change| change.time()));
                copied += 1;
            } else if chain.end.sequence >= start.sequence || (chain.lines == 1 && chain.start == start) {
                if chain.end != start {
                    return Err(other_ledger(start));
                }
                is_reached = true;
            }
            if waiting.lines.len() == BATCH {
                end = self.append(end, chain.end, std::mem::take(&mut waiting)).await?;
                note(chain.lines);
            }
            bytes.clear();
        }
        if !is_reached {
            return Err(other_ledger(start));
        }
        if !waiting.lines.is_empty() {
            self.append(end, chain.end, waiting).await?;
        }
        Ok((copied, chain.end))
    }

    /// The head, proved by a commit.
    async fn head(&self) -> Result<Position, BackendError> {
        let head = async {
            let head = transaction::lock_head(&self.session).await?;
            transaction::commit(&self.session).await?;
            Ok::<_, TransactionFailure>(head.end)
        };
        in_time(head).await
    }

    /// Appends lines after `end`, and moves the head.
    async fn append(&self, end: Position, new: Position, waiting: WaitingLines) -> Result<Position, BackendError> {
        in_time(async {
            let head = transaction::lock_head(&self.session).await?;
            if head.end != end {
                return Err(TransactionFailure::Ended(other_ledger(head.end)));
            }
            let client = &self.session.client;
            let WaitingLines { sequences, lines, time } = waiting;
            client.execute(APPEND, &[&sequences, &lines]).await?;
            let digest = new.digest.to_string();
            client
                .execute(MOVE_HEAD, &[&(new.sequence as i64), &digest, &time])
                .await?;
            transaction::commit(&self.session).await?;
            Ok(new)
        })
        .await
    }

    /// Writes every line, as of one moment; how many there are, and where they end. `note` takes how many of them are done.
    pub(crate) fn take(
        &self,
        mut file: impl Write,
        note: &mut dyn FnMut(u64, u64),
    ) -> Result<(u64, Position), StoreError> {
        let client = &self.session.client;
        let read = async {
            let begun = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
            in_time(async { Ok(begun.await?) }).await?;
            let head = load::head(client).await?;
            let mut written = Ok(());
            let first = client.query_one(FIRST_LINE, &[]).await;
            let first = first.map_err(|error| database_error(&error))?;
            let all = first
                .get::<_, Option<i64>>(0)
                .map_or(0, |first| head.sequence + 1 - first as u64);
            let mut done = 0;
            let chain = load::each(client, |line, _| {
                done += 1;
                if done % 500 == 0 {
                    note(done, all);
                }
                if written.is_ok() {
                    written = file.write_all(line.as_bytes());
                }
            })
            .await?;
            written.and_then(|()| file.flush())?;
            match chain.end.sequence == head.sequence && chain.end.digest.to_string() == head.digest {
                true => require_known(&chain).map(|()| (chain.lines, chain.end)),
                false => Err(failure(
                    LedgerState::Damaged,
                    format!(
                        "the ledger ends with line {}, but its head says {}",
                        chain.end.sequence, head.sequence
                    ),
                )),
            }
        };
        self.runtime.block_on(read).map_err(StoreError::shared)
    }
}

/// The work's result, within the time limit.
async fn in_time<T>(work: impl Future<Output = Result<T, TransactionFailure>>) -> Result<T, BackendError> {
    match timeout(PATIENCE, work).await {
        Ok(done) => done.map_err(TransactionFailure::error),
        Err(_) => Err(failure(
            LedgerState::Unreachable,
            format!("no answer within {} s", PATIENCE.as_secs()),
        )),
    }
}

fn other_ledger(head: Position) -> BackendError {
    failure(
        LedgerState::LinesLost,
        format!("its line {} is not in the ledger to copy", head.sequence),
    )
}
