//! Replaces the shared log by one without superseded lines. The owner of the tables runs it while no node does.
//!
//! One transaction moves the old lines into a table beside, and raises the head's epoch. A node that slept meanwhile
//! reads the whole log again. `log::compaction` says which lines stay.

use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::error::{BackendError, LedgerState, StoreError};
use crate::log::compaction;
use crate::log::reader::LedgerFault;
use crate::postgres::failure::{TransactionFailure, database_error, failure, newer, require_known};
use crate::postgres::session::{KnownLog, Session};
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::{load, transaction};

/// Lines of one statement.
const BATCH: usize = 10_000;

/// How long one statement may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection that was just closed is still in the list for a moment.
const LINGERS: Duration = Duration::from_secs(3);

const IS_OWNER: &str = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'countersign.ledger'::regclass";

/// A node that runs checks in every few seconds.
const SEEN_NODE: &str = "SELECT name, extract(epoch FROM clock_timestamp() - seen)::bigint FROM countersign.nodes \
     WHERE seen > clock_timestamp() - interval '30 seconds' ORDER BY seen DESC LIMIT 1";

/// Other roles' processes show this much to everybody.
const OTHER_SESSION: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
     AND application_name = 'countersign' AND pid <> pg_backend_pid() LIMIT 1";

/// Reading and writing takes longer than a node may hold the head.
const HOLD: &str = "SET LOCAL idle_in_transaction_session_timeout = '120s'; \
     LOCK TABLE countersign.ledger IN ACCESS EXCLUSIVE MODE";

/// A role that reads the log may read the old lines, too: an endpoint of webhooks may not have received them. `0` is PUBLIC.
const READABLE: &str = "DO $$ DECLARE reader oid; BEGIN \
     FOR reader IN SELECT DISTINCT held.grantee FROM pg_class, aclexplode(relacl) held \
     WHERE oid = 'countersign.ledger'::regclass AND held.privilege_type = 'SELECT' LOOP \
     EXECUTE format('GRANT SELECT ON ASIDE TO %s', CASE reader WHEN 0 THEN 'PUBLIC' ELSE reader::regrole::text END); \
     END LOOP; END $$";

const APPEND: &str = "INSERT INTO countersign.ledger (sequence, line) SELECT * FROM unnest($1::bigint[], $2::text[])";

const MOVE_HEAD: &str = "UPDATE countersign.head SET sequence = $1, digest = $2, time = $3, epoch = epoch + 1";

/// What was compacted.
#[derive(Debug)]
pub struct SharedCompaction {
    /// Number of bindings kept.
    pub kept: u64,
    /// The table of the old lines.
    pub aside: String,
}

/// Begins a new log that continues the old one. The old lines stay in a table of their own.
pub fn compact_shared(address: &str) -> Result<SharedCompaction, StoreError> {
    let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StoreError::shared(error.into()))?;
    runtime.block_on(async {
        let session = Session::open(&settings, KnownLog::none(), None).await;
        let session = session.map_err(StoreError::shared)?;
        require_owner(&session).await.map_err(StoreError::shared)?;
        let started = Instant::now();
        while let Some(who) = in_use(&session).await.map_err(StoreError::shared)? {
            if started.elapsed() > LINGERS {
                return Err(StoreError::SharedInUse(who));
            }
            sleep(Duration::from_millis(200)).await;
        }
        compact(&session).await
    })
}

/// Fails unless the role owns the tables.
pub(super) async fn require_owner(session: &Session) -> Result<(), BackendError> {
    let row = in_time(session.client.query_one(IS_OWNER, &[])).await?;
    match row.get::<_, bool>(0) {
        true => Ok(()),
        false => Err(failure(
            LedgerState::Refused,
            "this role does not own the table countersign.ledger, and only its owner may do this",
        )),
    }
}

/// Who uses the log.
async fn in_use(session: &Session) -> Result<Option<String>, BackendError> {
    let client = &session.client;
    if let Some(row) = in_time(client.query_opt(SEEN_NODE, &[])).await? {
        let name: &str = row.get(0);
        let seconds: i64 = row.get(1);
        return Ok(Some(format!("node {name} said {seconds} s ago that it runs")));
    }
    let other = in_time(client.query_opt(OTHER_SESSION, &[])).await?;
    Ok(other.map(|row| {
        let process: i32 = row.get(0);
        format!("another countersign is connected (process {process} of the database)")
    }))
}

/// A failure drops the session, and with it the transaction.
async fn compact(session: &Session) -> Result<SharedCompaction, StoreError> {
    let unlocked = |failed: TransactionFailure| StoreError::shared(failed.error());
    let failed = StoreError::shared;
    let client = &session.client;
    let head = timeout(PATIENCE, transaction::lock_head(session)).await;
    let head = head
        .unwrap_or_else(|_| Err(TransactionFailure::Ended(silent())))
        .map_err(unlocked)?;
    in_time(client.batch_execute(HOLD)).await.map_err(failed)?;
    // A node may have started since the first look.
    if let Some(who) = in_use(session).await.map_err(failed)? {
        return Err(StoreError::SharedInUse(who));
    }
    let mut old = Vec::new();
    let chain = load::each(client, |line, _| old.extend_from_slice(line.as_bytes()));
    let chain = chain.await.map_err(failed)?;
    if chain.end != head.end {
        return Err(failed(failure(
            LedgerState::Damaged,
            format!(
                "the ledger ends with line {}, but the table countersign.head says {}",
                chain.end.sequence, head.end.sequence
            ),
        )));
    }
    require_known(&chain).map_err(failed)?;
    let mut new = Vec::new();
    let (kept, end) =
        compaction::write(|| Ok(&old[..]), &mut new, head.now()).map_err(|fault| failed(of_fault(fault)))?;
    let aside = format!("countersign.ledger_until_{}", head.end.sequence);
    // TRUNCATE keeps the table, and with it the rights of the nodes.
    let set_aside = format!(
        "CREATE TABLE {aside} (LIKE countersign.ledger INCLUDING ALL); \
         INSERT INTO {aside} (sequence, line) SELECT sequence, line FROM countersign.ledger ORDER BY sequence; TRUNCATE countersign.ledger; {}",
        READABLE.replace("ASIDE", &aside)
    );
    in_time(client.batch_execute(&set_aside)).await.map_err(failed)?;
    let text = String::from_utf8_lossy(&new);
    let lines: Vec<&str> = text.lines().collect();
    let mut sequence = head.end.sequence as i64;
    for part in lines.chunks(BATCH) {
        let sequences: Vec<i64> = (sequence + 1..).take(part.len()).collect();
        sequence += part.len() as i64;
        in_time(client.execute(APPEND, &[&sequences, &part]))
            .await
            .map_err(failed)?;
    }
    let digest = end.digest.to_string();
    in_time(client.execute(MOVE_HEAD, &[&(end.sequence as i64), &digest, &head.now()]))
        .await
        .map_err(failed)?;
    let committed = timeout(PATIENCE, transaction::commit(session)).await;
    committed
        .unwrap_or_else(|_| Err(TransactionFailure::Ended(silent())))
        .map_err(|unsure| {
            let BackendError { state, message } = unsure.error();
            let message = format!("{message}; `countersign bindings verify` says whether the ledger was compacted");
            failed(BackendError { state, message })
        })?;
    Ok(SharedCompaction { kept, aside })
}

async fn in_time<T>(work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, BackendError> {
    match timeout(PATIENCE, work).await {
        Ok(done) => done.map_err(|error| database_error(&error)),
        Err(_) => Err(silent()),
    }
}

fn silent() -> BackendError {
    failure(
        LedgerState::Unreachable,
        format!("no answer within {} s", PATIENCE.as_secs()),
    )
}

fn of_fault(fault: LedgerFault) -> BackendError {
    match fault {
        LedgerFault::Io(error) => io::Error::into(error),
        LedgerFault::Broken(what) => failure(LedgerState::Damaged, what),
        LedgerFault::Newer(what) => newer(what),
    }
}
