//! The values that all other code works with: parsed once, then always valid.
//!
//! The crate has no I/O, no clock and no async code: callers pass the time. [`text`] formats messages.
#![forbid(unsafe_code)]

pub mod adoption;
pub mod api_token;
pub mod binding;
pub mod build_id;
pub mod change_kind;
mod checked_text;
pub mod digest;
pub mod download_key;
pub mod download_link;
pub mod edd_items;
pub mod entitlement;
pub mod event_kind;
pub mod first_copies;
pub mod first_copy_link;
pub mod foreign_key;
pub mod git_hosts;
mod hex128;
pub mod host_index;
pub mod ignore_rules;
pub mod installed;
pub mod issued_license;
pub mod issuing_key;
pub mod keyed_mac;
pub mod license;
pub mod license_key;
pub mod license_step;
pub mod license_table;
mod license_terms;
pub mod manifest;
pub mod name;
pub mod offer;
pub mod order_reference;
pub mod period;
pub mod plugin;
mod prefix_index;
pub mod public_key;
pub mod refused_hosts;
pub mod release_key;
pub mod release_list;
pub mod remarks;
pub mod renewal_token;
pub mod sale;
pub mod seat;
pub mod seat_counts;
pub mod site_host;
pub mod site_release;
pub mod slug;
pub mod stage;
pub mod staging_hosts;
pub mod statement;
pub mod stored_text;
pub mod tag_pattern;
pub mod text;
pub mod version;
