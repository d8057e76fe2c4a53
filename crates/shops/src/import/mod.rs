//! Exports of other systems: CSV and JSON files, read row by row into licenses. Keys are turned into ids here and dropped.
//!
//! [`preset`] is the table of systems. [`export_file`] reads a file with [`csv_rows`] or `json_rows`, [`columns`] finds the
//! columns, [`exported_license`] reads a row, and [`same_key`] makes one license of several rows. Pure but for the reader that
//! it is given; the commands have the ledger take the licenses.

mod cells;
pub mod columns;
pub mod csv_rows;
pub mod export_field;
pub mod export_file;
pub mod exported_license;
mod json_rows;
pub mod preset;
pub mod same_key;
