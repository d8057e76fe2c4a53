//! The private keys of this machine: read by `serve`, `doctor` and `keys`.

pub(crate) mod secret_file;
pub mod signing_key;
