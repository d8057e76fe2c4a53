//! What the facts of a sale grant: a pure function of the facts and of remembered terms. It knows no order of arrival, no clock
//! and no earlier result.
//!
//! - A payment **stands** if it was paid, the shop still counts it, less than all of it went back, and its newest dispute is
//!   neither open nor lost.
//! - A line of a subscription ends when the newest stretch ends that stands, but not later than a fallen stretch that began after
//!   it: a refund never makes a license end later.
//! - Lines paid once add up: `end = max(end, day paid) + period`, in the order of their payments. Of a license that several offers
//!   were bought for, each offer adds up alone, and the latest end counts: what falls away never makes it end later.
//! - A license goes on for some days after its end only while a renewal is to come and the newest payment stands.
//! - If payments are known and none stands, the license is suspended. A shop never revokes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::license_terms::{LicenseStatus, SiteLimit};
use crate::offer::{LicenseTerm, ShopId};
use crate::sale::fact::{
    BoughtFor, Dispute, DisputeStatus, PaidLine, Payment, PlaceName, Refund, SalePlace, SoldItem, Subscription,
    SubscriptionStatus, Word as _,
};
use crate::sale::facts::{SaleFacts, place_name};
use crate::sale::terms::{SoldGrant, Terms};
use crate::slug::Slug;

/// Licenses that one line grants at most. More are a mistake, or somebody's test.
pub const MOST_LICENSES: u32 = 1_000;

/// The license of one copy of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoldLicense<I> {
    /// The place.
    pub place: PlaceName<I>,
    /// The number of the copy.
    pub copy: u32,
    /// Whether the subscription still has it. What is not sold anymore is suspended, and never issued.
    pub is_sold: bool,
    /// What it grants.
    pub grant: SoldGrant,
    /// The offer of what counts; `None` if nothing was bought for a license that no shop sold, or nothing of it stands.
    pub offer: Option<Slug>,
}

/// What a sale has that no license follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remainder<I> {
    /// No offer is for this price.
    NoOffer(ShopId),
    /// So many licenses of this price would be more than [`MOST_LICENSES`].
    TooMany(ShopId),
    /// A part of this payment went back.
    PartialRefund(I),
}

/// All that a sale grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleGrants<I> {
    /// Licenses by place and copy.
    pub licenses: Vec<SoldLicense<I>>,
    /// What is left.
    pub remainder: BTreeSet<Remainder<I>>,
}

/// Why a shop suspends what it sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuspensionCause {
    /// All of a payment went back.
    #[error("the payment was refunded")]
    Refunded,
    /// A dispute is open, or lost.
    #[error("the payment is disputed")]
    Disputed,
    /// The shop counts an order as paid no more.
    #[error("the order is no longer paid")]
    NotPaid,
    /// The subscription is paused.
    #[error("the subscription is paused")]
    Paused,
}

/// All names of one payment.
struct PaymentGroup<'f, I> {
    /// The smallest name.
    name: I,
    words: Vec<&'f Payment<I>>,
    paid: DateTime<Utc>,
    stands: bool,
    /// Why it does not stand.
    fall: Option<SuspensionCause>,
    is_refunded_in_part: bool,
}

/// What is granted to one copy of a place by one line.
struct GrantLine<'f, I> {
    terms: &'f Terms,
    sites: SiteLimit,
    /// The end of a line of a subscription.
    end: Option<NaiveDate>,
    /// How long a line lasts that is paid once.
    lasts: Option<LicenseTerm>,
    stands: bool,
    is_sold: bool,
    subscription: Option<&'f Subscription<I>>,
    /// Whether the newest payment of the subscription stands.
    is_paid_up: bool,
    /// Its newest standing payment.
    paid: Option<DateTime<Utc>>,
    /// Its first payment, whether it stands or not.
    since: Option<DateTime<Utc>>,
}

/// The end of one line of a subscription.
struct LineEnd {
    end: NaiveDate,
    stands: bool,
}

/// Whether the newest of these payments stands, if there is one.
fn are_paid_up<I: Ord>(groups: &[&PaymentGroup<'_, I>]) -> bool {
    let newest = groups.iter().max_by_key(|group| (group.paid, &group.name));
    newest.is_none_or(|group| group.stands)
}

/// A paid period of an item, or one that the shop gave away.
struct Stretch<'f, I> {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    /// `None` for one that was given away, of all items.
    item: Option<&'f I>,
    stands: bool,
    is_free: bool,
    /// The payment; `None` for one that was given away.
    name: Option<&'f I>,
}

/// The facts with their payments grouped.
struct SaleView<'f, I> {
    facts: &'f SaleFacts<I>,
    groups: Vec<PaymentGroup<'f, I>>,
}

impl<I: Ord + Clone> SaleFacts<I> {
    /// What the sale grants.
    pub fn grants(&self) -> SaleGrants<I> {
        SaleView::of(self).grants()
    }

    /// Why licenses of the sale are suspended; `None` if nothing says so, or several things do.
    pub fn suspension_cause(&self) -> Option<SuspensionCause> {
        let falls = SaleView::of(self).groups.into_iter().filter_map(|group| group.fall);
        let words = self.subscriptions.values();
        let paused = words.filter(|word| word.status == SubscriptionStatus::Paused && word.free.is_none());
        let mut causes = falls.chain(paused.map(|_| SuspensionCause::Paused));
        let first = causes.next()?;
        causes.all(|cause| cause == first).then_some(first)
    }

    /// When it was first named that no license follows, as far as is known.
    pub fn remains_since(&self, remainder: &Remainder<I>) -> Option<DateTime<Utc>> {
        match remainder {
            Remainder::NoOffer(price) | Remainder::TooMany(price) => self.times(|sold| sold.price == price).min(),
            Remainder::PartialRefund(payment) => {
                let refunds = self.refunds.values();
                let of_payment = refunds.filter(|refund| self.root(&refund.of) == *payment);
                of_payment.map(|refund| refund.at).min()
            }
        }
    }

    /// Gives each item of the subscriptions a place: an item keeps its place; else it takes its product's; else one that nothing
    /// holds; else a new one.
    pub fn assign_places(&mut self) {
        let view = SaleView::of(self);
        let mut roots: BTreeSet<I> = self.subscriptions.keys().map(|id| self.chain(id)).collect();
        let paid = self
            .payments
            .values()
            .filter_map(|payment| payment.subscription.as_ref());
        roots.extend(paid.map(|id| self.chain(id)));
        let sold = roots.into_iter().map(|root| {
            let before = self.places.get(&root).cloned().unwrap_or_default();
            let places = view.assigned(&root, before);
            (root, places)
        });
        let sold: Vec<_> = sold.collect();
        self.places.extend(sold);
    }
}

impl<'f, I: Ord + Clone> PaymentGroup<'f, I> {
    /// `None` if it was never paid.
    fn new(name: I, words: Vec<&'f Payment<I>>, refunds: &[&Refund<I>], disputes: &[&Dispute<I>]) -> Option<Self> {
        let paid = words.iter().filter_map(|word| word.paid).min()?;
        let amount = words.iter().map(|word| word.amount.unwrap_or(1)).max().unwrap_or(1);
        let approved = refunds.iter().filter(|refund| refund.is_approved);
        let back = approved.fold(0_u64, |sum, refund| sum.saturating_add(refund.amount));
        let is_whole = amount > 0 && back >= amount;
        let newest = disputes.iter().copied();
        let newest = newest.reduce(|newest, word| if word.replaces(newest) { word } else { newest });
        let is_disputed = newest.is_some_and(|dispute| dispute.status != DisputeStatus::Won);
        let is_valid = words.iter().all(|word| word.is_valid);
        let fall = match (is_whole, is_disputed, is_valid) {
            (true, _, _) => Some(SuspensionCause::Refunded),
            (_, true, _) => Some(SuspensionCause::Disputed),
            (_, _, false) => Some(SuspensionCause::NotPaid),
            (false, false, true) => None,
        };
        Some(Self {
            name,
            words,
            paid,
            stands: fall.is_none(),
            fall,
            is_refunded_in_part: back > 0 && back < amount,
        })
    }
}

impl<'f, I: Ord + Clone> SaleView<'f, I> {
    fn of(facts: &'f SaleFacts<I>) -> Self {
        let mut words: BTreeMap<I, Vec<&Payment<I>>> = BTreeMap::new();
        for payment in facts.payments.values() {
            words.entry(facts.root(&payment.id)).or_default().push(payment);
        }
        let mut refunds: BTreeMap<I, Vec<&Refund<I>>> = BTreeMap::new();
        for refund in facts.refunds.values() {
            refunds.entry(facts.root(&refund.of)).or_default().push(refund);
        }
        let mut disputes: BTreeMap<I, Vec<&Dispute<I>>> = BTreeMap::new();
        for dispute in facts.disputes.values() {
            disputes.entry(facts.root(&dispute.of)).or_default().push(dispute);
        }
        let groups = words.into_iter().filter_map(|(name, words)| {
            let refunds = refunds.remove(&name).unwrap_or_default();
            let disputes = disputes.remove(&name).unwrap_or_default();
            PaymentGroup::new(name, words, &refunds, &disputes)
        });
        Self {
            groups: groups.collect(),
            facts,
        }
    }

    /// The items that this first subscription and its successors have now. If only payments are known, those of the newest payment.
    fn sold_now(&self, root: &I) -> Vec<SoldItem<I>> {
        if let Some(subscription) = self.facts.newest_subscription(root) {
            return subscription.items.clone();
        }
        let is_of_root = |group: &&PaymentGroup<'f, I>| {
            let mut subscriptions = group.words.iter().filter_map(|word| word.subscription.as_ref());
            subscriptions.any(|id| self.facts.chain(id) == *root)
        };
        let is_sold = |line: &&PaidLine<I>| line.is_recurring && line.amount.unwrap_or(1) >= 0;
        let paid = self.groups.iter().filter(is_of_root).filter_map(|group| {
            let lines: Vec<_> = group
                .words
                .iter()
                .flat_map(|word| &word.lines)
                .filter(is_sold)
                .collect();
            (!lines.is_empty()).then_some((group.paid, &group.name, lines))
        });
        let newest = paid.max_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
        let mut lines = newest.map(|(_, _, lines)| lines).unwrap_or_default();
        lines.sort_by_key(|line| (line.from, line.to));
        // An invoice may have a prorated and a whole line of one item: it is sold once.
        let mut items: Vec<SoldItem<I>> = Vec::new();
        for line in lines {
            let item = SoldItem {
                item: line.item.clone(),
                offer: line.offer.clone(),
                price: line.price.clone(),
                product: line.product.clone(),
                quantity: line.quantity,
            };
            match items.iter_mut().find(|known| known.item == item.item) {
                Some(known) => *known = item,
                None => items.push(item),
            }
        }
        items
    }

    /// The places of the subscriptions after this first one, which were these.
    fn assigned(&self, root: &I, mut places: Vec<SalePlace<I>>) -> Vec<SalePlace<I>> {
        let now = self.sold_now(root);
        let held: BTreeSet<I> = now.iter().map(|item| item.item.clone()).collect();
        let mut left = Vec::new();
        for item in now {
            match places.iter_mut().find(|place| place.item.item == item.item) {
                Some(place) => place.item = item,
                None => left.push(item),
            }
        }
        for is_of_product in [true, false] {
            left.retain(|item| {
                let is_for = |place: &&mut SalePlace<I>| {
                    !held.contains(&place.item.item) && (!is_of_product || place.item.product == item.product)
                };
                let found = places.iter_mut().find(is_for);
                found.map(|place| place.item = item.clone()).is_none()
            });
        }
        for item in left {
            let taken: Vec<_> = places.iter().filter_map(|place| place.name.clone()).collect();
            let name = self.line_of_order(root, &item, &taken);
            places.push(SalePlace { item, name });
        }
        places
    }

    /// The line of the order that these subscriptions came from which sold this item before they were known. Its license may be
    /// issued already, so the item keeps its place.
    fn line_of_order(&self, root: &I, item: &SoldItem<I>, taken: &[PlaceName<I>]) -> Option<PlaceName<I>> {
        let words = self
            .facts
            .subscriptions
            .values()
            .filter(|word| self.facts.chain(&word.id) == *root);
        // A subscription takes only what it claims of its order.
        let claiming = words.filter(|word| {
            let claimed = self.facts.claims.get(&word.id);
            claimed.is_some_and(|products| products.contains(&item.product))
        });
        let orders = claiming.filter_map(|word| self.facts.payments.get(word.parent.as_ref()?));
        let names = orders.flat_map(|order| {
            let mut numbers: BTreeMap<&ShopId, u16> = BTreeMap::new();
            let once = order.lines.iter().filter(|line| !line.is_recurring);
            let names = once.map(move |line| {
                let number = numbers.entry(&line.price).or_default();
                let name = PlaceName::Line {
                    number: *number,
                    payment: order.id.clone(),
                    price: line.price.clone(),
                };
                *number += 1;
                (name, line)
            });
            names
                .filter(|(_, line)| line.product == item.product)
                .map(|(name, _)| self.lasting(name))
        });
        let mut names = names.filter(|name| !taken.contains(name));
        names.next()
    }

    /// The payments of these subscriptions.
    fn payments_of(&self, subscriptions: &BTreeSet<&I>) -> Vec<&PaymentGroup<'f, I>> {
        let parents = subscriptions.iter().filter_map(|id| self.facts.subscriptions.get(*id));
        let parents: BTreeSet<&I> = parents.filter_map(|word| word.parent.as_ref()).collect();
        let is_of = |word: &&'f Payment<I>| {
            let names = word.subscription.iter().chain(&word.renews);
            names.into_iter().any(|id| subscriptions.contains(id)) || parents.contains(&word.id)
        };
        let groups = self.groups.iter();
        groups.filter(|group| group.words.iter().any(is_of)).collect()
    }

    /// This first subscription, and those that go on from it.
    fn chained<'s>(&'s self, root: &'s I) -> BTreeSet<&'s I> {
        let ids = self.facts.subscriptions.keys();
        let members = ids.filter(|id| self.facts.chain(id) == *root);
        members.chain([root]).collect()
    }

    /// The end of one item of the subscriptions after this first one, which these payments paid; `None` before any payment is known.
    fn end_of(
        &self,
        root: &I,
        item: &I,
        subscriptions: &BTreeSet<&I>,
        groups: &[&PaymentGroup<'f, I>],
    ) -> Option<LineEnd> {
        let ends = subscriptions.iter().filter_map(|id| self.facts.ends.get(*id)).flatten();
        let mut ends: Vec<_> = ends.copied().collect();
        ends.sort_unstable();
        if let Some((_, newest)) = ends.last() {
            return Some(named_end(groups, &ends, *newest));
        }
        self.paid_end(root, item, subscriptions, groups)
    }

    /// The end by the periods that were paid.
    fn paid_end(
        &self,
        root: &I,
        item: &I,
        subscriptions: &BTreeSet<&'_ I>,
        groups: &[&PaymentGroup<'f, I>],
    ) -> Option<LineEnd> {
        let mut stretches: Vec<Stretch<'_, I>> = Vec::new();
        for group in groups {
            for line in group.words.iter().flat_map(|word| &word.lines) {
                let amount = line.amount.unwrap_or(1);
                if !line.is_recurring || amount < 0 {
                    continue;
                }
                if let (Some(from), Some(to)) = (line.from, line.to) {
                    stretches.push(Stretch {
                        from,
                        to,
                        item: Some(&line.item),
                        stands: group.stands,
                        is_free: amount == 0,
                        name: Some(&group.name),
                    });
                }
            }
        }
        let free = subscriptions.iter().filter_map(|id| self.facts.free.get(*id)).flatten();
        stretches.extend(free.map(|(from, to)| Stretch {
            from: *from,
            to: *to,
            item: None,
            stands: true,
            is_free: true,
            name: None,
        }));
        if stretches.iter().any(|stretch| stretch.item == Some(item)) {
            stretches.retain(|stretch| stretch.item.is_none_or(|of| of == item));
        }
        let last = |stretch: &Stretch<'_, I>| (stretch.from, stretch.to);
        let standing = stretches.iter().filter(|stretch| stretch.stands);
        let newest = standing.max_by(|one, other| (last(one), one.name).cmp(&(last(other), other.name)));
        let Some(newest) = newest else {
            let latest = stretches.iter().map(|stretch| stretch.to).max()?;
            return Some(LineEnd {
                end: latest.date_naive(),
                stands: false,
            });
        };
        let fallen = stretches
            .iter()
            .filter(|stretch| !stretch.stands && stretch.from > newest.from);
        let mut end = fallen.map(|stretch| stretch.to).fold(newest.to, DateTime::min);
        // What cost nothing ends with its subscription.
        let ended = self.facts.newest_subscription(root).and_then(|word| word.ended);
        if let Some(ended) = ended.filter(|_| newest.is_free) {
            end = end.min(ended);
        }
        Some(LineEnd {
            end: end.date_naive(),
            stands: true,
        })
    }

    /// The license that the subscriptions after this first one were bought for. What a subscription says goes before its
    /// session, and that before its payments.
    fn bought_for(&self, root: &I, subscriptions: &BTreeSet<&I>) -> Option<BoughtFor<I>> {
        let of_root = |id: &I| self.facts.chain(id) == *root;
        let sessions = self.facts.sessions.values().filter(|word| of_root(&word.subscription));
        let payments = self.facts.payments.values().filter(|word| {
            let mut names = word.subscription.iter().chain(&word.renews);
            names.any(of_root)
        });
        let first = |ids: &mut dyn Iterator<Item = &I>| ids.filter_map(|id| self.facts.bought.get(id)).min().cloned();
        let named = first(&mut subscriptions.iter().copied())
            .or_else(|| first(&mut sessions.map(|word| &word.id)))
            .or_else(|| first(&mut payments.map(|word| &word.id)))?;
        Some(BoughtFor {
            place: self.lasting(named.place),
            ..named
        })
    }

    /// The name of the place that its payment's first name gives.
    fn lasting(&self, place: PlaceName<I>) -> PlaceName<I> {
        match place {
            PlaceName::Line { number, payment, price } => {
                let root = self.facts.root(&payment);
                let first = self.facts.order.iter().find(|id| self.facts.root(id) == root);
                PlaceName::Line {
                    number,
                    payment: first.cloned().unwrap_or(payment),
                    price,
                }
            }
            place @ (PlaceName::Item { .. } | PlaceName::License { .. }) => place,
        }
    }

    fn grants(&self) -> SaleGrants<I> {
        let mut granted = Granted::default();
        for license in self.facts.bases.keys().cloned() {
            granted.places.insert((PlaceName::License { license }, 0), Vec::new());
        }
        self.grant_subscriptions(&mut granted);
        self.grant_lines(&mut granted);
        let parts = self.groups.iter().filter(|group| group.is_refunded_in_part);
        granted
            .remainder
            .extend(parts.map(|group| Remainder::PartialRefund(group.name.clone())));
        let licenses = granted.places.into_iter().map(|((place, copy), lines)| {
            let base = match &place {
                PlaceName::License { license } => self.facts.bases.get(license),
                _ => None,
            };
            let (grant, offer) = of_lines(&lines, base.map(|base| &base.grant));
            SoldLicense {
                copy,
                is_sold: base.is_some() || lines.iter().any(|line| line.is_sold),
                grant,
                offer: offer.cloned(),
                place,
            }
        });
        SaleGrants {
            licenses: licenses.collect(),
            remainder: granted.remainder,
        }
    }

    fn grant_subscriptions(&self, granted: &mut Granted<'f, I>) {
        for (root, places) in &self.facts.places {
            let subscription = self.facts.newest_subscription(root);
            let now = self.sold_now(root);
            let subscriptions = self.chained(root);
            let bought_for = self.bought_for(root, &subscriptions);
            let groups = self.payments_of(&subscriptions);
            let is_paid_up = are_paid_up(&groups);
            let standing = groups.iter().filter(|group| group.stands);
            let newest = standing.map(|group| group.paid).max();
            let since = groups.iter().map(|group| group.paid).min();
            // Paused, it adds nothing to a license that something else was bought for.
            let is_paused =
                subscription.is_some_and(|word| word.status == SubscriptionStatus::Paused && word.free.is_none());
            for (number, place) in (0_u16..).zip(places) {
                let end = self.end_of(root, &place.item.item, &subscriptions, &groups);
                let Some(LineEnd { end, stands }) = end else {
                    continue;
                };
                let name = place_name(root, number, place);
                let item = now.iter().find(|item| item.item == place.item.item);
                let is_sold = item.is_some();
                let item = item.unwrap_or(&place.item);
                // What is not sold any more lacks no offer.
                let terms = match is_sold {
                    true => granted.terms(self.facts, root, &item.price),
                    false => self.facts.terms_of(root, &item.price).filter(|terms| !terms.is_nothing),
                };
                let line = |terms| GrantLine {
                    terms,
                    sites: terms.sites_of(item.quantity),
                    end: Some(end),
                    lasts: None,
                    stands: stands && is_sold && !is_paused,
                    is_sold,
                    subscription,
                    is_paid_up,
                    paid: newest.filter(|_| is_sold),
                    since,
                };
                granted.add(name, bought_for.as_ref(), &item.price, item.quantity, terms.map(line));
            }
        }
    }

    /// What is paid once: lines of orders that no subscription claims. All names of a payment say the same lines.
    fn grant_lines(&self, granted: &mut Granted<'f, I>) {
        let mut claimed: BTreeMap<&I, BTreeSet<&ShopId>> = BTreeMap::new();
        for subscription in self.facts.subscriptions.values() {
            if let (Some(parent), Some(claims)) = (&subscription.parent, self.facts.claims.get(&subscription.id)) {
                claimed.entry(parent).or_default().extend(claims);
            }
        }
        for group in &self.groups {
            let mut lines: BTreeMap<(&ShopId, u16), u32> = BTreeMap::new();
            let named = group.words.iter().filter_map(|word| self.facts.bought.get(&word.id));
            let bought_for = named.min().map(|bought| BoughtFor {
                place: self.lasting(bought.place.clone()),
                ..bought.clone()
            });
            // A session names the offer alone; its invoice may say what was sold.
            let is_named = |word: &&&Payment<I>| word.lines.iter().all(|line| line.price.is_offer());
            let says_more = !group.words.iter().all(|word| is_named(&word));
            let words = group.words.iter().filter(|word| !says_more || !is_named(word));
            for word in words.filter(|word| word.renews.is_empty()) {
                let mut numbers: BTreeMap<&ShopId, u16> = BTreeMap::new();
                let is_claimed = |line: &&PaidLine<I>| {
                    claimed
                        .get(&word.id)
                        .is_some_and(|products| products.contains(&line.product))
                };
                for line in word.lines.iter().filter(|line| !line.is_recurring) {
                    let next = numbers.entry(&line.price).or_default();
                    let number = *next;
                    *next += 1;
                    if is_claimed(&line) {
                        continue;
                    }
                    let quantity = lines.entry((&line.price, number)).or_default();
                    *quantity = line.quantity.max(*quantity);
                }
            }
            for ((price, number), quantity) in lines {
                let terms = granted.terms(self.facts, &group.name, price);
                // Its subscription grants it.
                if terms.is_some_and(|terms| terms.lasts == LicenseTerm::Subscription) {
                    continue;
                }
                let place = self.lasting(PlaceName::Line {
                    number,
                    payment: group.name.clone(),
                    price: price.clone(),
                });
                let line = |terms: &'f Terms| GrantLine {
                    terms,
                    sites: terms.sites_of(quantity),
                    end: None,
                    lasts: Some(terms.lasts),
                    stands: group.stands,
                    is_sold: true,
                    subscription: None,
                    is_paid_up: true,
                    paid: Some(group.paid),
                    since: Some(group.paid),
                };
                granted.add(place, bought_for.as_ref(), price, quantity, terms.map(line));
            }
        }
    }
}

/// The end that a subscription names itself: the newest one; after a payment fell, the newest that it named before.
fn named_end<I>(
    groups: &[&PaymentGroup<'_, I>],
    ends: &[(DateTime<Utc>, DateTime<Utc>)],
    newest: DateTime<Utc>,
) -> LineEnd {
    let standing = groups.iter().filter(|group| group.stands).map(|group| group.paid).max();
    let fallen = groups
        .iter()
        .filter(|group| !group.stands && Some(group.paid) > standing);
    let first_fallen = fallen.map(|group| group.paid).min();
    match (standing, first_fallen) {
        (Some(_), Some(fallen)) => {
            let before = ends.iter().rev().find(|(named, _)| *named < fallen);
            LineEnd {
                end: before.map_or(fallen, |(_, end)| *end).date_naive(),
                stands: true,
            }
        }
        _ => LineEnd {
            end: newest.date_naive(),
            stands: groups.is_empty() || standing.is_some(),
        },
    }
}

/// Lines by place and copy.
struct Granted<'f, I> {
    places: BTreeMap<(PlaceName<I>, u32), Vec<GrantLine<'f, I>>>,
    remainder: BTreeSet<Remainder<I>>,
}

impl<I> Default for Granted<'_, I> {
    fn default() -> Self {
        Self {
            places: BTreeMap::new(),
            remainder: BTreeSet::new(),
        }
    }
}

impl<'f, I: Ord + Clone> Granted<'f, I> {
    /// What this price grants. If no offer is for it, the sale's other lines are granted all the same.
    fn terms(&mut self, facts: &'f SaleFacts<I>, sale: &I, price: &ShopId) -> Option<&'f Terms> {
        let terms = facts.terms_of(sale, price);
        if terms.is_none() {
            self.remainder.insert(Remainder::NoOffer(price.clone()));
        }
        terms.filter(|terms| !terms.is_nothing)
    }

    /// Grants a line to its own place, or the first of its copies to the license that it was bought for.
    fn add(
        &mut self,
        own: PlaceName<I>,
        bought_for: Option<&BoughtFor<I>>,
        price: &ShopId,
        quantity: u32,
        line: Option<GrantLine<'f, I>>,
    ) {
        let Some(line) = line else {
            return;
        };
        let is_common = |bought: &&BoughtFor<I>| line.terms.modules.keys().any(|name| bought.modules.contains(name));
        let bought_for = bought_for.filter(is_common);
        let count = line.terms.licenses_of(quantity);
        if count > MOST_LICENSES {
            self.remainder.insert(Remainder::TooMany(price.clone()));
            return;
        }
        for copy in 0..count {
            let place = match bought_for.filter(|_| copy == 0) {
                Some(bought) => (bought.place.clone(), bought.copy),
                None => (own.clone(), copy),
            };
            let lines = self.places.entry(place).or_default();
            lines.push(GrantLine { ..line });
        }
    }
}

/// The end of these lines. What is paid once adds its time to what the same offer granted before; the latest end counts.
fn end_of_lines<I>(lines: &[&GrantLine<'_, I>], base: Option<&SoldGrant>) -> Option<NaiveDate> {
    let mut lines = lines.to_vec();
    lines.sort_by_key(|line| (line.since, line.lasts.is_some()));
    let mut ends: BTreeMap<&Slug, NaiveDate> = BTreeMap::new();
    for line in lines {
        // A license that no shop sold names no offer.
        let is_same = |base: &&SoldGrant| base.modules == line.terms.modules && base.sites == line.sites;
        let before = base.filter(is_same).map(|base| base.expires);
        let before = before.max(ends.get(&line.terms.offer).copied());
        let end = match (line.lasts, line.paid) {
            (Some(lasts), Some(paid)) => Some(lasts.last_day(paid.date_naive().max(before.unwrap_or(NaiveDate::MIN)))),
            _ => line.end.max(before),
        };
        ends.extend(end.map(|end| (&line.terms.offer, end)));
    }
    ends.into_values().max().max(base.map(|base| base.expires))
}

/// One license of all lines of its place: those that stand, or else all; and of what it granted before something was bought for it.
/// Gives the offer of the line that decides, too.
fn of_lines<'f, I>(lines: &[GrantLine<'f, I>], base: Option<&SoldGrant>) -> (SoldGrant, Option<&'f Slug>) {
    let stands = lines.iter().any(|line| line.stands);
    let counted: Vec<_> = lines
        .iter()
        .filter(|line| line.stands || !(stands || base.is_some()))
        .collect();
    // Without a base, there are lines, and each has an end or a term.
    let expires = end_of_lines(&counted, base).unwrap_or_default();
    let rank = |line: &GrantLine<'_, I>| (line.paid, line.sites);
    let newest = counted
        .iter()
        .copied()
        .reduce(|newest, line| if rank(line) > rank(newest) { line } else { newest });
    let Some(newest) = newest else {
        let nothing = SoldGrant {
            status: LicenseStatus::Suspended,
            expires,
            renewal_days: None,
            modules: Arc::default(),
            sites: SiteLimit::DEFAULT,
            staging_sites: None,
            site_moves: None,
        };
        return (base.cloned().unwrap_or(nothing), None);
    };
    let is_active = stands || base.is_some();
    let is_paid_up = is_active && newest.is_paid_up;
    let renewing = newest.subscription;
    let renewing = renewing.filter(|word| is_paid_up && word.renews && word.status.goes_on());
    let grant = SoldGrant {
        status: match is_active {
            true => LicenseStatus::Active,
            false => LicenseStatus::Suspended,
        },
        expires,
        renewal_days: renewing.map(|word| newest.terms.grace_days.max(word.due_days.unwrap_or(0))),
        modules: Arc::clone(&newest.terms.modules),
        sites: newest.sites,
        staging_sites: newest.terms.staging_sites,
        site_moves: newest.terms.site_moves,
    };
    (grant, Some(&newest.terms.offer))
}
