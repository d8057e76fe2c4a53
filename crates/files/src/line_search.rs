//! Finds the lines of a large file that have certain bytes.

use std::fs::File;
use std::io::{self, Read as _};

use memchr::{memchr, memmem, memrchr};

/// How many bytes are read at once.
const READ_AT_ONCE: u64 = 1 << 20;

/// Every complete line of a file that has these bytes, with its line feed, in order. It costs one read of the file, and no look at
/// other lines: gigabytes a second.
///
/// # Errors
/// The file cannot be read, or `each` fails.
pub fn lines_with<E: From<io::Error>>(
    mut file: File,
    wanted: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let finder = memmem::Finder::new(wanted);
    let mut bytes = Vec::new();
    loop {
        let is_end = io::Read::by_ref(&mut file).take(READ_AT_ONCE).read_to_end(&mut bytes)? == 0;
        let whole = memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
        let mut rest = &bytes[..whole];
        while let Some(found) = finder.find(rest) {
            let start = memrchr(b'\n', &rest[..found]).map_or(0, |end| end + 1);
            let end = memchr(b'\n', &rest[found..]).map_or(rest.len(), |length| found + length + 1);
            each(&rest[start..end])?;
            rest = &rest[end..];
        }
        if is_end {
            return Ok(());
        }
        bytes.drain(..whole);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn complete_lines_are_found_wherever_a_read_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let filler = "x".repeat(700);
        let mut text = String::new();
        let mut expected = Vec::new();
        for number in 0..6_000 {
            let is_wanted = number % 7 == 0;
            let line = format!(
                "{number} {}{filler}\n",
                if is_wanted { "wanted wanted" } else { "other" }
            );
            text += &line;
            expected.extend(is_wanted.then_some(line));
        }
        text += "a torn line that is wanted";
        assert!(text.len() as u64 > 3 * READ_AT_ONCE);
        fs::write(&path, &text).unwrap();
        let mut found = Vec::new();
        lines_with(File::open(&path).unwrap(), b"wanted", |line| {
            found.push(String::from_utf8(line.to_vec()).unwrap());
            Ok::<_, io::Error>(())
        })
        .unwrap();
        assert_eq!(found, expected);
    }
}
