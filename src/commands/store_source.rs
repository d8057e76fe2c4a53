//! Where the store of an instance is, by its settings.

use countersign_ledger::StoreSource;
use countersign_settings::config::Paths;

/// The database, if the setting names one, or the folder.
pub(super) fn store_source(paths: &Paths) -> StoreSource<'_> {
    match &paths.database {
        Some(address) => StoreSource::Database(address),
        None => StoreSource::Folder(&paths.store),
    }
}
