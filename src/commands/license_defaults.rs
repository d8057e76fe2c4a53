//! The server's settings for licenses that have none of their own: those of the running server, or of `countersign.toml`.

use crate::commands::server_questions::{self, QuestionError};
use crate::serve::ops::admin_socket::ConnectError;
use crate::serve::ops::license_defaults::LicenseDefaults;
use countersign_model::text::printable::Printable;
use countersign_model::text::{ErrorChain, stderr};
use countersign_settings::config::Config;

/// Asks the running server. Without one, the settings of this command count.
pub(super) fn license_defaults(config: &Config) -> LicenseDefaults {
    match server_questions::license_defaults(config) {
        Ok(defaults) => defaults,
        Err(error) => {
            // Usually there is no server.
            if !matches!(
                error,
                QuestionError::Connect(ConnectError::Missing(_) | ConnectError::NobodyListens(_))
            ) {
                stderr::line(format_args!(
                    "note: the server's settings are read from countersign.toml, and a running server may have others: {}",
                    Printable(ErrorChain(&error).first_line())
                ));
            }
            LicenseDefaults::from(&config.serve)
        }
    }
}
