//! A fact of a shop: what it said about one of its objects, in the same words for every shop.
//!
//! `I` is an id of the shop: the text itself where a delivery is read, an HMAC of it in the ledger. Prices and products are the
//! vendor's own and stay readable.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::license_key::LicenseId;
use crate::name::Name;
use crate::offer::ShopId;
use crate::sale::terms::SoldGrant;

/// What a shop said about one object. Newer words about the object replace older ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fact<I> {
    /// Money was asked for: an order, an invoice, a transaction, or a checkout session that is paid once.
    Payment(Payment<I>),
    /// Money went back, or a whole credit took its place.
    Refund(Refund<I>),
    /// A bank disputes a payment.
    Dispute(Dispute<I>),
    /// A subscription.
    Subscription(Subscription<I>),
    /// A checkout session of a subscription.
    Session(CheckoutSession<I>),
    /// Names of one payment.
    Names(Names<I>),
    /// The shop made a license key.
    Key(ShopKey<I>),
    /// What older words about a subscription said, where only their sum is kept.
    Past(Past<I>),
    /// What a license granted before something was bought for it.
    Base(LicenseBase<I>),
    /// A person said which license a subscription renews.
    Attached(Attachment<I>),
}

/// A payment. Facts of one moment: see [`Word`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payment<I> {
    /// What was to be paid, in the currency's smallest unit; `None` if the shop does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
    /// When the shop said it.
    pub at: DateTime<Utc>,
    /// Its id.
    pub id: I,
    /// Whether the shop still counts it as paid: an order that was taken back after it was paid is not.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub is_valid: bool,
    /// What was sold.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<PaidLine<I>>,
    /// Other ids of the same payment.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<I>,
    /// When it was paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid: Option<DateTime<Utc>>,
    /// The license that it was bought for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<BoughtFor<I>>,
    /// Subscriptions that this order renews.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub renews: Vec<I>,
    /// The subscription that it pays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<I>,
}

/// One line of a payment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaidLine<I> {
    /// The price of the line, in the currency's smallest unit. A negative one gives money of an earlier period back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// The start of the period that it pays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<DateTime<Utc>>,
    /// The item of a subscription, or what takes its place: product and number.
    pub item: I,
    /// Whether a subscription has it. Otherwise it is paid once.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_recurring: bool,
    /// The name of an offer that the vendor put into the sale's metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer: Option<ShopId>,
    /// What was sold: the price, else the product, else `offer:` and the name of an offer.
    pub price: ShopId,
    /// The product; the price where a shop has none.
    pub product: ShopId,
    /// How many; at least 1.
    pub quantity: u32,
    /// The end of the period that it pays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<DateTime<Utc>>,
}

/// Money that went back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refund<I> {
    /// How much, in the currency's smallest unit.
    pub amount: u64,
    /// When the shop said it.
    pub at: DateTime<Utc>,
    /// Its id.
    pub id: I,
    /// Whether the money is on its way: neither waiting for an approval nor refused, failed or void.
    pub is_approved: bool,
    /// Other ids of the payment.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<I>,
    /// The payment.
    pub of: I,
}

/// A dispute about a payment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispute<I> {
    /// When the shop said it.
    pub at: DateTime<Utc>,
    /// Its id.
    pub id: I,
    /// Other ids of the payment.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<I>,
    /// The payment.
    pub of: I,
    /// How it goes.
    pub status: DisputeStatus,
}

/// How a dispute goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeStatus {
    /// The bank decides.
    Open,
    /// The money went back.
    Lost,
    /// The vendor keeps the money.
    Won,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription<I> {
    /// When the shop said it.
    pub at: DateTime<Utc>,
    /// Days from an invoice to the day it is due, for a customer who pays invoices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_days: Option<u16>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<DateTime<Utc>>,
    /// The end that it names, where a shop names no periods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<DateTime<Utc>>,
    /// A period that the shop gives away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<(DateTime<Utc>, DateTime<Utc>)>,
    /// Its id.
    pub id: I,
    /// What it has now.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<SoldItem<I>>,
    /// The order that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<I>,
    /// The license that it was bought for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<BoughtFor<I>>,
    /// Products that it had.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ShopId>,
    /// Whether a renewal is to come.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub renews: bool,
    /// The subscription that this one goes on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resubscribes: Option<I>,
    /// Its status.
    pub status: SubscriptionStatus,
}

/// One item of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoldItem<I> {
    /// The shop's id of the item, or what takes its place: product and number.
    pub item: I,
    /// The name of an offer that the vendor put into the sale's metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer: Option<ShopId>,
    /// What was sold, as in [`PaidLine::price`].
    pub price: ShopId,
    /// The product; the price where a shop has none.
    pub product: ShopId,
    /// How many; at least 1.
    pub quantity: u32,
}

/// A place of a subscription: a license for each copy of what holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SalePlace<I> {
    /// What holds it, or held it last.
    pub item: SoldItem<I>,
    /// The line of an order that had it before the subscription was known; `None` if it never was another one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<PlaceName<I>>,
}

/// The status of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionStatus {
    /// Paid.
    Active,
    /// Not to be paid yet.
    Trialing,
    /// A payment failed and is tried again.
    PastDue,
    /// `WooCommerce`'s state between the day a renewal is due and its payment.
    OnHold,
    /// It goes on until its paid period ends.
    PendingCancel,
    /// Nothing is asked for, and nothing is given.
    Paused,
    /// The shop stopped trying.
    Unpaid,
    /// Over.
    Canceled,
    /// Over, because its end came.
    Expired,
    /// Not paid for the first time.
    Incomplete,
}

impl SubscriptionStatus {
    /// Whether the shop may still be paid for the next period.
    pub fn goes_on(self) -> bool {
        matches!(self, Self::Active | Self::Trialing | Self::PastDue | Self::OnHold)
    }

    /// Whether an end that it names is an end of its license: while a payment is tried again, it is the next attempt.
    pub fn names_its_end(self) -> bool {
        matches!(self, Self::Active | Self::Trialing | Self::PendingCancel)
    }
}

/// A checkout session of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckoutSession<I> {
    /// When the shop said it.
    pub at: DateTime<Utc>,
    /// Its id.
    pub id: I,
    /// The license that it was bought for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<BoughtFor<I>>,
    /// The subscription.
    pub subscription: I,
}

/// Ids that a shop has for one payment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names<I> {
    /// The ids; at least two.
    pub ids: Vec<I>,
}

/// A license key that the shop made and mails.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopKey<I> {
    /// The license of the key.
    pub license: LicenseId,
    /// The order that it is for.
    pub of: I,
}

/// What older words about a subscription said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Past<I> {
    /// Products that it had.
    pub claims: BTreeSet<ShopId>,
    /// Ends that it named, each with the time when it did.
    pub ends: TimePairs,
    /// Periods that the shop gave away.
    pub free: TimePairs,
    /// The subscription.
    pub id: I,
}

/// A subscription that renews a license because a person said so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment<I> {
    /// The subscription.
    pub id: I,
    /// The license.
    pub place: BoughtFor<I>,
}

/// What a license that no shop had sold granted before something was bought for it. The first word counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LicenseBase<I> {
    /// What it granted.
    pub grant: SoldGrant,
    /// As in [`PlaceName::License`].
    pub license: I,
    /// The shop and mode that sold something for it first.
    pub shop: I,
}

/// The license that something was bought for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoughtFor<I> {
    /// The number of the copy in its place.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copy: u32,
    /// What the license covered then. A line that has none of it is not for this license.
    pub modules: BTreeSet<Name>,
    /// Its place.
    pub place: PlaceName<I>,
}

/// Pairs of times.
pub type TimePairs = BTreeSet<(DateTime<Utc>, DateTime<Utc>)>;

/// What an offer is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SoldAs<'a> {
    /// As in [`PaidLine::offer`].
    pub offer: Option<&'a ShopId>,
    /// As in [`PaidLine::price`].
    pub price: &'a ShopId,
    /// As in [`PaidLine::product`].
    pub product: &'a ShopId,
}

/// The lasting name of a place: a license for each copy that it sells. It never changes, whatever takes the place later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlaceName<I> {
    /// Of an item of a subscription.
    Item {
        /// Its number among those of the subscription.
        number: u16,
        /// The first subscription.
        subscription: I,
    },
    /// Of a line that is paid once.
    Line {
        /// Its number among lines of one price.
        number: u16,
        /// The payment.
        payment: I,
        /// What was sold.
        price: ShopId,
    },
    /// Of a license that no shop sold.
    License {
        /// The first half of its id.
        license: I,
    },
}

impl<I> Fact<I> {
    /// Replaces every id.
    pub fn map<J>(self, to: &mut impl FnMut(I) -> J) -> Fact<J> {
        match self {
            Self::Payment(payment) => Fact::Payment(Payment {
                amount: payment.amount,
                at: payment.at,
                id: to(payment.id),
                is_valid: payment.is_valid,
                lines: payment.lines.into_iter().map(|line| line.map(to)).collect(),
                names: all(payment.names, to),
                paid: payment.paid,
                place: payment.place.map(|place| place.map(to)),
                renews: all(payment.renews, to),
                subscription: payment.subscription.map(&mut *to),
            }),
            Self::Refund(refund) => Fact::Refund(Refund {
                amount: refund.amount,
                at: refund.at,
                id: to(refund.id),
                is_approved: refund.is_approved,
                names: all(refund.names, to),
                of: to(refund.of),
            }),
            Self::Dispute(dispute) => Fact::Dispute(Dispute {
                at: dispute.at,
                id: to(dispute.id),
                names: all(dispute.names, to),
                of: to(dispute.of),
                status: dispute.status,
            }),
            Self::Subscription(subscription) => Fact::Subscription(Subscription {
                at: subscription.at,
                due_days: subscription.due_days,
                ended: subscription.ended,
                ends: subscription.ends,
                free: subscription.free,
                id: to(subscription.id),
                items: subscription.items.into_iter().map(|item| item.map(to)).collect(),
                parent: subscription.parent.map(&mut *to),
                place: subscription.place.map(|place| place.map(to)),
                removed: subscription.removed,
                renews: subscription.renews,
                resubscribes: subscription.resubscribes.map(&mut *to),
                status: subscription.status,
            }),
            Self::Session(session) => Fact::Session(CheckoutSession {
                at: session.at,
                id: to(session.id),
                place: session.place.map(|place| place.map(to)),
                subscription: to(session.subscription),
            }),
            Self::Names(names) => Fact::Names(Names {
                ids: all(names.ids, to),
            }),
            Self::Key(key) => Fact::Key(ShopKey {
                license: key.license,
                of: to(key.of),
            }),
            Self::Past(past) => Fact::Past(Past {
                claims: past.claims,
                ends: past.ends,
                free: past.free,
                id: to(past.id),
            }),
            Self::Base(base) => Fact::Base(LicenseBase {
                grant: base.grant,
                license: to(base.license),
                shop: to(base.shop),
            }),
            Self::Attached(attached) => Fact::Attached(Attachment {
                id: to(attached.id),
                place: attached.place.map(to),
            }),
        }
    }

    /// The license that it was bought for.
    pub fn bought_for(&self) -> Option<&BoughtFor<I>> {
        match self {
            Self::Payment(payment) => payment.place.as_ref(),
            Self::Subscription(subscription) => subscription.place.as_ref(),
            Self::Session(session) => session.place.as_ref(),
            Self::Attached(attached) => Some(&attached.place),
            _ => None,
        }
    }

    /// What can be bought for a license: the object's id, and the place of the license.
    pub fn purchase(&mut self) -> Option<(&I, &mut Option<BoughtFor<I>>)> {
        match self {
            Self::Payment(payment) => Some((&payment.id, &mut payment.place)),
            Self::Subscription(subscription) => Some((&subscription.id, &mut subscription.place)),
            Self::Session(session) => Some((&session.id, &mut session.place)),
            _ => None,
        }
    }

    /// The ids of objects of the shop that it names, its own first. Facts that share one are of one sale.
    pub fn ids(&self) -> Vec<&I> {
        let mut ids = Vec::new();
        match self {
            Self::Payment(payment) => {
                ids.push(&payment.id);
                ids.extend(payment.names.iter().chain(&payment.renews).chain(&payment.subscription));
                ids.extend(payment.place.as_ref().map(|bought| bought.place.origin()));
            }
            Self::Refund(refund) => {
                ids.extend([&refund.of, &refund.id]);
                ids.extend(&refund.names);
            }
            Self::Dispute(dispute) => {
                ids.extend([&dispute.of, &dispute.id]);
                ids.extend(&dispute.names);
            }
            Self::Subscription(subscription) => {
                ids.push(&subscription.id);
                ids.extend(subscription.parent.iter().chain(&subscription.resubscribes));
                ids.extend(subscription.place.as_ref().map(|bought| bought.place.origin()));
            }
            Self::Session(session) => {
                ids.extend([&session.subscription, &session.id]);
                ids.extend(session.place.as_ref().map(|bought| bought.place.origin()));
            }
            Self::Names(names) => ids.extend(&names.ids),
            Self::Key(key) => ids.push(&key.of),
            Self::Past(past) => ids.push(&past.id),
            Self::Base(base) => ids.push(&base.license),
            Self::Attached(attached) => ids.extend([&attached.id, attached.place.place.origin()]),
        }
        ids
    }

    /// What it says was sold.
    pub fn sold(&self) -> Vec<SoldAs<'_>> {
        match self {
            Self::Payment(payment) => payment.lines.iter().map(PaidLine::thing).collect(),
            Self::Subscription(subscription) => subscription.items.iter().map(SoldItem::thing).collect(),
            _ => Vec::new(),
        }
    }
}

fn all<I, J>(ids: Vec<I>, to: &mut impl FnMut(I) -> J) -> Vec<J> {
    ids.into_iter().map(to).collect()
}

impl<I> PaidLine<I> {
    /// What was sold.
    pub fn thing(&self) -> SoldAs<'_> {
        SoldAs {
            offer: self.offer.as_ref(),
            price: &self.price,
            product: &self.product,
        }
    }

    fn map<J>(self, to: &mut impl FnMut(I) -> J) -> PaidLine<J> {
        PaidLine {
            amount: self.amount,
            from: self.from,
            item: to(self.item),
            is_recurring: self.is_recurring,
            offer: self.offer,
            price: self.price,
            product: self.product,
            quantity: self.quantity,
            to: self.to,
        }
    }
}

impl<I> SoldItem<I> {
    /// What is sold.
    pub fn thing(&self) -> SoldAs<'_> {
        SoldAs {
            offer: self.offer.as_ref(),
            price: &self.price,
            product: &self.product,
        }
    }

    fn map<J>(self, to: &mut impl FnMut(I) -> J) -> SoldItem<J> {
        SoldItem {
            item: to(self.item),
            offer: self.offer,
            price: self.price,
            product: self.product,
            quantity: self.quantity,
        }
    }
}

impl<I> BoughtFor<I> {
    fn map<J>(self, to: &mut impl FnMut(I) -> J) -> BoughtFor<J> {
        BoughtFor {
            copy: self.copy,
            modules: self.modules,
            place: self.place.map(to),
        }
    }
}

impl<I> PlaceName<I> {
    /// Replaces every id.
    pub fn map<J>(self, to: &mut impl FnMut(I) -> J) -> PlaceName<J> {
        match self {
            Self::Item { number, subscription } => PlaceName::Item {
                number,
                subscription: to(subscription),
            },
            Self::Line { number, payment, price } => PlaceName::Line {
                number,
                payment: to(payment),
                price,
            },
            Self::License { license } => PlaceName::License { license: to(license) },
        }
    }

    /// The id of the object whose place it is.
    pub fn origin(&self) -> &I {
        match self {
            Self::Item { subscription, .. } => subscription,
            Self::Line { payment, .. } => payment,
            Self::License { license } => license,
        }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_yes(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_no(value: &bool) -> bool {
    !*value
}

/// What all words about an object have. Of two words the later one counts; of two of one moment the more generous one; then
/// the greater one, so that the order of arrival never counts.
pub trait Word: Ord {
    /// When the shop said it.
    fn at(&self) -> DateTime<Utc>;

    /// How much it grants beside others of the same moment.
    fn generosity(&self) -> u8 {
        0
    }

    /// Whether it replaces another word about the same object.
    fn replaces(&self, other: &Self) -> bool {
        let rank = |word: &Self| (word.at(), word.generosity());
        rank(self).cmp(&rank(other)).then_with(|| self.cmp(other)).is_gt()
    }
}

impl<I: Ord> Word for Payment<I> {
    fn at(&self) -> DateTime<Utc> {
        self.at
    }
}

impl<I: Ord> Word for Refund<I> {
    fn at(&self) -> DateTime<Utc> {
        self.at
    }
}

impl<I: Ord> Word for CheckoutSession<I> {
    fn at(&self) -> DateTime<Utc> {
        self.at
    }
}

impl<I: Ord> Word for Dispute<I> {
    fn at(&self) -> DateTime<Utc> {
        self.at
    }

    fn generosity(&self) -> u8 {
        match self.status {
            DisputeStatus::Won => 3,
            DisputeStatus::Open | DisputeStatus::Lost => 0,
        }
    }
}

impl<I: Ord> Word for Subscription<I> {
    fn at(&self) -> DateTime<Utc> {
        self.at
    }

    fn generosity(&self) -> u8 {
        match self.status {
            SubscriptionStatus::Active | SubscriptionStatus::Trialing => 3,
            SubscriptionStatus::PastDue => 2,
            SubscriptionStatus::OnHold => 1,
            _ => 0,
        }
    }
}
