//! Several nodes with one ledger in PostgreSQL: real servers, none of them mocked.

mod clusters;
mod failover;
mod fault_proxy;
mod faults;
mod node;
