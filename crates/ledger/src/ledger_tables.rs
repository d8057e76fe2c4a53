//! What a ledger has, in tables: collected while it is read, kept in memory, and added to by a group commit.
//!
//! A kind of event is registered here and in [`record`](crate::log::record).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use countersign_model::api_token::ApiToken;
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::name::Name;
use countersign_model::sale_state::SaleState;

use crate::checksum::{BindingsBuilder, BindingsByLicense};
use crate::issued_table::{IssuedBuilder, IssuedTable};
use crate::log::record::LedgerEvent;
use crate::log::{MAX_NAMES, SaleEntry};

/// Everything that a ledger has.
#[derive(Debug, Default)]
pub(crate) struct LedgerTables {
    pub by_license: BindingsByLicense,
    pub issued: IssuedTable,
    pub events: EventTables,
}

/// The tables of the kinds of events that need one table each. A group commit has such tables of what memory does not have
/// yet.
#[derive(Debug, Default)]
pub(crate) struct EventTables {
    /// The sales of shops.
    pub sales: SaleTable,
    /// The tokens of the management API.
    pub tokens: TokenTable,
}

impl EventTables {
    /// Takes the event of the next line.
    pub(crate) fn take(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::Sale(entry) => self.sales.take(entry),
            LedgerEvent::Token(token) => self.tokens.take(token),
            LedgerEvent::Bound(_) | LedgerEvent::Released(_) | LedgerEvent::License(_) | LedgerEvent::Compacted(_) => {}
        }
    }
}

/// Collects everything that a ledger has while it is read.
#[derive(Default)]
pub(crate) struct LedgerBuilder {
    bindings: BindingsBuilder,
    licenses: IssuedBuilder,
    events: EventTables,
}

impl LedgerBuilder {
    /// Takes the event of the next line.
    pub(crate) fn take(&mut self, event: LedgerEvent) {
        match event {
            LedgerEvent::License(license) => self.licenses.add(license),
            LedgerEvent::Bound(_) | LedgerEvent::Released(_) => self.bindings.take(event),
            event => self.events.take(&event),
        }
    }

    pub(crate) fn finish(self) -> LedgerTables {
        LedgerTables {
            by_license: self.bindings.finish(),
            issued: self.licenses.finish(),
            events: self.events,
        }
    }
}

/// The tokens of the management API by name, also revoked ones. They are few.
#[derive(Debug, Default)]
pub(crate) struct TokenTable(BTreeMap<Name, Arc<ApiToken>>);

impl TokenTable {
    fn take(&mut self, token: &Arc<ApiToken>) {
        self.0.insert(token.name.clone(), Arc::clone(token));
    }

    /// The token with this name.
    pub(crate) fn of(&self, name: &Name) -> Option<Arc<ApiToken>> {
        self.0.get(name).cloned()
    }

    /// The token whose secret has this SHA-256.
    // SECURITY: digests are compared, not secrets, so the time of a comparison tells nothing of a secret.
    pub(crate) fn of_hash(&self, hash: &Digest) -> Option<Arc<ApiToken>> {
        self.0.values().find(|token| token.hash == *hash).cloned()
    }

    /// Every token by name.
    pub(crate) fn all(&self) -> Vec<Arc<ApiToken>> {
        self.0.values().cloned().collect()
    }

    /// How many there are with those of another table.
    pub(crate) fn len_with(&self, other: &Self) -> usize {
        let is_new = |name: &&Name| !self.0.contains_key(*name);
        self.0.len() + other.0.keys().filter(is_new).count()
    }
}

/// The sales of shops.
#[derive(Debug, Default)]
pub(crate) struct SaleTable {
    states: HashMap<Hex128, SaleState>,
    /// From a name to the sale that it was first known of.
    names: HashMap<Hex128, Hex128>,
}

impl SaleTable {
    fn take(&mut self, entry: &SaleEntry) {
        let id = entry.state.id;
        for name in &entry.names {
            // A sale that turned out to be this one.
            if *name != id {
                self.states.remove(name);
            }
            self.names.insert(*name, id);
        }
        self.states.insert(id, entry.state);
    }

    /// The id of the sale that has this id or name.
    pub(crate) fn id_of(&self, name: Hex128) -> Option<Hex128> {
        let mut id = *self.names.get(&name)?;
        // Sales that turned out to be one form a chain that ends at the one with a state.
        while let Some(next) = self.names.get(&id).filter(|next| **next != id) {
            id = *next;
        }
        Some(id)
    }

    /// The sale with this id.
    pub(crate) fn state(&self, id: Hex128) -> Option<SaleState> {
        self.states.get(&id).copied()
    }

    /// The sale with this id or name.
    pub(crate) fn of(&self, name: Hex128) -> Option<SaleState> {
        self.state(self.id_of(name)?)
    }

    /// Every sale with its names, at most [`MAX_NAMES`] at once.
    pub(crate) fn all(&self) -> Vec<(SaleState, Vec<Hex128>)> {
        let mut names: HashMap<Hex128, Vec<Hex128>> = HashMap::new();
        for name in self.names.keys() {
            if let Some(id) = self.id_of(*name) {
                names.entry(id).or_default().push(*name);
            }
        }
        let of_sale = |(id, state): (&Hex128, &SaleState)| {
            let names = names.get(id).map_or(&[][..], Vec::as_slice);
            names
                .chunks(MAX_NAMES)
                .map(|part| (*state, part.to_vec()))
                .collect::<Vec<_>>()
        };
        self.states.iter().flat_map(of_sale).collect()
    }
}
