//! Stripe is asked for what its events lack: lines of a session, payments of an invoice, refunds of a charge.

use serde_json::{Value, json};

use super::asked_buyers::ShopInterface;
use crate::deliveries::Shop;
use crate::support::shop::{BUYER, add_shop, deliver, invoice};
use crate::support::{Instance, eventually};

const KEY: &str = "rk_live_CANARY";
const KEY_FILE: &str = "keys/shops/stripe.api-key";
fn open(stripe: &ShopInterface) -> Shop {
    let instance = Instance::new();
    add_shop(&instance);
    let settings = format!(
        "[shops.stripe]\napi_key_file = '{KEY_FILE}'\napi_url = 'http://{}/'\n",
        stripe.address
    );
    instance.write("countersign.toml", &settings);
    instance.write_secret(KEY_FILE, &format!("{KEY}\n"));
    Shop::of(instance)
}

fn all_of(objects: &[Value]) -> String {
    json!({ "object": "list", "data": objects, "has_more": false }).to_string()
}

fn missing() -> String {
    json!({ "error": { "code": "resource_missing", "type": "invalid_request_error" } }).to_string()
}

fn session(number: u32) -> Value {
    json!({ "id": format!("cs_live_{number}"), "mode": "payment", "payment_status": "paid", "amount_total": 5_700,
        "payment_intent": format!("pi_{number}"), "customer_details": { "email": BUYER } })
}

fn statuses(shop: &Shop) -> Vec<String> {
    let licenses = shop.licenses();
    licenses
        .iter()
        .map(|license| license.line["status"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_session_has_the_lines_and_quantities_that_stripe_answers() {
    let stripe = ShopInterface::start();
    let shop = open(&stripe);
    let line = |price: &str, quantity: u32| json!({ "id": "li_1", "amount_total": 1_900, "quantity": quantity, "price": { "id": price, "product": price } });
    stripe.answer(
        200,
        &all_of(&[line("price_small", 2), line("price_large", 1), line("price_other", 1)]),
    );
    assert_eq!(deliver(&shop.server, "checkout.session.completed", 1, &session(1)), 200);
    shop.settle();
    let expected = format!(
        "GET /v1/checkout/sessions/cs_live_1/line_items?limit=100 HTTP/1.1 | authorization: Bearer {KEY} | \
         stripe-version: 2025-03-31.basil"
    );
    assert_eq!(stripe.asked(), [expected]);
    let mut sites: Vec<_> = shop
        .licenses()
        .iter()
        .map(|license| license.line["sites"].clone())
        .collect();
    sites.sort_by_key(Value::as_u64);
    assert_eq!(sites, [json!(1), json!(1), json!(5)]);

    // The metadata name the offer, and Stripe the quantity.
    stripe.answer(200, &all_of(&[line("price_of_a_sale", 3)]));
    let mut named = session(2);
    named["metadata"] = json!({ "offer": "small" });
    assert_eq!(deliver(&shop.server, "checkout.session.completed", 2, &named), 200);
    shop.settle();
    assert_eq!(shop.licenses().len(), 6);

    // A session of the other mode is not there for this key.
    stripe.answer(404, &missing());
    assert_eq!(deliver(&shop.server, "checkout.session.completed", 3, &session(3)), 200);
    shop.settle();
    assert_eq!((shop.licenses().len(), shop.deliveries("parked").len()), (6, 1));
    assert!(!shop.server.log().contains("CANARY"));
}

#[test]
fn an_invoice_and_a_charge_are_joined_by_the_payment_that_stripe_answers() {
    let stripe = ShopInterface::start();
    let shop = open(&stripe);
    let payment = json!({ "id": "inpay_1", "invoice": "in_1", "status": "paid",
        "payment": { "type": "payment_intent", "payment_intent": "pi_1" } });
    stripe.answer_at("invoice_payments?invoice=in_1&", 200, &all_of(&[payment]));
    stripe.answer_at("checkout/sessions?subscription=sub_1&", 200, &all_of(&[]));
    let sold = invoice("in_1", "subscription_create", "price_small", 1, 30);
    assert_eq!(deliver(&shop.server, "invoice.paid", 1, &sold), 200);
    shop.settle();
    assert_eq!((stripe.asked().len(), statuses(&shop)), (2, vec!["active".to_owned()]));

    // Two parts go back, and one of them fails.
    let refund = |id: &str, amount: u32, status: &str| json!({ "id": id, "amount": amount, "status": status });
    let charge = json!({ "id": "ch_1", "payment_intent": "pi_1", "amount": 1_900, "amount_refunded": 1_900,
        "refunded": true });
    let both = [refund("re_1", 1_000, "succeeded"), refund("re_2", 900, "pending")];
    stripe.answer_at("refunds?charge=ch_1&", 200, &all_of(&both));
    assert_eq!(deliver(&shop.server, "charge.refunded", 2, &charge), 200);
    shop.settle();
    assert_eq!(statuses(&shop), ["suspended"]);
    let one = [refund("re_1", 1_000, "succeeded"), refund("re_2", 900, "failed")];
    stripe.answer_at("refunds?charge=ch_1&", 200, &all_of(&one));
    let failed = json!({ "id": "re_2", "charge": "ch_1", "payment_intent": "pi_1", "amount": 900, "status": "failed" });
    assert_eq!(deliver(&shop.server, "refund.failed", 3, &failed), 200);
    shop.settle();
    assert_eq!(statuses(&shop), ["active"]);
    assert_eq!(shop.deliveries("parked"), [""; 0]);
}

#[test]
fn a_sale_waits_while_the_key_may_not_read_what_is_asked() {
    let stripe = ShopInterface::start();
    let shop = open(&stripe);
    stripe.answer(
        403,
        &json!({ "error": { "type": "invalid_request_error" } }).to_string(),
    );
    assert_eq!(deliver(&shop.server, "checkout.session.completed", 1, &session(1)), 200);
    eventually("the log names what the key may not read", || {
        let log = shop.server.log();
        log.contains(KEY_FILE) && log.contains("Checkout Sessions, Invoices")
    });
    assert_eq!((shop.licenses().len(), shop.deliveries("waiting").len()), (0, 1));
    // Other events are applied meanwhile.
    let mut sold = invoice("in_1", "subscription_cycle", "price_small", 1, 30);
    sold["payment_intent"] = json!("pi_2");
    sold["billing_reason"] = json!("manual");
    assert_eq!(deliver(&shop.server, "invoice.paid", 2, &sold), 200);
    eventually("the invoice is applied", || shop.licenses().len() == 1);
    let line = json!({ "amount_total": 1_900, "quantity": 1, "price": { "id": "price_small", "product": "prod_1" } });
    stripe.answer(200, &all_of(&[line]));
    shop.settle();
    assert_eq!(shop.licenses().len(), 2);
    assert!(!shop.server.log().contains("CANARY"));
}
