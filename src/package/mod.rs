//! The package: the zip archive that a site installs.
//!
//! The container is read and written here and not by a library. The normal form must be the same bytes for ever, so its
//! writer is ours ([`writer`]), and only the deflate stream comes from a library whose version is pinned. Libraries repair
//! what is wrong and pick one of two readings; the reader ([`archive`]) refuses it, because the next program may pick the
//! other one. Both follow APPNOTE.TXT 6.3.10, section 4.
//!
//! An archive that CI built goes [`archive`] → [`check`] → [`normalize`] → [`writer`]; a tree goes to [`writer`] directly.
//! [`mark`] knows where the build id stands in the result, and [`difference`] compares two of them.

pub mod archive;
pub mod check;
pub mod difference;
pub mod entry_name;
pub mod file_digest;
pub mod mark;
pub mod normalize;
pub mod read_at;
pub mod writer;

mod collision;
mod deflate;
mod dos_time;
mod format;

/// Entries a package may have, the mark among them: what fits without zip64.
pub const MAX_ENTRIES: usize = 65_535;

/// Bytes a package may have.
pub const MAX_PACKED: u64 = 512 << 20;

/// Bytes all files of a package may have when they are unpacked.
pub const MAX_UNPACKED: u64 = 2 << 30;

/// How many times larger than the package its files may be. Deflate reaches 1,032 with zeros; code reaches 10.
pub const MAX_RATIO: u64 = 200;
