//! Releases that people signed: the statement of a release, its signatures, and whether a package is the one they are over.
//!
//! [`statement`] is what is signed, [`sshsig`] one signature, [`signatures`] the file with several. [`contents`] sums up the
//! files of a package and looks for keys in them, [`copy`] holds a download against the statement. Nothing here
//! runs a program or knows the registry's folder: `commands::sign` and the build do.

pub mod contents;
pub mod copy;
pub mod signatures;
pub mod sshsig;
pub mod statement;
