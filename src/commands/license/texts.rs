//! What the store keeps of the texts of licenses, for commands that show them, also beside a running server: orders, notes, reasons of
//! changes, and names of persons.

use std::collections::HashMap;

use crate::commands::store_source::store_source;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::stored_text::StoredText;
use countersign_model::text::printable::Printable;
use countersign_model::text::{ErrorChain, stderr};
use countersign_settings::config::Config;

/// What is kept of some texts.
#[derive(Default)]
pub(in crate::commands) struct KeptTexts(HashMap<Hex128, StoredText>);

impl KeptTexts {
    /// What is kept of texts with these names. Where it cannot be read, a warning says so, and none is shown.
    pub(in crate::commands) fn of(names: impl IntoIterator<Item = Hex128>, config: &Config) -> Self {
        let names: Vec<_> = names.into_iter().collect();
        if names.is_empty() {
            return Self::default();
        }
        match countersign_ledger::texts(store_source(&config.paths), &names) {
            Ok(found) => Self(found.into_iter().collect()),
            Err(error) => {
                let reason = ErrorChain(&error).first_line();
                stderr::line(format_args!(
                    "warning: orders, notes and reasons are not shown, because they cannot be read: {}",
                    Printable(reason)
                ));
                Self::default()
            }
        }
    }

    /// What is kept of the orders of these licenses.
    pub(in crate::commands) fn of_orders<'l>(
        licenses: impl Iterator<Item = &'l IssuedLicense>,
        config: &Config,
    ) -> Self {
        Self::of(licenses.filter_map(|issued| issued.reference), config)
    }

    /// What is kept of the order of a license.
    pub(in crate::commands) fn order(&self, issued: &IssuedLicense) -> Option<&StoredText> {
        self.0.get(&issued.reference?)
    }

    /// What is kept under a name.
    pub(in crate::commands) fn get(&self, name: Hex128) -> Option<&StoredText> {
        self.0.get(&name)
    }
}

/// Gives licenses of the ledger their notes, as licenses of files have them.
pub(super) fn with_notes(mut licenses: Vec<IssuedLicense>, config: &Config) -> Vec<IssuedLicense> {
    let name = |issued: &IssuedLicense| issued.license.details.remarks().note;
    let kept = KeptTexts::of(licenses.iter().filter_map(name), config);
    for issued in &mut licenses {
        if let Some(note) = name(issued).and_then(|name| kept.get(name)?.text()) {
            issued.license.details.note = note.to_owned();
        }
    }
    licenses
}
