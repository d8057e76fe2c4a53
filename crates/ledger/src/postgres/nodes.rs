//! The table of nodes: who shares the log, and with which secrets.
//!
//! A node enters itself, and says every few seconds that it runs. A node whose secrets differ from those of a node that
//! had its own earlier issues nothing. Of two nodes with one folder, the one that started last keeps the name.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error::{BackendError, LedgerState};
use crate::postgres::failure::{database_error, failure};
use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::digest::Digest;

/// The file of the node's identity in its folder.
const FILE: &str = "node.json";

/// The largest such file, in bytes.
const LIMIT: u64 = 1_024;

const VERSION: &str = env!("CARGO_PKG_VERSION");

const ENTER: &str = "INSERT INTO countersign.nodes AS known \
     (name, instance, version, key_id, secrets, secrets_since, sequence, started, seen) \
     VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6, clock_timestamp(), clock_timestamp()) \
     ON CONFLICT (name) DO UPDATE SET instance = excluded.instance, version = excluded.version, \
     key_id = excluded.key_id, secrets = excluded.secrets, sequence = excluded.sequence, started = excluded.started, \
     seen = excluded.seen, secrets_since = CASE WHEN known.secrets = excluded.secrets THEN known.secrets_since \
     ELSE excluded.secrets_since END";

const SEEN: &str = "UPDATE countersign.nodes SET seen = clock_timestamp(), sequence = $3, version = $4, key_id = $5, \
     secrets_since = CASE WHEN secrets = $6 THEN secrets_since ELSE clock_timestamp() END, secrets = $6 \
     WHERE name = $1 AND instance = $2";

/// Whether another process has the name. One that went silent gives it free.
const IS_TAKEN: &str = "SELECT 1 FROM countersign.nodes \
     WHERE name = $1 AND instance <> $2 AND seen > clock_timestamp() - interval '15 seconds'";

const DIFFERS: &str = "SELECT other.name FROM countersign.nodes AS own, countersign.nodes AS other \
     WHERE own.name = $1 AND other.name <> own.name AND other.secrets <> own.secrets \
     AND other.seen > clock_timestamp() - interval '15 seconds' \
     AND (other.secrets_since, other.name) < (own.secrets_since, own.name) ORDER BY other.name LIMIT 1";

/// The secrets of a node, as far as others may see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSecrets {
    /// The id of the signing key.
    pub key_id: String,
    /// The fingerprint of the key of links; empty if there is none.
    pub downloads: String,
    /// The fingerprints of the keys that issue licenses; empty if there are none.
    pub licensing: String,
}

impl NodeSecrets {
    fn fingerprint(&self) -> String {
        let mut text = format!("{}\n{}\n", self.key_id, self.downloads);
        // Without such keys, as an earlier version has it: both may run while nodes are updated.
        if !self.licensing.is_empty() {
            text += &format!("{}\n", self.licensing);
        }
        Digest::of(text.as_bytes()).to_string()
    }
}

/// What a node calls itself.
pub(super) struct NodeIdentity {
    /// From the node's folder, so that a copied folder is noticed.
    name: String,
    /// Of this process.
    instance: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityFile {
    node: Uuid,
}

impl NodeIdentity {
    /// Reads the identity in the node's folder, or makes one.
    pub(super) fn load(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let name = match regular_file::read(&path, LIMIT) {
            Ok(json) => serde_json::from_slice::<IdentityFile>(&json)?.node,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let node = random()?;
                durable_file::create_new(&path, &serde_json::to_vec(&IdentityFile { node })?, Access::Owner)?;
                node
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            name: name.to_string(),
            instance: random()?.to_string(),
        })
    }

    /// Its name in the table.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Enters the node as started.
    pub(super) async fn enter(
        &self,
        client: &Client,
        secrets: &NodeSecrets,
        sequence: u64,
    ) -> Result<(), BackendError> {
        let fingerprint = secrets.fingerprint();
        let sequence = sequence as i64;
        let row: [&(dyn ToSql + Sync); 6] = [
            &self.name,
            &self.instance,
            &VERSION,
            &secrets.key_id,
            &fingerprint,
            &sequence,
        ];
        let entered = client.execute(ENTER, &row).await;
        entered.map(drop).map_err(|error| database_error(&error))
    }

    /// Says that the node runs. What another node says against it is the failure.
    pub(super) async fn check_in(
        &self,
        client: &Client,
        secrets: &NodeSecrets,
        sequence: u64,
    ) -> Result<(), BackendError> {
        let failed = |error: tokio_postgres::Error| database_error(&error);
        let fingerprint = secrets.fingerprint();
        let line = sequence as i64;
        let row: [&(dyn ToSql + Sync); 6] = [
            &self.name,
            &self.instance,
            &line,
            &VERSION,
            &secrets.key_id,
            &fingerprint,
        ];
        if client.execute(SEEN, &row).await.map_err(failed)? == 0 {
            let taken = client.query_opt(IS_TAKEN, &[&self.name, &self.instance]).await;
            if taken.map_err(failed)?.is_some() {
                return Err(failure(
                    LedgerState::SameName,
                    format!(
                        "another server runs with a copy of this node's folder (node {}): remove {FILE} from the copy",
                        self.name
                    ),
                ));
            }
            self.enter(client, secrets, sequence).await?;
        }
        let other = client.query_opt(DIFFERS, &[&self.name]).await.map_err(failed)?;
        match other {
            None => Ok(()),
            Some(row) => Err(failure(
                LedgerState::NodesDiffer,
                format!(
                    "this node's keys differ from those of node {}: give all nodes the same keys/",
                    row.get::<_, &str>(0)
                ),
            )),
        }
    }
}

fn random() -> io::Result<Uuid> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}
