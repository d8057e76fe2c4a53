//! Wrappers of other programs for these tests; `make tools` installs the programs.

pub mod browser;
pub mod daemon;
pub mod midnight;
pub mod patroni;
pub mod plain_package;
pub mod postgres;
pub mod power;
pub mod preload;
pub mod program;
mod random;
pub mod receiver;
pub mod smtp;
pub mod strace;
