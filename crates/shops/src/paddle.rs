//! Paddle Billing's notifications. None says whether it is of the sandbox, and a transaction names the customer, but no address.

use chrono::TimeDelta;
use serde_json::Value;

use crate::event::{Buyer, DeliveryError, Sale, ShopAction, ShopDelivery, SoldLine, StatusCause, Subject};
use crate::json::{MAX_LINES, at, id, ids, line, list, required, shop_id, text, time};
use crate::shop::{CustomerApi, NotACustomer, Shop, SignatureScheme};

/// Codes of an answer 404 that says that there is no such customer (<https://developer.paddle.com/errors/shared>). A
/// proxy's 404 has none.
const NO_CUSTOMER: [&str; 2] = ["entity_not_found", "not_found"];

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
    // https://developer.paddle.com/api-reference/customers/get-customer
    customer_api: Some(CustomerApi {
        live: "https://api.paddle.com/",
        test: "https://sandbox-api.paddle.com/",
        path: "customers",
        read: customer_address,
    }),
    read,
};

fn read(event: &Value) -> Result<ShopDelivery, DeliveryError> {
    let kind = required(event, "event_type")?;
    let event_id = required(event, "event_id")?;
    let data = at(event, "data").filter(|data| data.is_object());
    let data = data.ok_or(DeliveryError::Missing("data"))?;
    Ok(ShopDelivery {
        event: kind.to_owned(),
        id: Some(event_id.to_owned()),
        mode: None,
        changed_at: time(event, "occurred_at"),
        action: action(kind, data),
    })
}

fn customer_address(customer: &str, status: u16, body: &[u8]) -> Result<Option<String>, NotACustomer> {
    let body: Value = serde_json::from_slice(body).map_err(|_| NotACustomer)?;
    match status {
        200 if text(&body, "data.id") == Some(customer) => {
            let address = text(&body, "data.email").ok_or(NotACustomer)?;
            Ok(Some(address.to_owned()))
        }
        404 if text(&body, "error.code").is_some_and(|code| NO_CUSTOMER.contains(&code)) => Ok(None),
        _ => Err(NotACustomer),
    }
}

fn action(kind: &str, data: &Value) -> ShopAction {
    let subject = |reason| Subject::new(ids(data, &["id"]), reason);
    match kind {
        "transaction.completed" => transaction(data),
        "subscription.updated" => subscription(data),
        "subscription.canceled" => ShopAction::LetExpire(subject("the subscription ended")),
        "subscription.paused" => ShopAction::Suspend(subject("paused")),
        "subscription.resumed" => ShopAction::Resume(subject("the subscription goes on")),
        "subscription.past_due" => ShopAction::Record(subject("a payment failed, and will be tried again")),
        "subscription.created" | "subscription.activated" | "subscription.trialing" => ShopAction::Ignore {
            reason: "transaction.completed issues the license",
        },
        "adjustment.created" | "adjustment.updated" => adjustment(data),
        "customer.created" | "customer.updated" => ShopAction::Ignore {
            reason: "the address of a buyer is asked where a key is to be mailed",
        },
        _ => ShopAction::Ignore {
            reason: "no license depends on this event",
        },
    }
}

fn transaction(transaction: &Value) -> ShopAction {
    let names = ids(transaction, &["subscription_id", "id"]);
    let record = |names, reason| ShopAction::Record(Subject::new(names, reason));
    let is_renewal = match text(transaction, "origin") {
        Some("subscription_recurring") => true,
        Some("subscription_update") => return record(names, "subscription.updated has the change"),
        Some("subscription_payment_method_change") => return record(names, "a means of payment was changed"),
        Some("subscription_charge") => {
            return ShopAction::Park(Subject::new(names, "something was added to a subscription once"));
        }
        _ => false,
    };
    let buyer = Buyer {
        address: None,
        customer: id(transaction, "customer_id"),
    };
    let until = time(transaction, "billing_period.ends_at");
    let Some(lines) = lines(transaction) else {
        return ShopAction::Park(Subject::new(names, "its items cannot be read"));
    };
    if until.is_none() && id(transaction, "subscription_id").is_some() {
        return ShopAction::Park(Subject::new(names, "it does not say until when it is paid"));
    }
    let sale = Sale {
        names,
        lines,
        until,
        buyer,
    };
    if is_renewal {
        ShopAction::Renew(sale)
    } else {
        ShopAction::Issue(sale)
    }
}

/// Its period is not read: it begins before it is paid. Only a transaction that is completed moves the end.
fn subscription(subscription: &Value) -> ShopAction {
    let names = ids(subscription, &["id"]);
    let subject = |reason| Subject::new(names.clone(), reason);
    match text(subscription, "status") {
        Some("active" | "trialing") => match lines(subscription) {
            Some(lines) => ShopAction::Change(Sale {
                names,
                lines,
                until: None,
                buyer: Buyer {
                    address: None,
                    customer: id(subscription, "customer_id"),
                },
            }),
            None => ShopAction::Park(subject("its items cannot be read")),
        },
        Some("past_due") => ShopAction::Record(subject("a payment failed, and will be tried again")),
        Some("paused") => ShopAction::Suspend(subject("paused")),
        Some("canceled") => ShopAction::LetExpire(subject("the subscription ended")),
        _ => ShopAction::Park(subject("its status is unknown")),
    }
}

fn adjustment(adjustment: &Value) -> ShopAction {
    let subject = |reason| Subject::new(ids(adjustment, &["transaction_id"]), reason);
    match text(adjustment, "status") {
        Some("approved") => {}
        Some("pending_approval") => return ShopAction::Record(subject("a refund waits for its approval")),
        Some("reversed") => {
            let cause = match text(adjustment, "action") {
                Some("refund") => StatusCause::Refund,
                _ => StatusCause::Dispute,
            };
            return ShopAction::Resume(subject("the money came back").of(cause));
        }
        _ => {
            return ShopAction::Ignore {
                reason: "the refund was not approved",
            };
        }
    }
    match text(adjustment, "action") {
        Some("refund") if is_whole(adjustment) => ShopAction::Revoke(subject("refunded")),
        Some("refund") => ShopAction::Record(subject("a part was refunded")),
        Some("chargeback") => ShopAction::Revoke(subject("charged back").of(StatusCause::Dispute)),
        Some("chargeback_reverse") => ShopAction::Resume(subject("the money came back").of(StatusCause::Dispute)),
        Some("chargeback_warning") => ShopAction::Record(subject("a bank asks about the payment")),
        _ => ShopAction::Ignore {
            reason: "no license depends on this adjustment",
        },
    }
}

fn is_whole(adjustment: &Value) -> bool {
    match text(adjustment, "type") {
        Some(kind) => kind == "full",
        None => {
            let items = list(adjustment, "items");
            !items.is_empty() && items.iter().all(|item| text(item, "type") == Some("full"))
        }
    }
}

/// The items, or `None` if there are none or too many.
fn lines(sold: &Value) -> Option<Vec<SoldLine>> {
    let items = list(sold, "items");
    if items.is_empty() || items.len() > MAX_LINES {
        return None;
    }
    let read = |item: &Value| {
        let price = shop_id(item, "price").or_else(|| shop_id(item, "price_id"));
        let product = shop_id(item, "price.product_id").or_else(|| shop_id(item, "product"));
        line(price, product, at(item, "quantity"))
    };
    // SECURITY: `custom_data` comes from the buyer's browser.
    items.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_model::offer::ShopId;

    fn read_as(kind: &str, data: Value) -> ShopAction {
        let event = json!({ "event_id": "evt_1", "event_type": kind, "occurred_at": "2024-04-12T10:18:50.155553Z", "data": data });
        let delivery = super::read(&event).unwrap();
        assert_eq!(delivery.changed_at.unwrap().timestamp(), 1_712_917_130);
        delivery.action
    }

    fn transaction(origin: &str) -> Value {
        json!({ "id": "txn_1", "origin": origin, "status": "completed", "subscription_id": "sub_1", "customer_id": "ctm_1",
            "billing_period": { "starts_at": "2024-04-12T10:18:47Z", "ends_at": "2024-05-12T10:18:47Z" },
            "items": [{ "price": { "id": "pri_1", "product_id": "pro_1" }, "quantity": 10 }] })
    }

    #[test]
    fn a_completed_transaction_issues_or_renews_by_its_origin() {
        let ShopAction::Issue(sale) = read_as("transaction.completed", transaction("web")) else {
            panic!()
        };
        assert_eq!(sale.names, ["sub_1", "txn_1"]);
        let line = &sale.lines[0];
        assert_eq!(
            (
                line.price.as_ref().map(ShopId::as_str),
                line.product.as_ref().map(ShopId::as_str),
                line.quantity
            ),
            (Some("pri_1"), Some("pro_1"), 10)
        );
        assert_eq!(sale.until.unwrap().to_rfc3339(), "2024-05-12T10:18:47+00:00");
        let renewed = read_as("transaction.completed", transaction("subscription_recurring"));
        assert_eq!(renewed, ShopAction::Renew(sale));
        let with = |origin| read_as("transaction.completed", transaction(origin));
        assert!(matches!(with("subscription_update"), ShopAction::Record(_)));
        assert!(matches!(
            with("subscription_payment_method_change"),
            ShopAction::Record(_)
        ));
        assert!(matches!(with("subscription_charge"), ShopAction::Park(_)));
        let mut once = transaction("api");
        once["subscription_id"] = Value::Null;
        once["billing_period"] = Value::Null;
        let ShopAction::Issue(sale) = read_as("transaction.completed", once) else {
            panic!()
        };
        assert_eq!((sale.names, sale.until), (vec!["txn_1".to_owned()], None));
    }

    #[test]
    fn what_the_buyers_browser_sent_names_no_offer() {
        let mut data = transaction("web");
        data["custom_data"] = json!({ "offer": "agency" });
        let ShopAction::Issue(sale) = read_as("transaction.completed", data) else {
            panic!()
        };
        assert_eq!(sale.lines[0].offer, None);
    }

    #[test]
    fn a_refund_waits_for_its_approval_and_revokes_only_as_a_whole() {
        let adjusted = |action: &str, status: &str, kind: &str| {
            read_as(
                "adjustment.updated",
                json!({ "id": "adj_1", "action": action, "status": status, "transaction_id": "txn_1",
                    "items": [{ "type": kind }, { "type": "full" }] }),
            )
        };
        assert!(matches!(adjusted("refund", "approved", "full"), ShopAction::Revoke(_)));
        assert!(matches!(
            adjusted("refund", "approved", "partial"),
            ShopAction::Record(_)
        ));
        assert!(matches!(
            adjusted("refund", "pending_approval", "full"),
            ShopAction::Record(_)
        ));
        assert!(matches!(
            adjusted("refund", "rejected", "full"),
            ShopAction::Ignore { .. }
        ));
        assert!(matches!(
            adjusted("chargeback", "approved", "partial"),
            ShopAction::Revoke(_)
        ));
        assert!(matches!(
            adjusted("chargeback_reverse", "approved", "full"),
            ShopAction::Resume(_)
        ));
        let typed =
            json!({ "action": "refund", "status": "approved", "type": "partial", "items": [{ "type": "full" }] });
        assert!(matches!(read_as("adjustment.created", typed), ShopAction::Record(_)));
    }

    #[test]
    fn a_subscription_changes_pauses_and_ends() {
        let with = |status: &str| {
            let items = json!([{ "price": { "id": "pri_2", "product_id": "pro_1" }, "quantity": 2 }]);
            read_as(
                "subscription.updated",
                json!({ "id": "sub_1", "status": status, "items": items,
                "current_billing_period": { "ends_at": "2030-01-01T00:00:00Z" } }),
            )
        };
        let ShopAction::Change(sale) = with("active") else {
            panic!()
        };
        assert_eq!((sale.until, sale.lines[0].quantity), (None, 2));
        assert!(matches!(with("paused"), ShopAction::Suspend(_)));
        assert!(matches!(with("canceled"), ShopAction::LetExpire(_)));
        assert!(matches!(with("past_due"), ShopAction::Record(_)));
        assert!(matches!(
            read_as("customer.created", json!({ "id": "ctm_1", "email": "a@b.de" })),
            ShopAction::Ignore { .. }
        ));
        assert!(matches!(
            read_as("subscription.created", json!({})),
            ShopAction::Ignore { .. }
        ));
    }

    #[test]
    fn only_a_customer_or_the_word_that_there_is_none_answers_the_question_for_an_address() {
        let address = |status, body: &str| customer_address("ctm_1", status, body.as_bytes());
        let customer = r#"{"data":{"id":"ctm_1","email":"a@b.example"}}"#;
        assert_eq!(address(200, customer), Ok(Some("a@b.example".to_owned())));
        assert_eq!(address(404, r#"{"error":{"code":"entity_not_found"}}"#), Ok(None));
        for (status, body) in [
            (200, &*customer.replace("ctm_1", "ctm_2")),
            (200, r#"{"data":{"id":"ctm_1","email":null}}"#),
            (201, customer),
            (404, "<html>"),
            (404, r#"{"error":{"code":"other"}}"#),
            (500, r#"{"error":{"code":"not_found"}}"#),
        ] {
            assert_eq!(address(status, body), Err(NotACustomer), "{status} {body}");
        }
    }
}
