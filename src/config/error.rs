//! Why there is no configuration.

use std::path::PathBuf;

use crate::config::paths::FILE;

/// Why there is no configuration.
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
    /// The file says something it must not.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in bytes.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// There is nothing of an instance, and nothing says that its parts are elsewhere.
    #[error("{}: no instance: there is neither {FILE} nor a registry", .0.display())]
    NoInstance(PathBuf),
    /// A certificate without its key, or a key without its certificate.
    #[error("{given} is set and {missing} is not")]
    HalfOfTls {
        /// The setting that is there.
        given: &'static str,
        /// The setting that is not.
        missing: &'static str,
    },
}
