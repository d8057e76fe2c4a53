//! `countersign package`: the archives that sites install.
//!
//! `add` takes one for a release, `list` says which there are, `check` whether one can be a package, `show` what is in it.

mod add;
mod check;
mod list;
mod refused;
mod show;

use crate::commands::{Exit, Failure};
use countersign_settings::config::Config;

/// Add, list and check packages
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign package add acme-forms 1.2.0 dist/acme-forms.zip
  countersign package list
  countersign package check acme-forms.zip --plugin acme-forms --version 1.2.0
  countersign package show acme-forms-1.3.0.zip --against acme-forms-1.2.0.zip")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Hand over the archive that your own build made for a release
    #[command(after_help = "\
Examples:
  countersign package add acme-forms 1.2.0 dist/acme-forms.zip
  make-zip | countersign package add acme-forms 1.2.0 - --json

For plugins whose entry says from = \"file\" under [package]. `add` checks the archive and writes it \
to packages/ in the normal form; the next `countersign build` publishes it. Adding the same archive \
again changes nothing.
Exit codes: 0 it is there, 3 it was refused, 4 the system failed.")]
    Add(add::Args),
    /// List the published packages, and the archives that wait for their tag
    #[command(after_help = "\
Examples:
  countersign package list
  countersign package list --json")]
    List(list::Args),
    /// Check whether an archive can be the package of a release
    // Its `--version` is the release's, not the program's.
    #[command(disable_version_flag = true)]
    #[command(after_help = "\
Examples:
  countersign package check acme-forms.zip
  countersign package check acme-forms.zip --plugin acme-forms --version 1.2.0 --json

The archive must have one top-level folder with the plugin's main file in it. `check` refuses what \
programs may read in different ways: comments, symbolic links, names that differ only in case, and \
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

impl Args {
    /// Whether the verb looks only at the files that it is given.
    pub fn need_no_instance(&self) -> bool {
        matches!(self.verb, Verb::Check(_) | Verb::Show(_))
    }
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(args) => add::run(args, &config.paths),
        Verb::List(args) => list::run(args, &config.paths),
        Verb::Check(args) => check::run(args),
        Verb::Show(args) => show::run(args),
    }
}
