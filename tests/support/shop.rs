//! A shop: an instance with offers, and deliveries as Stripe signs them.

use chrono::{Days, Utc};
use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::http::request;
use super::instance::Instance;
use super::server::{Server, countersign};

pub const SECRET: &str = "whsec_CANARY_of_deliveries";
pub const BUYER: &str = "CANARY-jane@example.com";

/// Adds the shop, its secret and two offers: `price_small` is for one site, `price_large` for five and one module more.
pub fn add_shop(instance: &Instance) {
    instance.write("countersign.toml", "[shops.stripe]\n");
    instance.write_secret("keys/shops/stripe.secret", SECRET);
    for secret in ["--issuing", "--references"] {
        let made = countersign(instance)
            .args(["keys", "generate", secret])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let offer = |price: &str, sites: u32, more: &str| {
        format!("shop = 'stripe'\nprices = ['{price}']\nperiod = '1y'\nsites = {sites}\nmodules.forms = []\n{more}")
    };
    instance.write("registry/offers/small.toml", &offer("price_small", 1, ""));
    instance.write(
        "registry/offers/large.toml",
        &offer("price_large", 5, "modules.maps = []\n"),
    );
}

/// Delivers an event that happened at `second`; the status of the answer.
pub fn deliver(server: &Server, kind: &str, second: i64, object: &Value) -> u16 {
    let event = json!({ "id": format!("evt_{second}"), "type": kind, "created": 1_700_000_000 + second, "livemode": true,
        "data": { "object": object } });
    deliver_text(server, &event.to_string())
}

/// Delivers any text, signed.
pub fn deliver_text(server: &Server, body: &str) -> u16 {
    let signature = signature(body);
    let headers = [
        ("Content-Type", "application/json"),
        ("Stripe-Signature", signature.as_str()),
    ];
    request(server.address, "POST", "/hooks/stripe", &headers, body.as_bytes()).status
}

/// The header `Stripe-Signature` of a delivery that is sent now.
pub fn signature(body: &str) -> String {
    let now = Utc::now().timestamp();
    let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(SECRET.as_bytes()).unwrap();
    let signature = mac.chain_update(format!("{now}.{body}")).finalize().into_bytes();
    format!("t={now},v1={}", const_hex::encode(signature))
}

/// A paid invoice of the subscription `sub_1`: the period of 30 days that ends so many days from now.
pub fn invoice(id: &str, reason: &str, price: &str, quantity: u32, days: u64) -> Value {
    let day = |days| Utc::now().checked_add_days(Days::new(days)).unwrap().timestamp();
    json!({ "id": id, "billing_reason": reason, "customer_email": BUYER, "amount_paid": 1_900, "total": 1_900,
        "parent": { "subscription_details": { "subscription": "sub_1" } },
        "lines": { "data": [{ "pricing": { "price_details": { "price": price } }, "quantity": quantity, "amount": 1_900,
            "parent": { "subscription_item_details": { "subscription_item": "si_1" } },
            "period": { "start": day(days.saturating_sub(30)), "end": day(days) } }] } })
}
