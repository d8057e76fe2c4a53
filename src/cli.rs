//! The command line: the verbs and what they share. Each verb's own arguments stand beside its work in `commands`.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::Exit;
use crate::commands::output::error_json;
use crate::commands::{
    bindings, build, completions, doctor, init, keys, license, manual, package, preview, serve, verify,
};
use crate::config::PathSettings;
use crate::model::license_key::LicenseKey;
use crate::text::stderr;

/// License validation and signed, gated updates for vendors of paid CMS plugins.
#[derive(Parser, Debug)]
#[command(name = "countersign", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  countersign init --demo demo                  make an instance to try things in
  countersign -C demo build                     precompute the manifests
  countersign -C demo serve                     answer plugins on 127.0.0.1:8080
  countersign -C demo license list              who may have what

Settings come from countersign.toml, then the environment, then flags.
Exit codes: 0 done, 1 a check found a difference, 2 usage, 3 the input is wrong, 4 the environment failed.")]
pub struct Cli {
    /// The instance's folder, where countersign.toml is
    #[arg(
        short = 'C',
        long,
        env = "COUNTERSIGN_INSTANCE",
        value_name = "DIR",
        default_value = ".",
        global = true
    )]
    pub instance: PathBuf,
    /// Where the parts of the instance are.
    #[command(flatten)]
    pub paths: PathSettings,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the command line; prints help or what is wrong with it, and exits.
    pub fn parse_or_exit() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            let text = error.to_string();
            // SECURITY: an error quotes what it does not understand, and a license key in the wrong place is just that.
            let clean = LicenseKey::redact(&text);
            if wants_json() && error.use_stderr() {
                let mut lines = clean.lines().map(str::trim).filter(|line| !line.is_empty());
                let told = lines
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                let more: Vec<String> = lines
                    .filter(|line| !line.starts_with("For more information"))
                    .map(str::to_owned)
                    .collect();
                let exit = error.exit_code();
                let code = u8::try_from(exit).unwrap_or(Exit::Usage as u8);
                stderr::line(error_json(&told, &more, Some("--help tells what it takes"), code));
                std::process::exit(exit)
            }
            match clean {
                Cow::Borrowed(_) => error.exit(),
                Cow::Owned(clean) => {
                    stderr::line(clean.trim_end());
                    std::process::exit(error.exit_code())
                }
            }
        })
    }
}

/// Whether the command line asks for JSON, also where it makes no sense otherwise.
pub fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make a new instance in a folder
    Init(init::Args),
    /// Precompute the manifests from the plugins' repositories
    Build(build::Args),
    /// Show what the CMS will show, before anything is published
    Preview(preview::Args),
    /// Answer plugins in the field
    Serve(Box<serve::Args>),
    /// Issue, look at and change licenses
    License(license::Args),
    /// Verify, export and maintain what the store knows of sites
    Bindings(bindings::Args),
    /// Make, list and publish signing keys
    Keys(keys::Args),
    /// Check packages and look into them
    Package(package::Args),
    /// Check a saved statement offline
    Verify(verify::Args),
    /// Check an instance and say what is wrong
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page, or write a page for each verb
    Manual(manual::Args),
}
