//! Parses the command line, runs the command, prints one error chain, and exits.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Display;
use std::process::ExitCode;

use clap::CommandFactory;
use countersign::cli::{self, Cli, Command};
use countersign::commands::{self, Exit, Failure, output};
use countersign_model::license_key::LicenseKey;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_registry::RegistryError;
use countersign_settings::config::{Config, ServeSettings, unknown_variables};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(exit) = commands::completions::answer_shell(Cli::command) {
        return exit;
    }
    let cli = Cli::parse_or_exit(option_env!("BUILD_COMMIT"));
    warn_of_unknown_variables();
    let exit = run(&cli).unwrap_or_else(|failure| {
        report(&failure);
        failure.exit
    });
    ExitCode::from(exit as u8)
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    let no_settings = ServeSettings::default();
    let anywhere = || Config::load(&cli.instance, &cli.paths, &no_settings).map_err(Failure::from);
    let instance = |serve: &ServeSettings| Config::of_instance(&cli.instance, &cli.paths, serve).map_err(Failure::from);
    match &cli.command {
        Command::Init(args) => commands::init::run(args, &cli.instance),
        Command::Build(args) => commands::build::run(args, &instance(&no_settings)?),
        Command::Publish(args) => commands::publish::run(args, &instance(&no_settings)?),
        Command::Preview(args) => commands::preview::run(args, &anywhere()?),
        Command::Serve(args) => commands::serve::run(args, &instance(&args.settings)?),
        Command::License(args) => commands::license::run(args, &instance(&no_settings)?),
        Command::Customer(args) => commands::customer::run(args, &instance(&no_settings)?),
        Command::Desk(args) => commands::desk::run(args, &instance(&no_settings)?),
        Command::Bindings(args) if args.need_no_instance() => commands::bindings::run(args, &anywhere()?),
        Command::Bindings(args) => commands::bindings::run(args, &instance(&no_settings)?),
        Command::Keys(args) if args.need_no_instance() => commands::keys::run(args, &anywhere()?),
        Command::Keys(args) => commands::keys::run(args, &instance(&no_settings)?),
        Command::Package(args) if args.need_no_instance() => commands::package::run(args, &anywhere()?),
        Command::Package(args) => commands::package::run(args, &instance(&no_settings)?),
        Command::Security(args) => commands::security::run(args, &instance(&no_settings)?),
        Command::Rollout(args) => commands::rollout::run(args, &instance(&no_settings)?),
        Command::Token(args) => commands::token::run(args, &instance(&no_settings)?),
        Command::Trace(args) => commands::trace::run(args, &instance(&no_settings)?),
        Command::Review(args) => commands::review::run(args, &instance(&no_settings)?),
        Command::Changes(args) => commands::changes::run(args, &instance(&no_settings)?),
        Command::Usage(args) => commands::usage::run(args, &instance(&no_settings)?),
        Command::Wait(args) => commands::wait::run(args, &instance(&no_settings)?),
        Command::Shop(args) => commands::shop::run(args, &instance(&no_settings)?),
        Command::Mail(args) => commands::mail::run(args, &instance(&no_settings)?),
        Command::Webhook(args) => commands::webhook::run(args, &instance(&no_settings)?),
        Command::Sign(args) => commands::sign::run(args, &instance(&no_settings)?),
        Command::Verify(args) => commands::verify::run(args, &anywhere()?),
        Command::Doctor(args) => commands::doctor::run(args, &instance(&no_settings)?),
        Command::Completions(args) => commands::completions::run(args, &Cli::command()),
        Command::Manual(args) => commands::manual::run(args, Cli::command()),
    }
}

fn warn_of_unknown_variables() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for warning in unknown_variables(&Cli::command(), names) {
        stderr::line(format_args!("warning: {}", Printable(LicenseKey::redact(&warning))));
    }
}

// SECURITY: an error quotes the argument it rejects, which may be a license key in the wrong place.
fn report(failure: &Failure) {
    let clean = |text: &dyn Display| LicenseKey::redact(&text.to_string()).into_owned();
    let first: &(dyn Error + 'static) = &*failure.error;
    let chain: Vec<_> = std::iter::successors(Some(first), |&error| error.source()).collect();
    let hint = failure.hint.as_ref().map(|hint| clean(hint));
    if cli::wants_json() {
        let texts: Vec<String> = chain.iter().map(|error| clean(error)).collect();
        return stderr::line(output::error_json(
            &texts[0],
            &texts[1..],
            hint.as_deref(),
            failure.exit as u8,
        ));
    }
    for (number, error) in chain.into_iter().enumerate() {
        let heading = if number == 0 { "error" } else { "caused by" };
        let text = clean(&error);
        match error.downcast_ref() {
            // One diagnostic a line, each already escaped.
            Some(RegistryError::Diagnostics(_)) => stderr::line(format_args!("{heading}: {text}")),
            _ => stderr::line(format_args!("{heading}: {}", Printable(text))),
        }
    }
    if let Some(hint) = hint {
        stderr::line(format_args!("hint: {}", Printable(hint)));
    }
}
