//! Several nodes with one ledger in PostgreSQL: real servers, none of them mocked.

mod clusters;
mod commands;
mod compaction;
mod failover;
mod fault_proxy;
mod faults;
mod group;
mod issued;
mod killed;
mod linear;
mod node;
mod primary_killed;
mod recipe;
mod tls;
