//! One file a verb. Each takes what `cli` parsed and the [`Config`](crate::config::Config), does its work and returns
//! an exit status or a [`Failure`]; `main` prints the failure.

pub mod bindings;
pub mod build;
pub mod candidates;
pub mod completions;
pub mod doctor;
pub mod init;
pub mod keys;
pub mod license;
pub mod manual;
pub mod output;
pub mod package;
pub mod preview;
pub mod running_server;
pub mod serve;
pub mod verify;

use std::error::Error;

use crate::config::ConfigError;
use crate::keys::signing_key::KeyError;
use crate::registry::RegistryError;
use crate::registry::edit::EditError;
use crate::store::StoreError;

/// What the program's exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Done = 0,
    /// `--check` found a difference.
    Differs = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A file, a repository or another input is wrong.
    Input = 3,
    /// The machine failed: a disk, a port, a permission.
    Environment = 4,
}

/// A command that ended early: what went wrong, what to do about it, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong; its sources are printed as causes.
    pub error: Box<dyn Error + Send + Sync>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// An input is wrong.
    pub fn input(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit: Exit::Input,
            error: error.into(),
            hint: None,
        }
    }

    /// The machine failed.
    pub fn environment(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit: Exit::Environment,
            error: error.into(),
            hint: None,
        }
    }

    /// The command line makes no sense.
    pub fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit: Exit::Usage,
            error: error.into(),
            hint: None,
        }
    }

    /// A signing key cannot be used: a file that cannot be read is the machine's fault, everything else the file's.
    pub fn of_key(error: KeyError) -> Self {
        match error {
            KeyError::Read { .. } => Self::environment(error),
            _ => Self::input(error),
        }
    }

    /// A store cannot be used: what stands in it is an input, the rest is the machine.
    pub fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { .. } | StoreError::Format { .. } | StoreError::Missing(_) => Self::input(error),
            _ => Self::environment(error),
        }
    }

    /// Adds what to do about it: one line, an order.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// What to do where there is no instance, or not all of one.
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

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Registry(error) => error.into(),
            EditError::WouldNotLoad(_) => Self::input(error),
            EditError::Layout { .. } => Self::input(error).hint("edit the file by hand; a running server notices"),
            EditError::Changed { .. } => Self::environment(error).hint("run the command again"),
            EditError::Io { .. } => Self::environment(error),
        }
    }
}
