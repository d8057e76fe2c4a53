//! License validation and signed, gated updates for vendors of paid CMS plugins.
#![forbid(unsafe_code)]

pub mod catalog;
pub mod commands;
pub mod config;
pub mod model;
