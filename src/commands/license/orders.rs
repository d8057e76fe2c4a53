//! What the store keeps of the orders of licenses, for `license show` and `license list`, also beside a running server.

use std::collections::HashMap;

use crate::commands::store_source::store_source;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::order_reference::StoredReference;
use countersign_model::text::error_chain::ErrorChain;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::Config;

/// What is kept of some orders.
#[derive(Default)]
pub(in crate::commands) struct Orders(HashMap<Hex128, StoredReference>);

impl Orders {
    /// What is kept of the orders of these licenses. Where it cannot be read, a warning says so, and none is shown.
    pub(in crate::commands) fn of<'l>(licenses: impl Iterator<Item = &'l IssuedLicense>, config: &Config) -> Self {
        let names: Vec<_> = licenses.filter_map(|issued| issued.reference).collect();
        if names.is_empty() {
            return Self::default();
        }
        match countersign_ledger::order_references(store_source(&config.paths), &names) {
            Ok(found) => Self(found.into_iter().collect()),
            Err(error) => {
                let reason = ErrorChain(&error).first_line();
                stderr::line(format_args!(
                    "warning: the orders of licenses are not shown, because they cannot be read: {}",
                    Printable(reason)
                ));
                Self::default()
            }
        }
    }

    /// What is kept of the order of a license.
    pub(in crate::commands) fn of_license(&self, issued: &IssuedLicense) -> Option<&StoredReference> {
        self.0.get(&issued.reference?)
    }
}
