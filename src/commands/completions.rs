//! `countersign completions`: shell completion of the command line, with the plugins and licenses of the instance.
//!
//! The script calls the program, which answers in [`answer_shell`] with [`candidates`](crate::commands::candidates).

use std::ffi::OsString;
use std::process::ExitCode;

use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use crate::commands::{Exit, Failure, output};

/// The variable by which the script calls the program.
const VARIABLE: &str = "_COUNTERSIGN_COMPLETE";

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  echo 'source <(countersign completions bash)' >> ~/.bashrc
  countersign completions zsh > ~/.zfunc/_countersign
  countersign completions fish > ~/.config/fish/completions/countersign.fish

The script also completes plugins, modules and licenses of the instance in the current folder, or of \
the one that -C names.")]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the script for the program that `command` describes.
pub fn run(args: &Args, command: &clap::Command) -> Result<Exit, Failure> {
    let name = command.get_name();
    let shells = Shells::builtins();
    let shell = args.shell.to_string();
    let shell = shells
        .completer(&shell)
        .ok_or_else(|| Failure::usage(format!("no completions for {shell}")))?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, name, name, name, &mut script)
        .map_err(Failure::environment)?;
    output::print(&String::from_utf8_lossy(&script))
}

/// Answers a shell that completes a command line; `None` if no shell asks.
///
/// Errors only show in the exit code, because a text would disturb the person who types.
pub fn answer_shell(factory: fn() -> clap::Command) -> Option<ExitCode> {
    let folder = std::env::current_dir().ok();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match CompleteEnv::with_factory(factory)
        .var(VARIABLE)
        .try_complete(arguments, folder.as_deref())
    {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}
