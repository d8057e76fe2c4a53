//! The texts of orders in a table that all nodes share. A commit keeps them in the transaction of its lines.
//!
//! [`text_erasure`](crate::postgres::text_erasure) erases them.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use tokio_postgres::{Client, Error, Row};

use crate::texts::{FoundTexts, NewText, customer_search};
use countersign_model::customer::CustomerRow;
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

/// Keeps new texts. One that was erased under another name of its order is marked as erased under this one, too. `$3` and `$4`
/// are pairs of a new name and another name of its order.
pub(super) const KEEP: &str = "INSERT INTO countersign.texts (name, text, erased) \
     SELECT new.name, CASE WHEN gone.erased IS NULL THEN new.text END, gone.erased \
     FROM unnest($1::text[], $2::text[]) AS new(name, text) \
     LEFT JOIN (SELECT pair.name, min(known.erased) AS erased FROM unnest($3::text[], $4::text[]) AS pair(name, other) \
     JOIN countersign.texts AS known ON known.name = pair.other GROUP BY pair.name) AS gone ON gone.name = new.name \
     ORDER BY new.name ON CONFLICT (name) DO NOTHING";

const FIND: &str = "SELECT name, text, erased, customer FROM countersign.texts WHERE name = ANY ($1)";

const PAGE: &str = "SELECT name, text, erased, customer FROM countersign.texts WHERE name > $1 ORDER BY name LIMIT $2";

const CUSTOMERS: &str =
    "SELECT name, text, erased, customer FROM countersign.texts WHERE customer = ANY ($1) ORDER BY customer, name";

/// Keeps what a search of customers reads. A row goes with that of its customer.
const KEEP_SEARCH: &str = "INSERT INTO countersign.customer_search (name, search) \
     SELECT * FROM unnest($1::text[], $2::text[]) AS new(name, search) ORDER BY name \
     ON CONFLICT (name) DO UPDATE SET search = excluded.search";

// `position` would be as fast, but the planner knows how rare a pattern is, and an index of trigrams serves it.
const SEARCH: &str = "SELECT name FROM countersign.customer_search WHERE search LIKE $1 LIMIT $2";

/// Rows of one page or one statement.
pub(super) const ROWS: usize = 10_000;

/// The parameters of [`KEEP`].
pub(super) struct KeptRows {
    pub names: Vec<String>,
    pub texts: Vec<String>,
    pub of: Vec<String>,
    pub others: Vec<String>,
}

impl KeptRows {
    pub(super) fn new(texts: &[NewText]) -> Self {
        let pairs = || {
            texts
                .iter()
                .flat_map(|new| new.names.iter().map(|other| (new.name, *other)))
        };
        Self {
            names: texts.iter().map(|new| new.name.to_string()).collect(),
            texts: texts.iter().map(|new| storable(&new.text)).collect(),
            of: pairs().map(|(name, _)| name.to_string()).collect(),
            others: pairs().map(|(_, other)| other.to_string()).collect(),
        }
    }
}

/// PostgreSQL takes no NUL in a text.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The text of a row: that of a customer is JSON.
pub(super) fn text_of(stored: &StoredText) -> Option<String> {
    match stored {
        StoredText::Customer(row) => serde_json::to_string(row).ok(),
        stored => stored.text().map(storable),
    }
}

/// The number of a customer's row.
pub(super) fn number_of(stored: &StoredText) -> Option<String> {
    stored.customer().map(|row| row.number.to_string())
}

pub(super) fn stored(row: &Row) -> Option<(Hex128, StoredText)> {
    let name = row.get::<_, &str>(0).parse().ok()?;
    if row.get::<_, Option<&str>>(3).is_some() {
        let customer = serde_json::from_str::<CustomerRow>(row.get::<_, Option<&str>>(1)?);
        return Some((name, StoredText::Customer(Box::new(customer.ok()?))));
    }
    let stored = match (row.get::<_, Option<&str>>(1), row.get::<_, Option<DateTime<Utc>>>(2)) {
        (Some(text), None) => StoredText::Text(text.into()),
        (_, Some(time)) => StoredText::Erased(time),
        (None, None) => return None,
    };
    Some((name, stored))
}

pub(super) fn texts_of(names: &[Hex128]) -> Vec<String> {
    names.iter().map(Hex128::to_string).collect()
}

/// What is kept of these orders.
pub(super) async fn find(client: &Client, names: &[Hex128]) -> Result<FoundTexts, Error> {
    let rows = client.query(FIND, &[&texts_of(names)]).await?;
    Ok(rows.iter().filter_map(stored).collect())
}

/// The rows of these customers.
pub(super) async fn customers_of(client: &Client, numbers: &BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, Error> {
    let numbers: Vec<_> = numbers.iter().map(Hex128::to_string).collect();
    let rows = client.query(CUSTOMERS, &[&numbers]).await?;
    let rows = rows.iter().filter_map(stored);
    Ok(rows.filter_map(|(_, stored)| stored.customer().cloned()).collect())
}

/// Keeps what a search reads of rows of customers, which are kept before.
pub(super) async fn keep_search(
    client: &Client,
    rows: impl Iterator<Item = (&Hex128, &StoredText)>,
) -> Result<(), Error> {
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for (name, stored) in rows.filter(|(_, stored)| customer_search::has(stored)) {
        names.push(name.to_string());
        let parts: Vec<_> = customer_search::folded_parts(stored).collect();
        texts.push(storable(&parts.join("\n")));
    }
    client.execute(KEEP_SEARCH, &[&names, &texts]).await.map(drop)
}

/// The names of at most `most` rows of customers whose address or name contains a folded text.
pub(super) async fn customers_with(client: &Client, wanted: &str, most: usize) -> Result<Vec<Hex128>, Error> {
    let mut pattern = String::from("%");
    for letter in storable(wanted).chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    let rows = client.query(SEARCH, &[&pattern, &(most as i64)]).await?;
    Ok(rows
        .iter()
        .filter_map(|row| row.get::<_, &str>(0).parse().ok())
        .collect())
}

/// Of how many orders something is kept.
pub(super) async fn count(client: &Client) -> Result<usize, Error> {
    let row = client.query_one("SELECT count(*) FROM countersign.texts", &[]).await?;
    Ok(row.get::<_, i64>(0) as usize)
}

/// Everything that is kept.
pub(super) async fn all(client: &Client) -> Result<FoundTexts, Error> {
    let mut found = FoundTexts::new();
    loop {
        let last = found.last().map(|(name, _)| name.to_string()).unwrap_or_default();
        let rows = client.query(PAGE, &[&last, &(ROWS as i64)]).await?;
        found.extend(rows.iter().filter_map(stored));
        if rows.len() < ROWS {
            return Ok(found);
        }
    }
}
