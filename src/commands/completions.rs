//! `countersign completions`: what a shell needs to complete our command line, from clap's own description of it.

use clap_complete::Shell;

use crate::commands::{Exit, Failure, output};

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign completions bash > /etc/bash_completion.d/countersign
  countersign completions zsh > ~/.zfunc/_countersign
  countersign completions fish > ~/.config/fish/completions/countersign.fish")]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the script for the program that `command` describes.
pub fn run(args: &Args, mut command: clap::Command) -> Result<Exit, Failure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
