//! Parses the command line, runs the command, prints one error chain, and exits.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::CommandFactory;
use countersign::cli::{Cli, Command};
use countersign::commands::{self, Exit, Failure};
use countersign::config::{Config, ServeSettings};
use countersign::model::license_key::LicenseKey;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse_or_exit();
    let exit = run(&cli).unwrap_or_else(|failure| {
        report(&failure);
        failure.exit
    });
    ExitCode::from(exit as u8)
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    let config = |serve: &ServeSettings| Config::load(&cli.instance, &cli.paths, serve).map_err(Failure::input);
    let paths = || config(&ServeSettings::default());
    match &cli.command {
        Command::Init(args) => commands::init::run(args, &cli.instance),
        Command::Build(args) => commands::build::run(args, &paths()?),
        Command::Preview(args) => commands::preview::run(args, &paths()?),
        Command::Serve(args) => commands::serve::run(&config(&args.settings)?),
        Command::License(args) => commands::license::run(args, &paths()?),
        Command::Bindings(args) => commands::bindings::run(args, &paths()?),
        Command::Keys(args) => commands::keys::run(args, &paths()?),
        Command::Verify(args) => commands::verify::run(args, &paths()?),
        Command::Doctor(args) => commands::doctor::run(args, &paths()?),
        Command::Completions(args) => commands::completions::run(args, Cli::command()),
        Command::Manual(args) => commands::manual::run(args, Cli::command()),
    }
}

// SECURITY: an error quotes what it does not understand, and a license key in the wrong place is just that.
fn report(failure: &Failure) {
    let line =
        |kind: &str, text: &dyn std::fmt::Display| eprintln!("{kind}: {}", LicenseKey::redact(&text.to_string()));
    line("error", &failure.error);
    let mut cause = failure.error.source();
    while let Some(error) = cause {
        line("caused by", &error);
        cause = error.source();
    }
    if let Some(hint) = &failure.hint {
        line("hint", hint);
    }
}
