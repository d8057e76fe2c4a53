//! The tables of the shared log and their lines, for [`ledger_parts`](crate::ledger_parts).

use crate::error::StoreError;
use crate::postgres::shared_reader::SharedReader;

/// The table in use.
const LEDGER: &str = "countersign.ledger";

/// The tables that compactions set aside and this role may read, the newest first.
const SET_ASIDE: &str = "SELECT 'countersign.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'countersign' AND c.relkind = 'r' AND c.relname ~ '^ledger_until_[0-9]+$' \
     AND has_table_privilege(c.oid, 'SELECT') ORDER BY length(c.relname) DESC, c.relname DESC";

impl SharedReader {
    /// The tables with lines, the one in use first.
    pub(crate) fn ledger_tables(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.query(self.client().query(SET_ASIDE, &[]))?;
        let aside = rows.iter().map(|row| row.get(0));
        Ok(std::iter::once(LEDGER.to_owned()).chain(aside).collect())
    }

    /// At most `limit` lines of a table whose numbers are `first` to `last`, each with its line feed.
    pub(crate) fn lines_of(
        &self,
        table: &str,
        first: u64,
        last: u64,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        // SECURITY: the name is one of `ledger_tables`.
        let lines = format!("SELECT line FROM {table} WHERE sequence BETWEEN $1 AND $2 ORDER BY sequence LIMIT $3");
        let [first, last] = [first, last].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let limit = limit as i64;
        let rows = self.query(self.client().query(&lines, &[&first, &last, &limit]))?;
        let line = |row: &tokio_postgres::Row| format!("{}\n", row.get::<_, &str>(0)).into_bytes();
        Ok(rows.iter().map(line).collect())
    }
}
