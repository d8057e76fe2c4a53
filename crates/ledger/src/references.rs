//! The texts of orders, beside the ledger, so that they can be erased. The ledger names an order by an HMAC only.
//!
//! `texts` has what a commit keeps. The embedded store has them in memory (`table`) and in a file (`file`);
//! `store::postgres::order_references` has them in a database. `requests` reads and erases them; `erasure` has the results.

pub(crate) mod erasure;
pub(crate) mod file;
pub(crate) mod requests;
pub(crate) mod table;
pub(crate) mod texts;
