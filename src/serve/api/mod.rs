//! The operations for sites: [`validate`], [`release`], [`updates`], [`downloads`] by a link from an update answer, and
//! [`packages`] by the license key.
//! For shops: [`hooks`]. For programs of the vendor: [`licenses`].

pub(crate) mod body;
pub mod downloads;
pub mod hooks;
pub mod licenses;
pub mod packages;
pub mod params;
pub mod question;
pub mod release;
pub mod releases;
pub mod updates;
pub mod validate;
