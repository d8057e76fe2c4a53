//! WooCommerce's orders, and subscriptions of its extension. The topic in the header is not signed: the body says what it is.
//!
//! Its ids are numbers, so names say of what: `order:7`, `subscription:3`, `refund:9`. Times are UTC and say no zone. A
//! subscription names its end.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::event::{Buyer, Content, DeliveryError, ReportedSale, ShopDelivery};
use crate::json::{
    ItemNames, MAX_LINES, above_zero, address, at, id, language, list, name, quantity, renewal_token, shop_id, text,
    time, words,
};
use crate::money;
use crate::shop::{ObjectIds, Shop, SignatureScheme, numbered};
use countersign_model::language::Language;
use countersign_model::offer::ShopId;
use countersign_model::renewal_token::{NotARenewalToken, RenewalToken};
use countersign_model::sale::fact::{Fact, PaidLine, Payment, Refund, SoldItem, Subscription, SubscriptionStatus};

/// The longest first request, which says `webhook_id=12`.
const MAX_PING: usize = 64;

/// Whether it is the request that WooCommerce sends when a webhook is saved: a form, unsigned, that tells nothing.
fn is_ping(body: &[u8]) -> bool {
    let number = body.strip_prefix(b"webhook_id=");
    body.len() <= MAX_PING && number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// WooCommerce, with or without its subscriptions.
pub(crate) const WOOCOMMERCE: Shop = Shop {
    name: "woocommerce",
    title: "WooCommerce",
    signature_header: "X-WC-Webhook-Signature",
    signature_scheme: SignatureScheme::Base64,
    is_ping: Some(is_ping),
    makes_keys: false,
    ids: ObjectIds::Number,
    api: None,
    read,
};

fn read(object: &Value) -> Result<ShopDelivery, DeliveryError> {
    let number = id(object, "id").ok_or(DeliveryError::Missing("id"))?;
    let status = text(object, "status").unwrap_or_default();
    let is_subscription = at(object, "billing_period").is_some();
    let is_order = at(object, "line_items").is_some_and(Value::is_array);
    let kind = match (is_subscription, is_order) {
        (true, _) => "subscription",
        (false, true) => "order",
        (false, false) => "object",
    };
    let content = match kind {
        // The body of a deleted object is its id alone, whatever it was.
        "object" if status.is_empty() => Content::ignore("it is deleted, or has no status"),
        "object" => Content::ignore("it is neither an order nor a subscription"),
        _ if status == "trash" => Content::ignore("it is in the trash"),
        _ => {
            let said = time(object, "date_modified_gmt").or_else(|| time(object, "date_created_gmt"));
            let said = said.ok_or(DeliveryError::Missing("date_modified_gmt"))?;
            let read = if is_subscription { subscription } else { order };
            read(object, &number, status, said).bought_for(bought_for(object))
        }
    };
    Ok(ShopDelivery {
        event: format!("{kind} {status}").trim_end().to_owned(),
        id: None,
        mode: None,
        content,
    })
}

fn order(order: &Value, number: &str, status: &str, said: DateTime<Utc>) -> Content {
    let own = format!("order:{number}");
    let park = |reason| Content::park(vec![own.clone()], reason);
    let Some(paid) = time(order, "date_paid_gmt") else {
        return Content::ignore("it is not paid");
    };
    let money = Money::of(order);
    let Some(lines) = lines(order, &money) else {
        return park("its lines cannot be read");
    };
    let Some(refunds) = refunds(order, &money, &own, said) else {
        return park("its refunds cannot be read");
    };
    let renewed = related(order, "_subscription_renewal");
    let is_renewal = !renewed.is_empty();
    let mut renews = renewed;
    for key in ["_subscription_switch", "_subscription_resubscribe"] {
        renews.extend(related(order, key));
    }
    renews.sort();
    renews.dedup();
    let payment = Payment {
        amount: text(order, "total").and_then(|total| money.read(total)).map(above_zero),
        at: said,
        id: own.clone(),
        is_valid: matches!(status, "processing" | "completed"),
        lines,
        names: Vec::new(),
        paid: Some(paid),
        place: None,
        renews,
        subscription: None,
    };
    Content::Record(ReportedSale {
        facts: [Fact::Payment(payment)].into_iter().chain(refunds).collect(),
        is_renewal,
        order: Some(own),
        amount: text(order, "total")
            .zip(text(order, "currency"))
            .map(|(total, currency)| format!("{total} {currency}")),
        buyer: buyer(order),
        words: words_of(order),
        ..ReportedSale::default()
    })
}

/// What was sold. A line without a product, or of which there is none, is left out. `None` if one cannot be read.
fn lines(order: &Value, money: &Money) -> Option<Vec<PaidLine<String>>> {
    let items = list(order, "line_items");
    let sold = sold(items)?;
    let read = |(item, line): (SoldItem<String>, &Value)| {
        let of = |name| text(line, name).and_then(|amount| money.read(amount));
        PaidLine {
            amount: of("total").map(|total| total.saturating_add(of("total_tax").unwrap_or_default())),
            from: None,
            item: item.item,
            is_recurring: false,
            offer: None,
            price: item.price,
            product: item.product,
            quantity: item.quantity,
            to: None,
        }
    };
    Some(sold.into_iter().map(read).collect())
}

/// The refunds of an order, each with its id. `None` if the amount of one cannot be read.
fn refunds(order: &Value, money: &Money, own: &str, said: DateTime<Utc>) -> Option<Vec<Fact<String>>> {
    let mut refunds = Vec::new();
    for refund in list(order, "refunds") {
        let amount = money.read(text(refund, "total")?)?.unsigned_abs();
        let number = id(refund, "id")?;
        // One of nothing puts goods back into the stock.
        if amount > 0 {
            refunds.push(Fact::Refund(Refund {
                amount,
                at: said,
                id: format!("refund:{number}"),
                is_approved: true,
                names: Vec::new(),
                of: own.to_owned(),
            }));
        }
    }
    Some(refunds)
}

fn subscription(subscription: &Value, number: &str, status: &str, said: DateTime<Utc>) -> Content {
    let own = numbered(number);
    let parent = id(subscription, "parent_id").map(|id| format!("order:{id}"));
    let park = |reason| Content::park(parent.iter().cloned().chain([own.clone()]).collect(), reason);
    if at(subscription, "next_payment_date_gmt").is_none() {
        return park("its webhook has an old API version: choose \"WP REST API Integration v3\"");
    }
    let status = match status {
        "active" => SubscriptionStatus::Active,
        "on-hold" => SubscriptionStatus::OnHold,
        "pending-cancel" => SubscriptionStatus::PendingCancel,
        // Another subscription took the place of a switched one.
        "cancelled" | "switched" => SubscriptionStatus::Canceled,
        "expired" => SubscriptionStatus::Expired,
        _ => {
            return Content::ignore("it is not paid");
        }
    };
    let items = sold(list(subscription, "line_items")).filter(|items| !items.is_empty());
    let Some(items) = items else {
        return park("its lines cannot be read");
    };
    let next = time(subscription, "next_payment_date_gmt");
    let end = time(subscription, "end_date_gmt");
    let ends = next.or(end).filter(|_| status.names_its_end());
    if status == SubscriptionStatus::Active && ends.is_none() {
        return park("its end cannot be read");
    }
    let is_over = matches!(status, SubscriptionStatus::Canceled | SubscriptionStatus::Expired);
    let removed = list(subscription, "removed_line_items").iter();
    let mut resubscribed = related(subscription, "_subscription_resubscribe").into_iter();
    let resubscribes = id(subscription, "resubscribed_from").map(numbered);
    let fact = Subscription {
        at: said,
        due_days: None,
        ended: end.filter(|_| is_over),
        ends,
        free: None,
        id: own.clone(),
        items: items.into_iter().map(|(item, _)| item).collect(),
        parent: parent.clone(),
        place: None,
        removed: removed.filter_map(|item| shop_id(item, "product_id")).collect(),
        // While it is on hold, the date of the payment that is due may be gone.
        renews: status == SubscriptionStatus::OnHold || (status.goes_on() && next.is_some()),
        resubscribes: resubscribes.or_else(|| resubscribed.next()),
        status,
    };
    Content::Record(ReportedSale {
        facts: vec![Fact::Subscription(fact)],
        // Its order says that it was sold.
        is_renewal: true,
        order: parent.or(Some(own)),
        buyer: buyer(subscription),
        words: words_of(subscription),
        ..ReportedSale::default()
    })
}

/// The renewal token of an order or a subscription.
fn bought_for(object: &Value) -> Option<Result<RenewalToken, NotARenewalToken>> {
    let mut fields = list(object, "meta_data").iter();
    let field = fields.find(|field| text(field, "key") == Some("_countersign_renew"))?;
    renewal_token(field, &["value"])
}

/// The subscriptions that one of an order's own fields names. It may be there several times.
fn related(order: &Value, key: &str) -> Vec<String> {
    let fields = list(order, "meta_data").iter();
    let fields = fields.filter(|field| text(field, "key") == Some(key));
    let numbers = fields.filter_map(|field| id(field, "value"));
    numbers.map(numbered).collect()
}

/// What the lines sell, each beside its line. `None` if there are too many, or a quantity is not whole.
fn sold(lines: &[Value]) -> Option<Vec<(SoldItem<String>, &Value)>> {
    if lines.len() > MAX_LINES {
        return None;
    }
    let mut names = ItemNames::default();
    let mut items = Vec::new();
    for line in lines {
        let quantity = quantity(line, "quantity")?;
        // A product without variations has the variation 0; a product that is deleted is 0, too.
        let Some(product) = shop_id(line, "product_id").filter(|_| quantity > 0) else {
            continue;
        };
        let item = SoldItem {
            item: names.next(&product),
            offer: None,
            price: shop_id(line, "variation_id").unwrap_or_else(|| ShopId::clone(&product)),
            product,
            quantity,
        };
        items.push((item, line));
    }
    Some(items)
}

/// How amounts of an order are read: texts such as `-10.5`.
struct Money {
    /// Digits of the currency's smallest unit.
    digits: usize,
}

impl Money {
    fn of(order: &Value) -> Self {
        let digits = money::digits(text(order, "currency").unwrap_or_default());
        Self { digits }
    }

    /// An amount in the smallest unit. More digits are cut.
    fn read(&self, text: &str) -> Option<i64> {
        let (sign, number) = match text.strip_prefix('-') {
            Some(number) => (-1, number),
            None => (1, text),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(part) {
            return None;
        }
        let part = format!("{part:0<width$}", width = self.digits);
        let units: i64 = format!("{whole}{}", part.get(..self.digits)?).parse().ok()?;
        Some(sign * units)
    }
}

/// What the shop calls the lines.
fn words_of(order: &Value) -> BTreeMap<ShopId, Box<str>> {
    let named = list(order, "line_items").iter().filter_map(|line| {
        let price = shop_id(line, "variation_id").or_else(|| shop_id(line, "product_id"))?;
        Some((price, words(line, &["name"])?))
    });
    named.collect()
}

/// The language in which an order was made, as WPML and TranslatePress note it.
fn language_of(order: &Value) -> Option<Language> {
    let fields = list(order, "meta_data").iter();
    let mut fields = fields.filter(|field| matches!(text(field, "key"), Some("wpml_language" | "trp_language")));
    fields.find_map(|field| language(field, &["value"]))
}

fn buyer(order: &Value) -> Buyer {
    Buyer {
        address: address(order, "billing.email"),
        name: name(order, &["billing.first_name", "billing.last_name"]),
        customer: id(order, "customer_id"),
        language: language_of(order),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn of(object: &Value) -> Content {
        super::read(object).unwrap().content
    }

    fn order(status: &str, more: &[(&str, Value)]) -> Content {
        let mut order = json!({ "id": 7, "status": status, "currency": "EUR", "total": "29.90",
            "date_modified_gmt": "2026-01-02T03:04:05", "date_paid_gmt": "2026-01-02T03:04:00", "customer_id": 0,
            "billing": { "email": "a@b.de" }, "refunds": [], "meta_data": [],
            "line_items": [{ "product_id": 55, "variation_id": 0, "quantity": 2, "total": "25.1", "total_tax": "4.80" }] });
        for (name, value) in more {
            order[name] = value.clone();
        }
        of(&order)
    }

    fn payment(content: &Content) -> &Payment<String> {
        let Some(Fact::Payment(payment)) = content.record().map(|record| &record.facts[0]) else {
            panic!("{content:?}")
        };
        payment
    }

    fn subscription(status: &str, more: &[(&str, Value)]) -> Content {
        let mut subscription = json!({ "id": 3, "parent_id": 7, "status": status, "billing_period": "year",
            "date_modified_gmt": "2026-01-02T03:04:05", "next_payment_date_gmt": "2027-01-02T03:04:05",
            "line_items": [{ "product_id": 55, "variation_id": 66 }] });
        for (name, value) in more {
            subscription[name] = value.clone();
        }
        of(&subscription)
    }

    fn sold(content: &Content) -> &Subscription<String> {
        let Some(Fact::Subscription(subscription)) = content.record().map(|record| &record.facts[0]) else {
            panic!("{content:?}")
        };
        subscription
    }

    #[test]
    fn samples_are_read_as_written_beside_them() {
        testing::compare(&WOOCOMMERCE);
    }

    #[test]
    fn a_customer_has_what_the_facts_of_a_short_life_grant() {
        let offers = [
            ("66", testing::terms("pro", "subscription", 1)),
            ("67", testing::terms("agency", "subscription", 20)),
            ("56", testing::terms("life", "lifetime", 5)),
        ];
        let maps = "active 5 9999-12-31";
        let life: &[(&str, &[&str])] = &[
            ("order-first", &[maps]),
            ("subscription-active", &["active 1 2026-02-10 renews", maps]),
            ("order-renewal", &["active 1 2026-02-10 renews", maps]),
            ("subscription-renewed", &["active 1 2026-03-10 renews", maps]),
            ("order-switch", &["active 1 2026-03-10 renews", maps]),
            ("subscription-switched", &["active 20 2026-03-10 renews", maps]),
            ("order-switch-refunded", &["active 20 2026-03-10", maps]),
            ("order-renewal-refunded", &["active 20 2026-02-10", maps]),
            ("order-resubscribe", &["active 20 2026-03-10 renews", maps]),
            ("subscription-resubscribed", &["active 1 2026-05-01 renews", maps]),
        ];
        testing::live(&WOOCOMMERCE, &offers, life);
    }

    #[test]
    fn an_order_that_is_paid_is_a_payment_whichever_topic_it_came_with() {
        for (status, is_valid) in [
            ("processing", true),
            ("completed", true),
            ("on-hold", false),
            ("cancelled", false),
            ("refunded", false),
        ] {
            let content = order(status, &[]);
            let paid = payment(&content);
            assert_eq!(
                (paid.id.as_str(), paid.is_valid, paid.amount),
                ("order:7", is_valid, Some(2990))
            );
            let line = &paid.lines[0];
            assert_eq!(
                (line.price.as_str(), line.product.as_str(), line.quantity, line.amount),
                ("55", "55", 2, Some(2990))
            );
            assert_eq!(content.record().unwrap().amount.as_deref(), Some("29.90 EUR"));
            let buyer = &content.record().unwrap().buyer;
            assert_eq!(
                (buyer.customer.as_ref(), buyer.address.as_deref()),
                (None, Some("a@b.de"))
            );
        }
        for (status, paid) in [
            ("pending", json!(null)),
            ("processing", json!("")),
            ("trash", json!("2026-01-02T03:04:00")),
        ] {
            let content = order(status, &[("date_paid_gmt", paid)]);
            assert!(matches!(content, Content::Ignore { .. }), "{status}");
        }
        let lines = json!([{ "product_id": 0, "quantity": 1 }, { "product_id": 5, "quantity": 1 }, { "product_id": 5, "variation_id": 6 }]);
        let content = order("completed", &[("line_items", lines)]);
        let items: Vec<_> = payment(&content).lines.iter().map(|line| line.item.as_str()).collect();
        assert_eq!(items, ["5#0", "5#1"]);
        let half = order(
            "completed",
            &[("line_items", json!([{ "product_id": 5, "quantity": 0.5 }]))],
        );
        assert!(matches!(half, Content::Park { .. }));
    }

    #[test]
    fn an_order_may_renew_several_subscriptions() {
        let meta = json!([{ "key": "_subscription_renewal", "value": "3" }, { "key": "_subscription_renewal", "value": 5 },
            { "key": "_subscription_switch", "value": "3" }, { "key": "other", "value": "9" }]);
        let content = order("completed", &[("meta_data", meta)]);
        assert!(content.record().unwrap().is_renewal);
        assert_eq!(payment(&content).renews, ["subscription:3", "subscription:5"]);
        for key in ["_subscription_switch", "_subscription_resubscribe"] {
            let content = order("completed", &[("meta_data", json!([{ "key": key, "value": "3" }]))]);
            assert!(!content.record().unwrap().is_renewal, "{key}");
            assert_eq!(payment(&content).renews, ["subscription:3"]);
        }
    }

    #[test]
    fn each_refund_is_one_by_its_id() {
        let refunds = |amounts: &[&str]| {
            let refunds: Vec<Value> = (1_u8..)
                .zip(amounts)
                .map(|(id, amount)| json!({ "id": id, "total": amount }))
                .collect();
            order("completed", &[("refunds", json!(refunds))])
        };
        let content = refunds(&["-10.00", "-19.9", "0.00"]);
        let shown: Vec<_> = content.record().unwrap().facts[1..]
            .iter()
            .map(|fact| match fact {
                Fact::Refund(refund) => (
                    refund.id.as_str(),
                    refund.of.as_str(),
                    refund.amount,
                    refund.is_approved,
                ),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [("refund:1", "order:7", 1000, true), ("refund:2", "order:7", 1990, true)]
        );
        assert!(matches!(refunds(&["-1e9"]), Content::Park { .. }));
    }

    #[test]
    fn an_amount_is_read_in_the_currencys_smallest_unit() {
        let read = |currency: &str, text: &str| Money::of(&json!({ "currency": currency })).read(text);
        for (currency, text, amount) in [
            ("EUR", "29.9", Some(2_990)),
            ("EUR", "-0.05", Some(-5)),
            ("EUR", "7", Some(700)),
            ("EUR", "1.239", Some(123)),
            ("JPY", "1500", Some(1500)),
            ("JPY", "1500.00", Some(1500)),
            ("KWD", "1.5", Some(1500)),
            ("EUR", "", None),
            ("EUR", "1,5", None),
            ("EUR", "99999999999999999999", None),
        ] {
            assert_eq!(read(currency, text), amount, "{currency} {text}");
        }
    }

    #[test]
    fn a_subscription_says_its_end_itself() {
        let content = subscription("active", &[]);
        let active = sold(&content);
        assert_eq!(
            (active.id.as_str(), active.parent.as_deref()),
            ("subscription:3", Some("order:7"))
        );
        assert_eq!(active.ends.unwrap().to_rfc3339(), "2027-01-02T03:04:05+00:00");
        assert_eq!((active.items[0].price.as_str(), active.renews), ("66", true));
        let end = [
            ("next_payment_date_gmt", json!("")),
            ("end_date_gmt", json!("2026-06-01T00:00:00")),
        ];
        for (status, ends, renews) in [
            ("active", Some("2026-06-01"), false),
            ("pending-cancel", Some("2026-06-01"), false),
            ("on-hold", None, true),
            ("cancelled", None, false),
            ("expired", None, false),
            ("switched", None, false),
        ] {
            let content = subscription(status, &end);
            let sold = sold(&content);
            let named = sold.ends.map(|ends| ends.date_naive().to_string());
            assert_eq!((named.as_deref(), sold.renews), (ends, renews), "{status}");
            let is_over = matches!(status, "cancelled" | "expired" | "switched");
            assert_eq!(sold.ended.is_some(), is_over, "{status}");
        }
        assert!(matches!(subscription("pending", &[]), Content::Ignore { .. }));
        let endless = [("next_payment_date_gmt", json!(""))];
        assert!(matches!(subscription("active", &endless), Content::Park { .. }));
        assert!(matches!(
            subscription("active", &[("line_items", json!([]))]),
            Content::Park { .. }
        ));
        let old = subscription("active", &[("next_payment_date_gmt", Value::Null)]);
        assert!(matches!(old, Content::Park { .. }), "an end that is null is none");
        let again = subscription(
            "active",
            &[
                ("resubscribed_from", json!("2")),
                ("removed_line_items", json!([{ "product_id": 8 }])),
            ],
        );
        let again = sold(&again);
        assert_eq!(again.resubscribes.as_deref(), Some("subscription:2"));
        assert_eq!(again.removed, ["8".parse().unwrap()]);
    }

    #[test]
    fn a_deleted_object_is_ignored_whatever_it_was() {
        for body in [
            json!({ "id": 7 }),
            json!({ "id": 7, "status": "publish" }),
            json!({ "id": 7, "role": "customer" }),
        ] {
            assert!(matches!(of(&body), Content::Ignore { .. }), "{body}");
        }
    }

    #[test]
    fn the_first_request_is_a_form_and_nothing_else_is() {
        assert!(is_ping(b"webhook_id=12"));
        for body in [
            &b"webhook_id="[..],
            b"webhook_id=1&a=b",
            b"webhook_id=x",
            b"{}",
            &[b'1'; 80],
        ] {
            assert!(!is_ping(body));
        }
    }
}
