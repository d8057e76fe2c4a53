//! Waits until the running server uses a change of the registry.

use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::commands::server_questions::{self, QuestionError};
use crate::serve::FilesSeen;
use countersign_settings::config::Config;

/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// Why it is unknown whether the server uses a change.
#[derive(Debug, thiserror::Error)]
pub(super) enum WaitError {
    #[error(transparent)]
    NoAnswer(#[from] QuestionError),
    #[error("the server does not say which registry it serves")]
    NotTold,
    #[error("the server serves another registry: {0}")]
    Another(String),
    #[error("the server has not reloaded the change within {} s{}", limit.as_secs(),
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

/// Returns when the server uses the current files of the registry.
pub(super) fn wait_for_registry(config: &Config, limit: Duration) -> Result<(), WaitError> {
    let deadline = Instant::now() + limit;
    loop {
        let (_, reply) = server_questions::readiness(config)?;
        let reply: ReadinessReply = serde_json::from_slice(&reply).map_err(|_| WaitError::NotTold)?;
        let RegistryPart {
            detail,
            files,
            in_force,
        } = reply.parts.registry;
        // Computed each time, because another command may have changed more meanwhile.
        let seen = FilesSeen::of(&config.paths.registry);
        match files {
            None => return Err(WaitError::NotTold),
            Some(files) if files != seen.path.to_string_lossy() => return Err(WaitError::Another(files)),
            Some(_) if in_force.as_deref() == Some(&seen.fingerprint) => return Ok(()),
            Some(_) if Instant::now() >= deadline => return Err(WaitError::TooLong { limit, detail }),
            Some(_) => thread::sleep(PAUSE),
        }
    }
}
