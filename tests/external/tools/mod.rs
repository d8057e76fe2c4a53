//! What stands between these tests and programs of others; `make tools` installs them.

pub mod browser;
pub mod power;
pub mod preload;
pub mod program;
mod random;
mod strace;
