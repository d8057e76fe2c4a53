//! Messages that the verbs of `bindings` share: counts, and hints for a store that cannot be used.

use crate::build::counted;
use crate::commands::Failure;
use crate::commands::store::store_failure;
use countersign_ledger::StoreError;
use countersign_settings::config::Paths;

/// `7 bindings`
pub(super) fn counted_bindings(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "binding")
}

/// Fails with this message where the ledger is in a database.
pub(super) fn require_folder(paths: &Paths, message: &'static str) -> Result<(), Failure> {
    match paths.database {
        None => Ok(()),
        Some(_) => Err(Failure::input(message).hint("a node may start and run without it")),
    }
}

/// The failure for a store's error.
pub(super) fn failure(error: StoreError) -> Failure {
    match error {
        StoreError::Damaged { .. }
        | StoreError::Newer { .. }
        | StoreError::Shared { .. }
        | StoreError::TextsDamaged { .. }
        | StoreError::Address(_) => store_failure(error),
        StoreError::Missing(_) => Failure::of_store(error).hint("a server creates it at its first start"),
        StoreError::NotOurs { owner, .. } => {
            let hint = format!("run this as the user of the server: sudo -u '#{owner}' countersign bindings ...");
            Failure::environment(error).hint(hint)
        }
        StoreError::SharedInUse(_) => {
            Failure::environment(error).hint("stop every node; one counts as running until 30 seconds after its end")
        }
        StoreError::InUse(_) => Failure::environment(error).hint("stop the server first"),
        _ => Failure::of_store(error),
    }
}
