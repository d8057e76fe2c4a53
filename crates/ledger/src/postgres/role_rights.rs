//! What the role of the address may do with the tables: what it lacks, and what no node should be able to do.

use std::collections::BTreeSet;

use tokio_postgres::{Client, Error};

use crate::postgres::schema;

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
const NAMES: [&str; 5] = ["UPDATE", "DELETE", "TRUNCATE", "TRIGGER", "owner"];

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
pub(super) async fn ask(client: &Client) -> Result<RoleRights, Error> {
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
        let held = NAMES.iter().enumerate().filter(|(column, _)| row.get(*column));
        rights.dangerous = held.map(|(_, name)| *name).collect();
    }
    Ok(rights)
}
