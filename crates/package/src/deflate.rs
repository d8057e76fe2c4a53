//! Writes the data of a file in the normal form: deflated, or unchanged if that is not larger.
//!
//! The bytes depend only on the encoder's version and level: the input is divided into pieces of one size, whatever
//! the reader returns.

use std::io::{self, Read, Write};

use flate2::{Compress, Compression, FlushCompress, Status};

/// The level of normal form 1. Another level would be another form.
const LEVEL: u32 = 6;

/// The size of a piece. It is part of normal form 1, if the encoder depends on where its input is divided.
const PIECE: usize = 1 << 16;

/// Why the data were not written.
#[derive(Debug)]
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
    /// The content has another length than announced.
    Size,
}

/// Checksum and length of the written data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub crc: u32,
    pub packed: u64,
}

/// The encoder with its memory, reused for all files.
pub(super) struct Deflater {
    compress: Compress,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Deflater {
    pub(super) fn new() -> Self {
        let compress = Compress::new(Compression::new(LEVEL), false);
        Self {
            compress,
            input: vec![0; PIECE],
            output: vec![0; PIECE],
        }
    }

    /// Writes the deflate stream of `size` bytes; `None` as soon as it would not be smaller.
    ///
    /// Then fewer than `size` bytes were written.
    pub(super) fn deflate(
        &mut self,
        mut reader: impl Read,
        size: u64,
        out: &mut impl Write,
    ) -> Result<Option<Written>, CopyError> {
        if size == 0 {
            return Ok(None);
        }
        self.compress.reset();
        let mut crc = crc32fast::Hasher::new();
        let mut read = 0;
        let mut packed = 0;
        loop {
            let length = fill(&mut reader, &mut self.input).map_err(CopyError::Read)?;
            let mut piece = &self.input[..length];
            crc.update(piece);
            read += length as u64;
            let is_last = length < PIECE;
            if read > size || (is_last && read != size) {
                return Err(CopyError::Size);
            }
            let flush = if is_last {
                FlushCompress::Finish
            } else {
                FlushCompress::None
            };
            loop {
                let taken = self.compress.total_in();
                let given = self.compress.total_out();
                let status = self.compress.compress(piece, &mut self.output, flush);
                let status = status.map_err(|error| CopyError::Write(error.into()))?;
                // Neither is more than the piece's length.
                piece = &piece[(self.compress.total_in() - taken) as usize..];
                let made = (self.compress.total_out() - given) as usize;
                packed += made as u64;
                if packed >= size {
                    return Ok(None);
                }
                out.write_all(&self.output[..made]).map_err(CopyError::Write)?;
                let is_done = if is_last {
                    status == Status::StreamEnd
                } else {
                    piece.is_empty()
                };
                if is_done {
                    break;
                }
            }
            if is_last {
                return Ok(Some(Written {
                    crc: crc.finalize(),
                    packed,
                }));
            }
        }
    }

    /// Writes `size` bytes unchanged.
    pub(super) fn store(
        &mut self,
        mut reader: impl Read,
        size: u64,
        out: &mut impl Write,
    ) -> Result<Written, CopyError> {
        let mut crc = crc32fast::Hasher::new();
        let mut packed = 0;
        loop {
            let length = fill(&mut reader, &mut self.input).map_err(CopyError::Read)?;
            packed += length as u64;
            if packed > size || (length < PIECE && packed != size) {
                return Err(CopyError::Size);
            }
            crc.update(&self.input[..length]);
            out.write_all(&self.input[..length]).map_err(CopyError::Write)?;
            if length < PIECE {
                return Ok(Written {
                    crc: crc.finalize(),
                    packed,
                });
            }
        }
    }
}

/// Reads until the buffer is full or the data end.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out its bytes in pieces of these lengths.
    struct Pieces<'a>(&'a [u8], std::iter::Cycle<std::vec::IntoIter<usize>>);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.1.next().unwrap_or(1);
            let length = most.min(buffer.len()).min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn deflated(deflater: &mut Deflater, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let written = deflater.deflate(bytes, bytes.len() as u64, &mut out).unwrap();
        assert!(out.len() < bytes.len().max(1));
        let written = written?;
        assert_eq!(
            (written.packed, written.crc),
            (out.len() as u64, crc32fast::hash(bytes))
        );
        Some(out)
    }

    fn inflated(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        flate2::read::DeflateDecoder::new(bytes).read_to_end(&mut out).unwrap();
        out
    }

    /// Bytes that compress, with some that do not.
    fn text(length: usize, seed: u32) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        (0..length)
            .map(|at| {
                if at % 1_000 < 40 {
                    next() as u8
                } else {
                    b"return $this;"[next() as usize % 13]
                }
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn the_bytes_depend_on_the_content_alone(
            length in 0..300_000_usize,
            seed: u32,
            pieces in proptest::collection::vec(1..100_000_usize, 1..9),
        ) {
            let bytes = text(length, seed);
            let mut used = Deflater::new();
            deflated(&mut used, &text(100_000, 7));
            deflated(&mut used, &bytes[..length / 2]);
            let mut out = Vec::new();
            let reader = Pieces(&bytes, pieces.into_iter().cycle());
            let written = used.deflate(reader, length as u64, &mut out).unwrap();
            let fresh = deflated(&mut Deflater::new(), &bytes);
            prop_assert_eq!(written.map(|_| &out), fresh.as_ref());
            if let Some(fresh) = fresh {
                prop_assert_eq!(inflated(&fresh), bytes);
            }
        }
    }

    #[test]
    fn what_deflate_does_not_make_smaller_is_left_before_it_is_as_long() {
        let mut random = vec![0; 200_000];
        let mut state = 1_u64;
        random.iter_mut().for_each(|byte| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        });
        for bytes in [&random[..], &random[..PIECE], &random[..100], b"ab", b""] {
            assert_eq!(deflated(&mut Deflater::new(), bytes), None, "{}", bytes.len());
        }
        let mut out = Vec::new();
        let written = Deflater::new().store(&random[..], 200_000, &mut out).unwrap();
        assert_eq!((written.crc, out == random), (crc32fast::hash(&random), true));
    }

    #[test]
    fn a_file_of_another_length_than_was_said_is_an_error() {
        for length in [9, 11, 0, PIECE, PIECE + 1] {
            let bytes = vec![b'a'; length];
            let mut deflater = Deflater::new();
            assert!(
                matches!(deflater.deflate(&bytes[..], 10, &mut io::sink()), Err(CopyError::Size)),
                "{length}"
            );
            assert!(
                matches!(deflater.store(&bytes[..], 10, &mut io::sink()), Err(CopyError::Size)),
                "{length}"
            );
        }
        let whole_pieces = vec![b'a'; 2 * PIECE];
        assert!(deflated(&mut Deflater::new(), &whole_pieces).is_some());
    }
}
