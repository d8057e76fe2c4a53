//! The history in a table that all nodes share. Each run of a node has rows of its own until a day is over; then one node replaces
//! the rows of all by the final ones, whose `node` is empty.

use std::collections::HashMap;

use chrono::{Days, NaiveDate};
use tokio_postgres::{Client, Error, Row};

use crate::day_lines::{DayRange, QUARTERS_FOR, final_lines};
use crate::error::StoreError;
use crate::postgres::node_state::DEADLINE;
use crate::postgres::shared_reader::SharedReader;
use countersign_model::day_counts::DayLine;

const NOTE: &str = "INSERT INTO countersign.history (slug, day, node, instance, counts) \
     SELECT slug, day::date, $1::text, $2::text, counts::jsonb FROM unnest($3::text[], $4::text[], $5::text[]) AS new(slug, day, counts) \
     WHERE NOT EXISTS (SELECT FROM countersign.history known WHERE known.day = new.day::date AND known.node = '') \
     ORDER BY slug, day ON CONFLICT (slug, day, node, instance) DO UPDATE SET counts = excluded.counts";

const UNFINISHED: &str =
    "SELECT DISTINCT day::text FROM countersign.history WHERE node <> '' AND day < $1::text::date ORDER BY 1";

/// Nobody notes anything between the sum and the end.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '3s'; LOCK TABLE countersign.history IN SHARE ROW EXCLUSIVE MODE";

const IS_FINISHED: &str = "SELECT EXISTS (SELECT FROM countersign.history WHERE day = $1::text::date AND node = '')";

const COUNTED: &str = "SELECT slug, day::text, counts::text, node, instance FROM countersign.history WHERE day = $1::text::date AND node <> ''";

const FINISH: &str = "INSERT INTO countersign.history (slug, day, node, instance, counts) \
     SELECT slug, day::date, '', '', counts::jsonb FROM unnest($1::text[], $2::text[], $3::text[]) AS new(slug, day, counts) \
     ON CONFLICT DO NOTHING";

const FORGET_COUNTED: &str = "DELETE FROM countersign.history WHERE day = $1::text::date AND node <> ''";

const FORGET_QUARTERS: &str = "UPDATE countersign.history SET counts = counts - 'quarters' \
     WHERE node = '' AND day <= $1::text::date AND counts ? 'quarters'";

const READ: &str = "SELECT slug, day::text, counts::text, node, instance FROM countersign.history \
     WHERE day >= $1::text::date AND ($2::text IS NULL OR slug = $2) ORDER BY day, slug";

/// The table, as one run of a node sees it.
pub(crate) struct DatabaseDays {
    address: String,
    node: String,
    instance: String,
    reader: Option<SharedReader>,
}

/// Lines in columns.
#[derive(Default)]
struct LineColumns {
    slugs: Vec<String>,
    days: Vec<String>,
    counts: Vec<String>,
}

impl LineColumns {
    fn of(lines: &[DayLine]) -> Self {
        let mut columns = Self::default();
        for line in lines {
            columns.slugs.push(slug_of(line));
            columns.days.push(line.day.to_string());
            // Counts always serialize.
            columns
                .counts
                .push(serde_json::to_string(&line.counts).unwrap_or_default());
        }
        columns
    }
}

/// The empty text means no plugin.
fn slug_of(line: &DayLine) -> String {
    line.plugin.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// A row that cannot be read counts as none.
fn line_of(row: &Row) -> Option<DayLine> {
    let slug = row.get::<_, &str>(0);
    Some(DayLine {
        plugin: match slug {
            "" => None,
            slug => Some(slug.parse().ok()?),
        },
        day: row.get::<_, &str>(1).parse().ok()?,
        counts: serde_json::from_str(row.get(2)).ok()?,
    })
}

impl DatabaseDays {
    pub(crate) fn new(address: &str, node: &str, instance: &str) -> Self {
        Self {
            address: address.to_owned(),
            node: node.to_owned(),
            instance: instance.to_owned(),
            reader: None,
        }
    }

    /// Asks over the open connection. One that failed is closed.
    fn ask<T>(&mut self, question: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, StoreError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => SharedReader::open(&self.address)?,
        };
        let answer = reader.query_within(DEADLINE, question(reader.client()))?;
        self.reader = Some(reader);
        Ok(answer)
    }

    pub(crate) fn note(&mut self, own: &[DayLine]) -> Result<(), StoreError> {
        let LineColumns { slugs, days, counts } = LineColumns::of(own);
        let node = self.node.clone();
        let instance = self.instance.clone();
        self.ask(async |client| client.execute(NOTE, &[&node, &instance, &slugs, &days, &counts]).await)?;
        Ok(())
    }

    pub(crate) fn unfinished(&mut self, before: NaiveDate) -> Result<Vec<NaiveDate>, StoreError> {
        let rows = self.ask(async |client| client.query(UNFINISHED, &[&before.to_string()]).await)?;
        Ok(rows
            .iter()
            .filter_map(|row| row.get::<_, &str>(0).parse().ok())
            .collect())
    }

    pub(crate) fn finish(&mut self, day: NaiveDate, more: &[DayLine]) -> Result<(), StoreError> {
        let text = day.to_string();
        let oldest = day.checked_sub_days(Days::new(QUARTERS_FOR)).unwrap_or(day).to_string();
        // A failure ends the connection, and with it the transaction.
        self.ask(async |client| {
            client.batch_execute(BEGIN).await?;
            if !client.query_one(IS_FINISHED, &[&text]).await?.get::<_, bool>(0) {
                let rows = client.query(COUNTED, &[&text]).await?;
                let counted: Vec<_> = rows.iter().filter_map(line_of).collect();
                let LineColumns { slugs, days, counts } = LineColumns::of(&final_lines(day, &counted, more));
                client.execute(FINISH, &[&slugs, &days, &counts]).await?;
            }
            client.execute(FORGET_COUNTED, &[&text]).await?;
            client.execute(FORGET_QUARTERS, &[&oldest]).await?;
            client.batch_execute("COMMIT").await
        })
    }

    /// The final lines in the range, and what other runs of nodes counted of other days.
    pub(crate) fn read(&mut self, range: &DayRange) -> Result<(Vec<DayLine>, Vec<DayLine>), StoreError> {
        let since = range.since.to_string();
        let plugin = range.plugin.as_ref().map(ToString::to_string);
        let rows = self.ask(async |client| client.query(READ, &[&since, &plugin]).await)?;
        let mut lines: HashMap<bool, Vec<DayLine>> = HashMap::new();
        for row in &rows {
            let node = row.get::<_, &str>(3);
            let is_own = node == self.node && row.get::<_, &str>(4) == self.instance;
            if let Some(line) = line_of(row).filter(|_| node.is_empty() || !is_own) {
                lines.entry(node.is_empty()).or_default().push(line);
            }
        }
        let finished = lines.remove(&true).unwrap_or_default();
        Ok((finished, lines.remove(&false).unwrap_or_default()))
    }
}
