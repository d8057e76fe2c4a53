//! Saved deliveries and what they would grant, and how `countersign shop check` prints it.

use chrono::NaiveDate;
use serde::Serialize;

use crate::commands::output::Table;
use countersign_model::license::{LicenseStatus, Modules, SiteLimit};
use countersign_model::offer::SalesMode;
use countersign_model::sale::fact::{Fact, PlaceName};
use countersign_model::sale::grants::{Remainder, SaleGrants, SoldLicense};
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_shops::event::{Content, ShopDelivery};
use countersign_shops::shop::Shop;

/// Deliveries of one customer, and what they grant together.
#[derive(Serialize)]
pub(super) struct CheckedSales<'a> {
    shop: &'a Slug,
    kind: &'static Shop,
    deliveries: Vec<CheckedDelivery>,
    licenses: Vec<CheckedLicense>,
    remainder: Vec<CheckedRemainder>,
}

/// One delivery.
#[derive(Serialize)]
pub(super) struct CheckedDelivery {
    pub(super) file: String,
    /// `right`, `not_checked`, or why it is not accepted.
    pub(super) signature: String,
    /// The mode whose offers were looked through.
    pub(super) offers_of: SalesMode,
    /// What names the license that it was bought for, or why that names none. Whose it is, only a server knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) renewal_token: Option<String>,
    #[serde(flatten)]
    pub(super) delivery: ShopDelivery,
}

/// The text of a renewal token in a delivery, or why it is none.
pub(super) fn renewal_token(content: &Content) -> Option<String> {
    let Content::Record(record) = content else { return None };
    let token = record.bought_for.as_ref()?;
    Some(match token {
        Ok(token) => token.reveal(),
        Err(error) => error.to_string(),
    })
}

/// A license that would be issued, or would be as it says.
#[derive(Serialize)]
struct CheckedLicense {
    /// What it is for: a line of a payment or an item of a subscription, and its copy.
    sold: String,
    status: LicenseStatus,
    expires: NaiveDate,
    /// Days of grace, if a renewal is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    renewal_days: Option<u16>,
    sites: SiteLimit,
    modules: Modules,
}

/// What no license follows.
#[derive(Serialize)]
struct CheckedRemainder {
    /// `no_offer`, `too_many` or `partial_refund`.
    kind: &'static str,
    /// The price or the payment.
    of: String,
}

impl<'a> CheckedSales<'a> {
    pub(super) fn new(
        shop: &'a Slug,
        kind: &'static Shop,
        deliveries: Vec<CheckedDelivery>,
        grants: SaleGrants<String>,
    ) -> Self {
        Self {
            shop,
            kind,
            deliveries,
            licenses: grants.licenses.into_iter().map(CheckedLicense::from).collect(),
            remainder: grants.remainder.into_iter().map(CheckedRemainder::from).collect(),
        }
    }
}

impl From<SoldLicense<String>> for CheckedLicense {
    fn from(sold: SoldLicense<String>) -> Self {
        let place = match &sold.place {
            PlaceName::Item { number, subscription } => format!("{subscription} item {}", number + 1),
            PlaceName::Line {
                number: 0,
                payment,
                price,
            } => format!("{payment} {price}"),
            PlaceName::Line { number, payment, price } => format!("{payment} {price} line {}", number + 1),
            PlaceName::License { license } => format!("license {license}"),
        };
        Self {
            sold: match sold.copy {
                0 => place,
                copy => format!("{place} copy {}", copy + 1),
            },
            status: sold.grant.status,
            expires: sold.grant.expires,
            renewal_days: sold.grant.renewal_days,
            sites: sold.grant.sites,
            modules: (*sold.grant.modules).clone(),
        }
    }
}

impl From<Remainder<String>> for CheckedRemainder {
    fn from(remainder: Remainder<String>) -> Self {
        let (kind, of) = match remainder {
            Remainder::NoOffer(price) => ("no_offer", price.to_string()),
            Remainder::TooMany(price) => ("too_many", price.to_string()),
            Remainder::PartialRefund(payment) => ("partial_refund", payment),
        };
        Self { kind, of }
    }
}

/// For people.
pub(super) fn text(checked: &CheckedSales<'_>) -> String {
    let mut deliveries = Table::new(["FILE", "EVENT", "MODE", "SIGNATURE", "SAYS"]);
    for checked in &checked.deliveries {
        let says = match &checked.delivery.content {
            Content::Record(record) => {
                let token = checked.renewal_token.iter();
                let token = token.map(|token| format!("bought for a license: {token}"));
                let said: Vec<_> = record.facts.iter().map(fact_text).chain(token).collect();
                said.join("; ")
            }
            Content::Park { reason, .. } => format!("PARKED: {reason}"),
            Content::Ignore { reason } => format!("nothing: {reason}"),
        };
        deliveries.row([
            &checked.file,
            &Printable(&checked.delivery.event),
            &checked.offers_of.as_str(),
            &checked.signature,
            &Printable(&says),
        ]);
    }
    let mut licenses = Table::new(["LICENSE FOR", "STATUS", "PAID UNTIL", "RENEWS", "SITES", "MODULES"]);
    for license in &checked.licenses {
        let modules: Vec<_> = license.modules.keys().map(ToString::to_string).collect();
        let renews = license.renewal_days.map(|days| format!("yes, {days} days of grace"));
        licenses.row([
            &Printable(&license.sold),
            &license.status.as_str(),
            &license.expires,
            &renews.as_deref().unwrap_or("no"),
            &license.sites,
            &modules.join(" "),
        ]);
    }
    let mut text = deliveries.to_string();
    text.push('\n');
    text.push_str(&match checked.licenses.is_empty() {
        true => "They grant no license.\n".to_owned(),
        false => licenses.to_string(),
    });
    for remainder in &checked.remainder {
        let of = Printable(&remainder.of);
        text.push_str(&match remainder.kind {
            "no_offer" => format!("no offer   {of}: no offer of this shop and mode is for this price or its product\n"),
            "too_many" => format!("too many   {of}: it would grant more than 1,000 licenses\n"),
            _ => format!("refund     {of}: a part of it went back, which changes no license\n"),
        });
    }
    text
}

/// A fact in a few words.
fn fact_text(fact: &Fact<String>) -> String {
    match fact {
        Fact::Payment(payment) => {
            let sold: Vec<_> = payment
                .lines
                .iter()
                .map(|line| format!("{} x {}", line.quantity, line.price))
                .collect();
            let state = match (payment.paid, payment.is_valid) {
                (Some(paid), true) => format!("paid {}", paid.date_naive()),
                (Some(_), false) => "paid, and taken back".to_owned(),
                (None, _) => "not paid".to_owned(),
            };
            format!("payment {} {state}: {}", payment.id, sold.join(", "))
        }
        Fact::Refund(refund) if refund.is_approved => format!("{} of {} went back", refund.amount, refund.of),
        Fact::Refund(refund) => format!("{} of {} may go back, or did not", refund.amount, refund.of),
        Fact::Dispute(dispute) => format!("dispute about {}: {:?}", dispute.of, dispute.status).to_lowercase(),
        Fact::Subscription(subscription) => {
            let items = subscription.items.iter();
            let items: Vec<_> = items
                .map(|item| format!("{} x {}", item.quantity, item.price))
                .collect();
            let status = format!("{:?}", subscription.status).to_lowercase();
            format!("subscription {} {status}: {}", subscription.id, items.join(", "))
        }
        Fact::Session(session) => format!("checkout of {}", session.subscription),
        Fact::Names(names) => format!("one payment: {}", names.ids.join(", ")),
        Fact::Key(key) => format!("key of {}: license {}", key.of, key.license),
        Fact::Past(past) => format!("earlier words about {}", past.id),
        Fact::Base(base) => format!("what license {} granted before", base.license),
        Fact::Attached(attached) => format!("subscription {} renews a license", attached.id),
    }
}
