//! Lemon Squeezy's events. Its ids are numbers, so names say of what: `order:7`, `subscription:3`, `invoice:9`.
//!
//! A subscription names its end. What is paid first is an order, and an invoice too: the order is the payment, and
//! `subscription:3:initial` another name of it.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::event::{Buyer, Content, DeliveryError, ReportedSale, ShopDelivery};
use crate::json::{
    ItemNames, above_zero, address, amount, at, id, language, name, quantity, renewal_token, required, shop_id, text,
    time, words,
};
use crate::shop::{ObjectIds, Shop, SignatureScheme, numbered};
use countersign_model::foreign_key::{self, ForeignKeyError};
use countersign_model::offer::SalesMode;
use countersign_model::sale::fact::{
    Fact, Names, PaidLine, Payment, Refund, ShopKey, SoldItem, Subscription, SubscriptionStatus,
};

/// lemonsqueezy.com
pub(crate) const LEMON_SQUEEZY: Shop = Shop {
    name: "lemonsqueezy",
    title: "Lemon Squeezy",
    signature_header: "X-Signature",
    signature_scheme: SignatureScheme::Hex,
    is_ping: None,
    makes_keys: true,
    ids: ObjectIds::Number,
    api: None,
    read,
};

fn read(event: &Value) -> Result<ShopDelivery, DeliveryError> {
    let kind = required(event, "meta.event_name")?;
    let of = required(event, "data.type")?;
    let data = at(event, "data").ok_or(DeliveryError::Missing("data"))?;
    let attributes = at(data, "attributes").filter(|attributes| attributes.is_object());
    let attributes = attributes.ok_or(DeliveryError::Missing("data.attributes"))?;
    let test = [at(event, "meta.test_mode"), at(attributes, "test_mode")];
    let test = test.into_iter().flatten().find_map(Value::as_bool);
    Ok(ShopDelivery {
        event: kind.to_owned(),
        id: id(event, "meta.webhook_id"),
        mode: test.map(|is_test| if is_test { SalesMode::Test } else { SalesMode::Live }),
        content: content(kind, of, id(event, "data.id").as_deref(), attributes)?
            .bought_for(renewal_token(event, &["meta.custom_data.countersign"]))
            .in_language(language(event, &["meta.custom_data.language"])),
    })
}

fn content(kind: &str, of: &str, own: Option<&str>, attributes: &Value) -> Result<Content, DeliveryError> {
    let ignore = |reason| Ok(Content::ignore(reason));
    let is_new = kind == "subscription_created";
    let read = match kind {
        "order_created" | "order_refunded" => order,
        "subscription_created"
        | "subscription_updated"
        | "subscription_cancelled"
        | "subscription_resumed"
        | "subscription_expired"
        | "subscription_paused"
        | "subscription_unpaused"
        | "subscription_plan_changed" => subscription,
        "subscription_payment_success" | "subscription_payment_recovered" | "subscription_payment_refunded" => invoice,
        "subscription_payment_failed" => return ignore("subscription_updated says that a payment is tried again"),
        "license_key_created" => return Ok(key(attributes)),
        // The license follows the order and the subscription, not the shop's own limits of its key.
        "license_key_updated" => return ignore("it is about a key of the shop's own"),
        _ => return ignore("no license depends on this event"),
    };
    let own = own.ok_or(DeliveryError::Missing("data.id"))?;
    let said = time(attributes, "updated_at").ok_or(DeliveryError::Missing("data.attributes.updated_at"))?;
    let mut content = read(own, attributes, said);
    // Its order, or its first word, says that a subscription was sold.
    if let (Content::Record(record), "subscriptions", false) = (&mut content, of, is_new) {
        record.is_renewal = true;
    }
    Ok(content)
}

fn key(attributes: &Value) -> Content {
    let order = id(attributes, "order_id").map(|id| format!("order:{id}"));
    let Some(of) = order.clone() else {
        return Content::park(Vec::new(), "it names no order");
    };
    let license = text(attributes, "key").ok_or(ForeignKeyError::Empty);
    let license = license.and_then(foreign_key::any_id);
    Content::Record(ReportedSale {
        bad_key: license.as_ref().err().copied(),
        facts: license
            .ok()
            .map(|license| Fact::Key(ShopKey { license, of }))
            .into_iter()
            .collect(),
        order,
        ..ReportedSale::default()
    })
}

fn order(own: &str, order: &Value, said: DateTime<Utc>) -> Content {
    let own = format!("order:{own}");
    let status = text(order, "status").unwrap_or_default();
    if !matches!(status, "paid" | "refunded" | "partial_refund" | "fraudulent") {
        return Content::ignore("it is not paid");
    }
    let item = &order["first_order_item"];
    let Some(sold) = sold(item, item) else {
        return Content::park(vec![own], "its product cannot be read");
    };
    let total = amount(order, "total").map(above_zero);
    let words = words(item, &["product_name", "variant_name"]).map(|words| (sold.price.clone(), words));
    // One that a subscription has is a line of the order too: the subscription claims it.
    let line = PaidLine {
        amount: None,
        from: None,
        item: sold.item,
        is_recurring: false,
        offer: None,
        price: sold.price,
        product: sold.product,
        quantity: sold.quantity,
        to: None,
    };
    let payment = Payment {
        amount: total,
        at: said,
        id: own.clone(),
        is_valid: status != "fraudulent",
        lines: vec![line],
        names: Vec::new(),
        paid: Some(time(order, "created_at").unwrap_or(said)),
        place: None,
        renews: Vec::new(),
        subscription: None,
    };
    let refund = went_back(order, total).map(|amount| {
        Fact::Refund(Refund {
            amount,
            at: said,
            id: own.clone(),
            is_approved: true,
            names: Vec::new(),
            of: own.clone(),
        })
    });
    Content::Record(ReportedSale {
        facts: [Fact::Payment(payment)].into_iter().chain(refund).collect(),
        order: Some(own),
        amount: text(order, "total_formatted").map(str::to_owned),
        buyer: buyer(order),
        words: words.into_iter().collect(),
        ..ReportedSale::default()
    })
}

/// All that went back of an order or an invoice: a partial refund may leave its status `paid`.
fn went_back(paid: &Value, total: Option<u64>) -> Option<u64> {
    let back = amount(paid, "refunded_amount").map(above_zero);
    match text(paid, "status") {
        Some("refunded") => Some(back.max(total).unwrap_or(1)),
        _ => back.filter(|amount| *amount > 0),
    }
}

fn subscription(own: &str, subscription: &Value, said: DateTime<Utc>) -> Content {
    let own = numbered(own);
    let parent = id(subscription, "order_id").map(|id| format!("order:{id}"));
    let park = |reason| Content::park(parent.iter().cloned().chain([own.clone()]).collect(), reason);
    let status = match text(subscription, "status") {
        Some("on_trial") => SubscriptionStatus::Trialing,
        Some("active") => SubscriptionStatus::Active,
        // With "free" the vendor gives the service away while it is paused.
        Some("paused") if text(subscription, "pause.mode") == Some("free") => SubscriptionStatus::Active,
        Some("paused") => SubscriptionStatus::Paused,
        Some("past_due") => SubscriptionStatus::PastDue,
        Some("unpaid") => SubscriptionStatus::Unpaid,
        Some("cancelled") => SubscriptionStatus::Canceled,
        Some("expired") => SubscriptionStatus::Expired,
        _ => return park("its status is unknown"),
    };
    let Some(item) = sold(subscription, &subscription["first_subscription_item"]) else {
        return park("its product cannot be read");
    };
    let words = words(subscription, &["product_name", "variant_name"]).map(|words| (item.price.clone(), words));
    let ends = match status {
        SubscriptionStatus::Trialing => time(subscription, "trial_ends_at").or_else(|| time(subscription, "renews_at")),
        _ => time(subscription, "renews_at").max(time(subscription, "pause.resumes_at")),
    };
    // While a payment is tried again, `renews_at` is the next attempt.
    let ends = ends.filter(|_| status.names_its_end());
    if status.names_its_end() && ends.is_none() {
        return park("its end cannot be read");
    }
    let fact = Subscription {
        at: said,
        due_days: None,
        ended: time(subscription, "ends_at").filter(|_| status == SubscriptionStatus::Expired),
        ends,
        free: None,
        id: own.clone(),
        items: vec![item],
        parent: parent.clone(),
        place: None,
        removed: Vec::new(),
        renews: status.goes_on(),
        resubscribes: None,
        status,
    };
    let initial = parent.clone().map(|order| {
        Fact::Names(Names {
            ids: vec![order, initial(&own)],
        })
    });
    Content::Record(ReportedSale {
        facts: [Fact::Subscription(fact)].into_iter().chain(initial).collect(),
        order: parent.or(Some(own)),
        buyer: buyer(subscription),
        words: words.into_iter().collect(),
        ..ReportedSale::default()
    })
}

/// Another name of the order that a subscription came from, for its first invoice, which does not name the order.
fn initial(subscription: &str) -> String {
    format!("{subscription}:initial")
}

fn invoice(own: &str, invoice: &Value, said: DateTime<Utc>) -> Content {
    let own = format!("invoice:{own}");
    let Some(subscription) = id(invoice, "subscription_id").map(numbered) else {
        return Content::park(vec![own], "it names no subscription");
    };
    if !matches!(text(invoice, "status"), Some("paid" | "refunded" | "partial_refund")) {
        return Content::ignore("it is not paid");
    }
    let total = amount(invoice, "total").map(above_zero);
    let refund = |amount, of: &str| {
        Fact::Refund(Refund {
            amount,
            at: said,
            id: own.clone(),
            is_approved: true,
            names: Vec::new(),
            of: of.to_owned(),
        })
    };
    let back = went_back(invoice, total);
    let reason = text(invoice, "billing_reason");
    if reason == Some("initial") {
        // A part would count twice: order_refunded has it.
        return match back.filter(|back| total.is_none_or(|total| *back >= total)) {
            Some(back) => Content::facts([refund(back, &initial(&subscription))]),
            None => Content::ignore("its order is the payment"),
        };
    }
    let payment = Payment {
        amount: total,
        at: said,
        id: own.clone(),
        is_valid: true,
        lines: Vec::new(),
        names: Vec::new(),
        // It says no time of the payment, and `updated_at` moves with a refund.
        paid: Some(time(invoice, "created_at").unwrap_or(said)),
        place: None,
        renews: vec![subscription.clone()],
        subscription: None,
    };
    let refund = back.map(|back| refund(back, &own));
    Content::Record(ReportedSale {
        facts: [Fact::Payment(payment)].into_iter().chain(refund).collect(),
        is_renewal: reason == Some("renewal"),
        order: Some(subscription),
        amount: text(invoice, "total_formatted").map(str::to_owned),
        buyer: buyer(invoice),
        ..ReportedSale::default()
    })
}

/// A product, with the quantity of the item.
fn sold(product: &Value, item: &Value) -> Option<SoldItem<String>> {
    let variant = shop_id(product, "variant_id");
    let product = shop_id(product, "product_id").or_else(|| variant.clone())?;
    let quantity = quantity(item, "quantity").filter(|quantity| *quantity > 0)?;
    // SECURITY: `meta.custom_data` comes from the address of the checkout, which the buyer can write, so it names no offer.
    Some(SoldItem {
        item: ItemNames::default().next(&product),
        offer: None,
        price: variant.unwrap_or_else(|| product.clone()),
        product,
        quantity,
    })
}

fn buyer(attributes: &Value) -> Buyer {
    Buyer {
        address: address(attributes, "user_email"),
        name: name(attributes, &["user_name"]),
        customer: id(attributes, "customer_id"),
        language: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn read_as(kind: &str, attributes: Value) -> Content {
        let event = json!({ "meta": { "event_name": kind, "test_mode": true, "webhook_id": "w-1" },
            "data": { "type": "things", "id": "7", "attributes": attributes } });
        let delivery = super::read(&event).unwrap();
        assert_eq!(
            (delivery.mode, delivery.id.as_deref()),
            (Some(SalesMode::Test), Some("w-1"))
        );
        delivery.content
    }

    fn facts(kind: &str, attributes: Value) -> Vec<Fact<String>> {
        let content = read_as(kind, attributes);
        content.record().unwrap_or_else(|| panic!("{content:?}")).facts.clone()
    }

    fn order(status: &str, refunded: u64) -> Value {
        json!({ "status": status, "user_email": "a@b.de", "customer_id": 9, "total": 2999, "refunded_amount": refunded,
            "first_order_item": { "product_id": 55, "variant_id": 66, "quantity": 2 },
            "created_at": "2026-01-01T00:00:00.000000Z", "updated_at": "2026-01-02T00:00:00.000000Z" })
    }

    fn subscription(status: &str) -> Value {
        json!({ "status": status, "order_id": 7, "product_id": 55, "variant_id": 66, "user_email": "a@b.de",
            "first_subscription_item": { "quantity": 3 }, "trial_ends_at": "2026-01-08T00:00:00.000000Z",
            "renews_at": "2026-02-01T00:00:00.000000Z", "ends_at": null, "updated_at": "2026-01-01T00:00:00.000000Z" })
    }

    fn sold(attributes: Value) -> Subscription<String> {
        let Fact::Subscription(subscription) = facts("subscription_updated", attributes).remove(0) else {
            panic!()
        };
        subscription
    }

    /// The amount that went back, if any.
    fn refunded(facts: &[Fact<String>]) -> Option<(&str, u64)> {
        facts.iter().find_map(|fact| match fact {
            Fact::Refund(refund) => Some((refund.of.as_str(), refund.amount)),
            _ => None,
        })
    }

    #[test]
    fn samples_are_read_as_written_beside_them() {
        testing::compare(&LEMON_SQUEEZY);
    }

    #[test]
    fn a_customer_has_what_the_facts_of_a_short_life_grant() {
        let offers = [
            ("66", testing::terms("pro", "subscription", 1)),
            ("67", testing::terms("agency", "subscription", 20)),
        ];
        let life: &[(&str, &[&str])] = &[
            ("order-created", &[]),
            ("subscription-created", &["active 1 2026-02-10 renews"]),
            ("payment-renewal", &["active 1 2026-02-10 renews"]),
            ("subscription-renewed", &["active 1 2026-03-10 renews"]),
            ("subscription-plan-changed", &["active 20 2026-03-10 renews"]),
            ("order-refunded-in-part", &["active 20 2026-03-10 renews"]),
            ("payment-refunded", &["active 20 2026-02-10"]),
            ("subscription-past-due", &["active 20 2026-02-10"]),
            ("initial-payment-refunded", &["suspended 20 2026-03-10"]),
        ];
        testing::live(&LEMON_SQUEEZY, &offers, life);
    }

    #[test]
    fn an_order_and_its_subscription_are_one_sale() {
        let Fact::Payment(ordered) = facts("order_created", order("paid", 0)).remove(0) else {
            panic!()
        };
        let line = &ordered.lines[0];
        assert_eq!(
            (
                line.price.as_str(),
                line.product.as_str(),
                line.quantity,
                line.item.as_str()
            ),
            ("66", "55", 2, "55#0")
        );
        assert_eq!((ordered.id.as_str(), ordered.amount), ("order:7", Some(2999)));
        assert_eq!(ordered.paid.unwrap().to_rfc3339(), "2026-01-01T00:00:00+00:00");
        let subscribed = sold(subscription("active"));
        assert_eq!(
            (subscribed.parent.as_deref(), subscribed.items[0].quantity),
            (Some("order:7"), 3)
        );
        let content = read_as("subscription_created", subscription("active"));
        assert_eq!(content.record().unwrap().order.as_deref(), Some("order:7"));
        let mut formatted = order("paid", 0);
        formatted["total_formatted"] = json!("$29.99");
        let content = read_as("order_created", formatted);
        assert_eq!(content.record().unwrap().amount.as_deref(), Some("$29.99"));
    }

    #[test]
    fn an_order_is_looked_at_because_one_event_tells_of_all_refunds() {
        let with = |status: &str, back: u64| facts("order_refunded", order(status, back));
        assert_eq!(refunded(&with("refunded", 2999)), Some(("order:7", 2999)));
        assert_eq!(refunded(&with("refunded", 0)), Some(("order:7", 2999)));
        for status in ["paid", "partial_refund"] {
            assert_eq!(refunded(&with(status, 100)), Some(("order:7", 100)), "{status}");
        }
        assert_eq!(refunded(&with("paid", 0)), None);
        let Fact::Payment(fraud) = with("fraudulent", 0).remove(0) else {
            panic!()
        };
        assert!(!fraud.is_valid);
        for status in ["pending", "failed"] {
            assert!(matches!(
                read_as("order_created", order(status, 0)),
                Content::Ignore { .. }
            ));
        }
    }

    #[test]
    fn an_invoice_renews_and_the_first_one_is_the_order() {
        let with = |kind: &str, reason: &str, status: &str, back: u64| {
            read_as(
                kind,
                json!({ "subscription_id": 3, "billing_reason": reason, "status": status, "total": 2999, "refunded_amount": back,
                    "created_at": "2026-02-01T00:00:00.000000Z", "updated_at": "2026-02-05T00:00:00.000000Z" }),
            )
        };
        let renewal = with("subscription_payment_success", "renewal", "paid", 0);
        let record = renewal.record().unwrap();
        let Fact::Payment(paid) = &record.facts[0] else {
            panic!()
        };
        assert!(record.is_renewal && record.facts.len() == 1);
        assert_eq!(
            (paid.id.as_str(), &paid.renews[..]),
            ("invoice:7", &["subscription:3".to_owned()][..])
        );
        assert_eq!(
            paid.paid.unwrap().to_rfc3339(),
            "2026-02-01T00:00:00+00:00",
            "a refund moves updated_at"
        );
        assert_eq!(with("subscription_payment_recovered", "renewal", "paid", 0), renewal);
        let updated = with("subscription_payment_success", "updated", "paid", 0);
        assert!(!updated.record().unwrap().is_renewal);
        let back = with("subscription_payment_refunded", "renewal", "refunded", 2999);
        assert_eq!(refunded(&back.record().unwrap().facts), Some(("invoice:7", 2999)));
        let first = |status, back| with("subscription_payment_refunded", "initial", status, back);
        let whole = first("refunded", 2999);
        assert_eq!(
            refunded(&whole.record().unwrap().facts),
            Some(("subscription:3:initial", 2999))
        );
        for ignored in [
            first("paid", 0),
            first("partial_refund", 1500),
            with("subscription_payment_failed", "renewal", "pending", 0),
            with("subscription_payment_success", "renewal", "void", 0),
        ] {
            assert!(matches!(ignored, Content::Ignore { .. }));
        }
    }

    #[test]
    fn what_the_buyer_wrote_into_the_address_of_the_checkout_names_no_offer() {
        let event = json!({ "meta": { "event_name": "order_created", "custom_data": { "offer": "agency" } },
            "data": { "type": "orders", "id": "7", "attributes": order("paid", 0) } });
        let content = super::read(&event).unwrap().content;
        let Fact::Payment(payment) = &content.record().unwrap().facts[0] else {
            panic!()
        };
        assert_eq!(payment.lines[0].offer, None);
    }

    #[test]
    fn a_subscription_names_its_end_while_it_is_paid() {
        for (status, end, renews) in [
            ("on_trial", Some("2026-01-08"), true),
            ("active", Some("2026-02-01"), true),
            ("past_due", None, true),
            ("unpaid", None, false),
            ("paused", None, false),
            ("cancelled", None, false),
            ("expired", None, false),
        ] {
            let sold = sold(subscription(status));
            let ends = sold.ends.map(|ends| ends.date_naive().to_string());
            assert_eq!((ends.as_deref(), sold.renews), (end, renews), "{status}");
        }
        let mut free = subscription("paused");
        free["pause"] = json!({ "mode": "free", "resumes_at": "2026-05-01T00:00:00.000000Z" });
        let free = sold(free);
        assert_eq!(free.status, SubscriptionStatus::Active);
        assert_eq!(free.ends.unwrap().date_naive().to_string(), "2026-05-01");
        let mut endless = subscription("active");
        endless["renews_at"] = Value::Null;
        assert!(matches!(read_as("subscription_updated", endless), Content::Park { .. }));
        assert!(matches!(
            read_as("subscription_updated", subscription("odd")),
            Content::Park { .. }
        ));
        let mut timeless = subscription("active");
        timeless["updated_at"] = Value::Null;
        let event = json!({ "meta": { "event_name": "subscription_updated" }, "data": { "type": "x", "id": "7", "attributes": timeless } });
        assert!(matches!(super::read(&event), Err(DeliveryError::Missing(_))));
    }

    #[test]
    fn of_a_key_of_the_shop_only_the_license_is_kept() {
        const KEY: &str = "80e15db5-c796-436b-850c-8f9c98a48abe";
        let created = |key: &str| read_as("license_key_created", json!({ "order_id": 7, "key": key }));
        let content = created(KEY);
        let Fact::Key(key) = &content.record().unwrap().facts[0] else {
            panic!()
        };
        assert_eq!(
            (key.of.as_str(), Ok(key.license)),
            ("order:7", foreign_key::any_id(KEY))
        );
        for shown in [format!("{content:?}"), serde_json::to_string(&content).unwrap()] {
            assert!(!shown.contains("80e15db5"), "{shown}");
        }
        let short = created("80e15db5");
        let record = short.record().unwrap();
        assert_eq!(
            (record.bad_key, record.facts.len()),
            (Some(ForeignKeyError::TooShort), 0)
        );
        assert_eq!(record.order.as_deref(), Some("order:7"));
        let updated = read_as("license_key_updated", json!({ "key": KEY }));
        assert!(matches!(updated, Content::Ignore { .. }));
    }
}
