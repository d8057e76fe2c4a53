//! What each server of the address says of itself, and what the role may do with the tables, for `doctor`. Changes nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Error};

use crate::error::{BackendError, ClockLead, LedgerState, StoreError};
use crate::postgres::failure::{database_error, failure};
use crate::postgres::schema;
use crate::postgres::session::{Session, connect};
use crate::postgres::settings::DatabaseSettings;

/// How long one server may take for all answers.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a standby may take to show the last line of its primary.
const CATCH_UP: Duration = Duration::from_secs(3);

/// The time between two looks at it.
const PAUSE: Duration = Duration::from_millis(100);

const SERVER: &str = "SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(), clock_timestamp(), \
     current_setting('transaction_read_only') = 'on'";

const SETTINGS: &str = "SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), \
     current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on'";

/// Other roles' rows are there, with empty columns.
const STANDBYS: &str = "SELECT coalesce(application_name, ''), coalesce(sync_state, ''), \
     pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint FROM pg_stat_replication ORDER BY 1";

const OLDEST: &str = "SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::bigint FROM pg_stat_activity \
     WHERE backend_xmin IS NOT NULL";

const HEAD: &str = "SELECT format, sequence FROM countersign.head";

/// A node that lacks lines although the newest is old, or a great many, has not followed.
const NODES: &str = "SELECT nodes.name, nodes.version, nodes.key_id, nodes.sequence, \
     extract(epoch FROM clock_timestamp() - nodes.seen)::bigint, nodes.sequence < head.sequence \
     AND (head.time < nodes.seen - interval '15 seconds' OR head.sequence - nodes.sequence > 50000) \
     FROM countersign.nodes, countersign.head \
     WHERE nodes.seen > clock_timestamp() - interval '1 minute' ORDER BY nodes.name";

/// A server of the address.
#[derive(Debug)]
pub struct InspectedServer {
    /// `host:port`.
    pub name: String,
    /// What it said, or why it said nothing.
    pub said: Result<ServerAnswers, String>,
}

/// What a server said.
#[derive(Debug)]
pub struct ServerAnswers {
    /// 150004 is 15.4.
    pub version: i32,
    /// How far this machine's clock is ahead of the server's.
    pub clock_lead: ClockLead,
    /// Whether it takes no changes although it is no standby.
    pub is_read_only: bool,
    /// The number of the last line that it shows; `None` if the role cannot see it.
    pub sequence: Option<u64>,
    /// What the primary knows; `None` from a standby.
    pub primary: Option<PrimaryAnswers>,
}

/// What a primary said.
#[derive(Debug)]
pub struct PrimaryAnswers {
    /// What this role may do.
    pub rights: RoleRights,
    /// `synchronous_standby_names`.
    pub standby_names: String,
    /// `synchronous_commit`, as this role has it. A node sets its own.
    pub synchronous_commit: String,
    /// Whether a commit is on disk when it is answered: `fsync` and `full_page_writes`.
    pub is_durable: bool,
    /// The format of the tables, if they have another one than this version reads.
    pub other_format: Option<i32>,
    /// The format that this version reads.
    pub format: i32,
    /// The standbys that are connected.
    pub standbys: Vec<ConnectedStandby>,
    /// The age in seconds of the oldest snapshot that this role may see.
    pub oldest_snapshot: Option<i64>,
    /// The nodes that ran within the last minute.
    pub nodes: Vec<SeenNode>,
}

/// A standby, as its primary sees it.
#[derive(Debug)]
pub struct ConnectedStandby {
    /// Its `application_name`.
    pub name: String,
    /// Such as `sync` or `async`; empty if the role may not see it.
    pub state: String,
    /// How much it has not yet on disk, in bytes, if the role may see it.
    pub lag: Option<i64>,
}

/// A node that shares the log.
#[derive(Debug)]
pub struct SeenNode {
    /// Its name.
    pub name: String,
    /// The version of countersign that it runs.
    pub version: String,
    /// The id of its signing key.
    pub key_id: String,
    /// The last line that it had read.
    pub sequence: i64,
    /// How many seconds ago it said that it runs.
    pub silent_for: i64,
    /// Whether it had not read what it should have.
    pub is_behind: bool,
}

/// Asks every server of the address. A standby has some seconds to show the last line of its primary.
pub fn inspect(address: &str) -> Result<Vec<InspectedServer>, StoreError> {
    let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StoreError::shared(error.into()))?;
    runtime.block_on(async {
        let mut servers = Vec::new();
        let mut sessions = Vec::new();
        for server in &settings.servers {
            let asked = async {
                let session = connect(&settings, server).await?;
                let answers = ask(&session.client).await?;
                Ok((session, answers))
            };
            let said = timeout(PATIENCE, asked).await;
            let said = said.unwrap_or_else(|_| Err(failure(LedgerState::Unreachable, "does not answer")));
            let (session, said) = said.map_or_else(
                |error: BackendError| (None, Err(error.message)),
                |(session, answers)| (Some(session), Ok(answers)),
            );
            let name = server.name.clone();
            servers.push(InspectedServer { name, said });
            sessions.push(session);
        }
        let newest = servers.iter().filter_map(sequence_of_primary).max();
        for (server, session) in servers.iter_mut().zip(&sessions) {
            if let (Ok(answers), Some(session), Some(newest)) = (&mut server.said, session, newest) {
                wait_for_line(answers, session, newest).await;
            }
        }
        Ok(servers)
    })
}

fn sequence_of_primary(server: &InspectedServer) -> Option<u64> {
    let answers = server.said.as_ref().ok()?;
    answers.primary.as_ref().and(answers.sequence)
}

/// Looks at a standby again until it shows this line.
async fn wait_for_line(answers: &mut ServerAnswers, session: &Session, newest: u64) {
    let begun = Instant::now();
    while answers.primary.is_none() && answers.sequence.is_some_and(|sequence| sequence < newest) {
        if begun.elapsed() > CATCH_UP {
            return;
        }
        sleep(PAUSE).await;
        let head = timeout(CATCH_UP, head(&session.client)).await.ok().flatten();
        answers.sequence = head.map(|(_, sequence)| sequence);
    }
}

async fn ask(client: &Client) -> Result<ServerAnswers, BackendError> {
    let failed = |error: Error| database_error(&error);
    let asked = Utc::now();
    let row = client.query_one(SERVER, &[]).await.map_err(failed)?;
    let middle = asked + (Utc::now() - asked) / 2;
    let is_standby: bool = row.get(1);
    let head = head(client).await;
    let primary = match is_standby {
        true => None,
        false => Some(
            ask_primary(client, head.map(|(format, _)| format))
                .await
                .map_err(failed)?,
        ),
    };
    Ok(ServerAnswers {
        version: row.get(0),
        clock_lead: ClockLead(middle - row.get::<_, DateTime<Utc>>(2)),
        is_read_only: !is_standby && row.get(3),
        sequence: head.map(|(_, sequence)| sequence),
        primary,
    })
}

/// The format of the tables and the last line; `None` where there are no tables, or none for this role.
async fn head(client: &Client) -> Option<(i32, u64)> {
    let row = client.query_opt(HEAD, &[]).await.ok().flatten()?;
    Some((row.get(0), row.get::<_, i64>(1) as u64))
}

async fn ask_primary(client: &Client, format: Option<i32>) -> Result<PrimaryAnswers, Error> {
    let rights = ask_rights(client).await?;
    let settings = client.query_one(SETTINGS, &[]).await?;
    let standbys = client.query(STANDBYS, &[]).await?;
    let oldest = client.query_one(OLDEST, &[]).await?;
    // Without the tables, or the right to see them, there are none to show.
    let nodes = client.query(NODES, &[]).await.unwrap_or_default();
    let standby = |row: &tokio_postgres::Row| ConnectedStandby {
        name: row.get(0),
        state: row.get(1),
        lag: row.get(2),
    };
    let node = |row: &tokio_postgres::Row| SeenNode {
        name: row.get(0),
        version: row.get(1),
        key_id: row.get(2),
        sequence: row.get(3),
        silent_for: row.get(4),
        is_behind: row.get(5),
    };
    Ok(PrimaryAnswers {
        rights,
        standby_names: settings.get(0),
        synchronous_commit: settings.get(1),
        is_durable: settings.get::<_, bool>(2) && settings.get::<_, bool>(3),
        other_format: format.filter(|format| *format != schema::FORMAT),
        format: schema::FORMAT,
        standbys: standbys.iter().map(standby).collect(),
        oldest_snapshot: oldest.get(0),
        nodes: nodes.iter().map(node).collect(),
    })
}

/// Needs no right, not even to the schema. The owner of a table may do everything with it.
const NEEDED: &str = "SELECT need.name, need.privilege, c.oid IS NOT NULL, coalesce(CASE need.privilege \
     WHEN 'DELETE' THEN has_table_privilege(c.oid, need.privilege) \
     ELSE has_any_column_privilege(c.oid, need.privilege) END, false) AND has_schema_privilege(n.oid, 'USAGE') \
     FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS need(name, privilege, place) \
     LEFT JOIN pg_namespace n ON n.nspname = 'countersign' \
     LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = need.name ORDER BY need.place";

const DANGEROUS: &str = "SELECT has_any_column_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'), \
     has_table_privilege(c.oid, 'TRUNCATE'), has_table_privilege(c.oid, 'TRIGGER'), \
     pg_has_role(c.relowner, 'USAGE') OR pg_has_role(n.nspowner, 'USAGE') \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'countersign' AND c.relname = 'ledger'";

/// The names of what [`DANGEROUS`] reads.
const DANGEROUS_NAMES: [&str; 5] = ["UPDATE", "DELETE", "TRUNCATE", "TRIGGER", "owner"];

/// What a role may do.
#[derive(Debug)]
pub struct RoleRights {
    /// Tables that are not there.
    pub absent: BTreeSet<String>,
    /// What a node needs and the role lacks, such as `INSERT on ledger`.
    pub lacking: Vec<String>,
    /// What lets the role change or delete lines, such as `DELETE`.
    pub dangerous: Vec<&'static str>,
}

/// Asks what the role of this connection may do.
async fn ask_rights(client: &Client) -> Result<RoleRights, Error> {
    let (tables, privileges): (Vec<_>, Vec<_>) = schema::needed().into_iter().unzip();
    let mut rights = RoleRights {
        absent: BTreeSet::new(),
        lacking: Vec::new(),
        dangerous: Vec::new(),
    };
    for row in client.query(NEEDED, &[&tables, &privileges]).await? {
        let table: &str = row.get(0);
        let privilege: &str = row.get(1);
        if !row.get::<_, bool>(2) {
            rights.absent.insert(table.to_owned());
        } else if !row.get::<_, bool>(3) {
            rights.lacking.push(format!("{privilege} on {table}"));
        }
    }
    if let Some(row) = client.query_opt(DANGEROUS, &[]).await? {
        let held = DANGEROUS_NAMES
            .iter()
            .enumerate()
            .filter(|(column, _)| row.get(*column));
        rights.dangerous = held.map(|(_, name)| *name).collect();
    }
    Ok(rights)
}
