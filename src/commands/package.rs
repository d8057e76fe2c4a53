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

/// Does what the verb says.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Check(args) => check::run(args),
        Verb::Show(args) => show::run(args),
    }
}
