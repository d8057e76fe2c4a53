//! The two questions a site asks: [`validate`] and [`updates`].

pub mod params;
pub mod updates;
pub mod validate;
