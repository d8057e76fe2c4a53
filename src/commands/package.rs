//! `countersign package`: looks into the archives that sites install.
//!
//! `check` says whether an archive can be the package of a release, `show` what is in one.

mod check;
mod refused;
mod show;

use crate::commands::{Exit, Failure};

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

/// Does what the verb says.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Check(args) => check::run(args),
        Verb::Show(args) => show::run(args),
    }
}
