//! Paddle Billing's notifications. None says whether it is of the sandbox, and a transaction names the customer, but no address.
//!
//! Paddle names periods, so a subscription names no end. Its ids say of what they are.

use std::collections::BTreeMap;

use chrono::{DateTime, Months, TimeDelta, Utc};
use serde_json::Value;

use crate::event::{Buyer, Content, DeliveryError, ReportedSale, ShopDelivery};
use crate::json::{
    ItemNames, MAX_LINES, above_zero, amount, at, id, ids, is_of_path, language, list, quantity, renewal_token,
    required, shop_id, text, time, words,
};
use crate::money;
use crate::shop::{CustomerQuestion, NotACustomer, ObjectIds, Shop, ShopApi, SignatureScheme};
use countersign_model::offer::ShopId;
use countersign_model::sale::fact::{
    Dispute, DisputeStatus, Fact, PaidLine, Payment, Refund, SoldItem, Subscription, SubscriptionStatus,
};

/// Codes of an answer 404 that says that there is no such customer (<https://developer.paddle.com/errors/shared>).
const NO_CUSTOMER: [&str; 2] = ["entity_not_found", "not_found"];

/// Where a transaction or a subscription has a renewal token.
const RENEWS: [&str; 1] = ["custom_data.countersign"];

/// Where a checkout of the vendor's puts the language.
const LANGUAGES: [&str; 1] = ["custom_data.language"];

/// Paddle Billing
pub(crate) const PADDLE: Shop = Shop {
    name: "paddle",
    title: "Paddle",
    signature_header: "Paddle-Signature",
    signature_scheme: SignatureScheme::Timed {
        separator: ';',
        time: "ts",
        signature: "h1",
        joint: ':',
        // Paddle's own library accepts five seconds, which a slow network exceeds.
        window: TimeDelta::seconds(60),
    },
    is_ping: None,
    makes_keys: false,
    ids: ObjectIds::Text,
    api: Some(ShopApi {
        live: "https://api.paddle.com/",
        test: "https://sandbox-api.paddle.com/",
        version: None,
        reads: "customers",
        without: "deliveries have no address of the buyer, so nobody is mailed a key",
        not_found: &NO_CUSTOMER,
        // https://developer.paddle.com/api-reference/customers/get-customer
        customer: Some(CustomerQuestion {
            path: |id| is_of_path(id).then(|| format!("customers/{id}")),
            read: customer_address,
        }),
        questions: |_| Vec::new(),
    }),
    read,
};

fn read(event: &Value) -> Result<ShopDelivery, DeliveryError> {
    let kind = required(event, "event_type")?;
    let event_id = required(event, "event_id")?;
    let said = time(event, "occurred_at").ok_or(DeliveryError::Missing("occurred_at"))?;
    let data = at(event, "data").filter(|data| data.is_object());
    let data = data.ok_or(DeliveryError::Missing("data"))?;
    Ok(ShopDelivery {
        event: kind.to_owned(),
        id: Some(event_id.to_owned()),
        mode: None,
        content: content(kind, data, said),
    })
}

fn customer_address(customer: &str, answer: &Value) -> Result<Option<String>, NotACustomer> {
    if text(answer, "data.id") != Some(customer) {
        return Err(NotACustomer);
    }
    let address = text(answer, "data.email").ok_or(NotACustomer)?;
    Ok(Some(address.to_owned()))
}

fn content(kind: &str, data: &Value, said: DateTime<Utc>) -> Content {
    match kind {
        "transaction.completed" => transaction(data, said)
            .bought_for(renewal_token(data, &RENEWS))
            .in_language(language(data, &LANGUAGES)),
        "subscription.created"
        | "subscription.activated"
        | "subscription.trialing"
        | "subscription.imported"
        | "subscription.updated"
        | "subscription.past_due"
        | "subscription.paused"
        | "subscription.resumed"
        | "subscription.canceled" => subscription(data, said)
            .bought_for(renewal_token(data, &RENEWS))
            .in_language(language(data, &LANGUAGES)),
        "adjustment.created" | "adjustment.updated" => adjustment(data, said),
        "customer.created" | "customer.updated" => {
            Content::ignore("the address of a buyer is asked where a key is to be mailed")
        }
        _ => Content::ignore("no license depends on this event"),
    }
}

fn buyer(data: &Value) -> Buyer {
    Buyer {
        address: None,
        name: None,
        customer: id(data, "customer_id"),
        language: None,
    }
}

fn transaction(transaction: &Value, said: DateTime<Utc>) -> Content {
    let named = ids(transaction, &["subscription_id", "id"]);
    let park = |reason| Content::park(named.clone(), reason);
    let origin = text(transaction, "origin").unwrap_or_default();
    if origin == "subscription_payment_method_change" {
        return Content::ignore("a means of payment was changed");
    }
    let Some(own) = id(transaction, "id") else {
        return park("it has no id");
    };
    let Some(lines) = transaction_lines(transaction) else {
        return park("its items cannot be read");
    };
    let subscription = id(transaction, "subscription_id");
    let is_recurring = |line: &PaidLine<String>| line.is_recurring;
    if subscription.is_none() && lines.iter().any(is_recurring) {
        return park("it names no subscription");
    }
    let is_endless = |line: &PaidLine<String>| line.is_recurring && (line.from.is_none() || line.to.is_none());
    if lines.iter().any(is_endless) {
        return park("it does not say until when it is paid");
    }
    let payment = Payment {
        amount: asked(transaction).map(above_zero),
        at: said,
        id: own,
        is_valid: true,
        lines,
        names: Vec::new(),
        paid: Some(said),
        place: None,
        renews: Vec::new(),
        subscription,
    };
    Content::Record(ReportedSale {
        facts: vec![Fact::Payment(payment)],
        is_renewal: origin == "subscription_recurring",
        order: named.first().cloned(),
        amount: shown_amount(transaction),
        buyer: buyer(transaction),
        words: words_of(transaction),
        ..ReportedSale::default()
    })
}

/// What was asked for, without tax: a refund of the tax alone is no part of it. What the customer's balance paid is none either.
fn asked(transaction: &Value) -> Option<i64> {
    let of = |name: &str| amount(transaction, &format!("details.totals.{name}"));
    let whole = of("grand_total").or_else(|| of("total"))?;
    let tax = of("grand_total_tax").or_else(|| of("tax")).unwrap_or_default();
    Some(whole.saturating_sub(tax))
}

/// What the buyer paid, with tax.
fn shown_amount(transaction: &Value) -> Option<String> {
    let paths = ["details.totals.grand_total", "details.totals.total"];
    let total = paths.into_iter().find_map(|path| amount(transaction, path))?;
    let currency = text(transaction, "currency_code")?;
    Some(money::shown(total, money::digits(currency), currency))
}

/// The lines, each with its amount. `None` if there are none, or too many, or one cannot be read.
fn transaction_lines(transaction: &Value) -> Option<Vec<PaidLine<String>>> {
    let items = list(transaction, "items");
    let priced = list(transaction, "details.line_items");
    let all = if priced.is_empty() { items } else { priced };
    if all.is_empty() || all.len() > MAX_LINES {
        return None;
    }
    let mut charged = ItemNames::default();
    let mut credited = ItemNames::default();
    let mut lines = Vec::new();
    for line in all {
        let price = price(line)?;
        // Only the items say how often a price is paid.
        let item = items.iter().find(|item| self::price(item).as_ref() == Some(&price));
        let product = product(line)
            .or_else(|| product(item?))
            .unwrap_or_else(|| price.clone());
        let quantity = quantity(line, "quantity")?;
        if quantity == 0 {
            continue;
        }
        let counted = without_tax(line);
        let is_back = counted.is_some_and(|amount| amount < 0) || amount(line, "quantity").is_some_and(|of| of < 0);
        let cycle = item.and_then(|item| at(item, "price.billing_cycle"));
        let prorated = at(line, "proration").filter(|proration| proration.is_object());
        let is_recurring = prorated.is_some() || cycle.is_some_and(Value::is_object);
        let day = |name: &str| {
            let prorated = prorated.and_then(|proration| time(proration, &format!("billing_period.{name}")));
            let period = prorated.or_else(|| time(transaction, &format!("billing_period.{name}")));
            period.filter(|_| is_recurring)
        };
        let numbers = if is_back { &mut credited } else { &mut charged };
        // SECURITY: `custom_data` comes from the buyer's browser, so it names no offer.
        lines.push(PaidLine {
            amount: counted.or(is_back.then_some(-1)),
            from: day("starts_at"),
            item: numbers.next(&product),
            is_recurring,
            offer: None,
            price,
            product,
            quantity,
            to: day("ends_at"),
        });
    }
    Some(lines)
}

/// What the vendor calls the prices of the items, or the products.
fn words_of(object: &Value) -> BTreeMap<ShopId, Box<str>> {
    let lines = list(object, "details.line_items").iter();
    let all = list(object, "items").iter().chain(lines);
    let named = all.filter_map(|item| {
        let words = ["price.name", "product.name"]
            .iter()
            .find_map(|path| words(item, &[path]));
        Some((price(item)?, words?))
    });
    named.collect()
}

fn price(item: &Value) -> Option<ShopId> {
    shop_id(item, "price").or_else(|| shop_id(item, "price_id"))
}

fn product(item: &Value) -> Option<ShopId> {
    shop_id(item, "price.product_id").or_else(|| shop_id(item, "product"))
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
        Some("paused") => SubscriptionStatus::Paused,
        Some("canceled") => SubscriptionStatus::Canceled,
        _ => return park("its status is unknown"),
    };
    let Some(items) = subscription_items(subscription) else {
        return park("its items cannot be read");
    };
    let scheduled = text(subscription, "scheduled_change.action");
    let is_canceled = status == SubscriptionStatus::Canceled;
    let fact = Subscription {
        at: said,
        due_days: due_days(subscription),
        ended: time(subscription, "canceled_at").filter(|_| is_canceled),
        ends: None,
        free: given_period(subscription).filter(|_| status == SubscriptionStatus::Active),
        id: own.clone(),
        items,
        parent: None,
        place: None,
        removed: Vec::new(),
        renews: status.goes_on() && !matches!(scheduled, Some("cancel" | "pause")),
        resubscribes: None,
        status,
    };
    Content::Record(ReportedSale {
        facts: vec![Fact::Subscription(fact)],
        order: Some(own),
        buyer: buyer(subscription),
        words: words_of(subscription),
        ..ReportedSale::default()
    })
}

/// `None` if there are none, or too many, or one cannot be read.
fn subscription_items(subscription: &Value) -> Option<Vec<SoldItem<String>>> {
    let all = list(subscription, "items");
    if all.is_empty() || all.len() > MAX_LINES {
        return None;
    }
    let mut names = ItemNames::default();
    let mut items = Vec::new();
    for item in all {
        let price = price(item)?;
        let product = product(item).unwrap_or_else(|| price.clone());
        let quantity = quantity(item, "quantity")?;
        if quantity > 0 {
            items.push(SoldItem {
                item: names.next(&product),
                offer: None,
                price,
                product,
                quantity,
            });
        }
    }
    Some(items)
}

/// Days from an invoice to the day it is due.
fn due_days(subscription: &Value) -> Option<u16> {
    if text(subscription, "collection_mode") != Some("manual") {
        return None;
    }
    let days = duration(subscription, "billing_details.payment_terms")?;
    u16::try_from(days.apply("2001-01-01T00:00:00Z".parse().ok()?)?.1).ok()
}

/// The current period, if the vendor moved its end and billed nothing: it is longer than what the customer pays for. An ordinary
/// period is not given, because it begins before it is paid.
fn given_period(subscription: &Value) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    // The ends of months differ by so much.
    const TOLERANCE: TimeDelta = TimeDelta::days(3);
    let from = time(subscription, "current_billing_period.starts_at")?;
    let to = time(subscription, "current_billing_period.ends_at")?;
    let paid = duration(subscription, "billing_cycle")?.apply(from)?.0;
    (to > paid.checked_add_signed(TOLERANCE)?).then_some((from, to))
}

/// Such as 3 months.
struct Interval {
    months: u32,
    days: i64,
}

impl Interval {
    /// The time after it, and its days.
    fn apply(&self, from: DateTime<Utc>) -> Option<(DateTime<Utc>, i64)> {
        let days = TimeDelta::try_days(self.days)?;
        let to = from
            .checked_add_months(Months::new(self.months))?
            .checked_add_signed(days)?;
        Some((to, (to - from).num_days()))
    }
}

/// A duration of Paddle: an interval and how many of them.
fn duration(value: &Value, path: &str) -> Option<Interval> {
    let duration = at(value, path)?;
    let count = u32::try_from(amount(duration, "frequency")?).ok()?;
    let days = |days: i64| Interval {
        months: 0,
        days: i64::from(count) * days,
    };
    let months = |months: u32| {
        let months = count.checked_mul(months)?;
        Some(Interval { months, days: 0 })
    };
    match text(duration, "interval")? {
        "day" => Some(days(1)),
        "week" => Some(days(7)),
        "month" => months(1),
        "year" => months(12),
        _ => None,
    }
}

fn adjustment(adjustment: &Value, said: DateTime<Utc>) -> Content {
    let names = ids(adjustment, &["transaction_id", "id"]);
    let park = |reason| Content::park(names.clone(), reason);
    let [of, own] = &names[..] else {
        return park("it names no transaction");
    };
    let status = text(adjustment, "status").unwrap_or_default();
    let dispute = |status| {
        Content::facts([Fact::Dispute(Dispute {
            at: said,
            id: own.clone(),
            names: Vec::new(),
            of: of.clone(),
            status,
        })])
    };
    match (text(adjustment, "action"), status) {
        (Some("refund"), _) => match untaxed(adjustment) {
            None => park("its amount cannot be read"),
            Some(0) => Content::ignore("no price went back"),
            Some(back) => Content::facts([Fact::Refund(Refund {
                amount: back,
                at: said,
                id: own.clone(),
                is_approved: status == "approved",
                names: Vec::new(),
                of: of.clone(),
            })]),
        },
        // The bank took the money already.
        (Some("chargeback"), "approved") => dispute(DisputeStatus::Lost),
        (Some("chargeback"), "reversed") | (Some("chargeback_reverse"), "approved") => dispute(DisputeStatus::Won),
        (Some("chargeback_warning"), _) => Content::ignore("a bank asks about the payment"),
        _ => Content::ignore("no license depends on this adjustment"),
    }
}

/// The total of a line or an adjustment, without tax.
fn without_tax(value: &Value) -> Option<i64> {
    let whole = amount(value, "totals.total")?;
    Some(whole.saturating_sub(amount(value, "totals.tax").unwrap_or_default()))
}

/// What an adjustment gives back without tax, as [`asked`] counts it, and without parts of a tax alone or a proration.
fn untaxed(adjustment: &Value) -> Option<u64> {
    let items = list(adjustment, "items");
    let is_price = |item: &&Value| !matches!(text(item, "type"), Some("tax" | "proration"));
    let all_of: Option<Vec<i64>> = items.iter().filter(is_price).map(without_tax).collect();
    let sum = match all_of {
        Some(all) if !items.is_empty() => all.into_iter().fold(0, i64::saturating_add),
        _ => without_tax(adjustment)?,
    };
    Some(above_zero(sum))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn read_as(kind: &str, data: Value) -> Content {
        let event = json!({ "event_id": "evt_1", "event_type": kind, "occurred_at": "2024-04-12T10:18:50.155553Z", "data": data });
        super::read(&event).unwrap().content
    }

    fn payment(data: Value) -> Payment<String> {
        let content = read_as("transaction.completed", data);
        let Some(Fact::Payment(payment)) = content.record().map(|record| &record.facts[0]) else {
            panic!("{content:?}")
        };
        payment.clone()
    }

    fn sold(data: Value) -> Subscription<String> {
        let content = read_as("subscription.updated", data);
        let Some(Fact::Subscription(subscription)) = content.record().map(|record| &record.facts[0]) else {
            panic!("{content:?}")
        };
        subscription.clone()
    }

    fn transaction(origin: &str) -> Value {
        json!({ "id": "txn_1", "origin": origin, "status": "completed", "subscription_id": "sub_1", "customer_id": "ctm_1",
            "billing_period": { "starts_at": "2024-04-12T10:18:47Z", "ends_at": "2024-05-12T10:18:47Z" },
            "items": [{ "price": { "id": "pri_1", "product_id": "pro_1", "billing_cycle": { "interval": "month", "frequency": 1 } },
                "quantity": 10 }] })
    }

    #[test]
    fn samples_are_read_as_written_beside_them() {
        testing::compare(&PADDLE);
    }

    #[test]
    fn a_customer_has_what_the_facts_of_a_short_life_grant() {
        let offers = [
            ("pri_promonth", testing::terms("pro", "1m", 1)),
            ("pri_agencymonth", testing::terms("agency", "1m", 20)),
            ("pri_mapslife", testing::terms("life", "lifetime", 5)),
        ];
        let maps = "active 5 9999-12-31";
        let life: &[(&str, &[&str])] = &[
            ("transaction-first", &["active 1 2026-02-10", maps]),
            ("subscription-created", &["active 1 2026-02-10 renews", maps]),
            ("transaction-renewal", &["active 1 2026-03-10 renews", maps]),
            ("subscription-plan-changed", &["active 20 2026-03-10 renews", maps]),
            ("transaction-plan-change", &["active 20 2026-03-10 renews", maps]),
            ("adjustment-refund-pending", &["active 20 2026-03-10 renews", maps]),
            ("adjustment-refund-of-change", &["active 20 2026-03-10", maps]),
            ("adjustment-refund-approved", &["active 20 2026-02-10", maps]),
            ("adjustment-tax", &["active 20 2026-02-10", maps]),
            (
                "adjustment-chargeback",
                &["suspended 20 2026-03-10", "suspended 5 9999-12-31"],
            ),
            ("adjustment-chargeback-reverse", &["active 20 2026-02-10", maps]),
        ];
        testing::live(&PADDLE, &offers, life);
    }

    #[test]
    fn a_completed_transaction_is_a_payment_by_its_origin() {
        let paid = payment(transaction("web"));
        assert_eq!(
            (paid.id.as_str(), paid.subscription.as_deref()),
            ("txn_1", Some("sub_1"))
        );
        let line = &paid.lines[0];
        assert_eq!(
            (
                line.price.as_str(),
                line.product.as_str(),
                line.quantity,
                line.item.as_str()
            ),
            ("pri_1", "pro_1", 10, "pro_1#0")
        );
        assert_eq!(line.to.unwrap().to_rfc3339(), "2024-05-12T10:18:47+00:00");
        for (origin, is_renewal) in [
            ("web", false),
            ("subscription_recurring", true),
            ("subscription_charge", false),
        ] {
            let content = read_as("transaction.completed", transaction(origin));
            assert_eq!(content.record().unwrap().is_renewal, is_renewal, "{origin}");
        }
        let of_card = read_as(
            "transaction.completed",
            transaction("subscription_payment_method_change"),
        );
        assert!(matches!(of_card, Content::Ignore { .. }));
        let with = |path: &str, value: Value| {
            let mut data = transaction("api");
            data[path] = value;
            data
        };
        for broken in [
            with("subscription_id", Value::Null),
            with("billing_period", Value::Null),
            with("items", json!([])),
        ] {
            assert!(matches!(read_as("transaction.completed", broken), Content::Park { .. }));
        }
        let mut once = with("subscription_id", Value::Null);
        once["items"][0]["price"]["billing_cycle"] = Value::Null;
        let paid = payment(once);
        let line = &paid.lines[0];
        assert_eq!((line.is_recurring, line.from, line.to), (false, None, None));
    }

    #[test]
    fn a_line_of_which_money_went_back_is_negative_and_numbered_apart() {
        let period = json!({ "starts_at": "2024-04-20T00:00:00Z", "ends_at": "2024-05-12T10:18:47Z" });
        let proration = json!({ "rate": "0.7", "billing_period": period });
        let line = |price: &str, quantity: i64, total: &str| {
            json!({ "price_id": price, "quantity": quantity, "proration": proration, "product": { "id": "pro_1" },
                "totals": { "total": total } })
        };
        let mut data = transaction("subscription_update");
        data["details"] =
            json!({ "line_items": [line("pri_0", -1, "-700"), line("pri_1", 2, "900"), line("pri_2", 0, "0")] });
        let paid = payment(data);
        let shown: Vec<_> = paid
            .lines
            .iter()
            .map(|line| (line.item.as_str(), line.amount, line.quantity))
            .collect();
        assert_eq!(shown, [("pro_1#0", Some(-700), 1), ("pro_1#0", Some(900), 2)]);
        assert!(paid.lines.iter().all(|line| line.is_recurring));
        assert_eq!(paid.lines[0].from.unwrap().to_rfc3339(), "2024-04-20T00:00:00+00:00");
    }

    #[test]
    fn what_the_buyers_browser_sent_names_no_offer() {
        let mut data = transaction("web");
        data["custom_data"] = json!({ "offer": "agency" });
        assert_eq!(payment(data).lines[0].offer, None);
    }

    #[test]
    fn a_refund_counts_without_tax_and_once_it_is_approved() {
        let mut data = transaction("web");
        data["details"] = json!({ "totals": { "total": "1200", "tax": "200", "credit": "300", "grand_total": "900", "grand_total_tax": "150" } });
        assert_eq!(payment(data.clone()).amount, Some(750));
        data["currency_code"] = json!("EUR");
        let content = read_as("transaction.completed", data);
        assert_eq!(content.record().unwrap().amount.as_deref(), Some("9.00 EUR"));
        let adjusted = |action: &str, status: &str, items: Value| {
            read_as(
                "adjustment.updated",
                json!({ "id": "adj_1", "action": action, "status": status, "transaction_id": "txn_1", "items": items,
                    "totals": { "total": "900", "tax": "150" } }),
            )
        };
        let item = |kind: &str| json!({ "type": kind, "totals": { "total": "120", "tax": "20" } });
        let refund = |content: Content| match content.record().map(|record| record.facts[0].clone()) {
            Some(Fact::Refund(refund)) => Some((refund.of, refund.amount, refund.is_approved)),
            None => None,
            other => panic!("{other:?}"),
        };
        let of = |amount: u64, is_approved: bool| Some(("txn_1".to_owned(), amount, is_approved));
        for (status, items, expected) in [
            ("approved", json!([item("full"), item("partial")]), of(200, true)),
            ("pending_approval", json!([item("full")]), of(100, false)),
            ("rejected", json!([item("full")]), of(100, false)),
            ("reversed", json!([item("full")]), of(100, false)),
            ("approved", json!([item("tax")]), None),
            ("approved", json!([item("tax"), item("full")]), of(100, true)),
            ("approved", json!([]), of(750, true)),
        ] {
            assert_eq!(refund(adjusted("refund", status, items)), expected);
        }
        let dispute = |content: Content| match content.record().map(|record| record.facts[0].clone()) {
            Some(Fact::Dispute(dispute)) => Some(dispute.status),
            None => None,
            other => panic!("{other:?}"),
        };
        for (action, status, expected) in [
            ("chargeback", "approved", Some(DisputeStatus::Lost)),
            ("chargeback", "reversed", Some(DisputeStatus::Won)),
            ("chargeback_reverse", "approved", Some(DisputeStatus::Won)),
            ("chargeback_warning", "approved", None),
            ("chargeback_warning_reverse", "approved", None),
            ("credit", "approved", None),
            ("credit_reverse", "approved", None),
        ] {
            assert_eq!(
                dispute(adjusted(action, status, json!([item("full")]))),
                expected,
                "{action} {status}"
            );
        }
    }

    #[test]
    fn a_subscription_says_its_items_and_never_its_end() {
        let data = |status: &str| {
            json!({ "id": "sub_1", "status": status, "billing_cycle": { "interval": "month", "frequency": 1 },
                "items": [{ "price": { "id": "pri_2", "product_id": "pro_1" }, "quantity": 2 }, { "price": { "id": "pri_3", "product_id": "pro_1" } }],
                "current_billing_period": { "starts_at": "2030-01-31T00:00:00Z", "ends_at": "2030-03-03T00:00:00Z" } })
        };
        let active = sold(data("active"));
        let items: Vec<_> = active
            .items
            .iter()
            .map(|item| (item.item.as_str(), item.quantity))
            .collect();
        assert_eq!(
            (active.ends, active.free, &items[..]),
            (None, None, &[("pro_1#0", 2), ("pro_1#1", 1)][..])
        );
        for status in ["trialing", "past_due", "paused", "canceled"] {
            assert_eq!(
                sold(data(status)).renews,
                !matches!(status, "paused" | "canceled"),
                "{status}"
            );
        }
        assert!(matches!(
            read_as("subscription.updated", data("odd")),
            Content::Park { .. }
        ));
        assert!(matches!(
            read_as("subscription.created", json!({})),
            Content::Park { .. }
        ));
        let customer = read_as("customer.created", json!({ "id": "ctm_1", "email": "a@b.de" }));
        assert!(matches!(customer, Content::Ignore { .. }));
        for action in ["cancel", "pause", "resume"] {
            let mut scheduled = data("active");
            scheduled["scheduled_change"] = json!({ "action": action });
            assert_eq!(sold(scheduled).renews, action == "resume");
        }
        let mut moved = data("active");
        moved["current_billing_period"]["ends_at"] = json!("2030-03-09T00:00:00Z");
        assert!(sold(moved.clone()).free.is_some());
        moved["status"] = json!("past_due");
        assert_eq!(sold(moved).free, None);
        let mut invoiced = data("active");
        invoiced["collection_mode"] = json!("manual");
        for (interval, count, days) in [("day", 30, 30), ("week", 2, 14), ("month", 1, 31), ("year", 1, 365)] {
            invoiced["billing_details"] = json!({ "payment_terms": { "interval": interval, "frequency": count } });
            assert_eq!(sold(invoiced.clone()).due_days, Some(days), "{interval}");
        }
    }

    #[test]
    fn only_the_customer_that_was_asked_for_answers_the_question_for_an_address() {
        let answer = json!({ "data": { "id": "ctm_1", "email": "a@b.example" } });
        assert_eq!(customer_address("ctm_1", &answer), Ok(Some("a@b.example".to_owned())));
        assert_eq!(customer_address("ctm_2", &answer), Err(NotACustomer));
        let nameless = json!({ "data": { "id": "ctm_1", "email": null } });
        assert_eq!(customer_address("ctm_1", &nameless), Err(NotACustomer));
        let path = PADDLE.api.as_ref().and_then(|api| api.customer.as_ref()).unwrap().path;
        assert_eq!(path("ctm_1").as_deref(), Some("customers/ctm_1"));
        for id in ["", "ctm_1/../x", "ctm_1?a=b", "ctm 1"] {
            assert_eq!(path(id), None, "{id}");
        }
    }
}
