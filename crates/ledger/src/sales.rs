//! What shops say of their sales, and what the committing thread decides.
//!
//! A delivery's facts name objects of the shop. Under the ledger's lock, one of them that is known finds the sale, on whichever
//! node it became known, and the others become known too. What a price grants is remembered with the first fact that names it.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::offer::ShopId;
use countersign_model::sale::fact::Fact;
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::record::{self, LedgerEvent};
use crate::log::{SaleEntry, SoldTerms, sale_line};
use crate::sale_table::{KnownFacts, KnownSale, SaleTable};

/// HMACs of an id of the shop: with the current secret, and with those that are retired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HiddenId {
    /// With the current secret.
    pub current: Hex128,
    /// With retired secrets.
    pub retired: Vec<Hex128>,
}

impl From<Hex128> for HiddenId {
    fn from(current: Hex128) -> Self {
        Self {
            current,
            retired: Vec::new(),
        }
    }
}

/// What a delivery says of a sale.
#[derive(Clone, Debug)]
pub struct SaleChange {
    /// The facts, with at most [`MAX_NAMES`](crate::MAX_NAMES) ids of objects in all.
    pub facts: Vec<Fact<HiddenId>>,
    /// What prices grant that are sold for the first time.
    pub terms: BTreeMap<ShopId, Terms>,
    /// Prices whose terms `terms` replaces, also where they are remembered: a person said so.
    pub regranted: Vec<ShopId>,
    /// The sale, where no fact says it.
    pub sale: Option<Hex128>,
    /// What was known of it, where lines were lost.
    restored: Option<KnownFacts>,
    /// The shop.
    pub scope: Arc<ChangeScope>,
    /// When the delivery is applied. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl SaleChange {
    /// Facts that a shop reported.
    pub fn new(
        facts: Vec<Fact<HiddenId>>,
        terms: BTreeMap<ShopId, Terms>,
        scope: Arc<ChangeScope>,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            facts,
            terms,
            regranted: Vec::new(),
            sale: None,
            restored: None,
            scope,
            now,
        }
    }

    /// A sale as a node knew it.
    pub(crate) fn restored(known: KnownSale) -> Self {
        Self {
            facts: Vec::new(),
            terms: BTreeMap::new(),
            regranted: Vec::new(),
            sale: Some(known.id),
            restored: Some(known.facts),
            scope: known.shop.unwrap_or_else(|| Arc::new(ChangeScope::operator())),
            now: Utc::now(),
        }
    }

    /// Changes of one line each that restore what the log lacks of it.
    pub(crate) fn parts(&self, log: &SaleTable) -> Vec<Self> {
        let (Some(sale), Some(known)) = (self.sale, &self.restored) else {
            return Vec::new();
        };
        let held = log
            .of(sale)
            .map(|(_, held)| SaleFacts::clone(&held))
            .unwrap_or_default();
        let mut both = held.clone();
        both.absorb(known);
        if both == held {
            return Vec::new();
        }
        let part = |restored: SaleFacts<Hex128>| Self {
            restored: Some(Arc::new(restored)),
            ..self.clone()
        };
        let mut parts = Vec::new();
        for fact in known.facts() {
            let mut one = SaleFacts::default();
            one.take(fact);
            parts.push(part(one));
        }
        for (subscription, items) in known.places() {
            let mut one = SaleFacts::default();
            one.set_places(*subscription, items.clone());
            parts.push(part(one));
        }
        for ((sale, price), terms) in known.terms() {
            let mut one = SaleFacts::default();
            one.set_terms(*sale, price.clone(), Terms::clone(terms));
            parts.push(part(one));
        }
        parts
    }

    /// Its facts with the ids that the ledger has. An object that is stored under an id of a retired secret keeps that id.
    fn resolved(&self, draft: &CommitDraft<'_>) -> Vec<Fact<Hex128>> {
        let is_name = |id: &Hex128| known(draft, *id).is_some();
        let facts = self.facts.iter().cloned();
        let ids = self.facts.iter().flat_map(Fact::ids);
        let sale = ids.flat_map(|id| std::iter::once(&id.current).chain(&id.retired));
        let sale = sale.copied().find_map(|id| known(draft, id));
        let mut resolve = |id: HiddenId| {
            let is_known = |id: &Hex128| {
                let mut items = sale.iter().flat_map(|(_, facts)| facts.items());
                is_name(id) || items.any(|item| item == id)
            };
            let retired = id.retired.iter().copied();
            retired.clone().find(is_known).unwrap_or(id.current)
        };
        facts.map(|fact| fact.map(&mut resolve)).collect()
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaleOutcome {
    /// It is known, durably.
    Recorded {
        /// The sale.
        sale: Hex128,
        /// What is known of it.
        facts: KnownFacts,
        /// Whether something became known.
        is_news: bool,
    },
    /// It has more lines than a line of the ledger can hold. Nothing was changed.
    TooLong,
    /// It names no sale. Nothing was changed.
    NoName,
}

/// The sale of a name, as this commit knows it.
pub(crate) fn known(draft: &CommitDraft<'_>, name: Hex128) -> Option<(Hex128, KnownFacts)> {
    let ahead = &draft.events.sales;
    let memory = &draft.memory.events().sales;
    let id_of = |name| ahead.id_of(name).or_else(|| memory.id_of(name));
    let mut id = id_of(name)?;
    // What is ahead may say that a sale of memory is another one.
    while let Some(next) = id_of(id).filter(|next| *next != id) {
        id = next;
    }
    Some((id, ahead.facts(id).or_else(|| memory.facts(id))?))
}

impl LedgerCommand for SaleChange {
    type Outcome = SaleOutcome;
    const TURN: CommitTurn = CommitTurn::Sale;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> SaleOutcome {
        let facts = self.resolved(draft);
        let restored: Vec<_> = self.restored.iter().flat_map(|restored| restored.facts()).collect();
        // What was bought for a license joins its sale, which keeps its id: earlier versions named places by it.
        let bought = facts.iter().filter_map(Fact::bought_for);
        let named = bought.map(|bought| bought.place.origin());
        let named = named.chain(facts.iter().flat_map(Fact::ids)).chain(&self.sale);
        let named = named.chain(restored.iter().flat_map(Fact::ids));
        let mut names: Vec<Hex128> = named.copied().collect();
        names.dedup();
        let Some(first) = names.first().copied() else {
            return SaleOutcome::NoName;
        };
        let mut sales: Vec<(Hex128, KnownFacts)> = Vec::new();
        for name in &names {
            let sale = known(draft, *name);
            sales.extend(sale.filter(|(id, _)| !sales.iter().any(|(other, _)| other == id)));
        }
        let mut sales = sales.into_iter();
        let (id, before) = sales.next().unwrap_or_else(|| (first, KnownFacts::default()));
        // Who reads the line unites them in the order of its names.
        let mut others: Vec<_> = sales.collect();
        others.sort_unstable_by_key(|(other, _)| *other);
        let mut after = SaleFacts::clone(&before);
        others.iter().for_each(|(_, other)| after.absorb(other));
        facts.iter().cloned().for_each(|fact| after.take(fact));
        if let Some(restored) = &self.restored {
            after.absorb(restored);
        }
        let unknown: Vec<_> = after
            .without_terms()
            .into_iter()
            .map(|(sale, thing)| (sale, thing.price.clone()))
            .collect();
        for (sale, price) in unknown {
            if let Some(terms) = self.terms.get(&price) {
                after.remember(sale, price, terms.clone());
            }
        }
        after.regrant(|price| {
            self.terms
                .get(price)
                .filter(|_| self.regranted.contains(price))
                .cloned()
        });
        after.assign_places();
        let is_new = |name: &Hex128| known(draft, *name).is_none_or(|(known, _)| known != id);
        names.retain(is_new);
        names.extend(others.iter().map(|(other, _)| *other));
        names.sort_unstable();
        names.dedup();
        let is_news = after != *before;
        let after = Arc::new(after);
        if is_news || !names.is_empty() {
            let changed =
                |(subscription, items): &(&Hex128, &Vec<_>)| before.places().get(*subscription) != Some(*items);
            let places = after.places().iter().filter(changed);
            let terms = after
                .terms()
                .iter()
                .filter(|(sold, terms)| before.terms().get(*sold) != Some(*terms))
                .map(|((sale, price), terms)| SoldTerms {
                    price: price.clone(),
                    sale: *sale,
                    terms: Terms::clone(terms),
                });
            let entry = SaleEntry {
                sale: id,
                facts: facts.into_iter().chain(restored).collect(),
                names,
                places: places
                    .map(|(subscription, items)| (*subscription, items.clone()))
                    .collect(),
                terms: terms.collect(),
                is_earlier: after.is_earlier,
                after: Some(Arc::clone(&after)),
                scope: Arc::clone(&self.scope),
                time: draft.now(self.now),
            };
            if sale_line::longest(&entry) > record::MAX {
                return SaleOutcome::TooLong;
            }
            draft.append(LedgerEvent::Sale(Arc::new(entry)));
        }
        SaleOutcome::Recorded {
            sale: id,
            facts: after,
            is_news,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger_tables::{EventTables, LedgerTables};
    use crate::memory::BindingMemory;
    use crate::testing::{sale_fact, sold_terms};
    use countersign_model::sale::fact::{Names, Refund, SoldItem, Subscription, SubscriptionStatus};
    use proptest::prelude::{any, proptest};
    use std::collections::BTreeSet;

    fn id(number: u8) -> Hex128 {
        Hex128([number; 16])
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn names(numbers: &[u8]) -> Fact<Hex128> {
        let ids = numbers.iter().copied().map(id).collect();
        Fact::Names(Names { ids })
    }

    fn change(facts: impl IntoIterator<Item = Fact<Hex128>>) -> SaleChange {
        let facts = facts.into_iter().map(|fact| fact.map(&mut HiddenId::from)).collect();
        let SoldTerms { price, terms, .. } = sold_terms(1);
        let scope = Arc::new("shop:stripe".parse().unwrap());
        SaleChange::new(facts, BTreeMap::from([(price, terms)]), scope, at(100))
    }

    /// Decides in one commit each, as several nodes would one after the other. Gives the lines, too, as they are read.
    fn decide(memory: &BindingMemory, change: &SaleChange) -> (SaleOutcome, Vec<SaleEntry>) {
        decide_after(memory, Vec::new(), change)
    }

    /// As above, after lines that another node appended.
    fn decide_after(
        memory: &BindingMemory,
        unread: Vec<LedgerEvent>,
        change: &SaleChange,
    ) -> (SaleOutcome, Vec<SaleEntry>) {
        let mut draft = CommitDraft::new(memory);
        unread.into_iter().for_each(|event| draft.learn(event));
        let outcome = change.decide(&mut draft);
        let entries = draft.appended().iter().map(|event| match event {
            LedgerEvent::Sale(entry) => SaleEntry {
                after: None,
                ..SaleEntry::clone(entry)
            },
            other => panic!("{other:?}"),
        });
        let entries = entries.collect();
        draft.put_in_force();
        (outcome, entries)
    }

    #[test]
    fn every_name_of_a_delivery_finds_the_sale_and_a_repetition_writes_nothing() {
        let memory = BindingMemory::new(LedgerTables::default());
        let sold = change([sale_fact(1, 5), names(&[1, 2])]);
        assert_eq!(decide(&memory, &sold).1.len(), 1);
        let (again, lines) = decide(&memory, &sold);
        assert!(matches!(again, SaleOutcome::Recorded { is_news: false, .. }) && lines.is_empty());
        let (sale, facts) = memory.events().sales.of(id(2)).unwrap();
        assert_eq!((sale, facts.grants().licenses.len()), (id(1), 1));
        assert_eq!(decide(&memory, &change([])).0, SaleOutcome::NoName);
    }

    #[test]
    fn what_is_decided_in_one_commit_counts_for_the_next_in_it() {
        let memory = BindingMemory::new(LedgerTables::default());
        let mut draft = CommitDraft::new(&memory);
        change([sale_fact(1, 5)]).decide(&mut draft);
        change([sale_fact(2, 6)]).decide(&mut draft);
        let SaleOutcome::Recorded { facts, .. } = change([names(&[1, 2])]).decide(&mut draft) else {
            panic!()
        };
        assert_eq!((facts.facts().len(), draft.appended().len()), (3, 3));
    }

    #[test]
    fn an_id_that_a_retired_secret_hid_is_known_by_it() {
        let memory = BindingMemory::new(LedgerTables::default());
        decide(&memory, &change([sale_fact(1, 5)]));
        let mut newer = change([sale_fact(1, 9)]);
        let mut rotated = |hidden: HiddenId| HiddenId {
            current: Hex128(hidden.current.0.map(|byte| byte.wrapping_add(100))),
            retired: vec![hidden.current],
        };
        newer.facts = newer.facts.into_iter().map(|fact| fact.map(&mut rotated)).collect();
        let (outcome, _) = decide(&memory, &newer);
        let SaleOutcome::Recorded { sale, facts, .. } = outcome else {
            panic!()
        };
        assert_eq!((sale, facts.facts()), (id(1), vec![sale_fact(1, 9)]));
    }

    #[test]
    fn what_fits_no_line_changes_nothing() {
        let memory = BindingMemory::new(LedgerTables::default());
        let Fact::Payment(mut long) = sale_fact(1, 5) else {
            panic!()
        };
        long.lines = vec![long.lines[0].clone(); 200];
        let (outcome, lines) = decide(&memory, &change([Fact::Payment(long)]));
        assert_eq!((outcome, lines.len()), (SaleOutcome::TooLong, 0));
        assert!(memory.events().sales.of(id(1)).is_none());
    }

    /// A fact about some of nine objects.
    fn some_fact(kind: u8, one: u8, other: u8, second: u8) -> Fact<Hex128> {
        let second = i64::from(second);
        match kind % 4 {
            0 => sale_fact(one, second),
            1 => names(&[one, other]),
            2 => Fact::Refund(Refund {
                amount: 1_900,
                at: at(second),
                id: id(100 + one),
                is_approved: second % 2 == 0,
                names: vec![id(other)],
                of: id(one),
            }),
            _ => {
                let price: ShopId = "price_1".parse().unwrap();
                let item = SoldItem {
                    item: id(200 + other),
                    offer: None,
                    product: price.clone(),
                    price,
                    quantity: 1,
                };
                Fact::Subscription(Subscription {
                    at: at(second),
                    due_days: None,
                    ended: None,
                    ends: Some(at(1_000 + second)),
                    free: None,
                    id: id(50 + one),
                    items: vec![item],
                    parent: Some(id(other)),
                    place: None,
                    removed: Vec::new(),
                    renews: true,
                    resubscribes: None,
                    status: SubscriptionStatus::Active,
                })
            }
        }
    }

    proptest! {
        #[test]
        fn who_reads_the_lines_knows_what_was_decided(words in proptest::collection::vec(any::<(u8, u8, u8, u8)>(), 1..40)) {
            let memory = || BindingMemory::new(LedgerTables::default());
            // Two nodes: each reads what the other appended when it decides itself.
            let mut nodes = [(memory(), Vec::new()), (memory(), Vec::new())];
            let mut reader = EventTables::default();
            // From here on, the reader keeps the order of the sales.
            assert!(reader.sales.newest(1).is_empty());
            let mut ids = BTreeSet::new();
            for (kind, one, other, second) in words {
                let fact = some_fact(kind, 1 + one % 9, 1 + other % 9, second);
                let node = usize::from(kind) / 4 % 2;
                let unread = std::mem::take(&mut nodes[node].1);
                let (_, entries) = decide_after(&nodes[node].0, unread, &change([fact]));
                for entry in entries {
                    ids.insert(entry.sale);
                    let event = LedgerEvent::Sale(Arc::new(entry));
                    reader.take(&event);
                    nodes[1 - node].1.push(event);
                }
                let memory = &nodes[node].0;
                for name in 1..=60 {
                    assert_eq!(memory.events().sales.of(id(name)), reader.sales.of(id(name)), "{name}");
                }
            }
            let ids_of = |sales: Vec<KnownSale>| sales.into_iter().map(|sale| sale.id).collect::<Vec<_>>();
            let mut all = reader.sales.all();
            let waiting = all.iter().filter(|sale| sale.facts.may_wait()).cloned().collect();
            assert_eq!(ids_of(reader.sales.may_wait()), ids_of(waiting));
            all.sort_by_key(|sale| std::cmp::Reverse(sale.facts.began()));
            assert_eq!(ids_of(reader.sales.newest(3)), ids_of(all.into_iter().take(3).collect()));
            // A license may name its sale by an id that the sale had before it turned out to be another one.
            let has_all = |tables: &EventTables| {
                ids.iter()
                    .all(|former| tables.sales.known(*former).unwrap().ids().contains(former))
            };
            assert!(has_all(&reader));
            let [(memory, unread), _] = nodes;
            memory.add(unread);
            // And who restores them from memory alone.
            let mut restored = EventTables::default();
            for entry in memory.events().sales.entries(&Arc::new(ChangeScope::operator()), at(0)) {
                restored.take(&LedgerEvent::Sale(Arc::new(entry)));
            }
            assert!(has_all(&restored));
            for name in 1..=60 {
                let of = |tables: &EventTables| tables.sales.of(id(name));
                let grants = |tables: &EventTables| of(tables).map(|(_, facts)| facts.grants());
                assert_eq!(grants(&restored), grants(&reader), "{name}");
                // And what is known lacks nothing of itself.
                if let Some((_, facts)) = of(&reader) {
                    let mut both = SaleFacts::clone(&facts);
                    both.absorb(&facts);
                    assert_eq!(both, *facts, "{name}");
                }
            }
        }
    }
}
