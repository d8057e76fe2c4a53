//! Reads the sales of the ledger for commands, also beside a running server, and how tables show them.

use chrono::{DateTime, Utc};

use crate::commands::Failure;
use crate::commands::serve::store_hint;
use crate::commands::store_source::store_source;
use countersign_ledger::StoredSales;
use countersign_model::issued_license::Hex128;
use countersign_settings::config::Config;

/// The first digits of a sale's id that a table shows.
const SHOWN_DIGITS: usize = 8;

/// The sales and their licenses; none where there is no store.
pub(in crate::commands) fn sales(config: &Config) -> Result<StoredSales, Failure> {
    countersign_ledger::stored_sales(store_source(&config.paths)).map_err(|error| {
        let hint = store_hint(&error);
        Failure::of_store(error).hint(hint)
    })
}

/// A sale in a table.
pub(super) fn short(id: Hex128) -> String {
    let mut digits = id.to_string();
    digits.truncate(SHOWN_DIGITS);
    digits
}

/// A day in a table.
pub(super) fn day(time: Option<DateTime<Utc>>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.date_naive().to_string())
}
