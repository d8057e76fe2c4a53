//! The private keys of this machine: read by `serve`, `doctor`, `keys` and `trace`.

pub mod license_secrets;
mod order_names;
pub mod secret_file;
pub mod secret_keys;
pub mod service_secrets;
pub mod signing_key;
pub mod webhook_secrets;
