//! Configuration: `countersign.toml`, then environment, then flags, merged once into one [`Config`].
//!
//! [`PathSettings`] and [`ServeSettings`] are each declared once, as a table of the file, as flags and as environment
//! variables. `Config` is what the rest of the program sees.

mod paths;
mod serve;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use paths::{PathSettings, Paths};
pub use serve::{AdminListen, LocalHosts, LogFormat, ServeConfig, ServeSettings, TlsFiles};

/// The file's name in an instance's folder.
pub const FILE: &str = "countersign.toml";

/// Everything that can be set, decided.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the parts of the instance are.
    pub paths: Paths,
    /// How the server behaves.
    pub serve: ServeConfig,
}

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
    /// A certificate without its key, or a key without its certificate.
    #[error("{given} is set and {missing} is not")]
    HalfOfTls {
        /// The setting that is there.
        given: &'static str,
        /// The setting that is not.
        missing: &'static str,
    },
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    paths: PathSettings,
    serve: ServeSettings,
}

impl Config {
    /// Merges `countersign.toml` in `instance`, where there is one, with what flags and environment say.
    pub fn load(instance: &Path, paths: &PathSettings, serve: &ServeSettings) -> Result<Self, ConfigError> {
        // So that messages name `registry/…` as a person would, and not `./registry/…`.
        let instance = if instance == Path::new(".") { Path::new("") } else { instance };
        let file = File::read(&instance.join(FILE))?;
        let serve = ServeConfig::merge(instance, serve, file.serve);
        Ok(Self { paths: Paths::merge(instance, paths, file.paths), serve })
    }
}

impl File {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        toml::from_str(&text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start)];
            ConfigError::Content {
                path: path.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before.len() - before.rfind('\n').map_or(0, |newline| newline + 1) + 1,
                message: error.message().to_owned(),
            }
        })
    }
}
