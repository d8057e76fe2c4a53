//! What a ledger has, in tables: collected while it is read, kept in memory, and added to by a group commit.
//!
//! A kind of event is registered here and in [`record`](crate::log::record).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use countersign_model::api_token::ApiToken;
use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::sale::facts::SaleFacts;
use countersign_model::site_claim::SiteClaim;

use crate::checksum::{BindingsBuilder, BindingsByLicense};
use crate::handout_table::HandoutTable;
use crate::issued_table::{IssuedBuilder, IssuedTable};
use crate::log::record::LedgerEvent;
use crate::log::{ClaimEntry, ErasureEntry, MAX_NAMES, SaleEntry, SoldTerms, VouchEntry};
use crate::reminder_table::ReminderTable;
use crate::rollout_table::RolloutTable;
use crate::session_table::SessionTable;

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
    /// The claims of sites that were installed again.
    pub claims: ClaimTable,
    /// The customers that were erased.
    pub erased: ErasedCustomers,
    /// The reminders that mails were claimed for.
    pub reminders: ReminderTable,
    /// The sessions and codes of pages that ended early.
    pub sessions: SessionTable,
    /// The rollouts of releases.
    pub rollouts: RolloutTable,
    /// The licenses that people vouched for.
    pub vouches: VouchTable,
    /// What customers got by their page.
    pub handouts: HandoutTable,
}

impl EventTables {
    /// Takes the event of the next line.
    pub(crate) fn take(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::Sale(entry) => self.sales.take(entry),
            LedgerEvent::Token(token) => self.tokens.take(token),
            LedgerEvent::Claimed(entry) => self.claims.take(entry),
            LedgerEvent::Erased(entry) => self.erased.take(entry),
            LedgerEvent::Reminded(entry) => self.reminders.take(entry),
            LedgerEvent::Session(entry) => self.sessions.take(*entry),
            LedgerEvent::Rollout(entry) => self.rollouts.take(entry),
            LedgerEvent::Vouched(entry) => self.vouches.take(entry),
            LedgerEvent::Handed(entry) => self.handouts.take(entry),
            LedgerEvent::Bound(_) | LedgerEvent::Released(_) | LedgerEvent::License(_) | LedgerEvent::Compacted(_) => {}
        }
    }

    /// Lines that make these tables again. Those of sales are of `now`.
    pub(crate) fn events(&self, now: DateTime<Utc>) -> Vec<LedgerEvent> {
        let operator = Arc::new(ChangeScope::operator());
        let tokens = self.tokens.all().into_iter().map(LedgerEvent::Token);
        let erased = self.erased.all().into_iter().map(LedgerEvent::Erased);
        let reminders = self.reminders.entries().into_iter().map(LedgerEvent::Reminded);
        let sessions = self.sessions.entries().into_iter().map(LedgerEvent::Session);
        let rollouts = self.rollouts.entries().into_iter().map(LedgerEvent::Rollout);
        let vouches = self.vouches.all().into_iter().map(LedgerEvent::Vouched);
        let handouts = self.handouts.all().into_iter().map(LedgerEvent::Handed);
        let claims = self.claims.all().into_iter().map(LedgerEvent::Claimed);
        let sales = self.sales.entries(&operator, now).into_iter();
        let of_people = tokens.chain(erased).chain(reminders).chain(sessions).chain(rollouts);
        of_people
            .chain(vouches)
            .chain(handouts)
            .chain(claims)
            .chain(sales.map(|entry| LedgerEvent::Sale(Arc::new(entry))))
            .collect()
    }

    /// Events of these tables that `log` lacks, and that are appended as they are.
    pub(crate) fn lost(&self, log: &Self) -> Vec<LedgerEvent> {
        let erased = self.erased.all().into_iter().map(LedgerEvent::Erased);
        let sessions = self.sessions.entries().into_iter().map(LedgerEvent::Session);
        let vouches = self.vouches.all().into_iter().map(LedgerEvent::Vouched);
        let handouts = self.handouts.all().into_iter().map(LedgerEvent::Handed);
        let mut events: Vec<_> = erased.chain(sessions).chain(vouches).chain(handouts).collect();
        events.retain(|event| !log.has(event));
        events
    }

    /// Whether such an event is known, or a newer one about the same.
    pub(crate) fn has(&self, event: &LedgerEvent) -> bool {
        match event {
            LedgerEvent::Erased(entry) => self.erased.has(entry.number),
            LedgerEvent::Session(entry) => self.sessions.has_since(entry),
            LedgerEvent::Vouched(entry) => {
                let known = self.vouches.of(&entry.license);
                known.is_some_and(|known| known.time >= entry.time)
            }
            LedgerEvent::Handed(entry) => self.handouts.has(&entry.license, entry.id),
            _ => false,
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

/// The last claim of each site that has one. They are few.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable(BTreeMap<LicenseId, Vec<SiteClaim>>);

impl ClaimTable {
    fn take(&mut self, entry: &ClaimEntry) {
        let claims = self.0.entry(entry.license).or_default();
        claims.retain(|claim| claim.host != entry.claim.host);
        claims.push(entry.claim.clone());
    }

    /// Those of a license, the latest last.
    pub(crate) fn of(&self, license: &LicenseId) -> &[SiteClaim] {
        self.0.get(license).map_or(&[], |claims| claims)
    }

    /// Every one.
    pub(crate) fn all(&self) -> Vec<ClaimEntry> {
        let of_license = |(license, claims): (&LicenseId, &Vec<SiteClaim>)| {
            let license = *license;
            let entries = claims.iter().map(move |claim| ClaimEntry {
                license,
                claim: claim.clone(),
            });
            entries.collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_license).collect()
    }
}

/// The newest word about each license that somebody vouched for. They are few.
#[derive(Debug, Default)]
pub(crate) struct VouchTable(BTreeMap<LicenseId, Arc<VouchEntry>>);

impl VouchTable {
    /// Takes the entry of the next line. A repair appends lost entries with their own times, so an older one changes nothing.
    pub(crate) fn take(&mut self, entry: &Arc<VouchEntry>) {
        if self.of(&entry.license).is_none_or(|known| known.time <= entry.time) {
            self.0.insert(entry.license, Arc::clone(entry));
        }
    }

    /// The newest word about a license.
    pub(crate) fn of(&self, license: &LicenseId) -> Option<Arc<VouchEntry>> {
        self.0.get(license).cloned()
    }

    /// Every one, by license.
    fn all(&self) -> Vec<Arc<VouchEntry>> {
        self.0.values().cloned().collect()
    }

    /// Those that are in force on this day, the latest first.
    pub(crate) fn in_force(&self, today: NaiveDate) -> Vec<Arc<VouchEntry>> {
        let mut entries = self.all();
        entries.retain(|entry| entry.is_in_force(today));
        entries.sort_by_key(|entry| (Reverse(entry.time), entry.license));
        entries
    }
}

/// The customers that were erased, by number.
#[derive(Debug, Default)]
pub(crate) struct ErasedCustomers(BTreeMap<Hex128, ErasureEntry>);

impl ErasedCustomers {
    fn take(&mut self, entry: &ErasureEntry) {
        self.0.entry(entry.number).or_insert(*entry);
    }

    /// Whether this customer was erased.
    pub(crate) fn has(&self, number: Hex128) -> bool {
        self.0.contains_key(&number)
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> BTreeSet<Hex128> {
        self.0.keys().copied().collect()
    }

    /// Every one.
    fn all(&self) -> Vec<ErasureEntry> {
        self.0.values().copied().collect()
    }
}

/// What is known of a sale.
pub type KnownFacts = Arc<SaleFacts<Hex128>>;

/// A sale of a shop.
#[derive(Clone, Debug)]
pub struct KnownSale {
    /// Its id.
    pub id: Hex128,
    /// What is known of it.
    pub facts: KnownFacts,
    /// The shop that reported it; `None` if only a repair wrote it.
    pub shop: Option<Arc<ChangeScope>>,
}

/// The sales of shops.
#[derive(Debug, Default)]
pub(crate) struct SaleTable {
    sales: HashMap<Hex128, KnownFacts>,
    /// The shop that reported a sale, by the sale.
    shops: HashMap<Hex128, Arc<ChangeScope>>,
    /// The shops, which their sales share.
    scopes: HashSet<Arc<ChangeScope>>,
    /// From a name to the sale that it was first known of.
    names: HashMap<Hex128, Hex128>,
}

impl SaleTable {
    /// Copies what memory knows of the sales that a line adds to, unless it is here already: a line has only its own facts.
    pub(crate) fn assume(&mut self, entry: &SaleEntry, memory: &Self) {
        for name in std::iter::once(&entry.sale).chain(&entry.names) {
            if self.id_of(*name).is_none() && !self.sales.contains_key(name) {
                self.sales.extend(memory.facts(*name).map(|facts| (*name, facts)));
            }
        }
    }

    fn take(&mut self, entry: &SaleEntry) {
        let id = entry.sale;
        let mut parts = Vec::new();
        for name in &entry.names {
            // A sale that turned out to be this one.
            if *name != id {
                parts.extend(self.sales.remove(name));
                self.shops.remove(name);
            }
            self.names.insert(*name, id);
        }
        if entry.scope.is_shop() {
            if !self.scopes.contains(&entry.scope) {
                self.scopes.insert(Arc::clone(&entry.scope));
            }
            // Each line that was read has a copy of its own.
            let scope = self.scopes.get(&entry.scope).unwrap_or(&entry.scope);
            self.shops.entry(id).or_insert_with(|| Arc::clone(scope));
        }
        if let Some(after) = &entry.after {
            self.sales.insert(id, Arc::clone(after));
            return;
        }
        let known = Arc::make_mut(self.sales.entry(id).or_default());
        parts.iter().for_each(|part| known.absorb(part));
        known.is_earlier |= entry.is_earlier;
        entry.facts.iter().cloned().for_each(|fact| known.take(fact));
        for (subscription, items) in &entry.places {
            known.set_places(*subscription, items.clone());
        }
        for SoldTerms { price, sale, terms } in &entry.terms {
            known.set_terms(*sale, price.clone(), terms.clone());
        }
    }

    /// The id of the sale that has this id or name.
    pub(crate) fn id_of(&self, name: Hex128) -> Option<Hex128> {
        let mut id = *self.names.get(&name)?;
        // Sales that turned out to be one form a chain that ends at the one that has facts.
        while let Some(next) = self.names.get(&id).filter(|next| **next != id) {
            id = *next;
        }
        Some(id)
    }

    /// What is known of the sale with this id.
    pub(crate) fn facts(&self, id: Hex128) -> Option<KnownFacts> {
        self.sales.get(&id).cloned()
    }

    /// The sale with this id or name.
    pub(crate) fn of(&self, name: Hex128) -> Option<(Hex128, KnownFacts)> {
        let id = self.id_of(name)?;
        Some((id, self.facts(id)?))
    }

    /// The sale with this id or name, with its shop.
    pub(crate) fn known(&self, name: Hex128) -> Option<KnownSale> {
        let (id, facts) = self.of(name)?;
        let shop = self.shops.get(&id).cloned();
        Some(KnownSale { id, facts, shop })
    }

    /// Passes on every sale, in no order, with the shop that reported it.
    pub(crate) fn each(&self, mut each: impl FnMut(Hex128, &KnownFacts, Option<&Arc<ChangeScope>>)) {
        for (id, facts) in &self.sales {
            each(*id, facts, self.shops.get(id));
        }
    }

    /// Every sale, by id.
    pub(crate) fn all(&self) -> Vec<KnownSale> {
        let sales = self.sales.iter().map(|(id, facts)| KnownSale {
            id: *id,
            facts: Arc::clone(facts),
            shop: self.shops.get(id).cloned(),
        });
        let mut sales: Vec<_> = sales.collect();
        sales.sort_unstable_by_key(|sale| sale.id);
        sales
    }

    /// Lines that say all that is known, each short enough. `scope` is who says it where no shop is known.
    pub(crate) fn entries(&self, scope: &Arc<ChangeScope>, now: DateTime<Utc>) -> Vec<SaleEntry> {
        let mut names: HashMap<Hex128, Vec<Hex128>> = HashMap::new();
        for name in self.names.keys() {
            if let Some(id) = self.id_of(*name) {
                names.entry(id).or_default().push(*name);
            }
        }
        let mut entries = Vec::new();
        for (sale, facts) in &self.sales {
            let entry = SaleEntry {
                sale: *sale,
                facts: Vec::new(),
                names: Vec::new(),
                places: BTreeMap::new(),
                terms: Vec::new(),
                is_earlier: facts.is_earlier,
                after: None,
                scope: Arc::clone(self.shops.get(sale).unwrap_or(scope)),
                time: now,
            };
            let mut of_sale = names.remove(sale).unwrap_or_default();
            of_sale.sort_unstable();
            entries.extend(of_sale.chunks(MAX_NAMES).map(|names| SaleEntry {
                names: names.to_vec(),
                ..entry.clone()
            }));
            entries.extend(facts.facts().into_iter().map(|fact| SaleEntry {
                facts: vec![fact],
                ..entry.clone()
            }));
            entries.extend(facts.places().iter().map(|(subscription, items)| SaleEntry {
                places: BTreeMap::from([(*subscription, items.clone())]),
                ..entry.clone()
            }));
            entries.extend(facts.terms().iter().map(|((sale, price), terms)| SaleEntry {
                terms: vec![SoldTerms {
                    price: price.clone(),
                    sale: *sale,
                    terms: terms.clone(),
                }],
                ..entry.clone()
            }));
        }
        entries
    }
}
