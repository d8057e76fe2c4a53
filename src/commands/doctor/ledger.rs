//! Checks the ledger: its chain, its index, and the times in it.

use chrono::{TimeDelta, Utc};

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::store::{store_hint, store_source};
use countersign_ledger::StoreError;
use countersign_ledger::reader::IndexState;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::text::ErrorChain;
use countersign_settings::config::Paths;

/// Clocks set by the network differ by less.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(10);

/// The finding, and the licenses of the ledger. There are none if it cannot be read, which the finding then says.
pub(super) fn finding(paths: &Paths) -> (Finding, Vec<IssuedLicense>) {
    let verified = countersign_ledger::read_only(store_source(paths)).and_then(|store| store.verify());
    let read = verified.and_then(|found| Ok((found, countersign_ledger::issued_licenses(store_source(paths))?)));
    let (found, issued) = match read {
        Ok(read) => read,
        Err(StoreError::Missing(_)) => return (ok("store", "none yet: no server has run"), Vec::new()),
        Err(error) => {
            let hint = Some(store_hint(&error).to_owned());
            return (broken("store", ErrorChain(&error).first_line(), hint), Vec::new());
        }
    };
    let latest = found.latest.filter(|latest| *latest > Utc::now() + CLOCKS_DIFFER);
    let finding = match latest {
        _ if found.index == IndexState::Differs => warning(
            "store",
            "the index does not match the ledger",
            "the next start rebuilds it from the ledger",
        ),
        _ if found.torn && found.index != IndexState::Held => warning(
            "store",
            "the ledger's last line is torn, and was never acknowledged",
            "the next start cuts it; nothing is lost",
        ),
        Some(latest) => {
            let finding = format!(
                "a site was bound at {}, which is in the future",
                latest.format("%Y-%m-%dT%H:%M:%SZ")
            );
            warning("store", finding, "compare the clocks of this machine and the server")
        }
        None => {
            let bindings = counted(found.bindings, "binding");
            let licenses = counted(issued.len(), "license");
            ok(
                "store",
                format!("{bindings} and {licenses}, the ledger's chain is whole"),
            )
        }
    };
    (finding, issued)
}
