//! Texts beside the ledger, so that they can be erased: orders of shops, reasons of changes, notes, names of persons, and customers. Lines
//! name a text by an HMAC or a random number; of a customer they have a number that the row has, too.
//!
//! `new_texts` has what a commit keeps. The embedded store has the texts in memory (`table`) and in a file (`file`);
//! `postgres::text_rows` has them in a database. `requests` reads and erases them; `erasure` has the results, and `customers` what is
//! particular to customers.

pub(crate) mod customers;
pub(crate) mod erasure;
pub(crate) mod file;
pub(crate) mod new_texts;
pub(crate) mod requests;
pub(crate) mod table;
