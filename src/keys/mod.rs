//! The private keys of this machine: read by `serve`, `doctor`, `keys` and `trace`.

pub mod download_keys;
pub(crate) mod secret_file;
pub mod signing_key;
