//! Messages that the verbs of `bindings` share: counts, and hints for a store that cannot be used.

use crate::build::counted;
use crate::commands::Failure;
use crate::store::StoreError;

/// What to do about a damaged ledger.
pub const DAMAGED: &str = "restore ledger.jsonl from a backup; where it is the one you want although the index knows \
    of more, `countersign bindings rebuild` shows what would be lost";

/// `7 bindings`
pub(super) fn counted_bindings(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "binding")
}

/// The failure for a store's error.
pub(super) fn failure(error: StoreError) -> Failure {
    match error {
        StoreError::Damaged { .. } => Failure::of_store(error).hint(DAMAGED),
        StoreError::Missing(_) => Failure::of_store(error).hint("a server creates it at its first start"),
        StoreError::NotOurs { owner, .. } => {
            let hint = format!("run this as the user of the server: sudo -u '#{owner}' countersign bindings ...");
            Failure::environment(error).hint(hint)
        }
        StoreError::InUse(_) => Failure::environment(error).hint("stop the server first"),
        _ => Failure::of_store(error),
    }
}
