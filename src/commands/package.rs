//! `countersign package`: inspects the archives that sites install.
//!
//! `check` tells whether an archive can be the package of a release, `show` lists its files.

mod check;
mod refused;
mod show;

use crate::commands::{Exit, Failure};

/// Check packages and list their files
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
    /// Check whether an archive can be the package of a release
    // Its `--version` is the release's, not the program's.
    #[command(disable_version_flag = true)]
    #[command(after_help = "\
Examples:
  countersign package check acme-forms.zip
  countersign package check acme-forms.zip --plugin acme-forms --version 1.2.0 --json

The archive must have one top-level folder with the plugin's main file in it. `check` refuses what
programs may read in different ways: comments, symbolic links, names that differ only in case, and
bytes that belong to no file.
Exit codes: 0 it can be the package, 3 it cannot.")]
    Check(check::Args),
    /// List the files of an archive, or the differences from an older one
    #[command(after_help = "\
Examples:
  countersign package show acme-forms-1.3.0.zip
  countersign package show acme-forms-1.3.0.zip --against acme-forms-1.2.0.zip --json")]
    Show(show::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Check(args) => check::run(args),
        Verb::Show(args) => show::run(args),
    }
}
