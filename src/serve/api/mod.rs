//! What a site asks: [`validate`] and [`updates`], and [`downloads`] by a link that the second gave it.

pub mod downloads;
pub mod params;
pub mod updates;
pub mod validate;
