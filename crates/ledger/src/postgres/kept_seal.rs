//! The last line of a file that a node keeps: how many bytes stand before it, and their SHA-256.
//!
//! A chain protects every line but the last, which no other line names. The seal does that, so a file that was cut or changed
//! anywhere is refused. A person who can compute the seal can also forge it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use countersign_model::digest::Digest;

/// The longest seal in bytes, with its line feed.
const LONGEST: u64 = 256;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    bytes: u64,
    sha256: String,
}

/// Writes what it is given, and at the end its seal.
pub(super) struct SealedWriter<W> {
    out: W,
    bytes: u64,
    hash: Sha256,
}

impl<W: Write> SealedWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            bytes: 0,
            hash: Sha256::new(),
        }
    }

    /// Writes the seal.
    pub(super) fn seal(mut self) -> io::Result<()> {
        let seal = Seal {
            bytes: self.bytes,
            sha256: Digest::from_bytes(self.hash.finalize().into()).to_string(),
        };
        let mut line = serde_json::to_vec(&seal)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

impl<W: Write> Write for SealedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Checks the seal at the end of a file, and gives the file without the seal, from its beginning.
///
/// # Errors
/// The file cannot be read, or (`InvalidData`) its seal is missing or is that of another content.
pub(super) fn unsealed(mut file: File) -> io::Result<io::Take<File>> {
    let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let length = file.metadata()?.len();
    let start = length.saturating_sub(LONGEST);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut end)?;
    let missing = || refused("was cut: its last line, which has the checksum of the file, is missing");
    let line = end.strip_suffix(b"\n").ok_or_else(missing)?;
    let line = line.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let seal: Seal = serde_json::from_slice(line).map_err(|_| missing())?;
    let content = length - line.len() as u64 - 1;
    file.seek(SeekFrom::Start(0))?;
    let mut hash = HashWriter(Sha256::new());
    let read = io::copy(&mut (&file).take(content), &mut hash)?;
    let digest = Digest::from_bytes(hash.0.finalize().into()).to_string();
    if (read, &digest) != (seal.bytes, &seal.sha256) {
        return Err(refused(
            "was changed: the checksum in its last line is that of another content",
        ));
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(file.take(content))
}

/// Hashes what is written to it.
struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = SealedWriter::new(&mut bytes);
        writer.write_all(content).unwrap();
        writer.seal().unwrap();
        bytes
    }

    fn opened(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut content = Vec::new();
        unsealed(file)?.read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn a_file_that_was_changed_or_cut_at_any_byte_is_refused() {
        let content = b"{\"one\":1}\n{\"two\":2}\n";
        let whole = sealed(content);
        assert_eq!(opened(&whole).unwrap(), content);
        assert_eq!(opened(&sealed(b"")).unwrap(), b"");
        for length in 0..whole.len() {
            assert!(opened(&whole[..length]).is_err(), "cut to {length}");
            let mut changed = whole.clone();
            changed[length] ^= 1;
            assert!(opened(&changed).is_err(), "changed at {length}");
        }
        let more = [&whole[..], b"{\"three\":3}\n"].concat();
        assert!(opened(&more).is_err());
        let again = [&whole[..], &whole[content.len()..]].concat();
        assert!(opened(&again).is_err());
    }
}
