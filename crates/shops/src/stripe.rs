//! Stripe's events. The body has the shape of the endpoint's API version: both those before and since 2025-03-31 are read.

use chrono::TimeDelta;
use serde_json::Value;

use crate::event::{Buyer, DeliveryError, Sale, ShopAction, ShopDelivery, SoldLine, StatusCause, Subject};
use crate::json::{MAX_LINES, address, at, id, ids, is_true, line, list, required, seconds, shop_id, text};
use crate::shop::{Shop, SignatureScheme};
use countersign_model::offer::SalesMode;

/// Where an invoice names its subscription: since 2025-03-31, and before.
const SUBSCRIPTION: [&str; 2] = ["parent.subscription_details.subscription", "subscription"];

/// Why a session without the name of an offer is parked.
const NO_LINES: &str = "a session has no lines: write offer = \"NAME\" into the metadata of the payment link, or of the session that \
                        your code makes, where registry/offers/NAME.toml is the offer";

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
    customer_api: None,
    read,
};

fn read(event: &Value) -> Result<ShopDelivery, DeliveryError> {
    let kind = required(event, "type")?;
    let event_id = required(event, "id")?;
    let object = at(event, "data.object").filter(|object| object.is_object());
    let object = object.ok_or(DeliveryError::Missing("data.object"))?;
    let live = at(event, "livemode").and_then(Value::as_bool);
    Ok(ShopDelivery {
        event: kind.to_owned(),
        id: Some(event_id.to_owned()),
        mode: live.map(|is_live| if is_live { SalesMode::Live } else { SalesMode::Test }),
        changed_at: seconds(event, "created"),
        action: action(kind, object),
    })
}

fn action(kind: &str, object: &Value) -> ShopAction {
    match kind {
        "checkout.session.completed" | "checkout.session.async_payment_succeeded" => checkout(object),
        "invoice.paid" => invoice(object),
        "invoice_payment.paid" => ShopAction::Record(Subject::new(
            ids(object, &["invoice", "payment.payment_intent", "payment.charge"]),
            "a payment belongs to an invoice",
        )),
        "customer.subscription.updated" => subscription(object),
        "customer.subscription.deleted" => {
            ShopAction::LetExpire(Subject::new(ids(object, &["id"]), "the subscription ended"))
        }
        "charge.refunded" => {
            let names = ids(object, &["payment_intent", "id", "invoice"]);
            // The charge says so when all of it went back.
            if is_true(object, "refunded") {
                ShopAction::Revoke(Subject::new(names, "refunded"))
            } else {
                ShopAction::Record(Subject::new(names, "a part was refunded"))
            }
        }
        "charge.dispute.created" | "charge.dispute.closed" => dispute(kind, object),
        _ => ShopAction::Ignore {
            reason: "no license depends on this event",
        },
    }
}

fn checkout(session: &Value) -> ShopAction {
    let ignore = |reason| ShopAction::Ignore { reason };
    match text(session, "mode") {
        Some("payment") => {}
        Some("subscription") => return ignore("the invoice of the subscription issues its license"),
        _ => return ignore("nothing was sold"),
    }
    match text(session, "payment_status") {
        Some("paid" | "no_payment_required") => {}
        _ => return ignore("it is not paid yet"),
    }
    let buyer = Buyer {
        address: address(session, "customer_details.email").or_else(|| address(session, "customer_email")),
        customer: id(session, "customer"),
    };
    let names = ids(session, &["payment_intent", "id"]);
    if id(session, "metadata.offer").is_none() && list(session, "line_items.data").is_empty() {
        return ShopAction::Park(Subject::new(names, NO_LINES));
    }
    let Some(lines) = lines(
        list(session, "line_items.data"),
        is_true(session, "line_items.has_more"),
        session,
    ) else {
        return ShopAction::Park(Subject::new(names, "its lines cannot be read"));
    };
    ShopAction::Issue(Sale {
        names,
        lines,
        until: None,
        buyer,
    })
}

fn invoice(invoice: &Value) -> ShopAction {
    let subscription = SUBSCRIPTION.iter().find_map(|path| id(invoice, path));
    let mut names: Vec<String> = subscription.into_iter().collect();
    names.extend(ids(invoice, &["id", "payment_intent", "charge"]));
    let reason = text(invoice, "billing_reason");
    let is_first = match reason {
        Some("subscription_create") => true,
        Some("subscription_cycle") => false,
        Some("subscription_update") => {
            return ShopAction::Record(Subject::new(names, "customer.subscription.updated has the change"));
        }
        _ => {
            return ShopAction::Record(Subject::new(
                names,
                "it is not an invoice of a period of a subscription",
            ));
        }
    };
    let buyer = Buyer {
        address: address(invoice, "customer_email"),
        customer: id(invoice, "customer"),
    };
    let park = |names, reason| ShopAction::Park(Subject::new(names, reason));
    if SUBSCRIPTION.iter().all(|path| id(invoice, path).is_none()) {
        return park(names, "it names no subscription");
    }
    let all = list(invoice, "lines.data");
    // Lines of a change in the middle of a period end with it, and are no items of their own.
    let is_prorated =
        |line: &&Value| is_true(line, "proration") || is_true(line, "parent.subscription_item_details.proration");
    let whole: Vec<Value> = all.iter().filter(|line| !is_prorated(line)).cloned().collect();
    let until = whole.iter().filter_map(|line| seconds(line, "period.end")).max();
    let metadata = at(invoice, "parent.subscription_details").or_else(|| at(invoice, "subscription_details"));
    let Some(lines) = lines(&whole, is_true(invoice, "lines.has_more"), metadata.unwrap_or(invoice)) else {
        return park(names, "its lines cannot be read");
    };
    let Some(until) = until else {
        return park(names, "it does not say until when it is paid");
    };
    let sale = Sale {
        names,
        lines,
        until: Some(until),
        buyer,
    };
    if is_first {
        ShopAction::Issue(sale)
    } else {
        ShopAction::Renew(sale)
    }
}

/// Its period is not read: it begins before it is paid. Only an invoice that is paid moves the end.
fn subscription(subscription: &Value) -> ShopAction {
    let names = ids(subscription, &["id"]);
    match text(subscription, "status") {
        Some("active" | "trialing") => {}
        Some("past_due") => {
            return ShopAction::Record(Subject::new(names, "a payment failed, and will be tried again"));
        }
        Some("unpaid") => return ShopAction::Suspend(Subject::new(names, "unpaid")),
        Some("paused") => return ShopAction::Suspend(Subject::new(names, "paused")),
        Some("canceled") => return ShopAction::LetExpire(Subject::new(names, "the subscription ended")),
        _ => {
            return ShopAction::Ignore {
                reason: "it is not paid yet",
            };
        }
    }
    let items = list(subscription, "items.data");
    match lines(items, is_true(subscription, "items.has_more"), subscription) {
        Some(lines) => ShopAction::Change(Sale {
            names,
            lines,
            until: None,
            buyer: Buyer {
                address: None,
                customer: id(subscription, "customer"),
            },
        }),
        None => ShopAction::Park(Subject::new(names, "its items cannot be read")),
    }
}

fn dispute(kind: &str, dispute: &Value) -> ShopAction {
    let names = || ids(dispute, &["payment_intent", "charge"]);
    let subject = |reason| Subject::new(names(), reason).of(StatusCause::Dispute);
    let status = text(dispute, "status").unwrap_or_default();
    match (kind, status) {
        ("charge.dispute.closed", "won" | "warning_closed") => ShopAction::Resume(subject("the dispute was won")),
        ("charge.dispute.closed", "lost") => ShopAction::Revoke(subject("the dispute was lost")),
        ("charge.dispute.closed", _) => ShopAction::Park(subject("the dispute was closed in another way")),
        // The bank asks; no money moves.
        (_, inquiry) if inquiry.starts_with("warning_") => ShopAction::Record(subject("a bank asks about the payment")),
        _ => ShopAction::Suspend(subject("the payment is disputed")),
    }
}

/// The lines of a session, an invoice or a subscription. Without any, the offer that `with_metadata` names. `None` if there
/// are none, or not all of them.
fn lines(all: &[Value], has_more: bool, with_metadata: &Value) -> Option<Vec<SoldLine>> {
    if has_more || all.len() > MAX_LINES {
        return None;
    }
    let named = id(with_metadata, "metadata.offer");
    if all.is_empty() {
        let mut only = line(None, None, None)?;
        only.offer = Some(named?);
        return Some(vec![only]);
    }
    let read = |item: &Value| {
        let first = |paths: &[&str]| paths.iter().find_map(|path| shop_id(item, path));
        let price = first(&["pricing.price_details.price", "price", "plan"]);
        let product = first(&["pricing.price_details.product", "price.product", "plan.product"]);
        line(price, product, at(item, "quantity"))
    };
    let mut lines: Vec<SoldLine> = all.iter().map(read).collect::<Option<_>>()?;
    if let [only] = &mut lines[..] {
        only.offer = named;
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_model::offer::ShopId;

    fn read_as(kind: &str, object: Value) -> ShopAction {
        let event = json!({ "id": "evt_1", "object": "event", "type": kind, "created": 1_700_000_000, "livemode": false,
            "data": { "object": object } });
        let delivery = super::read(&event).unwrap();
        assert_eq!(
            (delivery.mode, delivery.id.as_deref()),
            (Some(SalesMode::Test), Some("evt_1"))
        );
        delivery.action
    }

    fn is_ignored(action: &ShopAction) -> bool {
        matches!(action, ShopAction::Ignore { .. })
    }

    #[test]
    fn a_session_that_is_paid_once_issues_and_no_other_does() {
        let session = json!({ "id": "cs_1", "mode": "payment", "payment_status": "paid", "payment_intent": "pi_1",
            "customer": "cus_1", "customer_details": { "email": "anna@example.com" }, "metadata": { "offer": "forms" } });
        let with = |field: &str, value: Value| {
            let mut session = session.clone();
            session[field] = value;
            read_as("checkout.session.completed", session)
        };
        let ShopAction::Issue(sale) = with("x", json!(1)) else {
            panic!()
        };
        assert_eq!(sale.names, ["pi_1", "cs_1"]);
        assert_eq!(
            (sale.lines[0].offer.as_deref(), sale.lines[0].quantity),
            (Some("forms"), 1)
        );
        assert_eq!(sale.buyer.address.as_deref(), Some("anna@example.com"));
        assert!(!format!("{sale:?}").contains("anna"));
        assert!(!serde_json::to_string(&sale).unwrap().contains("anna"));
        assert!(is_ignored(&with("mode", json!("subscription"))));
        assert!(is_ignored(&with("mode", json!("setup"))));
        assert!(is_ignored(&with("payment_status", json!("unpaid"))));
        for metadata in [
            json!({}),
            Value::Null,
            json!({ "Offer": "forms" }),
            json!({ "offer": "" }),
        ] {
            let ShopAction::Park(subject) = with("metadata", metadata) else {
                panic!()
            };
            assert!(subject.reason.contains("write offer = \"NAME\" into the metadata"));
        }
        let expanded = json!({ "data": [{ "price": { "id": "price_1", "product": "prod_1" }, "quantity": 2 }] });
        let ShopAction::Issue(sale) = with("line_items", expanded.clone()) else {
            panic!()
        };
        let line = &sale.lines[0];
        assert_eq!(
            (
                line.price.as_ref().map(ShopId::as_str),
                line.product.as_ref().map(ShopId::as_str),
                line.quantity
            ),
            (Some("price_1"), Some("prod_1"), 2)
        );
        let mut more = expanded;
        more["has_more"] = json!(true);
        assert!(matches!(with("line_items", more), ShopAction::Park(_)));
        let late = read_as("checkout.session.async_payment_succeeded", session);
        assert!(matches!(late, ShopAction::Issue(_)));
    }

    #[test]
    fn invoices_of_old_and_new_api_versions_say_the_same() {
        let new = json!({ "id": "in_1", "billing_reason": "subscription_cycle", "customer_email": "a@b.de",
            "parent": { "subscription_details": { "subscription": "sub_1" } },
            "lines": { "data": [
                { "quantity": 1, "period": { "end": 1_700_000_500 }, "parent": { "subscription_item_details": { "proration": true } },
                  "pricing": { "price_details": { "price": "price_0", "product": "prod_0" } } },
                { "quantity": 3, "period": { "end": 1_700_000_100 },
                  "pricing": { "price_details": { "price": "price_1", "product": "prod_1" } } },
            ] } });
        let old = json!({ "id": "in_1", "billing_reason": "subscription_cycle", "customer_email": "a@b.de",
            "subscription": { "id": "sub_1" },
            "lines": { "data": [
                { "quantity": 1, "period": { "end": 1_700_000_500 }, "proration": true, "price": { "id": "price_0" } },
                { "quantity": 3, "period": { "end": 1_700_000_100 }, "price": { "id": "price_1", "product": "prod_1" } },
            ] } });
        let ShopAction::Renew(sale) = read_as("invoice.paid", new.clone()) else {
            panic!()
        };
        assert_eq!(sale.names, ["sub_1", "in_1"]);
        assert_eq!((sale.lines.len(), sale.lines[0].quantity), (1, 3));
        assert_eq!(sale.until.unwrap().timestamp(), 1_700_000_100);
        assert_eq!(read_as("invoice.paid", old), ShopAction::Renew(sale));
        let with = |reason: &str| {
            let mut invoice = new.clone();
            invoice["billing_reason"] = json!(reason);
            read_as("invoice.paid", invoice)
        };
        assert!(matches!(with("subscription_create"), ShopAction::Issue(_)));
        assert!(matches!(with("subscription_update"), ShopAction::Record(_)));
        assert!(matches!(with("manual"), ShopAction::Record(_)));
        let mut orphan = new;
        orphan["parent"] = Value::Null;
        assert!(matches!(read_as("invoice.paid", orphan), ShopAction::Park(_)));
        let joined = json!({ "invoice": "in_1", "payment": { "type": "payment_intent", "payment_intent": "pi_1" } });
        assert_eq!(read_as("invoice_payment.paid", joined).names(), ["in_1", "pi_1"]);
    }

    #[test]
    fn a_subscription_changes_its_items_and_never_its_end() {
        let with = |status: &str| {
            read_as(
                "customer.subscription.updated",
                json!({ "id": "sub_1", "status": status, "current_period_end": 1_800_000_000,
                    "items": { "data": [{ "price": { "id": "price_2", "product": "prod_1" }, "quantity": 5,
                        "current_period_end": 1_800_000_000 }] } }),
            )
        };
        let ShopAction::Change(sale) = with("active") else {
            panic!()
        };
        assert_eq!((sale.until, sale.lines[0].quantity), (None, 5));
        assert!(matches!(with("past_due"), ShopAction::Record(_)));
        assert!(matches!(with("unpaid"), ShopAction::Suspend(_)));
        assert!(matches!(with("canceled"), ShopAction::LetExpire(_)));
        assert!(is_ignored(&with("incomplete")));
        let ended = read_as("customer.subscription.deleted", json!({ "id": "sub_1" }));
        assert!(matches!(ended, ShopAction::LetExpire(_)));
    }

    #[test]
    fn only_a_whole_refund_or_a_lost_dispute_revokes() {
        let charge = |refunded| json!({ "id": "ch_1", "payment_intent": "pi_1", "refunded": refunded });
        let whole = read_as("charge.refunded", charge(true));
        assert!(matches!(whole, ShopAction::Revoke(_)));
        assert_eq!(whole.names(), ["pi_1", "ch_1"]);
        assert!(matches!(
            read_as("charge.refunded", charge(false)),
            ShopAction::Record(_)
        ));
        let dispute = |kind: &str, status: &str| {
            read_as(
                &format!("charge.dispute.{kind}"),
                json!({ "id": "du_1", "charge": "ch_1", "payment_intent": "pi_1", "status": status }),
            )
        };
        assert!(matches!(dispute("created", "needs_response"), ShopAction::Suspend(_)));
        assert!(matches!(
            dispute("created", "warning_needs_response"),
            ShopAction::Record(_)
        ));
        assert!(matches!(dispute("closed", "won"), ShopAction::Resume(_)));
        assert!(matches!(dispute("closed", "lost"), ShopAction::Revoke(_)));
        assert!(is_ignored(&read_as("charge.succeeded", json!({}))));
    }
}
