//! The operations for sites: [`validate`], [`updates`], and [`downloads`] by a link from an update answer.

pub mod downloads;
pub mod params;
pub mod updates;
pub mod validate;
