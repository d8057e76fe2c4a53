//! What waits on each node, in its row of the table of nodes: queues are files of one node, and a person looks at any.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::postgres::node_state::DEADLINE;
use crate::postgres::shared_reader::SharedReader;
use crate::source::StoreSource;

/// How old stored counts may be that did not change.
const STORED_EVERY: Duration = Duration::from_secs(60);

const STORE: &str = "UPDATE countersign.nodes SET queues = $2::text::jsonb WHERE name = $1";

const OTHERS: &str = "SELECT name, extract(epoch FROM clock_timestamp() - seen)::bigint, queues::text \
     FROM countersign.nodes WHERE name <> $1 AND queues IS NOT NULL ORDER BY name";

/// What waits on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueCounts {
    /// Deliveries of shops that are tried again.
    pub deliveries_waiting: u64,
    /// Deliveries that a person has to decide about.
    pub deliveries_parked: u64,
    /// Mails that are to be sent.
    pub mails_waiting: u64,
    /// Mails that a person has to decide about.
    pub mails_parked: u64,
}

/// Another node of a shared ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherNode {
    /// Its name.
    pub name: String,
    /// How long ago it said that it runs, in seconds. One that runs does so every few seconds.
    pub silent_seconds: u64,
    /// What waits on it, as it stored last.
    pub queues: QueueCounts,
}

/// The row of one node.
pub struct NodeQueues {
    address: String,
    node: String,
    reader: Option<SharedReader>,
    stored: Option<(QueueCounts, Instant)>,
}

impl NodeQueues {
    /// The row of this node, in the database with this address; `None` for a ledger that no other node shares. Opens no connection.
    pub fn of_node(source: StoreSource<'_>, node: Option<&str>) -> Option<Self> {
        match (source, node) {
            (StoreSource::Database(address), Some(node)) => Some(Self {
                address: address.to_owned(),
                node: node.to_owned(),
                reader: None,
                stored: None,
            }),
            _ => None,
        }
    }

    /// Stores what waits, unless the row has it. Blocks.
    ///
    /// # Errors
    /// The database cannot be asked, or its tables are of an earlier version.
    pub fn store(&mut self, counts: QueueCounts) -> Result<(), StoreError> {
        let is_stored = |(known, time): &(QueueCounts, Instant)| *known == counts && time.elapsed() < STORED_EVERY;
        if self.stored.as_ref().is_some_and(is_stored) {
            return Ok(());
        }
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => SharedReader::open(&self.address)?,
        };
        // Counts always serialize.
        let text = serde_json::to_string(&counts).unwrap_or_default();
        reader.query_within(DEADLINE, reader.client().execute(STORE, &[&self.node, &text]))?;
        self.reader = Some(reader);
        self.stored = Some((counts, Instant::now()));
        Ok(())
    }
}

/// The other nodes of a shared ledger, by name; none of a folder. Blocks.
///
/// # Errors
/// The database cannot be asked, or its tables are of an earlier version.
pub fn other_nodes(source: StoreSource<'_>, own: Option<&str>) -> Result<Vec<OtherNode>, StoreError> {
    let (StoreSource::Database(address), Some(own)) = (source, own) else {
        return Ok(Vec::new());
    };
    let reader = SharedReader::open(address)?;
    let rows = reader.query_within(DEADLINE, reader.client().query(OTHERS, &[&own]))?;
    let node = |row: &tokio_postgres::Row| OtherNode {
        name: row.get(0),
        silent_seconds: u64::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
        queues: serde_json::from_str(row.get(2)).unwrap_or_default(),
    };
    Ok(rows.iter().map(node).collect())
}
