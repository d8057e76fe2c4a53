//! Stripe's events. The body has the shape of the endpoint's API version: both those before and since 2025-03-31 are read.
//!
//! Stripe names periods, so a subscription names no end. Its ids say of what they are.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use crate::event::{Buyer, Content, DeliveryError, ReportedSale, ShopDelivery};
use crate::json::{
    ItemNames, MAX_LINES, above_zero, address, amount, at, first_id, id, ids, is_true, language, list, name, path_id,
    quantity, renewal_token, required, seconds, shop_id, text, words,
};
use crate::money;
use crate::shop::{ObjectIds, Shop, ShopApi, ShopQuestion, SignatureScheme};
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::renewal_token::{NotARenewalToken, PREFIX, RenewalToken};
use countersign_model::sale::fact::{
    CheckoutSession, Dispute, DisputeStatus, Fact, Names, PaidLine, Payment, Refund, SoldItem, Subscription,
    SubscriptionStatus,
};

/// Where an invoice names its subscription: since 2025-03-31, and before.
const SUBSCRIPTION: [&str; 2] = ["parent.subscription_details.subscription", "subscription"];

/// Where a line of an invoice names the subscription's item: since 2025-03-31, and before.
const ITEM: [&str; 2] = [
    "parent.subscription_item_details.subscription_item",
    "subscription_item",
];

/// Where a line says that it is a part of a period: since 2025-03-31, and before.
const PRORATION: [&str; 3] = [
    "parent.subscription_item_details.proration",
    "parent.invoice_item_details.proration",
    "proration",
];

/// Where metadata have a renewal token: those of a session, a subscription or an invoice, and those of an invoice's subscription
/// since 2025-03-31, and before.
const RENEWS: [&str; 3] = [
    "metadata.countersign",
    "parent.subscription_details.metadata.countersign",
    "subscription_details.metadata.countersign",
];

/// The renewal token of an object. A link of payments can set no metadata, but a session's reference, which vendors also use for
/// ids of their own.
fn bought_for(object: &Value) -> Option<Result<RenewalToken, NotARenewalToken>> {
    let by_reference = || {
        let reference = text(object, "client_reference_id");
        reference.filter(|text| text.starts_with(PREFIX)).map(str::parse)
    };
    // Stripe may have answered with the session that made the invoice's subscription.
    let by_session = || bought_for(list(object, "checkout_sessions.data").first()?);
    renewal_token(object, &RENEWS).or_else(by_reference).or_else(by_session)
}

/// Why a session without the name of an offer is parked.
const NO_LINES: &str = "a session has no lines: write offer = \"NAME\" into the metadata of the payment link, or of the session that \
                        your code makes, where registry/offers/NAME.toml is the offer";

const UNREADABLE_LINES: &str = "its lines cannot be read";

/// stripe.com
pub(crate) const STRIPE: Shop = Shop {
    name: "stripe",
    title: "Stripe",
    signature_header: "Stripe-Signature",
    signature_scheme: SignatureScheme::Timed {
        separator: ',',
        time: "t",
        signature: "v1",
        joint: '.',
        // What Stripe's own libraries accept.
        window: TimeDelta::seconds(300),
    },
    is_ping: None,
    makes_keys: false,
    ids: ObjectIds::Text,
    api: Some(ShopApi {
        live: "https://api.stripe.com/",
        // The API key says which mode it is for.
        test: "https://api.stripe.com/",
        version: Some(("Stripe-Version", "2025-03-31.basil")),
        reads: "Checkout Sessions, Invoices, Charges and Refunds",
        without: "a session has no lines, so it is parked unless its metadata name the offer, and its quantity is 1; an invoice \
                  that names no payment needs the event invoice_payment.paid",
        not_found: &["resource_missing"],
        customer: None,
        questions,
    }),
    read,
};

fn read(event: &Value) -> Result<ShopDelivery, DeliveryError> {
    let kind = required(event, "type")?;
    let event_id = required(event, "id")?;
    let said = seconds(event, "created").ok_or(DeliveryError::Missing("created"))?;
    let object = at(event, "data.object").filter(|object| object.is_object());
    let object = object.ok_or(DeliveryError::Missing("data.object"))?;
    let live = at(event, "livemode").and_then(Value::as_bool);
    Ok(ShopDelivery {
        event: kind.to_owned(),
        id: Some(event_id.to_owned()),
        mode: live.map(|is_live| if is_live { SalesMode::Live } else { SalesMode::Test }),
        content: content(kind, object, said),
    })
}

/// What the object of an event lacks (<https://docs.stripe.com/api/checkout/sessions/line_items>,
/// <https://docs.stripe.com/api/invoice-payment/list>, <https://docs.stripe.com/api/refunds/list>).
fn questions(event: &Value) -> Vec<ShopQuestion> {
    let Some(object) = at(event, "data.object") else {
        return Vec::new();
    };
    let question = |path: String, place| ShopQuestion { path, place };
    let own = path_id(object, "id");
    let mut questions = Vec::new();
    match (text(event, "type"), own) {
        // Where there is an invoice, it has the lines.
        (Some("checkout.session.completed" | "checkout.session.async_payment_succeeded"), Some(own))
            if text(object, "mode") == Some("payment") && id(object, "invoice").is_none() =>
        {
            let path = format!("v1/checkout/sessions/{own}/line_items?limit={MAX_LINES}");
            questions.push(question(path, "data.object.line_items"));
        }
        (Some("invoice.paid"), Some(own)) => {
            if list(object, "lines.data").is_empty() || is_true(object, "lines.has_more") {
                let path = format!("v1/invoices/{own}/lines?limit={MAX_LINES}");
                questions.push(question(path, "data.object.lines"));
            }
            if payment_names(object).is_empty() {
                let path = format!("v1/invoice_payments?invoice={own}&limit={MAX_LINES}");
                questions.push(question(path, "data.object.payments"));
            }
            let subscription = SUBSCRIPTION.iter().find_map(|path| path_id(object, path));
            let is_first = text(object, "billing_reason") == Some("subscription_create");
            if let Some(subscription) = subscription.filter(|_| is_first) {
                let path = format!("v1/checkout/sessions?subscription={subscription}&limit=1");
                questions.push(question(path, SESSIONS));
            }
        }
        (Some("charge.refunded"), Some(charge)) => {
            questions.push(question(refunds_of(&charge), "data.object.refunds"));
        }
        (Some("refund.updated" | "refund.failed" | "charge.refund.updated"), _) => {
            let charge = path_id(object, "charge");
            questions.extend(charge.map(|charge| question(refunds_of(&charge), "data.object.refunds")));
        }
        _ => {}
    }
    questions
}

/// Where the session that made an invoice's subscription is put.
const SESSIONS: &str = "data.object.checkout_sessions";

fn refunds_of(charge: &str) -> String {
    format!("v1/refunds?charge={charge}&limit={MAX_LINES}")
}

fn content(kind: &str, object: &Value, said: DateTime<Utc>) -> Content {
    match kind {
        "checkout.session.completed" | "checkout.session.async_payment_succeeded" => {
            checkout(object, said).bought_for(bought_for(object))
        }
        "invoice.paid" => invoice(object, said).bought_for(bought_for(object)),
        "invoice_payment.paid" => names(ids(object, &["invoice", "payment.payment_intent", "payment.charge"])),
        "customer.subscription.created"
        | "customer.subscription.updated"
        | "customer.subscription.deleted"
        | "customer.subscription.paused"
        | "customer.subscription.resumed" => subscription(object, said).bought_for(bought_for(object)),
        "charge.refunded" => charge(object, said),
        // Before 2024-10-28, the last one alone tells of refunds of charges.
        "refund.updated" | "refund.failed" | "charge.refund.updated" => refund(object, said),
        "credit_note.created" | "credit_note.updated" | "credit_note.voided" => credit_note(object, said),
        "charge.dispute.created" | "charge.dispute.updated" | "charge.dispute.closed" => dispute(object, said),
        _ => Content::ignore("no license depends on this event"),
    }
}

/// Ids of one payment.
fn names(ids: Vec<String>) -> Content {
    if ids.len() < 2 {
        return Content::ignore("it joins no two ids of a payment");
    }
    Content::facts([Fact::Names(Names { ids })])
}

fn checkout(session: &Value, said: DateTime<Utc>) -> Content {
    let Some(own) = id(session, "id") else {
        return Content::park(Vec::new(), "it has no id");
    };
    let buyer = Buyer {
        address: address(session, "customer_details.email").or_else(|| address(session, "customer_email")),
        name: name(session, &["customer_details.name"]),
        customer: id(session, "customer"),
        language: language(session, &["locale"]),
    };
    match text(session, "mode") {
        Some("payment") => {}
        Some("subscription") => {
            let Some(subscription) = id(session, "subscription") else {
                return Content::ignore("it made no subscription");
            };
            let invoice = id(session, "invoice").map(|invoice| {
                Fact::Names(Names {
                    ids: vec![own.clone(), invoice],
                })
            });
            let session = Fact::Session(CheckoutSession {
                at: said,
                id: own,
                place: None,
                subscription: subscription.clone(),
            });
            return Content::Record(ReportedSale {
                facts: [session].into_iter().chain(invoice).collect(),
                order: Some(subscription),
                buyer,
                ..ReportedSale::default()
            });
        }
        _ => return Content::ignore("nothing was sold"),
    }
    match text(session, "payment_status") {
        Some("paid" | "no_payment_required") => {}
        _ => return Content::ignore("it is not paid yet"),
    }
    let names = ids(session, &["payment_intent", "invoice"]);
    let named = || names.iter().cloned().chain([own.clone()]).collect();
    let lines = match (list(session, "line_items.data"), shop_id(session, "metadata.offer")) {
        // Its invoice has the lines.
        ([], None) if id(session, "invoice").is_some() => Vec::new(),
        ([], None) => return Content::park(named(), NO_LINES),
        ([], Some(offer)) => match line_of_offer(offer) {
            Some(line) => vec![line],
            None => return Content::park(named(), NO_LINES),
        },
        (all, offer) => match session_lines(all, is_true(session, "line_items.has_more"), offer.as_ref()) {
            Some(lines) => lines,
            None => return Content::park(named(), UNREADABLE_LINES),
        },
    };
    let order = names.first().cloned().unwrap_or_else(|| own.clone());
    let payment = Payment {
        amount: amount(session, "amount_total").map(above_zero),
        at: said,
        id: own,
        is_valid: true,
        lines,
        names,
        paid: Some(said),
        place: None,
        renews: Vec::new(),
        subscription: None,
    };
    Content::Record(ReportedSale {
        facts: vec![Fact::Payment(payment)],
        order: Some(order),
        amount: shown_amount(session, amount(session, "amount_total")),
        buyer,
        words: words_of(list(session, "line_items.data")),
        ..ReportedSale::default()
    })
}

/// An amount of an object that says its currency.
fn shown_amount(object: &Value, units: Option<i64>) -> Option<String> {
    let currency = text(object, "currency")?.to_ascii_uppercase();
    // Stripe differs from ISO 4217 here (<https://docs.stripe.com/currencies>).
    let digits = match &*currency {
        "ISK" | "UGX" => 2,
        "MGA" => 0,
        currency => money::digits(currency),
    };
    Some(money::shown(units?, digits, &currency))
}

/// What the vendor calls the prices of lines.
fn words_of(lines: &[Value]) -> BTreeMap<ShopId, Box<str>> {
    let named = lines.iter();
    named
        .filter_map(|line| Some((price(line)?, words(line, &["description"])?)))
        .collect()
}

/// The only line of a session whose metadata name the offer.
fn line_of_offer(offer: ShopId) -> Option<PaidLine<String>> {
    let price: ShopId = format!("offer:{offer}").parse().ok()?;
    Some(PaidLine {
        amount: None,
        from: None,
        item: ItemNames::default().next(&price),
        is_recurring: false,
        offer: Some(offer),
        product: price.clone(),
        price,
        quantity: 1,
        to: None,
    })
}

/// `None` if they are not all there, or one cannot be read.
fn session_lines(all: &[Value], has_more: bool, offer: Option<&ShopId>) -> Option<Vec<PaidLine<String>>> {
    if has_more || all.len() > MAX_LINES {
        return None;
    }
    let mut items = ItemNames::default();
    let mut lines = Vec::new();
    for line in all {
        let price = price(line)?;
        let product = product(line).unwrap_or_else(|| price.clone());
        let quantity = quantity(line, "quantity")?;
        if quantity > 0 {
            lines.push(PaidLine {
                amount: amount(line, "amount_total"),
                from: None,
                item: items.next(&product),
                is_recurring: false,
                offer: offer.filter(|_| all.len() == 1).cloned(),
                price,
                product,
                quantity,
                to: None,
            });
        }
    }
    Some(lines)
}

/// What was sold: since 2025-03-31, before, and before there were prices.
fn price(line: &Value) -> Option<ShopId> {
    first_id(line, &["pricing.price_details.price", "price", "plan"])?
        .parse()
        .ok()
}

fn product(line: &Value) -> Option<ShopId> {
    let paths = ["pricing.price_details.product", "price.product", "plan.product"];
    first_id(line, &paths)?.parse().ok()
}

fn invoice(invoice: &Value, said: DateTime<Utc>) -> Content {
    let subscription = first_id(invoice, &SUBSCRIPTION);
    let own = id(invoice, "id");
    let named: Vec<String> = subscription.iter().chain(&own).cloned().collect();
    let park = |reason| Content::park(named.clone(), reason);
    let Some(own) = own else {
        return park("it has no id");
    };
    let reason = text(invoice, "billing_reason").unwrap_or_default();
    if subscription.is_none() && reason.starts_with("subscription") {
        return park("it names no subscription");
    }
    let details = ["parent.subscription_details", "subscription_details"];
    let with_metadata = details.iter().find_map(|path| at(invoice, path)).unwrap_or(invoice);
    let all = list(invoice, "lines.data");
    if all.is_empty() || all.len() > MAX_LINES || is_true(invoice, "lines.has_more") {
        return park(UNREADABLE_LINES);
    }
    let paid = seconds(invoice, "status_transitions.paid_at").unwrap_or(said);
    let Some(mut lines) = invoice_lines(all, subscription.is_some(), paid) else {
        return park(UNREADABLE_LINES);
    };
    if lines.iter().any(|line| line.is_recurring && line.to.is_none()) {
        return park("it does not say until when it is paid");
    }
    // A line of a change and one of the next period are about one item.
    let is_one = lines.iter().all(|line| line.item == lines[0].item);
    if let Some(offer) = shop_id(with_metadata, "metadata.offer").filter(|_| is_one) {
        lines.iter_mut().for_each(|line| line.offer = Some(offer.clone()));
    }
    // What the customer's balance paid cannot be refunded to the card.
    let asked = amount(invoice, "amount_paid").filter(|paid| *paid > 0);
    let total = asked.or_else(|| amount(invoice, "total"));
    let payment = Payment {
        amount: total.map(above_zero),
        at: said,
        id: own.clone(),
        is_valid: true,
        lines,
        names: payment_names(invoice),
        paid: Some(paid),
        place: None,
        renews: Vec::new(),
        subscription: subscription.clone(),
    };
    let session = list(invoice, "checkout_sessions.data").first();
    let session = session.map(|session| checkout(session, said));
    let of_session = session
        .iter()
        .filter_map(Content::record)
        .flat_map(|record| &record.facts);
    Content::Record(ReportedSale {
        facts: [Fact::Payment(payment)]
            .into_iter()
            .chain(of_session.cloned())
            .collect(),
        is_renewal: reason == "subscription_cycle",
        order: Some(subscription.unwrap_or(own)),
        amount: shown_amount(invoice, total),
        buyer: Buyer {
            address: address(invoice, "customer_email"),
            name: name(invoice, &["customer_name"]),
            customer: id(invoice, "customer"),
            language: session
                .as_ref()
                .and_then(Content::record)
                .and_then(|record| record.buyer.language.clone()),
        },
        words: words_of(all),
        ..ReportedSale::default()
    })
}

/// The ids of the payments of an invoice: before 2025-03-31; since then, only where they are expanded.
fn payment_names(invoice: &Value) -> Vec<String> {
    let mut names = ids(invoice, &["payment_intent", "charge"]);
    for payment in list(invoice, "payments.data") {
        names.extend(ids(payment, &["payment.payment_intent", "payment.charge"]));
    }
    names
}

/// The kinds of a line that is no period of a subscription: since 2025-03-31, and before.
const EXTRA: [(&str, &str); 2] = [("parent.type", "invoice_item_details"), ("type", "invoiceitem")];

/// `None` if one cannot be read.
fn invoice_lines(all: &[Value], has_subscription: bool, paid: DateTime<Utc>) -> Option<Vec<PaidLine<String>>> {
    let mut items = ItemNames::default();
    let mut lines = Vec::new();
    for line in all {
        let quantity = quantity(line, "quantity")?;
        // An amount without a price, or usage of which there was none, is nothing that was sold.
        let Some(price) = price(line).filter(|_| quantity > 0) else {
            continue;
        };
        let product = product(line).unwrap_or_else(|| price.clone());
        let item = first_id(line, &ITEM);
        let is_prorated = PRORATION.iter().any(|path| is_true(line, path));
        let is_extra = EXTRA.iter().any(|(path, kind)| text(line, path) == Some(kind));
        lines.push(PaidLine {
            amount: amount(line, "amount").map(|amount| discounted(line, amount)),
            from: seconds(line, "period.start").or(Some(paid)),
            is_recurring: item.is_some() || is_prorated || (has_subscription && !is_extra),
            item: item.unwrap_or_else(|| items.next(&product)),
            offer: None,
            price,
            product,
            quantity,
            to: seconds(line, "period.end"),
        });
    }
    for line in lines.iter_mut().filter(|line| !line.is_recurring) {
        line.from = None;
        line.to = None;
    }
    Some(lines)
}

/// A line's amount without its discounts, of which a line's `amount` knows nothing.
fn discounted(line: &Value, whole: i64) -> i64 {
    if whole <= 0 {
        return whole;
    }
    let discounts = list(line, "discount_amounts").iter();
    let discounts = discounts.filter_map(|discount| amount(discount, "amount"));
    discounts.fold(whole, i64::saturating_sub).max(0)
}

fn subscription(subscription: &Value, said: DateTime<Utc>) -> Content {
    let park = |reason| Content::park(ids(subscription, &["id"]), reason);
    let Some(own) = id(subscription, "id") else {
        return park("it has no id");
    };
    let status = match text(subscription, "status") {
        Some("active") => SubscriptionStatus::Active,
        Some("trialing") => SubscriptionStatus::Trialing,
        Some("past_due") => SubscriptionStatus::PastDue,
        Some("unpaid") => SubscriptionStatus::Unpaid,
        Some("paused") => SubscriptionStatus::Paused,
        Some("canceled") => SubscriptionStatus::Canceled,
        Some("incomplete" | "incomplete_expired") => {
            return Content::ignore("it is not paid yet");
        }
        _ => return park("its status is unknown"),
    };
    let all = list(subscription, "items.data");
    if all.is_empty() || all.len() > MAX_LINES || is_true(subscription, "items.has_more") {
        return park("its items cannot be read");
    }
    let Some(mut items) = subscription_items(all) else {
        return park("its items cannot be read");
    };
    if let [only] = &mut items[..] {
        only.offer = shop_id(subscription, "metadata.offer");
    }
    let pause = text(subscription, "pause_collection.behavior");
    let period = next_period(subscription, all);
    let is_given = matches!(pause, Some("keep_as_draft" | "mark_uncollectible"));
    let is_last = is_true(subscription, "cancel_at_period_end")
        || seconds(subscription, "cancel_at").is_some_and(|end| period.is_none_or(|(_, to)| end <= to));
    let is_invoiced = text(subscription, "collection_method") == Some("send_invoice");
    let due_days = amount(subscription, "days_until_due").filter(|_| is_invoiced);
    let fact = Subscription {
        at: said,
        due_days: due_days.and_then(|days| u16::try_from(days).ok()),
        ended: seconds(subscription, "ended_at"),
        ends: None,
        free: period.filter(|_| is_given && status.goes_on()),
        id: own.clone(),
        items,
        parent: None,
        place: None,
        removed: Vec::new(),
        renews: status.goes_on() && !is_last && pause != Some("void"),
        resubscribes: None,
        status,
    };
    Content::Record(ReportedSale {
        facts: vec![Fact::Subscription(fact)],
        order: Some(own),
        buyer: Buyer {
            address: None,
            name: None,
            customer: id(subscription, "customer"),
            language: None,
        },
        ..ReportedSale::default()
    })
}

/// `None` if one cannot be read.
fn subscription_items(all: &[Value]) -> Option<Vec<SoldItem<String>>> {
    let mut names = ItemNames::default();
    let mut items = Vec::new();
    for item in all {
        let price = price(item)?;
        let product = product(item).unwrap_or_else(|| price.clone());
        let quantity = quantity(item, "quantity")?;
        if quantity > 0 {
            items.push(SoldItem {
                item: id(item, "id").unwrap_or_else(|| names.next(&product)),
                offer: None,
                price,
                product,
                quantity,
            });
        }
    }
    Some(items)
}

/// The current period; of several, the one that ends first. Since 2025-03-31 items have it, before, the subscription.
fn next_period(subscription: &Value, items: &[Value]) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let period = |value: &Value| {
        let from = seconds(value, "current_period_start")?;
        let to = seconds(value, "current_period_end")?;
        Some((from, to))
    };
    let of_items = items.iter().filter_map(period).min_by_key(|(_, to)| *to);
    of_items.or_else(|| period(subscription))
}

/// What went back of a charge by all its refunds, if they are all there.
fn sum_of_refunds(object: &Value) -> Option<u64> {
    let refunds = list(object, "refunds.data");
    if refunds.is_empty() || at(object, "refunds.has_more") != Some(&Value::Bool(false)) {
        return None;
    }
    let counts = |refund: &&Value| !matches!(text(refund, "status"), Some("failed" | "canceled"));
    let amounts = refunds.iter().filter(counts);
    let amounts: Option<Vec<_>> = amounts.map(|refund| amount(refund, "amount").map(above_zero)).collect();
    Some(amounts?.into_iter().fold(0, u64::saturating_add))
}

/// The amount of a whole refund if the charge does not say its amount: more than any payment.
const WHOLE: u64 = 1 << 50;

/// All that went back of a charge. One word for the charge, because later ones have the sum.
fn charge(charge: &Value, said: DateTime<Utc>) -> Content {
    if let Some(back) = sum_of_refunds(charge) {
        return money_back(charge, "id", Some(back), back > 0, said);
    }
    let back = amount(charge, "amount_refunded").map(above_zero);
    // Stripe says so when all of it went back.
    let whole = is_true(charge, "refunded").then(|| amount(charge, "amount").map_or(WHOLE, above_zero));
    money_back(charge, "id", back.max(whole), true, said)
}

/// A refund that failed takes back what `charge.refunded` said; Stripe repeats that for no later state.
fn refund(refund: &Value, said: DateTime<Utc>) -> Content {
    if let Some(back) = sum_of_refunds(refund) {
        return money_back(refund, "charge", Some(back), back > 0, said);
    }
    match text(refund, "status") {
        Some("failed" | "canceled") => {
            money_back(refund, "charge", amount(refund, "amount").map(above_zero), false, said)
        }
        _ => Content::ignore("charge.refunded says what went back"),
    }
}

fn money_back(object: &Value, charge: &str, back: Option<u64>, is_approved: bool, said: DateTime<Utc>) -> Content {
    let names = ids(object, &["payment_intent", charge, "invoice"]);
    let own = id(object, charge).or_else(|| names.first().cloned());
    let (Some(own), Some((of, others)), Some(back)) = (own, names.split_first(), back) else {
        return Content::park(names, "it names no payment or no amount");
    };
    Content::facts([Fact::Refund(Refund {
        amount: back,
        at: said,
        id: own,
        is_approved,
        names: others.to_vec(),
        of: of.clone(),
    })])
}

/// What a credit note gives back after the payment, but for its refunds: `charge.refunded` has them.
fn credit_note(note: &Value, said: DateTime<Utc>) -> Content {
    let (Some(own), Some(of), Some(total)) = (id(note, "id"), id(note, "invoice"), amount(note, "amount")) else {
        return Content::park(ids(note, &["id", "invoice"]), "it names no invoice or no amount");
    };
    let after = amount(note, "post_payment_amount");
    let after = after.unwrap_or(if text(note, "type") == Some("post_payment") {
        total
    } else {
        0
    });
    let refunds = list(note, "refunds").iter();
    let refunds = refunds.filter_map(|refund| amount(refund, "amount_refunded"));
    let mut credited = refunds.fold(after, i64::saturating_sub);
    // Before 2025-03-31 a note has one refund, without its amount.
    if id(note, "refund").is_some() && at(note, "refunds").is_none() {
        credited = amount(note, "out_of_band_amount").unwrap_or_default();
    }
    if credited <= 0 {
        return Content::ignore("it gives nothing back but what a refund does");
    }
    Content::facts([Fact::Refund(Refund {
        amount: above_zero(credited),
        at: said,
        id: own,
        is_approved: text(note, "status") != Some("void"),
        names: Vec::new(),
        of,
    })])
}

fn dispute(dispute: &Value, said: DateTime<Utc>) -> Content {
    let names = ids(dispute, &["payment_intent", "charge"]);
    let park = |reason| Content::park(names.clone(), reason);
    let (Some(own), Some((of, others))) = (id(dispute, "id"), names.split_first()) else {
        return park("it names no payment");
    };
    let status = match text(dispute, "status") {
        Some("needs_response" | "under_review") => DisputeStatus::Open,
        Some("won") => DisputeStatus::Won,
        Some("lost") => DisputeStatus::Lost,
        // No money moves.
        Some(inquiry) if inquiry.starts_with("warning_") => {
            return Content::ignore("a bank asks about the payment");
        }
        _ => return park("the dispute was closed in another way"),
    };
    Content::facts([Fact::Dispute(Dispute {
        at: said,
        id: own,
        names: others.to_vec(),
        of: of.clone(),
        status,
    })])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn read_as(kind: &str, object: Value) -> Content {
        let event = json!({ "id": "evt_1", "object": "event", "type": kind, "created": 1_700_000_000, "livemode": false,
            "data": { "object": object } });
        let delivery = super::read(&event).unwrap();
        assert_eq!(
            (delivery.mode, delivery.id.as_deref()),
            (Some(SalesMode::Test), Some("evt_1"))
        );
        delivery.content
    }

    fn fact(kind: &str, object: Value) -> Fact<String> {
        let content = read_as(kind, object);
        let record = content.record().unwrap_or_else(|| panic!("{content:?}"));
        record.facts[0].clone()
    }

    fn payment(kind: &str, object: Value) -> Payment<String> {
        let Fact::Payment(payment) = fact(kind, object) else {
            panic!()
        };
        payment
    }

    fn subscription(object: Value) -> Subscription<String> {
        let Fact::Subscription(subscription) = fact("customer.subscription.updated", object) else {
            panic!()
        };
        subscription
    }

    fn is_ignored(content: &Content) -> bool {
        matches!(content, Content::Ignore { .. })
    }

    #[test]
    fn samples_are_read_as_written_beside_them() {
        testing::compare(&STRIPE);
    }

    #[test]
    fn the_token_of_a_link_is_in_its_session_and_in_an_invoice_that_names_the_session() {
        let token = include_str!("../../../tests/vectors/renewal_token.txt").trim();
        let named = |kind: &str, object: Value| {
            let content = read_as(kind, object);
            let token = content.record().unwrap_or_else(|| panic!("{content:?}")).bought_for;
            token.map(|token| token.map(|token| token.reveal()).map_err(|error| error.to_string()))
        };
        let session =
            json!({ "id": "cs_1", "mode": "subscription", "subscription": "sub_1", "client_reference_id": token });
        let mut invoice = json!({ "id": "in_1", "billing_reason": "subscription_create", "total": 100,
            "parent": { "subscription_details": { "subscription": "sub_1" } },
            "lines": { "data": [{ "pricing": { "price_details": { "price": "p" } }, "amount": 100,
                "parent": { "subscription_item_details": { "subscription_item": "si_1" } }, "quantity": 1,
                "period": { "start": 1, "end": 2 } }] } });
        assert_eq!(named("invoice.paid", invoice.clone()), None);
        invoice["checkout_sessions"] = json!({ "data": [session.clone()] });
        for (kind, object) in [("checkout.session.completed", &session), ("invoice.paid", &invoice)] {
            assert_eq!(named(kind, object.clone()), Some(Ok(token.to_owned())), "{kind}");
        }
        // Vendors have references of their own; text in our own field that is no token is an error.
        let mut other = session.clone();
        other["client_reference_id"] = json!("user-7");
        assert_eq!(named("checkout.session.completed", other.clone()), None);
        other["metadata"] = json!({ "countersign": "user-7" });
        assert!(named("checkout.session.completed", other).is_some_and(|token| token.is_err()));
    }

    #[test]
    fn a_customer_has_what_the_facts_of_a_short_life_grant() {
        let offers = [
            ("price_ProMonth", testing::terms("pro", "1m", 1)),
            ("price_AgencyMonth", testing::terms("agency", "1m", 20)),
        ];
        let life: &[(&str, &[&str])] = &[
            ("session-subscription", &[]),
            ("invoice-first", &["active 1 2026-02-10"]),
            ("subscription-created", &["active 1 2026-02-10 renews"]),
            ("invoice-payment", &["active 1 2026-02-10 renews"]),
            ("invoice-renewal", &["active 1 2026-03-10 renews"]),
            ("subscription-plan-changed", &["active 20 2026-03-10 renews"]),
            ("invoice-plan-change", &["active 20 2026-03-10 renews"]),
            ("charge-refunded", &["active 20 2026-03-10"]),
            ("credit-note", &["active 20 2026-02-10"]),
            ("refund-failed", &["active 20 2026-03-10 renews"]),
            ("charge-refunded", &["active 20 2026-03-10 renews"]),
            ("subscription-deleted", &["active 20 2026-03-10"]),
        ];
        testing::live(&STRIPE, &offers, life);
    }

    #[test]
    fn a_session_that_is_paid_once_is_a_payment_and_no_other_is() {
        let session = json!({ "id": "cs_1", "mode": "payment", "payment_status": "paid", "payment_intent": "pi_1",
            "customer": "cus_1", "customer_details": { "email": "anna@example.com" }, "metadata": { "offer": "forms" } });
        let with = |field: &str, value: Value| {
            let mut session = session.clone();
            session[field] = value;
            read_as("checkout.session.completed", session)
        };
        let content = with("x", json!(1));
        let record = content.record().unwrap();
        let Fact::Payment(payment) = &record.facts[0] else {
            panic!()
        };
        let line = &payment.lines[0];
        assert_eq!(
            (payment.id.as_str(), &payment.names[..]),
            ("cs_1", &["pi_1".to_owned()][..])
        );
        assert_eq!(
            (line.price.as_str(), line.product.as_str(), line.quantity),
            ("offer:forms", "offer:forms", 1)
        );
        assert_eq!(line.offer.as_ref().map(ShopId::as_str), Some("forms"));
        assert_eq!(record.buyer.address.as_deref(), Some("anna@example.com"));
        assert!(!format!("{content:?}").contains("anna"));
        assert!(!serde_json::to_string(&content).unwrap().contains("anna"));
        assert!(is_ignored(&with("mode", json!("subscription"))), "it names none");
        assert!(is_ignored(&with("mode", json!("setup"))));
        assert!(is_ignored(&with("payment_status", json!("unpaid"))));
        for metadata in [
            json!({}),
            Value::Null,
            json!({ "Offer": "forms" }),
            json!({ "offer": "" }),
        ] {
            let Content::Park { reason, .. } = with("metadata", metadata) else {
                panic!()
            };
            assert!(reason.contains("write offer = \"NAME\" into the metadata"));
        }
        let expanded = json!({ "data": [{ "price": { "id": "price_1", "product": "prod_1" }, "quantity": 2 }] });
        let mut with_lines = session.clone();
        with_lines["line_items"] = expanded.clone();
        let payment = self::payment("checkout.session.completed", with_lines);
        let line = &payment.lines[0];
        assert_eq!(
            (
                line.price.as_str(),
                line.product.as_str(),
                line.quantity,
                line.item.as_str()
            ),
            ("price_1", "prod_1", 2, "prod_1#0")
        );
        let mut more = expanded;
        more["has_more"] = json!(true);
        assert!(matches!(with("line_items", more), Content::Park { .. }));
        assert!(
            read_as("checkout.session.async_payment_succeeded", session)
                .record()
                .is_some()
        );
    }

    #[test]
    fn invoices_of_old_and_new_api_versions_say_the_same() {
        let period = json!({ "start": 1_700_000_000, "end": 1_700_000_500 });
        let new = json!({ "id": "in_1", "billing_reason": "subscription_cycle", "customer_email": "a@b.de", "amount_paid": 900,
            "parent": { "subscription_details": { "subscription": "sub_1", "metadata": { "offer": "forms" } } },
            "lines": { "data": [
                { "quantity": 1, "amount": -100, "period": period,
                  "parent": { "subscription_item_details": { "proration": true, "subscription_item": "si_1" } },
                  "pricing": { "price_details": { "price": "price_0", "product": "prod_0" } } },
                { "quantity": 3, "amount": 1500, "discount_amounts": [{ "amount": 400 }, { "amount": 100 }], "period": period,
                  "parent": { "subscription_item_details": { "proration": false, "subscription_item": "si_1" } },
                  "pricing": { "price_details": { "price": "price_1", "product": "prod_1" } } },
            ] } });
        let old = json!({ "id": "in_1", "billing_reason": "subscription_cycle", "customer_email": "a@b.de", "amount_paid": 900,
            "subscription": { "id": "sub_1" }, "subscription_details": { "metadata": { "offer": "forms" } },
            "lines": { "data": [
                { "quantity": 1, "amount": -100, "period": period, "proration": true, "price": { "id": "price_0", "product": "prod_0" },
                  "subscription_item": "si_1" },
                { "quantity": 3, "amount": 1500, "discount_amounts": [{ "amount": 500 }], "period": period,
                  "price": { "id": "price_1", "product": "prod_1" }, "subscription_item": "si_1" },
            ] } });
        let content = read_as("invoice.paid", new.clone());
        assert_eq!(read_as("invoice.paid", old), content);
        let record = content.record().unwrap();
        assert_eq!((record.is_renewal, record.order.as_deref()), (true, Some("sub_1")));
        let paid = payment("invoice.paid", new.clone());
        let [back, whole] = &paid.lines[..] else { panic!() };
        assert_eq!((back.amount, whole.amount, whole.quantity), (Some(-100), Some(1000), 3));
        assert!(whole.is_recurring && whole.item == "si_1" && whole.offer.is_some());
        assert_eq!(whole.to.unwrap().timestamp(), 1_700_000_500);
        let with = |field: &str, value: Value| {
            let mut invoice = new.clone();
            invoice[field] = value;
            invoice
        };
        for reason in [
            "subscription_create",
            "subscription_update",
            "subscription_threshold",
            "manual",
        ] {
            let content = read_as("invoice.paid", with("billing_reason", json!(reason)));
            assert!(!content.record().unwrap().is_renewal, "{reason}");
        }
        for (currency, amount) in [
            ("usd", "9.00 USD"),
            ("jpy", "900 JPY"),
            ("isk", "9.00 ISK"),
            ("mga", "900 MGA"),
        ] {
            let content = read_as("invoice.paid", with("currency", json!(currency)));
            assert_eq!(content.record().unwrap().amount.as_deref(), Some(amount));
        }
        let orphan = read_as("invoice.paid", with("parent", Value::Null));
        assert!(matches!(orphan, Content::Park { .. }));
        let mut endless = new.clone();
        endless["lines"]["data"][1]["period"] = Value::Null;
        assert!(matches!(read_as("invoice.paid", endless), Content::Park { .. }));
        // What the customer's balance paid is no money that can go back; of nothing else it is.
        assert_eq!(payment("invoice.paid", with("total", json!(1000))).amount, Some(900));
        let mut by_balance = with("amount_paid", json!(0));
        by_balance["total"] = json!(1000);
        assert_eq!(payment("invoice.paid", by_balance).amount, Some(1000));
        let joined = json!({ "invoice": "in_1", "payment": { "type": "payment_intent", "payment_intent": "pi_1" } });
        let Fact::Names(names) = fact("invoice_payment.paid", joined) else {
            panic!()
        };
        assert_eq!(names.ids, ["in_1", "pi_1"]);
        assert!(is_ignored(&read_as(
            "invoice_payment.paid",
            json!({ "invoice": "in_1" })
        )));
    }

    #[test]
    fn a_line_that_cost_nothing_by_a_coupon_is_free() {
        let line =
            |amount: i64, discount: i64| discounted(&json!({ "discount_amounts": [{ "amount": discount }] }), amount);
        assert_eq!(
            [line(1500, 1500), line(1500, 2000), line(1500, 1), line(-5, 3)],
            [0, 0, 1499, -5]
        );
    }

    #[test]
    fn a_subscription_says_its_items_and_never_its_end() {
        let object = |status: &str| {
            json!({ "id": "sub_1", "status": status, "current_period_start": 1_790_000_000, "current_period_end": 1_800_000_000,
                "items": { "data": [
                    { "id": "si_1", "price": { "id": "price_2", "product": "prod_1" }, "quantity": 5 },
                    { "id": "si_2", "price": { "id": "price_3", "product": "prod_2" }, "quantity": 0 } ] } })
        };
        let with = |field: &str, value: Value| {
            let mut object = object("active");
            object[field] = value;
            subscription(object)
        };
        let active = subscription(object("active"));
        assert_eq!(
            (active.ends, active.items.len(), active.items[0].quantity),
            (None, 1, 5)
        );
        assert!(active.renews && active.free.is_none());
        for status in ["past_due", "unpaid", "paused", "canceled"] {
            assert_eq!(subscription(object(status)).renews, status == "past_due", "{status}");
        }
        assert!(is_ignored(&read_as(
            "customer.subscription.created",
            object("incomplete")
        )));
        assert!(matches!(
            read_as("customer.subscription.updated", object("odd")),
            Content::Park { .. }
        ));
        let no_items = read_as(
            "customer.subscription.deleted",
            json!({ "id": "sub_1", "status": "canceled" }),
        );
        assert!(
            matches!(no_items, Content::Park { .. }),
            "they would be taken for sold no more"
        );
        assert!(!with("cancel_at_period_end", json!(true)).renews);
        assert!(!with("cancel_at", json!(1_800_000_000)).renews);
        assert!(
            with("cancel_at", json!(1_900_000_000)).renews,
            "other periods come first"
        );
        for (behavior, is_free, renews) in [
            ("keep_as_draft", true, true),
            ("mark_uncollectible", true, true),
            ("void", false, false),
        ] {
            let paused = with("pause_collection", json!({ "behavior": behavior }));
            assert_eq!((paused.free.is_some(), paused.renews), (is_free, renews), "{behavior}");
        }
        let mut invoiced = object("active");
        invoiced["collection_method"] = json!("send_invoice");
        invoiced["days_until_due"] = json!(30);
        assert_eq!(subscription(invoiced).due_days, Some(30));
        assert_eq!(with("days_until_due", json!(30)).due_days, None);
    }

    #[test]
    fn of_periods_that_differ_the_one_that_ends_first_is_given() {
        let item = |end: i64| json!({ "current_period_start": 1_700_000_000, "current_period_end": end });
        let items = [item(1_800_000_000), item(1_710_000_000)];
        let period = next_period(&json!({}), &items).unwrap();
        assert_eq!(period.1.timestamp(), 1_710_000_000);
    }

    #[test]
    fn money_that_went_back_is_a_refund_of_its_payment() {
        let refund = |kind: &str, object: Value| match fact(kind, object) {
            Fact::Refund(refund) => (refund.id, refund.of, refund.amount, refund.is_approved),
            other => panic!("{other:?}"),
        };
        let part = json!({ "id": "ch_1", "payment_intent": "pi_1", "amount": 1000, "amount_refunded": 400, "refunded": false });
        let of = |amount: u64, is_approved: bool| ("ch_1".to_owned(), "pi_1".to_owned(), amount, is_approved);
        assert_eq!(refund("charge.refunded", part), of(400, true));
        let failed =
            json!({ "id": "re_1", "charge": "ch_1", "payment_intent": "pi_1", "amount": 400, "status": "failed" });
        for kind in ["refund.failed", "refund.updated", "charge.refund.updated"] {
            assert_eq!(refund(kind, failed.clone()), of(400, false), "{kind}");
        }
        let mut succeeded = failed;
        succeeded["status"] = json!("succeeded");
        assert!(is_ignored(&read_as("refund.updated", succeeded)));
        let note = |more: Value| {
            let mut note = json!({ "id": "cn_1", "invoice": "in_1", "amount": 1000, "status": "issued" });
            note.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read_as("credit_note.created", note)
        };
        let credited = |content: Content| match &content.record()?.facts[0] {
            Fact::Refund(refund) => Some((refund.of.clone(), refund.amount)),
            other => panic!("{other:?}"),
        };
        for (more, amount) in [
            (json!({ "post_payment_amount": 1000, "refunds": [] }), Some(1000)),
            (
                json!({ "post_payment_amount": 1000, "refunds": [{ "amount_refunded": 700 }] }),
                Some(300),
            ),
            (
                json!({ "post_payment_amount": 1000, "refunds": [{ "amount_refunded": 1000 }] }),
                None,
            ),
            (
                json!({ "post_payment_amount": 0, "pre_payment_amount": 1000, "refunds": [] }),
                None,
            ),
            (json!({ "type": "post_payment", "refund": null }), Some(1000)),
            (
                json!({ "type": "post_payment", "refund": "re_1", "out_of_band_amount": 200 }),
                Some(200),
            ),
            (json!({ "type": "post_payment", "refund": "re_1" }), None),
            (json!({ "type": "pre_payment", "refund": null }), None),
        ] {
            let expected = amount.map(|amount| ("in_1".to_owned(), amount));
            assert_eq!(credited(note(more.clone())), expected, "{more}");
        }
        let voided =
            json!({ "id": "cn_1", "invoice": "in_1", "amount": 1000, "post_payment_amount": 1000, "status": "void" });
        assert!(!refund("credit_note.voided", voided).3);
        assert!(is_ignored(&read_as("charge.succeeded", json!({}))));
    }

    #[test]
    fn an_inquiry_is_no_dispute() {
        let dispute = |kind: &str, status: &str| {
            read_as(
                &format!("charge.dispute.{kind}"),
                json!({ "id": "du_1", "charge": "ch_1", "payment_intent": "pi_1", "status": status }),
            )
        };
        for (status, expected) in [
            ("needs_response", DisputeStatus::Open),
            ("under_review", DisputeStatus::Open),
            ("won", DisputeStatus::Won),
            ("lost", DisputeStatus::Lost),
        ] {
            let content = dispute("updated", status);
            let Fact::Dispute(dispute) = &content.record().unwrap().facts[0] else {
                panic!()
            };
            assert_eq!((dispute.of.as_str(), dispute.status), ("pi_1", expected));
        }
        assert!(is_ignored(&dispute("created", "warning_needs_response")));
        assert!(is_ignored(&dispute("closed", "warning_closed")));
        assert!(matches!(dispute("closed", "prevented"), Content::Park { .. }));
    }
}
