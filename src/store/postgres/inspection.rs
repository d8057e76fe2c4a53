//! What each server of the address says of itself, for `doctor`. Changes nothing.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::store::backend_error::BackendError;
use crate::store::error::StoreError;
use crate::store::ledger_state::LedgerState;
use crate::store::postgres::failure::{database_error, failure};
use crate::store::postgres::session::connect;
use crate::store::postgres::settings::DatabaseSettings;

/// How long one server may take for all answers.
const PATIENCE: Duration = Duration::from_secs(8);

const SERVER: &str = "SELECT current_setting('server_version_num')::integer, pg_is_in_recovery()";

const RIGHTS: &str = "SELECT has_table_privilege('countersign.ledger', 'UPDATE') \
     OR has_table_privilege('countersign.ledger', 'DELETE') OR has_table_privilege('countersign.ledger', 'TRUNCATE'), \
     current_setting('synchronous_standby_names'), (SELECT format FROM countersign.head)";

/// Other roles' rows are there, with empty columns.
const STANDBYS: &str = "SELECT coalesce(application_name, ''), coalesce(sync_state, ''), \
     pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint FROM pg_stat_replication ORDER BY 1";

const OLDEST: &str = "SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::bigint FROM pg_stat_activity \
     WHERE backend_xmin IS NOT NULL";

const NODES: &str = "SELECT name, version, key_id FROM countersign.nodes \
     WHERE seen > clock_timestamp() - interval '1 minute' ORDER BY name";

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
    /// What the primary knows; `None` from a standby.
    pub primary: Option<PrimaryAnswers>,
}

/// What a primary said.
#[derive(Debug)]
pub struct PrimaryAnswers {
    /// Whether this role can change or delete lines.
    pub may_change_lines: bool,
    /// `synchronous_standby_names`.
    pub standby_names: String,
    /// Whether the tables have the format of this version.
    pub format_is_known: bool,
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
}

/// Asks every server of the address.
pub fn inspect(address: &str) -> Result<Vec<InspectedServer>, StoreError> {
    let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StoreError::shared(error.into()))?;
    let servers = settings.servers.iter().map(|server| {
        let asked = async {
            let session = connect(&settings, server).await?;
            ask(&session.client).await
        };
        let said = runtime.block_on(async { timeout(PATIENCE, asked).await });
        let said = said.unwrap_or_else(|_| Err(failure(LedgerState::Unreachable, "does not answer")));
        InspectedServer {
            name: server.name.clone(),
            said: said.map_err(|error| error.message),
        }
    });
    Ok(servers.collect())
}

async fn ask(client: &Client) -> Result<ServerAnswers, BackendError> {
    let told = |error: tokio_postgres::Error| database_error(&error);
    let row = client.query_one(SERVER, &[]).await.map_err(told)?;
    let primary = match row.get(1) {
        true => None,
        false => Some(ask_primary(client).await.map_err(told)?),
    };
    Ok(ServerAnswers {
        version: row.get(0),
        primary,
    })
}

async fn ask_primary(client: &Client) -> Result<PrimaryAnswers, tokio_postgres::Error> {
    let rights = client.query_one(RIGHTS, &[]).await?;
    let standbys = client.query(STANDBYS, &[]).await?;
    let oldest = client.query_one(OLDEST, &[]).await?;
    let nodes = client.query(NODES, &[]).await?;
    let standby = |row: &tokio_postgres::Row| ConnectedStandby {
        name: row.get(0),
        state: row.get(1),
        lag: row.get(2),
    };
    let node = |row: &tokio_postgres::Row| SeenNode {
        name: row.get(0),
        version: row.get(1),
        key_id: row.get(2),
    };
    Ok(PrimaryAnswers {
        may_change_lines: rights.get(0),
        standby_names: rights.get(1),
        format_is_known: rights.get::<_, Option<i32>>(2) == Some(super::schema::FORMAT),
        standbys: standbys.iter().map(standby).collect(),
        oldest_snapshot: oldest.get(0),
        nodes: nodes.iter().map(node).collect(),
    })
}
