//! Lines of the shared log after a place, for [`ledger_feed`](crate::store::ledger_feed).

use crate::model::digest::Digest;
use crate::store::error::StoreError;
use crate::store::postgres::shared_reader::SharedReader;

const LINES: &str =
    "SELECT line FROM countersign.ledger WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence LIMIT $3";

const LINE: &str = "SELECT line FROM countersign.ledger WHERE sequence = $1";

impl SharedReader {
    /// At most `limit` lines after the one with sequence `after`, up to `end`, each with its line feed.
    pub(in crate::store) fn lines_between(
        &self,
        after: u64,
        end: u64,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let numbers = [after as i64, i64::try_from(end).unwrap_or(i64::MAX), limit as i64];
        let [after, end, limit] = &numbers;
        let rows = self.query(self.client().query(LINES, &[after, end, limit]))?;
        Ok(rows.iter().map(|row| format!("{}\n", row.get::<_, &str>(0))).collect())
    }

    /// The digest of the line with this sequence, if there is one.
    pub(in crate::store) fn digest_of(&self, sequence: u64) -> Result<Option<Digest>, StoreError> {
        let row = self.query(self.client().query_opt(LINE, &[&(sequence as i64)]))?;
        Ok(row.map(|row| Digest::of(format!("{}\n", row.get::<_, &str>(0)).as_bytes())))
    }
}
