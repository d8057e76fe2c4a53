//! The facts of one sale: the newest word about each object of the shop, and sets that only grow. The order of facts, and how often
//! one comes, change nothing but the numbers of places and the remembered terms, which follow the ledger's order.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use crate::license_key::LicenseId;
use crate::offer::ShopId;
use crate::sale::fact::{
    Attachment, BoughtFor, CheckoutSession, Dispute, Fact, LicenseBase, Names, Past, Payment, PlaceName, Refund,
    SalePlace, ShopKey, SoldAs, Subscription, SubscriptionStatus, TimePairs, Word,
};
use crate::sale::terms::Terms;

/// What is known of one sale. Large values are boxed: a B-tree map allocates eleven slots for its first
/// value, and most sales have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleFacts<I> {
    pub(super) payments: BTreeMap<I, Box<Payment<I>>>,
    pub(super) refunds: BTreeMap<I, Box<Refund<I>>>,
    pub(super) disputes: BTreeMap<I, Box<Dispute<I>>>,
    pub(super) subscriptions: BTreeMap<I, Box<Subscription<I>>>,
    pub(super) sessions: BTreeMap<I, Box<CheckoutSession<I>>>,
    /// Payments in the order in which they became known: the first one of a payment's names names its places.
    pub(super) order: Vec<I>,
    /// Ends that a subscription named while it went on, each with the time when it did.
    pub(super) ends: BTreeMap<I, TimePairs>,
    /// Periods that a shop gave away.
    pub(super) free: BTreeMap<I, TimePairs>,
    /// Products that a subscription has or had.
    pub(super) claims: BTreeMap<I, BTreeSet<ShopId>>,
    /// From a name of a payment to a smaller one.
    alias: BTreeMap<I, I>,
    /// The places of a subscription.
    pub(super) places: BTreeMap<I, Vec<SalePlace<I>>>,
    /// What a price granted when a subscription or a payment first named it.
    pub(super) terms: BTreeMap<(I, ShopId), Box<Terms>>,
    /// The license of the key that the shop made, and the order that it is for.
    key: Option<(I, LicenseId)>,
    /// Every line that was ever paid once, by payment, price and number.
    pub(super) once: BTreeSet<(I, ShopId, u16)>,
    /// The licenses that payments, subscriptions and sessions were bought for, whichever word said so.
    pub(super) bought: BTreeMap<I, BoughtFor<I>>,
    /// What licenses granted that no shop had sold, each with the shop that sold something for it first.
    pub(super) bases: BTreeMap<I, LicenseBase<I>>,
    /// Whether deliveries of it were applied before facts were kept.
    pub is_earlier: bool,
}

impl<I> Default for SaleFacts<I> {
    fn default() -> Self {
        Self {
            payments: BTreeMap::new(),
            refunds: BTreeMap::new(),
            disputes: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            sessions: BTreeMap::new(),
            order: Vec::new(),
            ends: BTreeMap::new(),
            free: BTreeMap::new(),
            claims: BTreeMap::new(),
            alias: BTreeMap::new(),
            places: BTreeMap::new(),
            terms: BTreeMap::new(),
            key: None,
            once: BTreeSet::new(),
            bought: BTreeMap::new(),
            bases: BTreeMap::new(),
            is_earlier: false,
        }
    }
}

/// The name of a place of this subscription.
pub(super) fn place_name<I: Clone>(subscription: &I, number: u16, place: &SalePlace<I>) -> PlaceName<I> {
    place.name.clone().unwrap_or_else(|| PlaceName::Item {
        number,
        subscription: subscription.clone(),
    })
}

/// Takes a word if it is newer than the one that is known.
fn newer<I: Ord, W: Word>(words: &mut BTreeMap<I, Box<W>>, id: I, word: W) {
    match words.get_mut(&id) {
        Some(known) if word.replaces(known) => **known = word,
        Some(_) => {}
        None => {
            words.insert(id, Box::new(word));
        }
    }
}

impl<I: Ord + Clone> SaleFacts<I> {
    /// Takes a fact. What is older than what is known changes nothing.
    pub fn take(&mut self, mut fact: Fact<I>) {
        if let Some((id, place)) = fact.purchase()
            && let Some(bought) = place.take()
        {
            let id = id.clone();
            self.take_bought(id, bought);
        }
        match fact {
            Fact::Payment(payment) => {
                let id = payment.id.clone();
                payment.names.iter().for_each(|name| self.join(&id, name));
                if !self.order.contains(&id) {
                    self.order.push(id.clone());
                }
                let mut numbers: BTreeMap<&ShopId, u16> = BTreeMap::new();
                for line in payment.lines.iter().filter(|line| !line.is_recurring) {
                    let number = numbers.entry(&line.price).or_default();
                    self.once.insert((id.clone(), line.price.clone(), *number));
                    *number += 1;
                }
                newer(&mut self.payments, id, payment);
            }
            Fact::Refund(refund) => {
                refund.names.iter().for_each(|name| self.join(&refund.of, name));
                newer(&mut self.refunds, refund.id.clone(), refund);
            }
            Fact::Dispute(dispute) => {
                dispute.names.iter().for_each(|name| self.join(&dispute.of, name));
                newer(&mut self.disputes, dispute.id.clone(), dispute);
            }
            Fact::Subscription(subscription) => self.take_subscription(subscription),
            Fact::Session(session) => newer(&mut self.sessions, session.id.clone(), session),
            Fact::Names(names) => {
                if let Some((first, others)) = names.ids.split_first() {
                    others.iter().for_each(|name| self.join(first, name));
                }
            }
            Fact::Key(key) => {
                self.key.get_or_insert((key.of, key.license));
            }
            Fact::Past(past) => {
                // An empty set is none.
                if !past.ends.is_empty() {
                    self.ends.entry(past.id.clone()).or_default().extend(past.ends);
                }
                if !past.free.is_empty() {
                    self.free.entry(past.id.clone()).or_default().extend(past.free);
                }
                self.claims.entry(past.id).or_default().extend(past.claims);
            }
            Fact::Base(base) => {
                self.bases.entry(base.license.clone()).or_insert(base);
            }
            Fact::Attached(attached) => self.take_bought(attached.id, attached.place),
        }
    }

    /// Of two words about what an object was bought for, whichever came first, the same one counts.
    fn take_bought(&mut self, id: I, bought: BoughtFor<I>) {
        let known = self.bought.entry(id);
        known
            .and_modify(|known| *known = bought.clone().min(known.clone()))
            .or_insert(bought);
    }

    fn take_subscription(&mut self, subscription: Subscription<I>) {
        let id = subscription.id.clone();
        let claims = self.claims.entry(id.clone()).or_default();
        claims.extend(subscription.items.iter().map(|item| item.product.clone()));
        claims.extend(subscription.removed.iter().cloned());
        if let Some(ends) = subscription.ends.filter(|_| subscription.status.names_its_end()) {
            self.ends.entry(id.clone()).or_default().insert((subscription.at, ends));
        }
        if let Some(free) = subscription.free {
            self.free.entry(id.clone()).or_default().insert(free);
        }
        newer(&mut self.subscriptions, id, subscription);
    }

    /// Takes what is known of another sale, which turned out to be this one.
    pub fn absorb(&mut self, other: &Self) {
        other.facts().into_iter().for_each(|fact| self.take(fact));
        for (subscription, items) in &other.places {
            self.places.entry(subscription.clone()).or_insert_with(|| items.clone());
        }
        for (sold, terms) in &other.terms {
            self.terms.entry(sold.clone()).or_insert_with(|| terms.clone());
        }
        self.once.extend(other.once.iter().cloned());
        self.is_earlier |= other.is_earlier;
    }

    /// Facts that say all that is known, but for terms and places.
    pub fn facts(&self) -> Vec<Fact<I>> {
        let mut facts = Vec::new();
        let payments = self.order.iter().filter_map(|id| self.payments.get(id));
        facts.extend(payments.map(|word| Fact::Payment(Payment::clone(word))));
        facts.extend(self.refunds.values().map(|word| Fact::Refund(Refund::clone(word))));
        facts.extend(self.disputes.values().map(|word| Fact::Dispute(Dispute::clone(word))));
        facts.extend(
            self.subscriptions
                .values()
                .map(|word| Fact::Subscription(Subscription::clone(word))),
        );
        facts.extend(
            self.sessions
                .values()
                .map(|word| Fact::Session(CheckoutSession::clone(word))),
        );
        let mut unsaid: BTreeMap<&I, &BoughtFor<I>> = self.bought.iter().collect();
        for (id, place) in facts.iter_mut().filter_map(Fact::purchase) {
            *place = self.bought.get(id).cloned();
            unsaid.remove(id);
        }
        // Only a person said it.
        facts.extend(unsaid.into_iter().map(|(id, place)| {
            Fact::Attached(Attachment {
                id: id.clone(),
                place: place.clone(),
            })
        }));
        facts.extend(self.bases.values().cloned().map(Fact::Base));
        let of_key = self.key.iter().cloned();
        facts.extend(of_key.map(|(of, license)| Fact::Key(ShopKey { license, of })));
        for (name, smaller) in &self.alias {
            facts.push(Fact::Names(Names {
                ids: vec![smaller.clone(), name.clone()],
            }));
        }
        for (id, claims) in &self.claims {
            facts.push(Fact::Past(Past {
                claims: claims.clone(),
                ends: self.ends.get(id).cloned().unwrap_or_default(),
                free: self.free.get(id).cloned().unwrap_or_default(),
                id: id.clone(),
            }));
        }
        facts
    }

    /// The places of each subscription.
    pub fn places(&self) -> &BTreeMap<I, Vec<SalePlace<I>>> {
        &self.places
    }

    /// Sets the places of a subscription.
    pub fn set_places(&mut self, subscription: I, places: Vec<SalePlace<I>>) {
        self.places.insert(subscription, places);
    }

    /// The terms by subscription or payment, and price.
    pub fn terms(&self) -> &BTreeMap<(I, ShopId), Box<Terms>> {
        &self.terms
    }

    /// Sets what this price of this subscription or payment grants.
    pub fn set_terms(&mut self, sale: I, price: ShopId, terms: Terms) {
        self.terms.insert((sale, price), Box::new(terms));
    }

    /// Every place that may have a license.
    pub fn all_places(&self) -> Vec<PlaceName<I>> {
        let items = self.places.iter().flat_map(|(subscription, places)| {
            let numbered = (0_u16..).zip(places);
            numbered.map(|(number, place)| place_name(subscription, number, place))
        });
        let lines = self.once.iter().map(|(payment, price, number)| PlaceName::Line {
            number: *number,
            payment: payment.clone(),
            price: price.clone(),
        });
        let licenses = self.bases.keys().map(|license| PlaceName::License {
            license: license.clone(),
        });
        items.chain(lines).chain(licenses).collect()
    }

    /// The license that this payment, subscription or session was bought for.
    pub fn bought_for(&self, id: &I) -> Option<&BoughtFor<I>> {
        self.bought.get(id)
    }

    /// Whether something was bought for a license: the facts may be of several buyers.
    pub fn has_bought(&self) -> bool {
        !self.bought.is_empty()
    }

    /// Whether this place is of something that was bought for a license.
    pub fn is_bought(&self, place: &PlaceName<I>) -> bool {
        let objects = self.bought.keys().flat_map(|id| {
            let of_session = self.sessions.get(id).map(|word| &word.subscription);
            let of_payment = self.payments.get(id).and_then(|word| word.subscription.as_ref());
            [Some(id), of_session, of_payment].into_iter().flatten().cloned()
        });
        self.is_place_of(place, &objects.collect::<Vec<_>>())
    }

    /// Whether a subscription that is not over renews the license of this place.
    pub fn is_renewed(&self, place: &PlaceName<I>, copy: u32) -> bool {
        let goes_on = |id: &I| {
            self.newest_subscription(&self.chain(id))
                .is_none_or(|word| word.status.goes_on())
        };
        let is_own = |place: &PlaceName<I>| match place {
            PlaceName::Item { subscription, .. } => goes_on(subscription),
            PlaceName::Line { .. } | PlaceName::License { .. } => false,
        };
        let is_here = |bought: &BoughtFor<I>| (&bought.place, bought.copy) == (place, copy);
        let mut bought = self.bought.iter().filter(|(_, bought)| is_here(bought));
        // A subscription may be known by an attachment alone.
        let is_other = |id: &I| self.payments.contains_key(id) || self.sessions.contains_key(id);
        is_own(place) || bought.any(|(id, _)| !is_other(id) && goes_on(id))
    }

    /// What this license, which no shop had sold, granted when something was bought for it first.
    pub fn base(&self, license: &I) -> Option<&LicenseBase<I>> {
        self.bases.get(license)
    }

    /// Whether this place is of one of these objects, by whichever name.
    pub fn is_place_of(&self, place: &PlaceName<I>, objects: &[I]) -> bool {
        match place {
            PlaceName::Item { subscription, .. } => {
                let first = self.chain(subscription);
                objects.iter().any(|id| self.chain(id) == first)
            }
            PlaceName::Line { payment, .. } => {
                let root = self.root(payment);
                objects.iter().any(|id| self.root(id) == root)
            }
            PlaceName::License { .. } => false,
        }
    }

    /// Every id of an item that is known.
    pub fn items(&self) -> impl Iterator<Item = &I> {
        let lines = self
            .payments
            .values()
            .flat_map(|payment| &payment.lines)
            .map(|line| &line.item);
        let items = self
            .subscriptions
            .values()
            .flat_map(|word| &word.items)
            .map(|item| &item.item);
        lines.chain(items)
    }

    /// The license of the key that the shop made.
    pub fn key(&self) -> Option<LicenseId> {
        self.key.as_ref().map(|(_, license)| *license)
    }

    /// Whether it is known that it was sold: by a payment, by a subscription that names its end, or by an older version.
    pub fn is_sold(&self) -> bool {
        self.is_earlier || !self.ends.is_empty() || self.payments.values().any(|payment| payment.paid.is_some())
    }

    /// Everything that was ever sold, with repetitions.
    pub fn sold(&self) -> impl Iterator<Item = SoldAs<'_>> {
        let lines = self.payments.values().flat_map(|payment| &payment.lines);
        let items = self.subscriptions.values().flat_map(|word| &word.items);
        lines.map(|line| line.thing()).chain(items.map(|item| item.thing()))
    }

    /// When the shop first named it, as far as is known: the day it was paid, or the time of its first word.
    pub fn began(&self) -> Option<DateTime<Utc>> {
        self.times(|_| true).min()
    }

    /// The prices of a payment, by its smallest name, each once.
    pub fn prices_of(&self, payment: &I) -> BTreeSet<&ShopId> {
        let words = self.payments.values().filter(|word| self.root(&word.id) == *payment);
        words.flat_map(|word| &word.lines).map(|line| &line.price).collect()
    }

    /// Whether a subscription of it goes on, or is to begin, and no payment is known yet.
    pub fn awaits_payment(&self) -> bool {
        let may_be_paid = |status: SubscriptionStatus| status.goes_on() || status == SubscriptionStatus::Incomplete;
        !self.is_sold() && self.subscriptions.values().any(|word| may_be_paid(word.status))
    }

    /// When payments for something of this kind were made, and when subscriptions that have it were reported.
    pub(super) fn times(&self, is_meant: impl Fn(&SoldAs<'_>) -> bool + Copy) -> impl Iterator<Item = DateTime<Utc>> {
        let payments = self
            .payments
            .values()
            .filter(move |word| word.lines.iter().any(|line| is_meant(&line.thing())));
        let subscriptions = self
            .subscriptions
            .values()
            .filter(move |word| word.items.iter().any(|item| is_meant(&item.thing())));
        let paid = payments.map(|word| word.paid.unwrap_or(word.at));
        paid.chain(subscriptions.map(|word| word.at))
    }

    /// What this price of this subscription or payment grants from now on. What is remembered stays.
    pub fn remember(&mut self, sale: I, price: ShopId, terms: Terms) {
        self.terms.entry((sale, price)).or_insert_with(|| Box::new(terms));
    }

    /// Replaces what prices grant: a person said so. Gives how many changed.
    pub fn regrant(&mut self, of: impl Fn(&ShopId) -> Option<Terms>) -> usize {
        let mut changed = 0;
        for ((_, price), terms) in &mut self.terms {
            if let Some(now) = of(price).filter(|now| *now != **terms) {
                **terms = now;
                changed += 1;
            }
        }
        changed
    }

    /// Whether it may wait for an offer or a payment. Quick: it copies nothing, and of subscriptions that follow each other it says yes
    /// too often.
    pub fn may_wait(&self) -> bool {
        let is_known =
            |sale: &I, thing: &SoldAs<'_>| self.terms.keys().any(|(of, price)| of == sale && price == thing.price);
        let lines = self.payments.values().flat_map(|payment| {
            payment.lines.iter().map(move |line| {
                let subscription = payment.subscription.as_ref().filter(|_| line.is_recurring);
                (subscription.unwrap_or(&payment.id), line.thing())
            })
        });
        let items = self.subscriptions.values();
        let items = items.flat_map(|word| word.items.iter().map(move |item| (&word.id, item.thing())));
        lines.chain(items).any(|(sale, thing)| !is_known(sale, &thing)) || self.awaits_payment()
    }

    /// What was sold whose terms are not remembered, each with the subscription or payment that they are remembered for.
    pub fn without_terms(&self) -> Vec<(I, SoldAs<'_>)> {
        let lines = self.payments.values().flat_map(|payment| {
            let sale = |is_recurring| match &payment.subscription {
                Some(subscription) if is_recurring => self.chain(subscription),
                _ => self.root(&payment.id),
            };
            payment
                .lines
                .iter()
                .map(move |line| (sale(line.is_recurring), line.thing()))
        });
        let items = self.subscriptions.values().flat_map(|subscription| {
            let sale = self.chain(&subscription.id);
            subscription.items.iter().map(move |item| (sale.clone(), item.thing()))
        });
        let is_unknown = |(sale, thing): &(I, SoldAs<'_>)| self.terms_of(sale, thing.price).is_none();
        let mut unknown: Vec<_> = lines.chain(items).filter(is_unknown).collect();
        unknown.sort();
        unknown.dedup();
        unknown
    }

    /// What this price granted when the sale first named it. Of names that became one, what either had.
    pub(super) fn terms_of(&self, sale: &I, price: &ShopId) -> Option<&Terms> {
        let known = self.terms.get(&(sale.clone(), price.clone()));
        let known = known.or_else(|| {
            // A payment by another name, or a subscription that turned out to go on from this one.
            let first = self.chain(sale);
            let is_same = |other: &I| self.root(other) == *sale || self.chain(other) == first;
            let mut all = self.terms.iter();
            all.find(|((other, of), _)| of == price && is_same(other))
                .map(|(_, terms)| terms)
        });
        known.map(Box::as_ref)
    }

    /// The smallest name of the payment that has this one.
    pub(super) fn root(&self, name: &I) -> I {
        let mut name = name;
        while let Some(smaller) = self.alias.get(name) {
            name = smaller;
        }
        name.clone()
    }

    fn join(&mut self, one: &I, other: &I) {
        let one = self.root(one);
        let other = self.root(other);
        match one.cmp(&other) {
            std::cmp::Ordering::Less => self.alias.insert(other, one),
            std::cmp::Ordering::Greater => self.alias.insert(one, other),
            std::cmp::Ordering::Equal => None,
        };
    }

    /// The first subscription that this one goes on from.
    pub(super) fn chain(&self, subscription: &I) -> I {
        let mut first = subscription;
        let mut seen = vec![first];
        while let Some(before) = self
            .subscriptions
            .get(first)
            .and_then(|word| word.resubscribes.as_ref())
        {
            if seen.contains(&before) {
                break;
            }
            first = before;
            seen.push(first);
        }
        first.clone()
    }

    /// The newest word about the subscriptions that go on from this first one.
    pub(super) fn newest_subscription(&self, first: &I) -> Option<&Subscription<I>> {
        let words: Vec<_> = self
            .subscriptions
            .values()
            .map(Box::as_ref)
            .filter(|word| self.chain(&word.id) == *first)
            .collect();
        let is_last = |word: &&Subscription<I>| words.iter().all(|other| other.resubscribes.as_ref() != Some(&word.id));
        let last = words.iter().copied().filter(is_last);
        last.reduce(|newest, word| if word.replaces(newest) { word } else { newest })
    }
}
