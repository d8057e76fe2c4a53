//! Files, and the waits on what is outside: every file is opened and written here.
//!
//! [`regular_file`] opens files, [`durable_file`] writes them, and [`folder_lock`] keeps other commands out of a folder.
//! [`json_folder`] is a folder of small files that only their owner reads, [`spool`] one of deliveries that are not applied
//! yet. [`watch`] reports changes, [`time_limit`] ends the wait for work that may hang, [`histogram`] counts durations.
#![forbid(unsafe_code)]

pub mod durable_file;
pub mod folder_lock;
pub mod histogram;
pub mod json_folder;
pub mod regular_file;
pub mod spool;
pub mod time_limit;
pub mod watch;
