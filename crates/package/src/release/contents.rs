//! The files of a package that is signed: one digest over all of them, and whether the keys of its statement are in them.
//!
//! Anybody can make the digest again with `unzip` and `sha256sum`. It does not depend on how the files are packed. The mark is left
//! out: it is another in every copy. Who forgets a new key in the plugin's settings publishes a client that takes no release by it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::archive::{Archive, ArchiveError};
use crate::mark;
use crate::read_at::ReadAt;
use countersign_model::digest::Digest;
use countersign_model::release_key::ReleaseKey;

/// SHA-256 over a line for each file, as GNU `sha256sum` prints it: the digest in lower-case hex, two spaces, the name with
/// the folder on top in front, and a newline. The lines are sorted by the bytes of the names.
///
/// # Errors
///
/// Where the archive can no longer be read.
pub fn digest<R: ReadAt>(archive: &Archive<R>, marked: bool) -> Result<Digest, ArchiveError> {
    let mut lines = Sha256::new();
    for file in archive.files() {
        let name = file.name.as_str();
        if marked && is_mark(name) {
            continue;
        }
        let mut content = Sha256::new();
        archive.copy_to(file, &mut content)?;
        let digest = Digest::from_bytes(content.finalize().into());
        lines.update(format!("{digest}  {name}\n"));
    }
    Ok(Digest::from_bytes(lines.finalize().into()))
}

/// Whether this is `<folder>/build-id.php`.
fn is_mark(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, below)| below == mark::FILE)
}

/// Size limit of a file to search, in bytes. A plugin keeps its public keys in smaller files.
const MAX_SEARCHED: u64 = 4 << 20;

/// Those of `keys` that no file of the package has in its text, as SSH writes them.
///
/// # Errors
///
/// The archive can no longer be read, or was changed since it was checked.
pub fn absent_keys<R: ReadAt>(archive: &Archive<R>, keys: &[ReleaseKey]) -> Result<Vec<ReleaseKey>, ArchiveError> {
    let mut sought: Vec<_> = keys.iter().map(|key| (key, STANDARD.encode(key.blob()))).collect();
    for file in archive.files().filter(|file| file.size <= MAX_SEARCHED) {
        if sought.is_empty() {
            break;
        }
        let text = archive.read(file)?;
        sought.retain(|(_, base64)| memchr::memmem::find(&text, base64.as_bytes()).is_none());
    }
    Ok(sought.into_iter().map(|(key, _)| key.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::testing::{Made, zip, zip_of};

    fn of(bytes: &[u8], marked: bool) -> Digest {
        digest(&Archive::check(bytes).unwrap(), marked).unwrap()
    }

    #[test]
    fn the_digest_is_over_the_lines_of_sha256sum() {
        let named: [(&str, &[u8]); 4] = [
            ("f/b.php", b"b"),
            ("f/a/x.php", b"a"),
            ("f/build-id.php", b"id"),
            ("f/a-b", b""),
        ];
        let bytes = zip_of(&named);
        let line = |name: &str, content: &str| format!("{}  {name}\n", Digest::of(content.as_bytes()));
        let files = [line("f/a-b", ""), line("f/a/x.php", "a"), line("f/b.php", "b")].concat();
        assert_eq!(of(&bytes, true), Digest::of(files.as_bytes()));
        let all = files + &line("f/build-id.php", "id");
        assert_eq!(of(&bytes, false), Digest::of(all.as_bytes()));
    }

    #[test]
    fn packing_does_not_count_and_names_do() {
        let stored = zip(&[Made::stored("f/a", b"aaaaaaaaaaaaaaaa")]);
        let deflated = zip(&[Made::deflated("f/a", b"aaaaaaaaaaaaaaaa")]);
        assert_ne!(stored, deflated);
        assert_eq!(of(&stored, true), of(&deflated, true));
        let elsewhere = zip(&[Made::stored("g/a", b"aaaaaaaaaaaaaaaa")]);
        assert_ne!(of(&stored, true), of(&elsewhere, true));
        let below = zip_of(&[("f/a", b"a"), ("f/x/build-id.php", b"x")]);
        assert_ne!(of(&below, true), of(&zip_of(&[("f/a", b"a")]), true));
    }
}
