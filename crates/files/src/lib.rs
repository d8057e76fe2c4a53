//! Opens, writes, locks and watches files, and limits the time of work that may hang.
//!
//! [`regular_file`] opens files, [`durable_file`] writes them, and [`folder_lock`] keeps other commands out of a folder.
//! [`json_folder`] is a folder of small files that only their owner reads, [`queue`] one of items that wait for their next
//! attempt, [`spool`] the queue of deliveries that are not applied yet. [`watch`] reports changes, [`time_limit`] gives up on
//! work that hangs, [`line_search`] finds lines of large files, [`mod@in_order`] parses them on all cores, and [`histogram`] counts durations.
#![forbid(unsafe_code)]

pub mod durable_file;
pub mod folder_lock;
pub mod histogram;
pub mod in_order;
pub mod json_folder;
pub mod line_search;
pub mod queue;
pub mod regular_file;
pub mod spool;
pub mod time_limit;
pub mod watch;
