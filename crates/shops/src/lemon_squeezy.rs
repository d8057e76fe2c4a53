//! Lemon Squeezy's events. Its ids are numbers, so names say of what: `order:7`, `subscription:3`.
//!
//! A subscription's order arrives as an order, too. Both name the order, so they are one sale.

use serde_json::Value;

use crate::event::{Buyer, DeliveryError, Sale, ShopAction, ShopDelivery, ShopKey, SoldLine, Subject};
use crate::json::{address, at, id, is_true, line, required, shop_id, text, time};
use crate::shop::{Shop, SignatureScheme};
use countersign_model::foreign_key::{self, ForeignKeyError};
use countersign_model::offer::SalesMode;

/// lemonsqueezy.com
pub(crate) const LEMON_SQUEEZY: Shop = Shop {
    name: "lemonsqueezy",
    title: "Lemon Squeezy",
    signature_header: "X-Signature",
    signature_scheme: SignatureScheme::Hex,
    is_ping: None,
    makes_keys: true,
    customer_api: None,
    read,
};

fn read(event: &Value) -> Result<ShopDelivery, DeliveryError> {
    let kind = required(event, "meta.event_name")?;
    required(event, "data.type")?;
    let data = at(event, "data").ok_or(DeliveryError::Missing("data"))?;
    let attributes = at(data, "attributes").filter(|attributes| attributes.is_object());
    let attributes = attributes.ok_or(DeliveryError::Missing("data.attributes"))?;
    let test = [at(event, "meta.test_mode"), at(attributes, "test_mode")];
    let test = test.into_iter().flatten().find_map(Value::as_bool);
    Ok(ShopDelivery {
        event: kind.to_owned(),
        id: id(event, "meta.webhook_id"),
        mode: test.map(|is_test| if is_test { SalesMode::Test } else { SalesMode::Live }),
        changed_at: time(attributes, "updated_at"),
        action: action(kind, event, attributes),
    })
}

fn action(kind: &str, event: &Value, attributes: &Value) -> ShopAction {
    let subscription = |reason| Subject::new(names_of_subscription(event, attributes), reason);
    match kind {
        "order_created" | "order_refunded" => order(event, attributes),
        "subscription_created" => match sale(event, attributes, &attributes["first_subscription_item"]) {
            Some(sale) => ShopAction::Issue(sale),
            None => ShopAction::Park(subscription("its product or its end cannot be read")),
        },
        "subscription_updated" | "subscription_resumed" | "subscription_unpaused" | "subscription_paused" => {
            updated(kind, event, attributes)
        }
        "subscription_expired" => ShopAction::LetExpire(subscription("the subscription ended")),
        "subscription_cancelled" => ShopAction::Record(subscription("it goes on until the paid period ends")),
        "subscription_payment_success" | "subscription_payment_failed" => ShopAction::Ignore {
            reason: "subscription_updated has what changes",
        },
        "subscription_payment_recovered" => {
            let id = id(attributes, "subscription_id").map(|id| format!("subscription:{id}"));
            ShopAction::Resume(Subject::new(id.into_iter().collect(), "what was due is paid"))
        }
        "subscription_payment_refunded" => {
            let id = id(attributes, "subscription_id").map(|id| format!("subscription:{id}"));
            let subject = |reason| Subject::new(id.clone().into_iter().collect(), reason);
            match text(attributes, "status") {
                Some("refunded") => ShopAction::Revoke(subject("refunded")),
                _ => ShopAction::Record(subject("a part was refunded")),
            }
        }
        "license_key_created" => {
            let order = id(attributes, "order_id").map(|id| format!("order:{id}"));
            let key = text(attributes, "key").ok_or(ForeignKeyError::Empty);
            ShopAction::Key(ShopKey {
                names: order.into_iter().collect(),
                license: key.and_then(foreign_key::any_id),
            })
        }
        // The license follows the order and the subscription, not the shop's own limits of its key.
        "license_key_updated" => ShopAction::Ignore {
            reason: "it is about a key of the shop's own",
        },
        _ => ShopAction::Ignore {
            reason: "no license depends on this event",
        },
    }
}

fn order(event: &Value, order: &Value) -> ShopAction {
    let names: Vec<String> = id(event, "data.id")
        .map(|id| format!("order:{id}"))
        .into_iter()
        .collect();
    let subject = |reason| Subject::new(names.clone(), reason);
    match text(order, "status") {
        Some("refunded" | "fraudulent") => return ShopAction::Revoke(subject("refunded")),
        Some("partial_refund") => return ShopAction::Record(subject("a part was refunded")),
        // An older spelling of a refund as a whole.
        Some("paid") if is_true(order, "refunded") && at(order, "refunded_amount") == at(order, "total") => {
            return ShopAction::Revoke(subject("refunded"));
        }
        Some("paid") => {}
        _ => {
            return ShopAction::Ignore {
                reason: "it is not paid",
            };
        }
    }
    let item = &order["first_order_item"];
    match sold(item, item) {
        Some(line) => ShopAction::Issue(Sale {
            names,
            lines: vec![line],
            until: None,
            buyer: buyer(order),
        }),
        None => ShopAction::Park(subject("its product cannot be read")),
    }
}

fn updated(kind: &str, event: &Value, subscription: &Value) -> ShopAction {
    let subject = |reason| Subject::new(names_of_subscription(event, subscription), reason);
    match text(subscription, "status") {
        Some("active" | "on_trial") if kind == "subscription_updated" => {
            match sale(event, subscription, &subscription["first_subscription_item"]) {
                Some(sale) => ShopAction::Change(sale),
                None => ShopAction::Park(subject("its product or its end cannot be read")),
            }
        }
        Some("active" | "on_trial") => ShopAction::Resume(subject("the subscription goes on")),
        // With "free" the vendor gives the service away while it is paused.
        Some("paused") if text(subscription, "pause.mode") == Some("free") => {
            ShopAction::Record(subject("paused, and free meanwhile"))
        }
        Some("paused") => ShopAction::Suspend(subject("paused")),
        Some("unpaid") => ShopAction::Suspend(subject("unpaid")),
        Some("past_due") => ShopAction::Record(subject("a payment failed, and will be tried again")),
        Some("cancelled") => ShopAction::Record(subject("it goes on until the paid period ends")),
        Some("expired") => ShopAction::LetExpire(subject("the subscription ended")),
        _ => ShopAction::Park(subject("its status is unknown")),
    }
}

/// The sale of a subscription that is paid.
fn sale(event: &Value, subscription: &Value, item: &Value) -> Option<Sale> {
    let end = match text(subscription, "status") {
        Some("on_trial") => "trial_ends_at",
        _ => "renews_at",
    };
    Some(Sale {
        names: names_of_subscription(event, subscription),
        lines: vec![sold(subscription, item)?],
        until: Some(time(subscription, end).or_else(|| time(subscription, "renews_at"))?),
        buyer: buyer(subscription),
    })
}

/// The line of a product, with the quantity of the item.
fn sold(product: &Value, item: &Value) -> Option<SoldLine> {
    let variant = shop_id(product, "variant_id");
    let product = shop_id(product, "product_id");
    if variant.is_none() && product.is_none() {
        return None;
    }
    // SECURITY: `meta.custom_data` comes from the address of the checkout, which the buyer can write.
    line(variant, product, at(item, "quantity"))
}

fn names_of_subscription(event: &Value, subscription: &Value) -> Vec<String> {
    let order = id(subscription, "order_id").map(|id| format!("order:{id}"));
    let own = id(event, "data.id").map(|id| format!("subscription:{id}"));
    order.into_iter().chain(own).collect()
}

fn buyer(attributes: &Value) -> Buyer {
    Buyer {
        address: address(attributes, "user_email"),
        customer: id(attributes, "customer_id"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_model::offer::ShopId;

    fn read_as(kind: &str, attributes: Value) -> ShopAction {
        let event = json!({ "meta": { "event_name": kind, "test_mode": true, "webhook_id": "w-1" },
            "data": { "type": "things", "id": "7", "attributes": attributes } });
        let delivery = super::read(&event).unwrap();
        assert_eq!(
            (delivery.mode, delivery.id.as_deref()),
            (Some(SalesMode::Test), Some("w-1"))
        );
        delivery.action
    }

    fn order(status: &str) -> Value {
        json!({ "status": status, "user_email": "a@b.de", "customer_id": 9, "total": 2999, "refunded": false,
            "first_order_item": { "product_id": 55, "variant_id": 66, "quantity": 2 } })
    }

    fn subscription(status: &str) -> Value {
        json!({ "status": status, "order_id": 7, "product_id": 55, "variant_id": 66, "user_email": "a@b.de",
            "first_subscription_item": { "quantity": 3 }, "trial_ends_at": "2026-01-08T00:00:00.000000Z",
            "renews_at": "2026-02-01T00:00:00.000000Z", "ends_at": null, "updated_at": "2026-01-01T00:00:00.000000Z" })
    }

    #[test]
    fn an_order_and_its_subscription_are_one_sale() {
        let ShopAction::Issue(ordered) = read_as("order_created", order("paid")) else {
            panic!()
        };
        let line = &ordered.lines[0];
        assert_eq!(
            (
                line.price.as_ref().map(ShopId::as_str),
                line.product.as_ref().map(ShopId::as_str),
                line.quantity
            ),
            (Some("66"), Some("55"), 2)
        );
        let ShopAction::Issue(subscribed) = read_as("subscription_created", subscription("active")) else {
            panic!()
        };
        assert_eq!(
            (&ordered.names[0], &subscribed.names[0]),
            (&"order:7".to_owned(), &"order:7".to_owned())
        );
        assert_eq!(subscribed.names[1], "subscription:7");
        assert_eq!(subscribed.until.unwrap().to_rfc3339(), "2026-02-01T00:00:00+00:00");
        let ShopAction::Issue(trial) = read_as("subscription_created", subscription("on_trial")) else {
            panic!()
        };
        assert_eq!(trial.until.unwrap().to_rfc3339(), "2026-01-08T00:00:00+00:00");
    }

    #[test]
    fn an_order_is_looked_at_because_one_event_tells_of_all_refunds() {
        let with = |status: &str| read_as("order_refunded", order(status));
        assert!(matches!(with("refunded"), ShopAction::Revoke(_)));
        assert!(matches!(with("partial_refund"), ShopAction::Record(_)));
        assert!(matches!(with("pending"), ShopAction::Ignore { .. }));
        let mut whole = order("paid");
        whole["refunded"] = json!(true);
        whole["refunded_amount"] = json!(2999);
        assert!(matches!(read_as("order_refunded", whole), ShopAction::Revoke(_)));
    }

    #[test]
    fn what_the_buyer_wrote_into_the_address_of_the_checkout_names_no_offer() {
        let event = json!({ "meta": { "event_name": "order_created", "custom_data": { "offer": "agency" } },
            "data": { "type": "orders", "id": "7", "attributes": order("paid") } });
        let ShopAction::Issue(sale) = super::read(&event).unwrap().action else {
            panic!()
        };
        assert_eq!(sale.lines[0].offer, None);
    }

    #[test]
    fn cancelled_is_not_the_end() {
        assert!(matches!(
            read_as("subscription_cancelled", subscription("cancelled")),
            ShopAction::Record(_)
        ));
        let with = |status: &str| read_as("subscription_updated", subscription(status));
        assert!(matches!(with("cancelled"), ShopAction::Record(_)));
        assert!(matches!(with("expired"), ShopAction::LetExpire(_)));
        assert!(matches!(
            with("active"),
            ShopAction::Change(Sale { until: Some(_), .. })
        ));
        assert!(matches!(with("past_due"), ShopAction::Record(_)));
        assert!(matches!(with("unpaid"), ShopAction::Suspend(_)));
        assert!(matches!(with("paused"), ShopAction::Suspend(_)));
        assert!(matches!(
            read_as("subscription_resumed", subscription("active")),
            ShopAction::Resume(_)
        ));
        let mut free = subscription("paused");
        free["pause"] = json!({ "mode": "free" });
        assert!(matches!(read_as("subscription_paused", free), ShopAction::Record(_)));
    }

    #[test]
    fn of_a_key_of_the_shop_only_the_license_is_kept() {
        const KEY: &str = "80e15db5-c796-436b-850c-8f9c98a48abe";
        let created = |key: &str| read_as("license_key_created", json!({ "order_id": 7, "key": key }));
        let action = created(KEY);
        let ShopAction::Key(key) = &action else { panic!() };
        assert_eq!(
            (&key.names[..], key.license),
            (&["order:7".to_owned()][..], foreign_key::any_id(KEY))
        );
        for shown in [format!("{action:?}"), serde_json::to_string(&action).unwrap()] {
            assert!(!shown.contains("80e15db5"), "{shown}");
        }
        let ShopAction::Key(short) = created("80e15db5") else {
            panic!()
        };
        assert_eq!(short.license, Err(ForeignKeyError::TooShort));
        assert!(matches!(
            read_as("license_key_updated", json!({ "key": KEY })),
            ShopAction::Ignore { .. }
        ));
    }
}
