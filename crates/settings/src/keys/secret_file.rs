//! Reads files with secrets, private keys among them. Only the owner and a group of this process may have access to such a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use zeroize::Zeroizing;

use countersign_files::regular_file;

/// Larger than a PEM file of a key with 4096 bits, in bytes.
const MAX_PEM: u64 = 16 * 1024;

/// Why a secret was not read.
#[derive(Debug)]
pub enum SecretFileError {
    /// There is no such file.
    Missing,
    /// Not a regular file.
    NotAFile,
    /// Other users can read it; its permission bits.
    Exposed(u32),
    /// It cannot be read.
    Read(io::Error),
}

/// The text of a secret; at most 16 KiB.
pub fn read(path: &Path) -> Result<Zeroizing<String>, SecretFileError> {
    let mut text = Zeroizing::new(String::new());
    open(path)?.take(MAX_PEM).read_to_string(&mut text)?;
    Ok(text)
}

/// The first bytes of a secret, at most `limit`.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    // Allocated for all of it, because a buffer that grows leaves copies behind.
    let room = usize::try_from(limit).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(room + 1));
    open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open(path: &Path) -> Result<File, SecretFileError> {
    let file = match regular_file::open(path, regular_file::UNLIMITED) {
        Err(error) if regular_file::is_unsuitable(&error) => return Err(SecretFileError::NotAFile),
        opened => opened?,
    };
    match regular_file::exposed_mode(&file)? {
        Some(mode) => Err(SecretFileError::Exposed(mode)),
        None => Ok(file),
    }
}

impl From<io::Error> for SecretFileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Read(error),
        }
    }
}
