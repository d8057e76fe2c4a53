//! Which node sends to an endpoint of webhooks, and how far the endpoint has received events: a row of the shared database
//! for each endpoint.
//!
//! A node holds a lease by the database's clock, and renews it while it runs. After its end another node may take the lease,
//! and goes on behind what is stored. `term` counts the changes of hands, so that a node that slept notices one.

use std::time::Duration;

use crate::error::StoreError;
use crate::postgres::node_state::DEADLINE;
use crate::postgres::shared_reader::SharedReader;
use crate::sleep_watch::since_boot;

/// How long a lease lasts that is not renewed.
const LEASE: Duration = Duration::from_secs(10);

/// How old the last answer of the database may be before it is asked again.
const RENEW_AFTER: Duration = Duration::from_secs(2);

const HOLD: &str = "INSERT INTO countersign.webhook_cursors AS known (endpoint, node, term, until, progress) \
     VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 second', 'null') \
     ON CONFLICT (endpoint) DO UPDATE SET node = excluded.node, until = clock_timestamp() + $3 * interval '1 second', \
     term = known.term + (known.node <> excluded.node)::integer \
     WHERE known.node = excluded.node OR known.until < clock_timestamp() RETURNING term, progress::text";

const SAVE: &str = "UPDATE countersign.webhook_cursors SET progress = $4::text::jsonb \
     WHERE endpoint = $1 AND node = $2 AND term = $3";

const GIVE_UP: &str = "UPDATE countersign.webhook_cursors SET until = clock_timestamp() \
     WHERE endpoint = $1 AND node = $2 AND term = $3";

const ALL: &str = "SELECT endpoint, node, until >= clock_timestamp(), progress::text FROM countersign.webhook_cursors ORDER BY endpoint";

/// The lease of one endpoint, as one node sees it.
pub struct EndpointLease {
    address: String,
    endpoint: String,
    node: String,
    reader: Option<SharedReader>,
    /// The last answer.
    held: Option<HeldLease>,
    /// When it was asked for, as the time since the machine started.
    asked: Option<Duration>,
}

/// A lease that this node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Counts the changes of hands.
    pub term: i64,
    /// What the last holder stored before this term, as JSON.
    pub progress: String,
}

/// An endpoint in the database.
#[derive(Clone, Debug)]
pub struct SharedEndpoint {
    /// Its name.
    pub endpoint: String,
    /// The node that holds its lease, or held it last.
    pub node: String,
    /// Whether the lease has not ended.
    pub is_held: bool,
    /// How far it has received events, as JSON.
    pub progress: String,
}

impl EndpointLease {
    /// The lease of this endpoint for this node, in the database with this address. Asks nothing yet.
    pub fn new(address: &str, endpoint: &str, node: &str) -> Self {
        Self {
            address: address.to_owned(),
            endpoint: endpoint.to_owned(),
            node: node.to_owned(),
            reader: None,
            held: None,
            asked: None,
        }
    }

    /// Takes or renews the lease, unless that was done in the last two seconds; `None` while another node holds it. Blocks.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub fn hold(&mut self) -> Result<Option<HeldLease>, StoreError> {
        let now = since_boot();
        if self.asked.is_some_and(|asked| now < asked + RENEW_AFTER) {
            return Ok(self.held.clone());
        }
        let seconds = LEASE.as_secs_f64();
        let endpoint = self.endpoint.clone();
        let node = self.node.clone();
        let row = self.ask(|reader| {
            reader.query_within(DEADLINE, reader.client().query_opt(HOLD, &[&endpoint, &node, &seconds]))
        })?;
        self.held = row.map(|row| HeldLease {
            term: row.get(0),
            progress: row.get(1),
        });
        // From before the question: the database counts from later.
        self.asked = Some(now);
        Ok(self.held.clone())
    }

    /// Until when this node may tell the endpoint, by the time since the machine was started. Zero if it may not.
    pub fn until(&self) -> Duration {
        let asked = self.asked.filter(|_| self.held.is_some());
        asked.map_or(Duration::ZERO, |asked| asked + LEASE)
    }

    /// Stores the place up to which the endpoint has received events, as JSON. Returns whether this node still holds the lease of this
    /// term. Blocks.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub fn save(&mut self, term: i64, progress: &str) -> Result<bool, StoreError> {
        self.change(term, SAVE, Some(progress))
    }

    /// Ends the lease, so that another node need not wait. Blocks.
    ///
    /// # Errors
    /// The database cannot be asked: the lease ends by itself.
    pub fn give_up(&mut self) -> Result<(), StoreError> {
        match self.held.take() {
            Some(held) => self.change(held.term, GIVE_UP, None).map(drop),
            None => Ok(()),
        }
    }

    fn change(&mut self, term: i64, sql: &str, progress: Option<&str>) -> Result<bool, StoreError> {
        let endpoint = self.endpoint.clone();
        let node = self.node.clone();
        let changed = self.ask(|reader| {
            reader.query_within(DEADLINE, async {
                match &progress {
                    Some(progress) => reader.client().execute(sql, &[&endpoint, &node, &term, progress]).await,
                    None => reader.client().execute(sql, &[&endpoint, &node, &term]).await,
                }
            })
        })?;
        if changed == 0 {
            self.held = None;
        }
        Ok(changed > 0)
    }

    /// Asks over the open connection. One that failed is closed.
    fn ask<T>(&mut self, question: impl FnOnce(&SharedReader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => SharedReader::open(&self.address)?,
        };
        let answer = question(&reader)?;
        self.reader = Some(reader);
        Ok(answer)
    }
}

/// Every endpoint that any node tells. Blocks.
///
/// # Errors
/// The database cannot be asked.
pub fn shared_endpoints(address: &str) -> Result<Vec<SharedEndpoint>, StoreError> {
    let reader = SharedReader::open(address)?;
    let rows = reader.query_within(DEADLINE, reader.client().query(ALL, &[]))?;
    let endpoint = |row: &tokio_postgres::Row| SharedEndpoint {
        endpoint: row.get(0),
        node: row.get(1),
        is_held: row.get(2),
        progress: row.get(3),
    };
    Ok(rows.iter().map(endpoint).collect())
}
