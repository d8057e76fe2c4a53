//! Which parts of a ledger's file have lines of a license, so that a server reads its history without the rest of the file.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use countersign_files::line_search;
use countersign_model::license_key::LicenseId;
use memchr::{memchr, memmem, memrchr};

/// The least length of a part, in bytes.
const PART: usize = 64 << 10;

/// In each line about a license, this precedes the digits of its id.
const MEMBER: &[u8] = b"\"license\":\"";

/// How many digits of an id are kept. Of 65,536 other licenses, one begins with the same four.
const DIGITS: usize = 4;

/// What is known of a file: two bytes for each line of a license. The first question reads the whole file, and each further one what
/// was written since.
#[derive(Debug, Default)]
pub(crate) struct LicenseLines {
    /// The parts, one after the other: where each ends in the file, and in `prints`.
    parts: Vec<(u64, usize)>,
    /// The first digits of the licenses, as a number.
    prints: Vec<u16>,
    /// The last line of the last part. Each line has the digest of the one before: a file that has it at this place is the same up to there.
    last: Vec<u8>,
}

impl LicenseLines {
    /// Passes on the complete lines of a ledger's file that are about a license, with their line feeds, in order.
    ///
    /// # Errors
    /// The file cannot be read, or `each` fails.
    pub(crate) fn of<E: From<io::Error>>(
        &mut self,
        mut file: File,
        license: &LicenseId,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.follow(&mut file)?;
        let digits = license.to_string();
        let wanted = print_of(digits.as_bytes());
        let mut before = (0, 0);
        for part in &self.parts {
            let (start, first) = std::mem::replace(&mut before, *part);
            let (end, last) = *part;
            if !self.prints[first..last].iter().any(|print| Some(*print) == wanted) {
                continue;
            }
            let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
            file.read_exact_at(&mut bytes, start)?;
            line_search::lines_with(&bytes[..], digits.as_bytes(), &mut each)?;
        }
        file.seek(SeekFrom::Start(before.0))?;
        line_search::lines_with(file, digits.as_bytes(), each)
    }

    /// Reads what was written since, or everything of another file.
    fn follow(&mut self, file: &mut File) -> io::Result<()> {
        let mut end = self.parts.last().map_or(0, |(end, _)| *end);
        let mut last = vec![0; self.last.len()];
        let is_same = match file.read_exact_at(&mut last, end - self.last.len() as u64) {
            Ok(()) => last == self.last,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(error),
        };
        if !is_same {
            *self = Self::default();
            end = 0;
        }
        file.seek(SeekFrom::Start(end))?;
        line_search::in_pieces(file, |bytes| {
            let mut taken = 0;
            while let Some(length) = part_of(&bytes[taken..]) {
                let part = &bytes[taken..taken + length];
                self.prints.extend(prints(part));
                end += length as u64;
                taken += length;
                self.parts.push((end, self.prints.len()));
                let before = memrchr(b'\n', &part[..length - 1]).map_or(0, |at| at + 1);
                self.last = part[before..].to_vec();
            }
            Ok(taken)
        })
    }
}

/// The length of a whole part at the beginning of these lines.
fn part_of(bytes: &[u8]) -> Option<usize> {
    let end = memchr(b'\n', bytes.get(PART - 1..)?)?;
    Some(PART + end)
}

fn prints(part: &[u8]) -> impl Iterator<Item = u16> {
    memmem::find_iter(part, MEMBER).filter_map(|at| print_of(&part[at + MEMBER.len()..]))
}

fn print_of(digits: &[u8]) -> Option<u16> {
    let digits = str::from_utf8(digits.get(..DIGITS)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn id(number: u32) -> LicenseId {
        let mut bytes = [7; 32];
        // Some have the same first digits.
        bytes[1] = (number % 50) as u8;
        bytes[28..].copy_from_slice(&number.to_be_bytes());
        LicenseId::from_bytes(bytes)
    }

    /// Lines of 300 bytes, of which every third is about no license.
    fn lines(numbers: std::ops::Range<u32>, what: &str) -> String {
        let line = |number: u32| match number % 3 {
            0 => format!("{{\"event\":\"sale\",\"what\":\"{what}\",\"sequence\":{number}}}\n"),
            _ => format!(
                "{{\"event\":\"{what}{:0200}\",\"license\":\"{}\",\"sequence\":{number}}}\n",
                number,
                id(number % 400)
            ),
        };
        numbers.map(line).collect()
    }

    fn check(known: &mut LicenseLines, path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        for number in (0..400).step_by(37) {
            let id = id(number);
            let mut found = String::new();
            let take = |line: &[u8]| {
                found += str::from_utf8(line).unwrap();
                Ok::<_, io::Error>(())
            };
            known.of(File::open(path).unwrap(), &id, take).unwrap();
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let expected: String = whole.filter(|line| line.contains(&id.to_string())).collect();
            assert_eq!(found, expected, "license {number}");
        }
    }

    #[test]
    fn lines_of_a_license_are_found_while_the_file_grows_is_cut_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut known = LicenseLines::default();
        fs::write(&path, "").unwrap();
        check(&mut known, &path);
        for end in [100, 5_000, 9_000] {
            fs::write(&path, lines(0..end, "a") + "{\"license\":\"torn").unwrap();
            check(&mut known, &path);
        }
        let parts = known.parts.len();
        assert!(parts > 20, "{parts}");
        // What was never acknowledged is cut, and other lines come in its place.
        for (kept, end) in [(8_990, 9_400), (4_000, 9_600), (10, 50)] {
            fs::write(&path, lines(0..kept, "a") + &lines(kept..end, "b")).unwrap();
            check(&mut known, &path);
        }
        assert_eq!(known.parts.len(), 0, "a short file has no part");
        // Compacted.
        fs::write(&path, lines(2_000..9_000, "c")).unwrap();
        check(&mut known, &path);
        assert!(known.parts.len() > 10);
    }
}
