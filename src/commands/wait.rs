//! `countersign wait`: returns when the running server uses the files of the registry, for the person or job that pushes them.

use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::commands::server_questions::{self, QuestionError};
use crate::commands::{Exit, Failure, output};
use crate::serve::FilesSeen;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_registry::{RegistryFiles, plugins};
use countersign_settings::config::{self, Config};

/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// Wait until the running server uses the files of the registry
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  git -C licensing pull && countersign -C licensing wait
  countersign wait 120

A server that is starting is waited for, too.

Exit codes: 0 the server uses the files as they are now, 4 it does not within the time, or no server answers.")]
pub struct Args {
    /// How long to wait
    #[arg(value_name = "SECONDS", default_value = "30", value_parser = config::parse::<NonZeroU32>)]
    seconds: NonZeroU32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Why it is unknown whether the server uses the files.
#[derive(Debug, thiserror::Error)]
enum WaitError {
    #[error(transparent)]
    NoAnswer(#[from] QuestionError),
    #[error("the server does not say which registry it serves")]
    NotNamed,
    #[error("the server serves another registry: {0}")]
    Another(String),
    #[error("the server has not reloaded the registry within {} s{}", limit.as_secs(),
        detail.as_ref().map_or(String::new(), |detail| format!(": {detail}")))]
    TooLong { limit: Duration, detail: Option<String> },
}

/// The used fields of `/readyz`.
#[derive(Debug, Deserialize)]
struct ReadinessReply {
    parts: ReadyParts,
}

#[derive(Debug, Deserialize)]
struct ReadyParts {
    registry: RegistryPart,
}

#[derive(Debug, Deserialize)]
struct RegistryPart {
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    files: Option<String>,
    #[serde(default)]
    in_force: Option<String>,
}

#[derive(Serialize)]
struct InForce<'a> {
    in_force: bool,
    /// The registry's folder.
    registry: &'a str,
}

/// Waits, and warns of what keeps the server from reloading.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    if let Some(warning) = broken_plugin(config) {
        stderr::line(format_args!("warning: {}", Printable(&warning)));
    }
    let limit = Duration::from_secs(args.seconds.get().into());
    wait(config, limit).map_err(|error| match error {
        WaitError::NoAnswer(error) => error.into(),
        error => Failure::environment(error)
            .hint("look at the server's log; it reloads the registry when all of it is correct"),
    })?;
    let registry = config.paths.registry.to_string_lossy();
    output::print(&match args.json {
        true => output::json(&InForce {
            in_force: true,
            registry: &registry,
        })?,
        false => format!("The server uses {} as it is now.\n", Printable(&registry)),
    })
}

fn wait(config: &Config, limit: Duration) -> Result<(), WaitError> {
    let deadline = Instant::now() + limit;
    loop {
        let reply = match server_questions::readiness(config) {
            Ok((_, reply)) => reply,
            // It may be starting.
            Err(error) if error.may_mean_no_server() && Instant::now() < deadline => {
                thread::sleep(PAUSE);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let reply: ReadinessReply = serde_json::from_slice(&reply).map_err(|_| WaitError::NotNamed)?;
        let RegistryPart {
            detail,
            files,
            in_force,
        } = reply.parts.registry;
        // Computed each time, because the files may have changed meanwhile.
        let seen = FilesSeen::of(&config.paths.registry);
        match files {
            None => return Err(WaitError::NotNamed),
            Some(files) if files != seen.path.to_string_lossy() => return Err(WaitError::Another(files)),
            Some(_) if in_force.as_deref() == Some(&seen.fingerprint) => return Ok(()),
            Some(_) if Instant::now() >= deadline => return Err(WaitError::TooLong { limit, detail }),
            Some(_) => thread::sleep(PAUSE),
        }
    }
}

/// An error in a plugin entry: the server does not reload until it is corrected.
fn broken_plugin(config: &Config) -> Option<String> {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).unwrap_or_default();
    let mut broken = entries.into_iter().filter_map(|entry| entry.plugin.err()).flatten();
    let first = broken.next()?;
    Some(format!(
        "the server does not reload the registry until its plugins are correct: {first}"
    ))
}
