//! `countersign package`: looks into the archives that sites install.
//!
//! `check` says whether an archive can be the package of a release, `show` what is in one.

mod check;
mod show;

use std::path::{Path, PathBuf};

use crate::commands::{Exit, Failure};
use crate::package::archive::{ArchiveError, Refusal};

/// Check packages and look into them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign package check acme-forms.zip --plugin acme-forms --version 1.2.0
  countersign package show acme-forms-1.3.0.zip --against acme-forms-1.2.0.zip")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Say whether an archive can be the package of a release
    // Its `--version` is the release's, not the program's.
    #[command(disable_version_flag = true)]
    #[command(after_help = "\
Examples:
  countersign package check acme-forms.zip
  countersign package check acme-forms.zip --plugin acme-forms --version 1.2.0 --json

An archive must have one folder on top, and the plugin's main file in it. What programs may read in more than one way is
refused: comments, symbolic links, names that differ by case only, bytes that belong to no file.
Exit codes: 0 it can be the package, 3 it cannot.")]
    Check(check::Args),
    /// List the files of an archive, and what changed since another one
    #[command(after_help = "\
Examples:
  countersign package show acme-forms-1.3.0.zip
  countersign package show acme-forms-1.3.0.zip --against acme-forms-1.2.0.zip --json")]
    Show(show::Args),
}

/// Why an archive cannot be looked into.
#[derive(Debug, thiserror::Error)]
#[error("{}: not taken as a package", path.display())]
struct PackageError {
    path: PathBuf,
    source: ArchiveError,
}

/// Does what the verb says.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Check(args) => check::run(args),
        Verb::Show(args) => show::run(args),
    }
}

/// An archive that is refused is a wrong input, and so is one that cannot be read.
fn failure(path: &Path, source: ArchiveError) -> Failure {
    let hint = source.reason().and_then(hint);
    let failure = Failure::input(PackageError { path: path.to_owned(), source });
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What to do about the mistakes that well-meant archives have.
fn hint(reason: &Refusal) -> Option<&'static str> {
    match reason {
        Refusal::Comment(_) => Some(
            "`git archive` writes the commit's id as a comment: archive the tree, as in `git archive HEAD^{tree}`; or remove \
             it with `zip -z FILE </dev/null`",
        ),
        Refusal::SymbolicLink => Some("pack what the link leads to; `zip -r` without --symlinks does"),
        Refusal::Encrypted => Some("a site has no password: pack it without one"),
        Refusal::Directory | Refusal::Gap(_) | Refusal::Tail(_) | Refusal::Behind(_) => {
            Some("pack it anew: unpack it into an empty folder, and `zip -r` that")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_file_and_says_what_to_do() {
        let failure = failure(Path::new("a.zip"), Refusal::Comment(40).into());
        assert_eq!(failure.exit, Exit::Input);
        assert_eq!(failure.error.to_string(), "a.zip: not taken as a package");
        assert_eq!(failure.error.source().unwrap().to_string(), "the archive has a comment of 40 bytes");
        assert!(failure.hint.unwrap().contains("git archive HEAD^{tree}"));
    }
}
