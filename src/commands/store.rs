//! The store of an instance, for commands that read it, also beside a running server: where it is, its licenses, sales and texts, and
//! what to do when it cannot be used.

use std::collections::HashMap;

use crate::commands::Failure;
use countersign_ledger::{LedgerState, StoreError, StoreSource, StoredSales};
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::stored_text::StoredText;
use countersign_model::text::ErrorChain;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::{Config, Paths};

/// The database, if the setting names one, or the folder.
pub(super) fn store_source(paths: &Paths) -> StoreSource<'_> {
    match &paths.database {
        Some(address) => StoreSource::Database(address),
        None => StoreSource::Folder(&paths.store),
    }
}

/// Every license of the ledger with its note, sorted by id; none where there is no store.
pub(super) fn licenses(config: &Config) -> Result<Vec<IssuedLicense>, Failure> {
    let licenses = countersign_ledger::issued_licenses(store_source(&config.paths)).map_err(store_failure)?;
    Ok(with_notes(licenses, config))
}

/// Every license of the ledger with its note. If the ledger cannot be read, prints a warning and returns none.
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

/// What is kept of some texts.
#[derive(Default)]
pub(super) struct KeptTexts(HashMap<Hex128, StoredText>);

impl KeptTexts {
    /// What is kept of texts with these names. Where it cannot be read, a warning says so, and none is shown.
    pub(super) fn of(names: impl IntoIterator<Item = Hex128>, config: &Config) -> Self {
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
    pub(super) fn of_orders<'l>(licenses: impl Iterator<Item = &'l IssuedLicense>, config: &Config) -> Self {
        Self::of(licenses.filter_map(|issued| issued.reference), config)
    }

    /// What is kept of the order of a license.
    pub(super) fn order(&self, issued: &IssuedLicense) -> Option<&StoredText> {
        self.0.get(&issued.reference?)
    }

    /// What is kept under a name.
    pub(super) fn get(&self, name: Hex128) -> Option<&StoredText> {
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

/// The sales and their licenses; none where there is no store.
pub(super) fn sales(config: &Config) -> Result<StoredSales, Failure> {
    countersign_ledger::stored_sales(store_source(&config.paths)).map_err(store_failure)
}

/// The failure for a store that cannot be used.
pub(super) fn store_failure(error: StoreError) -> Failure {
    let hint = store_hint(&error);
    Failure::of_store(error).hint(hint)
}

/// What to do about a damaged ledger.
pub(super) const DAMAGED: &str = "restore ledger.jsonl from a backup; where it is the one you want although the index knows \
    of more, `countersign bindings rebuild` shows what would be lost";

/// What to do about a ledger that a newer version wrote.
pub(super) const NEWER: &str = "run the version of countersign that wrote it, or a newer one; nothing is damaged";

/// What to do about a damaged file with the orders of licenses.
const REFERENCES_DAMAGED: &str =
    "restore texts.jsonl from a backup; without the file the server starts, but shows no order, note or reason";

/// The hint for a store that cannot be opened.
pub(super) fn store_hint(error: &StoreError) -> &'static str {
    match error {
        StoreError::InUse(_) => {
            "stop the other process first; each server needs a store, or a node's folder, of its own"
        }
        StoreError::Damaged { .. } => DAMAGED,
        StoreError::Newer { .. } => NEWER,
        StoreError::TextsDamaged { .. } => REFERENCES_DAMAGED,
        StoreError::Address(error) => error.hint(),
        StoreError::Shared { state, .. } => shared_hint(*state),
        StoreError::Format { .. } => "move the store aside and restore it from a backup",
        _ => "check the folder's owner, mode and free space",
    }
}

/// The hint for a shared ledger that cannot be used.
fn shared_hint(state: LedgerState) -> &'static str {
    match state {
        LedgerState::Schema => "make the tables: countersign bindings schema --node ROLE | psql ADDRESS",
        LedgerState::Refused => {
            "check the user, PGPASSWORD, the files that passfile and sslrootcert name, and the role's rights"
        }
        LedgerState::ReadOnly => "name the primary, or all servers: the one that takes changes is used",
        LedgerState::Pooler => "connect to the database itself, or set pool_mode = session",
        LedgerState::NewerVersion => NEWER,
        LedgerState::LinesLost => "bring back the server that has these lines, or run `countersign bindings repair`",
        LedgerState::Damaged => "stop every node and restore the database from a backup; docs/operating.md says how",
        _ => {
            "check that the database runs, that this machine reaches it, and that sslrootcert names the certificate that \
             signed the database's own"
        }
    }
}
