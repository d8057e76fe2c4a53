//! The statements that a node repeats, prepared once per session.
//!
//! A pooler in session mode keeps them. After a restore has replaced the tables, PostgreSQL looks up their names again.

use tokio_postgres::{Client, Error, Statement};

use crate::postgres::text_rows;

/// Takes the head until the transaction ends.
const LOCK_HEAD: &str = "SELECT sequence, digest, time, epoch, clock_timestamp(), pg_backend_pid(), format FROM countersign.head FOR UPDATE";

/// In a statement of its own: in the one that locks the head, PostgreSQL would read as of before the lock.
const READ_LINES: &str = "SELECT line FROM countersign.ledger WHERE sequence > $1 ORDER BY sequence";

/// Appends lines and moves the head, or does neither.
const APPEND: &str = "WITH moved AS (UPDATE countersign.head SET sequence = $3, digest = $4, time = $5 RETURNING only_row) \
     INSERT INTO countersign.ledger (sequence, line) \
     SELECT lines.sequence, lines.line FROM moved, unnest($1::bigint[], $2::text[]) AS lines(sequence, line)";

/// Reads the head without a lock.
pub(super) const LOOK: &str = "SELECT sequence, digest, epoch, current_setting('synchronous_standby_names'), clock_timestamp(), format \
     FROM countersign.head";

/// Prepared statements of one session.
pub(super) struct Statements {
    pub lock_head: Statement,
    pub read_lines: Statement,
    pub append: Statement,
    pub keep: Statement,
    pub look: Statement,
}

impl Statements {
    /// Prepares them in one round trip.
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let (lock_head, read_lines, append, keep, look) = tokio::try_join!(
            client.prepare(LOCK_HEAD),
            client.prepare(READ_LINES),
            client.prepare(APPEND),
            client.prepare(text_rows::KEEP),
            client.prepare(LOOK),
        )?;
        Ok(Self {
            lock_head,
            read_lines,
            append,
            keep,
            look,
        })
    }
}
