//! The tables of the shared log, and the rights of a node.
//!
//! `ledger` has the lines, `head` has one row: the end of the chain. Who appends locks it. `order_references` has the texts of
//! orders, which can be erased. The other tables hold what no decision depends on. The node's role can neither change nor delete a line.

use crate::backend_error::BackendError;
use crate::ledger_state::LedgerState;
use crate::postgres::failure::failure;

/// The format of the tables. A node uses no other.
pub(super) const FORMAT: i32 = 1;

/// Whether this version of countersign can use the tables.
pub(super) fn is_known(format: i32) -> Result<(), BackendError> {
    match format {
        FORMAT => Ok(()),
        format => Err(failure(
            LedgerState::Schema,
            format!(
                "its tables have format {format}, and this version reads {FORMAT}: use the same version on all nodes"
            ),
        )),
    }
}

/// Makes the tables, or leaves them as they are. For the owner's role; PostgreSQL 13 or newer.
pub(super) const CREATE: &str = r#"
CREATE SCHEMA IF NOT EXISTS countersign;
CREATE TABLE IF NOT EXISTS countersign.ledger (
  sequence bigint PRIMARY KEY,
  line text NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.head (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  format integer NOT NULL,
  epoch integer NOT NULL,
  sequence bigint NOT NULL,
  digest text NOT NULL,
  time timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.order_references (
  name text COLLATE "C" PRIMARY KEY,
  reference text,
  erased timestamptz,
  CHECK ((reference IS NULL) <> (erased IS NULL))
);
CREATE TABLE IF NOT EXISTS countersign.nodes (
  name text PRIMARY KEY,
  instance text NOT NULL,
  version text NOT NULL,
  key_id text NOT NULL,
  secrets text NOT NULL,
  secrets_since timestamptz NOT NULL,
  sequence bigint NOT NULL,
  started timestamptz NOT NULL,
  seen timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.reports (
  license text COLLATE "C" NOT NULL,
  host text COLLATE "C" NOT NULL,
  report jsonb NOT NULL,
  PRIMARY KEY (license, host)
);
CREATE TABLE IF NOT EXISTS countersign.refused (
  license text COLLATE "C" PRIMARY KEY,
  hosts jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.webhook_cursors (
  endpoint text COLLATE "C" PRIMARY KEY,
  node text NOT NULL,
  term bigint NOT NULL,
  until timestamptz NOT NULL,
  progress jsonb NOT NULL
);
"#;

/// The head of an empty log. `$1` is the digest of the genesis, `$2` the format.
pub(super) const FIRST_HEAD: &str = "INSERT INTO countersign.head (format, epoch, sequence, digest, time) \
     VALUES ($2, 1, 0, $1, '1970-01-01T00:00:00Z') ON CONFLICT DO NOTHING";

/// The rights of a node, for the role `NODE`.
pub(super) const GRANTS: &str = r"
GRANT USAGE ON SCHEMA countersign TO NODE;
GRANT SELECT, INSERT ON countersign.ledger TO NODE;
GRANT SELECT, UPDATE (sequence, digest, time) ON countersign.head TO NODE;
GRANT SELECT, INSERT, UPDATE ON countersign.nodes, countersign.reports, countersign.order_references TO NODE;
GRANT SELECT, INSERT, UPDATE ON countersign.webhook_cursors TO NODE;
GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.refused TO NODE;
";

/// What a node's role must be allowed, as `GRANTS` has it: tables, each with a privilege.
pub(super) fn needed() -> Vec<(&'static str, &'static str)> {
    let mut needed = Vec::new();
    for grant in GRANTS.lines().filter_map(|line| line.strip_prefix("GRANT ")) {
        let Some((privileges, tables)) = grant.trim_end_matches(" TO NODE;").split_once(" ON ") else {
            continue;
        };
        // Without the columns.
        let privileges = privileges.split_once(" (").map_or(privileges, |(before, _)| before);
        for table in tables
            .split(", ")
            .filter_map(|table| table.strip_prefix("countersign."))
        {
            needed.extend(privileges.split(", ").map(|privilege| (table, privilege)));
        }
    }
    needed
}

/// The statements that a database administrator runs: the tables, the first head, and the rights of the role `node`.
pub fn script(node: Option<&str>) -> String {
    let digest = crate::log::Position::genesis().digest;
    let head = FIRST_HEAD
        .replace("$1", &format!("'{digest}'"))
        .replace("$2", &FORMAT.to_string());
    let grants = node.map(|node| GRANTS.replace("NODE", &format!("\"{}\"", node.replace('"', "\"\""))));
    format!("BEGIN;{CREATE}{head};\n{}COMMIT;\n", grants.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_needs_is_what_it_is_granted() {
        let needed = needed();
        for right in [
            ("ledger", "SELECT"),
            ("ledger", "INSERT"),
            ("head", "SELECT"),
            ("head", "UPDATE"),
            ("nodes", "UPDATE"),
            ("reports", "INSERT"),
            ("order_references", "UPDATE"),
            ("refused", "DELETE"),
            ("webhook_cursors", "UPDATE"),
        ] {
            assert!(needed.contains(&right), "{right:?}: {needed:?}");
        }
        for (table, privilege) in &needed {
            assert!(CREATE.contains(&format!("countersign.{table} (")), "{table}");
            assert!(
                ["SELECT", "INSERT", "UPDATE", "DELETE"].contains(privilege),
                "{privilege}"
            );
        }
        assert!(!needed.contains(&("ledger", "UPDATE")) && !needed.contains(&("ledger", "DELETE")));
    }
}
