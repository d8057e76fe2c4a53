//! The tables of the shared log, and the rights of a node.
//!
//! `ledger` has the lines, `head` has one row: the end of the chain. Who appends locks it. `texts` has what lines name and what can be
//! erased. The other tables hold what no decision depends on. The node's role can neither change nor delete a line.

use crate::error::{BackendError, LedgerState};
use crate::postgres::failure::failure;

/// The format of the tables. A node uses no other.
pub const FORMAT: i32 = 2;

/// The format before.
const OLD_FORMAT: i32 = 1;

/// Whether this version of countersign can use the tables.
pub(super) fn is_known(format: i32) -> Result<(), BackendError> {
    match format {
        FORMAT => Ok(()),
        OLD_FORMAT => Err(failure(
            LedgerState::Schema,
            format!(
                "its tables have format {OLD_FORMAT}, and this version reads {FORMAT}: stop all nodes, back the database up, and run \
                 `countersign bindings schema --upgrade | psql ADDRESS` as the tables' owner; there is no way back"
            ),
        )),
        format => Err(failure(
            LedgerState::Schema,
            format!(
                "its tables have format {format}, and this version reads {FORMAT}: use the same version on all nodes"
            ),
        )),
    }
}

/// What tables of the format before do not have: what a search of customers reads, and the history.
macro_rules! new_tables {
    () => {
        r#"CREATE TABLE IF NOT EXISTS countersign.customer_search (
  name text COLLATE "C" PRIMARY KEY REFERENCES countersign.texts ON DELETE CASCADE,
  search text COLLATE "C" NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.history (
  slug text COLLATE "C" NOT NULL,
  day date NOT NULL,
  node text COLLATE "C" NOT NULL,
  instance text COLLATE "C" NOT NULL,
  counts jsonb NOT NULL,
  PRIMARY KEY (slug, day, node, instance)
);
CREATE INDEX IF NOT EXISTS history_running ON countersign.history (day) WHERE node <> '';
"#
    };
}

/// The license of a line, found by its position: a regular expression for position and digits takes PostgreSQL 55 µs a line, this takes
/// 3 µs, and every commit pays it.
macro_rules! license_of_line {
    () => {
        r#"substring(substr(line, nullif(strpos(line, '"license":"'), 0) + 11, 64) from '^[0-9a-f]+$')"#
    };
}

/// Makes the tables, or leaves them as they are. For the owner's role; PostgreSQL 13 or newer.
pub(super) const CREATE: &str = concat!(
    r#"
CREATE SCHEMA IF NOT EXISTS countersign;
CREATE TABLE IF NOT EXISTS countersign.ledger (
  sequence bigint PRIMARY KEY,
  line text NOT NULL,
  license text COLLATE "C" GENERATED ALWAYS AS ("#,
    license_of_line!(),
    r#") STORED
);
CREATE INDEX IF NOT EXISTS ledger_license ON countersign.ledger (license, sequence) WHERE license IS NOT NULL;
CREATE TABLE IF NOT EXISTS countersign.head (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  format integer NOT NULL,
  epoch integer NOT NULL,
  sequence bigint NOT NULL,
  digest text NOT NULL,
  time timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.texts (
  name text COLLATE "C" PRIMARY KEY,
  text text,
  erased timestamptz,
  CHECK ((text IS NULL) <> (erased IS NULL))
);
ALTER TABLE countersign.texts ADD COLUMN IF NOT EXISTS customer text COLLATE "C";
CREATE INDEX IF NOT EXISTS texts_customer ON countersign.texts (customer, name) WHERE customer IS NOT NULL;
CREATE TABLE IF NOT EXISTS countersign.nodes (
  name text PRIMARY KEY,
  instance text NOT NULL,
  version text NOT NULL,
  key_id text NOT NULL,
  secrets text NOT NULL,
  secrets_since timestamptz NOT NULL,
  sequence bigint NOT NULL,
  started timestamptz NOT NULL,
  seen timestamptz NOT NULL,
  queues jsonb
);
ALTER TABLE countersign.nodes ADD COLUMN IF NOT EXISTS queues jsonb;
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
CREATE TABLE IF NOT EXISTS countersign.first_copies (
  license text COLLATE "C" PRIMARY KEY,
  copies jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.webhook_cursors (
  endpoint text COLLATE "C" PRIMARY KEY,
  node text NOT NULL,
  term bigint NOT NULL,
  until timestamptz NOT NULL,
  progress jsonb NOT NULL
);
"#,
    new_tables!()
);

/// Fails where there are tables of another format: the statements after it would mix both.
const REQUIRE_FORMAT: &str = r"
DO $$ DECLARE found integer; BEGIN
  IF to_regclass('countersign.head') IS NOT NULL THEN
    SELECT format INTO found FROM countersign.head;
    IF found <> NUMBER THEN
      RAISE EXCEPTION 'HINT' USING DETAIL = format('The tables have format %s.', found);
    END IF;
  END IF;
END $$;
";

/// Makes tables of the format before into those of today. The locks keep every node away until the format is the new one.
const UPGRADE: &str = concat!(
    r#"
LOCK TABLE countersign.head, countersign.ledger, countersign.order_references IN ACCESS EXCLUSIVE MODE;
ALTER TABLE countersign.ledger ADD COLUMN license text COLLATE "C"
  GENERATED ALWAYS AS ("#,
    license_of_line!(),
    r#") STORED;
CREATE INDEX ledger_license ON countersign.ledger (license, sequence) WHERE license IS NOT NULL;
ALTER TABLE countersign.order_references RENAME TO texts;
ALTER TABLE countersign.texts RENAME COLUMN reference TO text;
ALTER INDEX countersign.order_references_pkey RENAME TO texts_pkey;
ALTER TABLE countersign.texts ADD COLUMN customer text COLLATE "C";
ALTER TABLE countersign.nodes ADD COLUMN queues jsonb;
CREATE INDEX texts_customer ON countersign.texts (customer, name) WHERE customer IS NOT NULL;
CREATE TABLE countersign.first_copies (
  license text COLLATE "C" PRIMARY KEY,
  copies jsonb NOT NULL
);
"#,
    new_tables!(),
    r#"DO $$ DECLARE node text; BEGIN
  FOR node IN SELECT grantee FROM information_schema.role_table_grants
    WHERE table_schema = 'countersign' AND table_name = 'refused' AND privilege_type = 'DELETE' LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.customer_search, countersign.first_copies, countersign.history, countersign.texts TO %I', node);
  END LOOP;
END $$;
UPDATE countersign.head SET format = NUMBER;
"#
);

/// The head of an empty log. `$1` is the digest of the genesis, `$2` the format.
pub(super) const FIRST_HEAD: &str = "INSERT INTO countersign.head (format, epoch, sequence, digest, time) \
     VALUES ($2, 1, 0, $1, '1970-01-01T00:00:00Z') ON CONFLICT DO NOTHING";

/// The rights of a node, for the role `NODE`.
pub(super) const GRANTS: &str = r"
GRANT USAGE ON SCHEMA countersign TO NODE;
GRANT SELECT, INSERT ON countersign.ledger TO NODE;
GRANT SELECT, UPDATE (sequence, digest, time) ON countersign.head TO NODE;
GRANT SELECT, INSERT, UPDATE ON countersign.nodes, countersign.reports TO NODE;
GRANT SELECT, INSERT, UPDATE ON countersign.webhook_cursors TO NODE;
GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.texts, countersign.refused, countersign.first_copies TO NODE;
GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.history TO NODE;
GRANT SELECT, INSERT, UPDATE ON countersign.customer_search TO NODE;
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
    let hint = "these are tables of another version of countersign: see bindings schema --upgrade";
    let require = require_format(FORMAT, hint);
    format!(
        "BEGIN;{require}{CREATE}{head};\n{}COMMIT;\n",
        grants.unwrap_or_default()
    )
}

/// The statements that make tables of the format before into those of today. All nodes must be stopped. There is no way back.
pub fn upgrade_script() -> String {
    let require = require_format(OLD_FORMAT, "only tables of format 1 can be upgraded");
    let upgrade = UPGRADE.replace("NUMBER", &FORMAT.to_string());
    format!("BEGIN;{require}{upgrade}COMMIT;\n")
}

fn require_format(format: i32, hint: &str) -> String {
    REQUIRE_FORMAT
        .replace("NUMBER", &format.to_string())
        .replace("HINT", hint)
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
            ("texts", "DELETE"),
            ("refused", "DELETE"),
            ("first_copies", "DELETE"),
            ("webhook_cursors", "UPDATE"),
            ("history", "DELETE"),
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
