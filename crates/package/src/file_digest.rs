//! The digest of a file that may not fit in memory.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use countersign_model::digest::Digest;

/// Bytes to read at once.
const PIECE: usize = 1 << 18;

/// The digest of the rest of `file`; calls `read` with the number of bytes of each piece.
///
/// # Errors
///
/// The file cannot be read.
pub fn digest_of(mut file: impl Read, mut read: impl FnMut(u64)) -> io::Result<Digest> {
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(Digest::from_bytes(digest.finalize().into())),
            Ok(length) => {
                digest.update(&piece[..length]);
                read(length as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_all_bytes_and_each_is_counted() {
        let bytes = vec![7; 2 * PIECE + 1];
        let mut count = 0;
        assert_eq!(digest_of(&bytes[..], |read| count += read).unwrap(), Digest::of(&bytes));
        assert_eq!(count, bytes.len() as u64);
    }
}
