//! Sells in each of the four shops: its offers, its deliveries and its signatures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Days, Utc};
use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::http::{Response, request};
use crate::support::instance::Instance;
use crate::support::server::{Server, countersign};
use crate::support::shop::BUYER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seller {
    Stripe,
    Paddle,
    LemonSqueezy,
    WooCommerce,
}

pub const SELLERS: [Seller; 4] = [
    Seller::Stripe,
    Seller::Paddle,
    Seller::LemonSqueezy,
    Seller::WooCommerce,
];

/// One site of `forms`.
pub const SMALL: u32 = 11;
/// Five sites of `forms` and `maps`.
pub const LARGE: u32 = 12;
/// Two sites of `forms` for each that is bought.
pub const SEATS: u32 = 13;

/// What happened to a sale in a shop: a price, how many, and until how many days from now.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    Sold(u32, u32, u64),
    Trial(u32, u64),
    /// A further period was paid.
    Paid(u32, u64),
    Changed(u32, u32, u64),
    /// The shop suspends the subscription, because it is not paid.
    Unpaid,
    PartRefunded,
    Refunded,
}

/// A sale of a shop: its number is in all its ids.
#[derive(Clone, Copy, Debug)]
pub struct ShopSale {
    pub seller: Seller,
    pub number: u32,
    pub is_test: bool,
}

/// All four shops with their offers and secrets; `mode` is a line of the settings of those that do not say it.
pub fn with_sellers(mode: &str) -> Instance {
    let instance = Instance::new();
    let tables = SELLERS.map(|seller| {
        let says_it = matches!(seller, Seller::Stripe | Seller::LemonSqueezy);
        format!("[shops.{}]\n{}\n", seller.name(), if says_it { "" } else { mode })
    });
    instance.write("countersign.toml", &tables.concat());
    for secret in ["--issuing", "--references"] {
        let mut command = countersign(&instance);
        let made = command.args(["keys", "generate", secret]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    for seller in SELLERS {
        let name = seller.name();
        instance.write_secret(&format!("keys/shops/{name}.secret"), &seller.secret());
        for (offer, price, more) in [
            ("small", SMALL, "sites = 1\nmodules.forms = []\n"),
            ("large", LARGE, "sites = 5\nmodules.forms = []\nmodules.maps = []\n"),
            ("seats", SEATS, "sites = 2\nquantity = 'sites'\nmodules.forms = []\n"),
            ("test", SMALL, "sites = 9\nmode = 'test'\nmodules.forms = []\n"),
        ] {
            let text = format!("shop = '{name}'\nprices = ['{price}']\nperiod = '1y'\n{more}");
            instance.write(&format!("registry/offers/{name}-{offer}.toml"), &text);
        }
    }
    instance
}

impl Seller {
    pub fn name(self) -> &'static str {
        match self {
            Self::Stripe => "stripe",
            Self::Paddle => "paddle",
            Self::LemonSqueezy => "lemonsqueezy",
            Self::WooCommerce => "woocommerce",
        }
    }

    pub fn secret(self) -> String {
        format!("whsec_CANARY_of_{}", self.name())
    }

    pub fn header(self) -> &'static str {
        match self {
            Self::Stripe => "Stripe-Signature",
            Self::Paddle => "Paddle-Signature",
            Self::LemonSqueezy => "X-Signature",
            Self::WooCommerce => "X-WC-Webhook-Signature",
        }
    }

    /// The hexadecimal HMAC of what this shop signs at this time.
    pub fn mac(self, secret: &str, time: i64, body: &str) -> String {
        let signed = match self {
            Self::Stripe => format!("{time}.{body}"),
            Self::Paddle => format!("{time}:{body}"),
            Self::LemonSqueezy | Self::WooCommerce => body.to_owned(),
        };
        let mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(secret.as_bytes()).unwrap();
        const_hex::encode(mac.chain_update(signed).finalize().into_bytes())
    }

    /// The value of the header.
    pub fn signature(self, secret: &str, time: i64, body: &str) -> String {
        let mac = self.mac(secret, time, body);
        match self {
            Self::Stripe => format!("t={time},v1={mac}"),
            Self::Paddle => format!("ts={time};h1={mac}"),
            Self::LemonSqueezy => mac,
            Self::WooCommerce => STANDARD.encode(const_hex::decode(mac).unwrap()),
        }
    }

    /// Delivers a body as this shop signs it.
    pub fn deliver(self, server: &Server, body: &str) -> u16 {
        let signature = self.signature(&self.secret(), Utc::now().timestamp(), body);
        self.send(server, &[(self.header(), &signature)], body).status
    }

    /// Sends a body with any headers.
    pub fn send(self, server: &Server, headers: &[(&str, &str)], body: &str) -> Response {
        let mut all = vec![("Content-Type", "application/json")];
        all.extend_from_slice(headers);
        request(
            server.address,
            "POST",
            &format!("/hooks/{}", self.name()),
            &all,
            body.as_bytes(),
        )
    }
}

fn in_days(days: u64) -> DateTime<Utc> {
    Utc::now().checked_add_days(Days::new(days)).unwrap()
}

impl ShopSale {
    pub fn new(seller: Seller, number: u32) -> Self {
        Self {
            seller,
            number,
            is_test: false,
        }
    }

    /// The deliveries that tell of this, at `second` by the shop's clock.
    pub fn bodies(self, told: Told, second: u32) -> Vec<String> {
        let bodies = match self.seller {
            Seller::Stripe => vec![self.stripe(told, second)],
            Seller::Paddle => vec![self.paddle(told, second)],
            Seller::LemonSqueezy => self.lemon_squeezy(told, second),
            Seller::WooCommerce => self.woocommerce(told, second),
        };
        bodies.iter().map(Value::to_string).collect()
    }

    /// The delivery of something that is paid once, without a subscription.
    pub fn paid_once(self, price: u32, second: u32) -> String {
        let number = self.number;
        let body = match self.seller {
            Seller::Stripe => {
                let session = json!({ "id": format!("cs_{number}"), "mode": "payment", "payment_status": "paid",
                    "payment_intent": format!("pi_{number}"), "customer_details": { "email": BUYER },
                    "line_items": { "data": [{ "price": { "id": format!("{price}") }, "quantity": 1 }] } });
                self.stripe_event("checkout.session.completed", second, &session)
            }
            Seller::Paddle => {
                let items = json!([{ "price": { "id": format!("{price}"), "product_id": "pro_1" }, "quantity": 1 }]);
                let data = json!({ "id": format!("txn_{number}"), "subscription_id": null, "origin": "web",
                    "customer_id": format!("ctm_{number}"), "billing_period": null, "items": items });
                self.paddle_event("transaction.completed", second, &data)
            }
            // An order of both looks as that of a subscription, whose own delivery has the end.
            Seller::LemonSqueezy => self.lemon_squeezy(Told::Sold(price, 1, 1), second).remove(0),
            Seller::WooCommerce => self.woocommerce(Told::Sold(price, 1, 1), second).remove(0),
        };
        body.to_string()
    }

    fn stripe(self, told: Told, second: u32) -> Value {
        let number = self.number;
        let invoice = |reason: &str, payment: String, price: u32, quantity: u32, days: u64| {
            json!({ "id": format!("in_{number}_{second}"), "billing_reason": reason, "customer_email": BUYER,
                "payment_intent": payment, "parent": { "subscription_details": { "subscription": format!("sub_{number}") } },
                "lines": { "data": [{ "pricing": { "price_details": { "price": format!("{price}") } },
                    "quantity": quantity, "period": { "end": in_days(days).timestamp() } }] } })
        };
        let subscription = |status: &str, price: u32, quantity: u32| {
            json!({ "id": format!("sub_{number}"), "status": status,
                "items": { "data": [{ "price": { "id": format!("{price}") }, "quantity": quantity }] } })
        };
        let refund = |is_whole: bool| {
            let payment = format!("pi_{number}");
            json!({ "id": format!("ch_{number}"), "payment_intent": payment, "refunded": is_whole })
        };
        let (kind, object) = match told {
            Told::Sold(price, quantity, days) => (
                "invoice.paid",
                invoice("subscription_create", format!("pi_{number}"), price, quantity, days),
            ),
            Told::Trial(price, days) => (
                "invoice.paid",
                invoice("subscription_create", format!("pi_{number}"), price, 1, days),
            ),
            Told::Paid(price, days) => (
                "invoice.paid",
                invoice("subscription_cycle", format!("pi_{number}_{second}"), price, 1, days),
            ),
            Told::Changed(price, quantity, _) => {
                ("customer.subscription.updated", subscription("active", price, quantity))
            }
            Told::Unpaid => ("customer.subscription.updated", subscription("unpaid", SMALL, 1)),
            Told::PartRefunded => ("charge.refunded", refund(false)),
            Told::Refunded => ("charge.refunded", refund(true)),
        };
        self.stripe_event(kind, second, &object)
    }

    pub fn stripe_event(self, kind: &str, second: u32, object: &Value) -> Value {
        json!({ "id": format!("evt_{}_{second}", self.number), "type": kind, "created": 1_700_000_000 + second,
            "livemode": !self.is_test, "data": { "object": object } })
    }

    fn paddle(self, told: Told, second: u32) -> Value {
        let number = self.number;
        let items = |price: u32, quantity: u32| json!([{ "price": { "id": format!("{price}"), "product_id": "pro_1" }, "quantity": quantity }]);
        let transaction = |id: String, origin: &str, price: u32, quantity: u32, days: u64| {
            json!({ "id": id, "subscription_id": format!("sub_{number}"), "customer_id": format!("ctm_{number}"),
                "origin": origin, "billing_period": { "ends_at": in_days(days).to_rfc3339() }, "items": items(price, quantity) })
        };
        let refund = |kind: &str| {
            json!({ "id": format!("adj_{number}"), "transaction_id": format!("txn_{number}"), "status": "approved",
                "action": "refund", "type": kind })
        };
        let first = format!("txn_{number}");
        let (kind, data) = match told {
            Told::Sold(price, quantity, days) => (
                "transaction.completed",
                transaction(first, "web", price, quantity, days),
            ),
            Told::Trial(price, days) => ("transaction.completed", transaction(first, "web", price, 1, days)),
            Told::Paid(price, days) => (
                "transaction.completed",
                transaction(
                    format!("txn_{number}_{second}"),
                    "subscription_recurring",
                    price,
                    1,
                    days,
                ),
            ),
            Told::Changed(price, quantity, _) => (
                "subscription.updated",
                json!({ "id": format!("sub_{number}"), "status": "active", "customer_id": format!("ctm_{number}"),
                    "items": items(price, quantity) }),
            ),
            Told::Unpaid => (
                "subscription.paused",
                json!({ "id": format!("sub_{number}"), "status": "paused" }),
            ),
            Told::PartRefunded => ("adjustment.updated", refund("partial")),
            Told::Refunded => ("adjustment.updated", refund("full")),
        };
        self.paddle_event(kind, second, &data)
    }

    pub fn paddle_event(self, kind: &str, second: u32, data: &Value) -> Value {
        json!({ "event_id": format!("evt_{}_{second}", self.number), "event_type": kind, "occurred_at": at(second), "data": data })
    }

    fn lemon_squeezy(self, told: Told, second: u32) -> Vec<Value> {
        let number = self.number;
        let event = |kind: &str, of: &str, id: u32, attributes: Value| {
            json!({ "meta": { "event_name": kind, "test_mode": self.is_test },
                "data": { "type": of, "id": format!("{id}"), "attributes": attributes } })
        };
        let order = |kind: &str, status: &str, price: u32, quantity: u32| {
            let attributes = json!({ "status": status, "user_email": BUYER, "updated_at": at(second),
                "first_order_item": { "variant_id": price, "product_id": 9, "quantity": quantity } });
            event(kind, "orders", 1_000 + number, attributes)
        };
        let subscription = |kind: &str, status: &str, price: u32, quantity: u32, days: u64| {
            let mut attributes = json!({ "status": status, "user_email": BUYER, "updated_at": at(second),
                "order_id": 1_000 + number, "variant_id": price, "product_id": 9,
                "first_subscription_item": { "quantity": quantity }, "renews_at": in_days(days).to_rfc3339() });
            if status == "on_trial" {
                attributes["trial_ends_at"] = json!(in_days(days).to_rfc3339());
            }
            event(kind, "subscriptions", 2_000 + number, attributes)
        };
        match told {
            Told::Sold(price, quantity, days) => vec![
                order("order_created", "paid", price, quantity),
                subscription("subscription_created", "active", price, quantity, days),
            ],
            Told::Trial(price, days) => vec![
                order("order_created", "paid", price, 1),
                subscription("subscription_created", "on_trial", price, 1, days),
            ],
            Told::Paid(price, days) => vec![subscription("subscription_updated", "active", price, 1, days)],
            Told::Changed(price, quantity, days) => {
                vec![subscription("subscription_updated", "active", price, quantity, days)]
            }
            Told::Unpaid => vec![subscription("subscription_updated", "unpaid", SMALL, 1, 1)],
            Told::PartRefunded => vec![order("order_refunded", "partial_refund", SMALL, 1)],
            Told::Refunded => vec![order("order_refunded", "refunded", SMALL, 1)],
        }
    }

    fn woocommerce(self, told: Told, second: u32) -> Vec<Value> {
        let number = self.number;
        let lines =
            |price: u32, quantity: u32| json!([{ "product_id": 9, "variation_id": price, "quantity": quantity }]);
        let time = |time: DateTime<Utc>| time.format("%Y-%m-%dT%H:%M:%S").to_string();
        let modified = time(at(second).parse().unwrap());
        let order = |status: &str, price: u32, quantity: u32, refunds: Value| {
            json!({ "id": 1_000 + number, "status": status, "total": "29.90", "date_modified_gmt": modified,
                "billing": { "email": BUYER }, "refunds": refunds, "meta_data": [], "line_items": lines(price, quantity) })
        };
        let subscription = |status: &str, price: u32, quantity: u32, days: u64| {
            json!({ "id": 2_000 + number, "parent_id": 1_000 + number, "status": status, "billing_period": "month",
                "date_modified_gmt": modified, "billing": { "email": BUYER },
                "next_payment_date_gmt": time(in_days(days)), "line_items": lines(price, quantity) })
        };
        match told {
            Told::Sold(price, quantity, days) => vec![
                order("completed", price, quantity, json!([])),
                subscription("active", price, quantity, days),
            ],
            Told::Trial(price, days) => vec![
                order("completed", price, 1, json!([])),
                subscription("active", price, 1, days),
            ],
            Told::Paid(price, days) => vec![subscription("active", price, 1, days)],
            Told::Changed(price, quantity, days) => vec![subscription("active", price, quantity, days)],
            Told::Unpaid => vec![subscription("on-hold", SMALL, 1, 1)],
            Told::PartRefunded => vec![order("completed", SMALL, 1, json!([{ "id": 1, "total": "-10.00" }]))],
            Told::Refunded => vec![order("refunded", SMALL, 1, json!([{ "id": 1, "total": "-29.90" }]))],
        }
    }
}

/// That second by the shop's clock.
fn at(second: u32) -> String {
    let time = DateTime::from_timestamp(1_700_000_000 + i64::from(second), 0).unwrap();
    time.to_rfc3339()
}
