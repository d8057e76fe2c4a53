//! The sales of shops in memory, by the names of their objects.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;

use crate::log::{MAX_NAMES, SaleEntry, SoldTerms};

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
    /// The ids of sales that turned out to be this one.
    pub former: Vec<Hex128>,
}

impl KnownSale {
    /// The ids that its licenses may name it by.
    pub(crate) fn ids(&self) -> Vec<Hex128> {
        self.former.iter().chain([&self.id]).copied().collect()
    }
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
    /// The ids of sales that turned out to be another one, by that one.
    former: HashMap<Hex128, Vec<Hex128>>,
    /// The first call that needs it makes it, not the start.
    order: OnceLock<SaleOrder>,
}

/// The sales in an order, for pages that show few of a million.
#[derive(Debug, Default)]
struct SaleOrder {
    /// By the time of the shop's first word, the earliest first.
    by_time: BTreeSet<(Option<DateTime<Utc>>, Reverse<Hex128>)>,
    /// Those that [may wait](SaleFacts::may_wait).
    may_wait: BTreeSet<Hex128>,
}

impl SaleOrder {
    fn of(sales: &HashMap<Hex128, KnownFacts>) -> Self {
        Self {
            by_time: sales.iter().map(|(id, facts)| (facts.began(), Reverse(*id))).collect(),
            may_wait: sales
                .iter()
                .filter(|(_, facts)| facts.may_wait())
                .map(|(id, _)| *id)
                .collect(),
        }
    }

    fn add(&mut self, id: Hex128, facts: &SaleFacts<Hex128>) {
        self.by_time.insert((facts.began(), Reverse(id)));
        if facts.may_wait() {
            self.may_wait.insert(id);
        }
    }

    fn remove(&mut self, id: Hex128, facts: &SaleFacts<Hex128>) {
        self.by_time.remove(&(facts.began(), Reverse(id)));
        self.may_wait.remove(&id);
    }
}

impl SaleTable {
    /// Copies from memory the sales that a line adds to, unless they are here: the line has only its own facts.
    pub(crate) fn assume(&mut self, entry: &SaleEntry, memory: &Self) {
        for name in std::iter::once(&entry.sale).chain(&entry.names) {
            if self.id_of(*name).is_none() && !self.sales.contains_key(name) {
                self.sales.extend(memory.facts(*name).map(|facts| (*name, facts)));
            }
        }
    }

    /// Takes what a line says.
    pub(crate) fn take(&mut self, entry: &SaleEntry) {
        if let Some(order) = self.order.get_mut() {
            for id in std::iter::once(&entry.sale).chain(&entry.names) {
                if let Some(facts) = self.sales.get(id) {
                    order.remove(*id, facts);
                }
            }
        }
        self.unite(entry);
        if let (Some(order), Some(facts)) = (self.order.get_mut(), self.sales.get(&entry.sale)) {
            order.add(entry.sale, facts);
        }
    }

    fn unite(&mut self, entry: &SaleEntry) {
        let id = entry.sale;
        let mut parts = Vec::new();
        for name in &entry.names {
            // A sale that turned out to be this one.
            if *name != id {
                if let Some(part) = self.sales.remove(name) {
                    parts.push(part);
                    let before = self.former.remove(name).unwrap_or_default();
                    self.former
                        .entry(id)
                        .or_default()
                        .extend(before.into_iter().chain([*name]));
                }
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
        self.held(self.id_of(name).iter()).pop()
    }

    /// The number of sales.
    pub(crate) fn len(&self) -> usize {
        self.sales.len()
    }

    fn order(&self) -> &SaleOrder {
        self.order.get_or_init(|| SaleOrder::of(&self.sales))
    }

    fn held<'t>(&'t self, ids: impl Iterator<Item = &'t Hex128>) -> Vec<KnownSale> {
        let sales = ids.filter_map(|id| {
            Some(KnownSale {
                id: *id,
                facts: self.facts(*id)?,
                shop: self.shops.get(id).cloned(),
                former: self.former.get(id).cloned().unwrap_or_default(),
            })
        });
        sales.collect()
    }

    /// At most `most` sales, those that a shop named last first.
    pub(crate) fn newest(&self, most: usize) -> Vec<KnownSale> {
        let newest = self.order().by_time.iter().rev().take(most);
        self.held(newest.map(|(_, Reverse(id))| id))
    }

    /// The sales that [may wait](SaleFacts::may_wait).
    pub(crate) fn may_wait(&self) -> Vec<KnownSale> {
        self.held(self.order().may_wait.iter())
    }

    /// Every sale, by id.
    pub(crate) fn all(&self) -> Vec<KnownSale> {
        let mut sales = self.held(self.sales.keys());
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
            // First, so that the next line shows that they were sales.
            entries.extend(self.former.get(sale).into_iter().flatten().map(|former| SaleEntry {
                sale: *former,
                names: vec![*former],
                ..entry.clone()
            }));
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
                    terms: Terms::clone(terms),
                }],
                ..entry.clone()
            }));
        }
        entries
    }
}
