//! The values everything else speaks in: parsed once at the edge, valid ever after.
//!
//! Nothing here does I/O, asks a clock or knows of async code, and nothing here imports another module
//! of this crate. Time comes in as an argument.

pub mod binding;
pub mod build_id;
pub mod digest;
pub mod download_key;
pub mod download_link;
pub mod entitlement;
pub mod git_hosts;
pub mod license;
pub mod license_key;
pub mod license_table;
pub mod manifest;
pub mod name;
pub mod plugin;
mod prefix_index;
pub mod public_key;
pub mod release_key;
pub mod site_host;
pub mod slug;
pub mod statement;
pub mod tag_pattern;
mod text;
pub mod version;
