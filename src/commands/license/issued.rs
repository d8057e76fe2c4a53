//! Reads the licenses of the ledger, which programs issued, also beside a running server.

use crate::commands::Failure;
use crate::commands::license::texts::with_notes;
use crate::commands::serve::store_hint;
use crate::commands::store_source::store_source;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::text::printable::Printable;
use countersign_model::text::{ErrorChain, stderr};
use countersign_settings::config::Config;

/// Every license of the ledger with its note, sorted by id; none where there is no store.
pub(in crate::commands) fn licenses(config: &Config) -> Result<Vec<IssuedLicense>, Failure> {
    let licenses = countersign_ledger::issued_licenses(store_source(&config.paths)).map_err(|error| {
        let hint = store_hint(&error);
        Failure::of_store(error).hint(hint)
    })?;
    Ok(with_notes(licenses, config))
}

/// The same; none, with a warning, if the ledger cannot be read.
pub(super) fn licenses_or_warning(config: &Config) -> Vec<IssuedLicense> {
    let read = countersign_ledger::issued_licenses(store_source(&config.paths));
    let licenses = read.unwrap_or_else(|error| {
        let reason = ErrorChain(&error).first_line();
        stderr::line(format_args!(
            "warning: licenses that programs issued are not shown, because the store cannot be read: {}",
            Printable(reason)
        ));
        Vec::new()
    });
    with_notes(licenses, config)
}
