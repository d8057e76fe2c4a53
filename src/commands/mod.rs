//! One file a verb, but short verbs of a command are together in its file. Each takes its arguments and the
//! [`Config`](countersign_settings::config::Config), does its work and returns an exit code or a [`Failure`], which `main` prints.

pub mod bindings;
pub mod build;
pub mod candidates;
pub mod changes;
pub mod completions;
mod copy_origin;
pub mod customer;
pub mod desk;
pub mod doctor;
pub mod init;
mod installed;
mod kept_customers;
pub mod keys;
mod known_licenses;
mod ledger_access;
pub mod license;
pub mod mail;
pub mod manual;
pub mod output;
pub mod package;
mod parked;
pub mod preview;
pub mod publish;
pub mod review;
pub mod rollout;
pub mod security;
pub mod serve;
mod server_questions;
pub mod shop;
pub mod sign;
mod store;
mod stored_sites;
pub mod token;
pub mod trace;
pub mod usage;
pub mod verify;
pub mod wait;
pub mod webhook;

use std::error::Error;

use countersign_ledger::{LedgerState, StoreError};
use countersign_registry::RegistryError;
use countersign_settings::config::ConfigError;
use countersign_settings::keys::signing_key::KeyError;

/// The exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command succeeded.
    Done = 0,
    /// `--check` found a difference.
    Differs = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A file, a repository or another input is wrong.
    Input = 3,
    /// The system failed: a disk, a port, a permission.
    Environment = 4,
}

/// A failed command: the error, a hint, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The error; its sources are printed as causes.
    pub error: Box<dyn Error + Send + Sync>,
    /// What to do.
    pub hint: Option<String>,
}

impl Failure {
    /// Wrong input.
    pub fn input(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit: Exit::Input,
            error: error.into(),
            hint: None,
        }
    }

    /// The system failed.
    pub fn environment(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit: Exit::Environment,
            error: error.into(),
            hint: None,
        }
    }

    /// The command line is invalid.
    pub fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit: Exit::Usage,
            error: error.into(),
            hint: None,
        }
    }

    /// A signing key cannot be used. An unreadable file is a failure of the system, everything else is wrong input.
    pub fn of_key(error: KeyError) -> Self {
        match error {
            KeyError::Read { .. } => Self::environment(error),
            _ => Self::input(error),
        }
    }

    /// A store cannot be used. Wrong content is wrong input, everything else is a failure of the system.
    pub fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { .. }
            | StoreError::Newer { .. }
            | StoreError::TextsDamaged { .. }
            | StoreError::Format { .. }
            | StoreError::Missing(_)
            | StoreError::Shared {
                state: LedgerState::Damaged | LedgerState::NewerVersion | LedgerState::LinesLost,
                ..
            } => Self::input(error),
            StoreError::Address(_) => Self::input(error),
            _ => Self::environment(error),
        }
    }

    /// Adds a hint: one line, imperative.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// The hint if there is no instance, or only a part of one.
const INSTANCE: &str = "give an instance's folder with -C, or create one with `countersign init`";

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::NoInstance(_) => Self::input(error).hint(INSTANCE),
            ConfigError::HalfOfTls { .. } => {
                Self::input(error).hint("set both for TLS, or neither behind a proxy that speaks TLS")
            }
            ConfigError::Read { .. } => Self::environment(error),
            _ => Self::input(error),
        }
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::List { .. } => Self::environment(error),
            RegistryError::NoFolder { .. } => Self::input(error).hint(INSTANCE),
            _ => Self::input(error),
        }
    }
}
