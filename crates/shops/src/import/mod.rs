//! Exports of other systems: CSV files, read row by row into licenses. Keys are turned into ids here and dropped.
//!
//! [`csv_rows`] reads the file, [`columns`] finds the columns, and [`exported_license`] reads a row. Pure but for the reader
//! that it is given; the commands have the ledger take the licenses.

mod cells;
pub mod columns;
pub mod csv_rows;
pub mod exported_license;
