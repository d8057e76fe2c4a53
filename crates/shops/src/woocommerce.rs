//! WooCommerce's orders, and subscriptions of its extension. The topic in the header is not signed: the body says what it is.
//!
//! Its ids are numbers, so names say of what: `order:7`, `subscription:3`. Times are UTC and say no zone.

use serde_json::Value;

use crate::event::{Buyer, DeliveryError, Sale, ShopAction, ShopDelivery, SoldLine, Subject};
use crate::json::{MAX_LINES, address, at, id, line, list, required, shop_id, text, time};
use crate::shop::{Shop, SignatureScheme};

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
    customer_api: None,
    read,
};

fn read(object: &Value) -> Result<ShopDelivery, DeliveryError> {
    let number = id(object, "id").ok_or(DeliveryError::Missing("id"))?;
    let status = required(object, "status")?;
    let is_subscription = at(object, "billing_period").is_some() && at(object, "next_payment_date_gmt").is_some();
    let is_order = at(object, "line_items").is_some_and(Value::is_array);
    let (kind, action) = match (is_subscription, is_order) {
        (true, _) => ("subscription", subscription(object, &number, status)),
        (false, true) => ("order", order(object, &number, status)),
        (false, false) => (
            "object",
            ShopAction::Ignore {
                reason: "it is neither an order nor a subscription",
            },
        ),
    };
    Ok(ShopDelivery {
        event: format!("{kind} {status}"),
        id: None,
        mode: None,
        changed_at: time(object, "date_modified_gmt"),
        action,
    })
}

fn order(order: &Value, number: &str, status: &str) -> ShopAction {
    let renewed = meta(order, "_subscription_renewal");
    let switched = meta(order, "_subscription_switch");
    let subscription = renewed
        .as_ref()
        .or(switched.as_ref())
        .map(|id| format!("subscription:{id}"));
    let names: Vec<String> = subscription.into_iter().chain([format!("order:{number}")]).collect();
    // The subscription that it renewed is known by it since it was paid.
    let own = |reason| Subject::new(vec![format!("order:{number}")], reason);
    match status {
        "refunded" => return ShopAction::Revoke(own("refunded")),
        "processing" | "completed" => {}
        _ => {
            return ShopAction::Ignore {
                reason: "it is not paid",
            };
        }
    }
    match refunded(order) {
        Refunded::Nothing => {}
        Refunded::Part => return ShopAction::Record(own("a part was refunded")),
        Refunded::Whole => return ShopAction::Revoke(own("refunded")),
    }
    let Some(lines) = lines(order) else {
        return ShopAction::Park(own("its lines cannot be read"));
    };
    let sale = Sale {
        names,
        lines,
        until: None,
        buyer: buyer(order),
    };
    match (renewed.is_some(), switched.is_some()) {
        // The subscription itself says its new end.
        (true, _) => ShopAction::Record(Subject::new(sale.names, "the subscription's own delivery has its end")),
        (false, true) => ShopAction::Change(sale),
        (false, false) => ShopAction::Issue(sale),
    }
}

fn subscription(subscription: &Value, number: &str, status: &str) -> ShopAction {
    let parent = id(subscription, "parent_id").map(|id| format!("order:{id}"));
    let names: Vec<String> = parent.into_iter().chain([format!("subscription:{number}")]).collect();
    let subject = |reason| Subject::new(names.clone(), reason);
    match status {
        "active" => {}
        "on-hold" => return ShopAction::Suspend(subject("it is on hold")),
        "cancelled" | "expired" => return ShopAction::LetExpire(subject("the subscription ended")),
        "pending-cancel" => return ShopAction::Record(subject("it goes on until the paid period ends")),
        "switched" => return ShopAction::Record(subject("another subscription took its place")),
        _ => {
            return ShopAction::Ignore {
                reason: "it is not paid",
            };
        }
    }
    let until = time(subscription, "next_payment_date_gmt").or_else(|| time(subscription, "end_date_gmt"));
    match (lines(subscription), until) {
        (Some(lines), Some(until)) => ShopAction::Change(Sale {
            names,
            lines,
            until: Some(until),
            buyer: buyer(subscription),
        }),
        _ => ShopAction::Park(subject("its lines or its end cannot be read")),
    }
}

/// The value of one of an order's own fields.
fn meta(order: &Value, key: &str) -> Option<String> {
    let fields = list(order, "meta_data");
    let field = fields.iter().find(|field| text(field, "key") == Some(key))?;
    id(field, "value")
}

enum Refunded {
    Nothing,
    Part,
    Whole,
}

/// How much went back, by the order's refunds. An amount that cannot be read counts as a part.
fn refunded(order: &Value) -> Refunded {
    let refunds = list(order, "refunds");
    if refunds.is_empty() {
        return Refunded::Nothing;
    }
    let mut sum: i64 = 0;
    for refund in refunds {
        match text(refund, "total").and_then(hundredths) {
            Some(amount) => sum = sum.saturating_add(amount.saturating_abs()),
            None => return Refunded::Part,
        }
    }
    match text(order, "total").and_then(hundredths) {
        Some(total) if total > 0 && sum >= total => Refunded::Whole,
        _ => Refunded::Part,
    }
}

/// An amount such as `-10.5` in hundredths. More digits are cut.
fn hundredths(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) {
        return None;
    }
    let part: i64 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    let whole: i64 = whole.parse().ok()?;
    Some(sign * whole.checked_mul(100)?.checked_add(part)?)
}

fn lines(sold: &Value) -> Option<Vec<SoldLine>> {
    let items = list(sold, "line_items");
    if items.is_empty() || items.len() > MAX_LINES {
        return None;
    }
    let read = |item: &Value| {
        // A product without variations has the variation 0.
        let variation = shop_id(item, "variation_id");
        line(variation, shop_id(item, "product_id"), at(item, "quantity"))
    };
    items.iter().map(read).collect()
}

fn buyer(order: &Value) -> Buyer {
    Buyer {
        address: address(order, "billing.email"),
        customer: id(order, "customer_id"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_model::offer::ShopId;

    fn of(object: &Value) -> ShopAction {
        super::read(object).unwrap().action
    }

    fn order(status: &str, more: &[(&str, Value)]) -> ShopAction {
        let mut order = json!({ "id": 7, "status": status, "total": "29.90", "date_modified_gmt": "2026-01-02T03:04:05",
            "customer_id": 0, "billing": { "email": "a@b.de" }, "refunds": [], "meta_data": [],
            "line_items": [{ "product_id": 55, "variation_id": 0, "quantity": 2 }] });
        for (name, value) in more {
            order[name] = value.clone();
        }
        of(&order)
    }

    #[test]
    fn an_order_that_is_paid_issues_whichever_topic_it_came_with() {
        for status in ["processing", "completed"] {
            let ShopAction::Issue(sale) = order(status, &[]) else {
                panic!()
            };
            assert_eq!(sale.names, ["order:7"]);
            let line = &sale.lines[0];
            assert_eq!(
                (
                    line.price.as_ref().map(ShopId::as_str),
                    line.product.as_ref().map(ShopId::as_str),
                    line.quantity
                ),
                (None, Some("55"), 2)
            );
            assert_eq!(
                (sale.buyer.customer, sale.buyer.address.as_deref()),
                (None, Some("a@b.de"))
            );
        }
        for status in ["pending", "on-hold", "failed", "cancelled", "checkout-draft"] {
            assert!(matches!(order(status, &[]), ShopAction::Ignore { .. }), "{status}");
        }
        let renewal = json!([{ "key": "_subscription_renewal", "value": "3" }]);
        let renewed = order("completed", &[("meta_data", renewal)]);
        assert!(matches!(renewed, ShopAction::Record(_)));
        assert_eq!(renewed.names(), ["subscription:3", "order:7"]);
        let switch = json!([{ "key": "_subscription_switch", "value": "3" }]);
        assert!(matches!(
            order("completed", &[("meta_data", switch)]),
            ShopAction::Change(_)
        ));
    }

    #[test]
    fn refunds_are_added_up() {
        let refunds = |amounts: &[&str]| {
            let refunds: Vec<Value> = amounts
                .iter()
                .map(|amount| json!({ "id": 1, "total": amount }))
                .collect();
            order("completed", &[("refunds", json!(refunds))])
        };
        assert!(matches!(refunds(&["-10.00"]), ShopAction::Record(_)));
        assert!(matches!(refunds(&["-10.00", "-19.90"]), ShopAction::Revoke(_)));
        assert!(matches!(refunds(&["-10.00", "-19.8"]), ShopAction::Record(_)));
        assert!(matches!(refunds(&["-1e9"]), ShopAction::Record(_)));
        assert!(matches!(order("refunded", &[]), ShopAction::Revoke(_)));
        for (text, amount) in [
            ("29.9", Some(2_990)),
            ("-0.05", Some(-5)),
            ("7", Some(700)),
            ("", None),
            ("1,5", None),
        ] {
            assert_eq!(hundredths(text), amount, "{text}");
        }
        assert_eq!(hundredths("99999999999999999999"), None);
    }

    #[test]
    fn a_subscription_says_its_end_itself() {
        let with = |status: &str| {
            of(
                &json!({ "id": 3, "parent_id": 7, "status": status, "billing_period": "year",
                "next_payment_date_gmt": "2027-01-02T03:04:05", "line_items": [{ "product_id": 55, "variation_id": 66 }] }),
            )
        };
        let ShopAction::Change(sale) = with("active") else {
            panic!()
        };
        assert_eq!(sale.names, ["order:7", "subscription:3"]);
        assert_eq!(sale.until.unwrap().to_rfc3339(), "2027-01-02T03:04:05+00:00");
        assert_eq!(sale.lines[0].price.as_ref().map(ShopId::as_str), Some("66"));
        assert!(matches!(with("on-hold"), ShopAction::Suspend(_)));
        assert!(matches!(with("cancelled"), ShopAction::LetExpire(_)));
        assert!(matches!(with("pending-cancel"), ShopAction::Record(_)));
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
