//! Finds lines of a large file: those that have certain bytes, or the last ones.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::ops::ControlFlow;

use memchr::{memchr, memmem, memrchr};

/// How many bytes are read at once.
const READ_AT_ONCE: u64 = 1 << 20;

/// Every complete line of a file, or of its part, that has these bytes, with its line feed, in order. It costs one read, and no look at
/// other lines: gigabytes a second.
///
/// # Errors
/// The file cannot be read, or `each` fails.
pub fn lines_with<E: From<io::Error>>(
    file: impl Read,
    wanted: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let finder = memmem::Finder::new(wanted);
    in_pieces(file, |bytes| {
        let whole = memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let mut rest = &bytes[..whole];
        while let Some(found) = finder.find(rest) {
            let start = memrchr(b'\n', &rest[..found]).map_or(0, |end| end + 1);
            let end = memchr(b'\n', &rest[found..]).map_or(rest.len(), |length| found + length + 1);
            each(&rest[start..end])?;
            rest = &rest[end..];
        }
        Ok(whole)
    })
}

/// Passes a file on in pieces of a megabyte. `take` says how many bytes it took; the others are at the beginning of the next piece.
///
/// # Errors
/// The file cannot be read, or `take` fails.
pub fn in_pieces<E: From<io::Error>>(
    mut file: impl Read,
    mut take: impl FnMut(&[u8]) -> Result<usize, E>,
) -> Result<(), E> {
    let mut bytes = Vec::new();
    while Read::by_ref(&mut file).take(READ_AT_ONCE).read_to_end(&mut bytes)? > 0 {
        let taken = take(&bytes)?;
        bytes.drain(..taken);
    }
    Ok(())
}

/// The complete lines of a file, each with its line feed, from the last one back, until `each` breaks. Of the file, only what holds
/// these lines is read.
///
/// # Errors
/// The file cannot be read, or `each` fails.
pub fn lines_from_end<E: From<io::Error>>(
    mut file: File,
    mut each: impl FnMut(&[u8]) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut start = file.seek(SeekFrom::End(0))?;
    // What was read and not passed on yet. In the first round, a line after the last line feed is not complete.
    let mut unread = Vec::new();
    let mut has_end = false;
    while start > 0 {
        let length = start.min(READ_AT_ONCE);
        start -= length;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + unread.len());
        Read::by_ref(&mut file).take(length).read_to_end(&mut bytes)?;
        bytes.append(&mut unread);
        if !has_end {
            bytes.truncate(memrchr(b'\n', &bytes).map_or(0, |end| end + 1));
            has_end = !bytes.is_empty();
        }
        let mut end = bytes.len();
        while let Some(feed) = end.checked_sub(1).and_then(|last| memrchr(b'\n', &bytes[..last])) {
            if each(&bytes[feed + 1..end])?.is_break() {
                return Ok(());
            }
            end = feed + 1;
        }
        bytes.truncate(end);
        unread = bytes;
    }
    if !unread.is_empty() {
        let _ = each(&unread)?;
    }
    Ok(())
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

    #[test]
    fn complete_lines_are_passed_on_from_the_end_wherever_a_read_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let long = "x".repeat(usize::try_from(READ_AT_ONCE).unwrap() * 2 + 3);
        let of_700 = |number: usize| format!("{number:0700}\n");
        let many: Vec<_> = (0..4_000).map(of_700).collect();
        let whole_read = "y".repeat(usize::try_from(READ_AT_ONCE).unwrap() - 1) + "\n";
        for lines in [
            vec![],
            vec!["a\n".to_owned()],
            vec!["\n".to_owned(), "\n".to_owned()],
            many,
            vec![format!("{long}\n"), "b\n".to_owned(), format!("{long}\n")],
            vec!["a\n".to_owned(), whole_read.clone(), whole_read],
        ] {
            for torn in ["", "a torn line"] {
                fs::write(&path, lines.concat() + torn).unwrap();
                let mut found = Vec::new();
                lines_from_end(File::open(&path).unwrap(), |line| {
                    found.insert(0, String::from_utf8(line.to_vec()).unwrap());
                    Ok::<_, io::Error>(ControlFlow::Continue(()))
                })
                .unwrap();
                assert!(found == lines, "{} lines, {torn:?}", lines.len());
                let mut first = Vec::new();
                lines_from_end(File::open(&path).unwrap(), |line| {
                    first.push(line.to_vec());
                    Ok::<_, io::Error>(ControlFlow::Break(()))
                })
                .unwrap();
                assert!(first.len() <= 1 && first.first().map(Vec::as_slice) == lines.last().map(String::as_bytes));
            }
        }
    }
}
