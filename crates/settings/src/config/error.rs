//! Errors of the configuration.

use std::path::PathBuf;

use crate::config::paths::FILE;

/// Why the configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file has an error.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A variable has a value that its setting does not take.
    #[error("the environment variable {name}: {message}")]
    Variable {
        /// The variable.
        name: String,
        /// What is expected.
        message: &'static str,
    },
    /// A table is not complete, or some of its settings do not go together.
    #[error("{}: {message}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the name of the table.
        message: String,
    },
    /// The folder is not an instance, and no flag gives the paths of one.
    #[error("{} is not an instance: it has no {FILE} and no registry", .0.display())]
    NoInstance(PathBuf),
    /// A certificate without its key, or a key without its certificate.
    #[error("{given} is set, but {missing} is not")]
    HalfOfTls {
        /// The setting that is given.
        given: &'static str,
        /// The setting that is missing.
        missing: &'static str,
    },
}
