//! The package: the zip archive that a site installs.
//!
//! The format is read and written here, not by a library. The normal form must be the same bytes for ever, so we have
//! our own [`writer`]; only deflate comes from a library, with a pinned version. Libraries repair errors and choose
//! one of two readings. Our reader ([`archive`]) refuses such files, because the next program may choose the other
//! one. Both follow APPNOTE.TXT 6.3.10, section 4.
//!
//! An archive from CI goes through [`archive`], [`check`], [`normalize`] and [`writer`]; a tree goes to [`writer`]
//! directly. [`mark`] has the build id's place in the result, and [`difference`] compares two packages.
//!
//! [`release`] makes and verifies the statements that people sign about a release. [`catalog`] keeps the published releases in
//! memory, and gives a manifest only for an entitlement.
#![forbid(unsafe_code)]

pub mod archive;
pub mod catalog;
pub mod check;
pub mod difference;
pub mod entry_name;
pub mod file_digest;
pub mod mark;
pub mod normalize;
pub mod read_at;
pub mod release;
pub mod writer;

pub mod collision;
mod deflate;
mod format;

/// The most entries of a package, with the mark: the limit without zip64.
pub const MAX_ENTRIES: usize = 65_535;

/// Size limit of a package in bytes.
pub const MAX_PACKED: u64 = 512 << 20;

/// Size limit of a package's unpacked files in bytes.
pub const MAX_UNPACKED: u64 = 2 << 30;

/// The highest compression ratio. Deflate reaches 1,032 with zeros; code reaches 10.
pub const MAX_RATIO: u64 = 200;
