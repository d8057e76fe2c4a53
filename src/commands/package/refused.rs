//! Errors and hints for refused archives.

use std::path::{Path, PathBuf};

use crate::commands::Failure;
use countersign_package::archive::{ArchiveError, ArchiveRefusal};

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: refused as a package", path.display())]
struct PackageError {
    path: PathBuf,
    source: ArchiveError,
}

/// A refused or unreadable archive is wrong input.
pub(super) fn failure(path: &Path, source: ArchiveError) -> Failure {
    let hint = source.reason().and_then(hint);
    let failure = Failure::input(PackageError {
        path: path.to_owned(),
        source,
    });
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Hints for common mistakes.
fn hint(reason: &ArchiveRefusal) -> Option<&'static str> {
    match reason {
        ArchiveRefusal::Comment(_) => Some(
            "`git archive` writes the commit's id as a comment: archive the tree, as in `git archive HEAD^{tree}`; or remove \
             it with `zip -z FILE </dev/null`",
        ),
        ArchiveRefusal::SymbolicLink => Some("pack the link's target instead, as `zip -r` without --symlinks does"),
        ArchiveRefusal::Encrypted => Some("pack it without a password: sites do not have it"),
        ArchiveRefusal::Directory | ArchiveRefusal::Gap(_) | ArchiveRefusal::Tail(_) | ArchiveRefusal::Behind(_) => {
            Some("unpack it into an empty folder, and pack that with `zip -r`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Exit;

    #[test]
    fn a_refusal_names_the_file_and_says_what_to_do() {
        let failure = failure(Path::new("a.zip"), ArchiveRefusal::Comment(40).into());
        assert_eq!(failure.exit, Exit::Input);
        assert_eq!(failure.error.to_string(), "a.zip: refused as a package");
        assert_eq!(
            failure.error.source().unwrap().to_string(),
            "the archive has a comment of 40 bytes"
        );
        assert!(failure.hint.unwrap().contains("git archive HEAD^{tree}"));
    }
}
