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

/// What each payment is, in hundredths.
const TOTAL: u32 = 2_990;

/// What happened to a sale in a shop: a price, how many, and until how many days from now.
#[derive(Clone, Copy, Debug)]
pub enum ShopEvent {
    /// The first period was paid.
    Sold(u32, u32, u64),
    Trial(u32, u64),
    /// The period between these days was paid.
    Paid(u32, u64, u64),
    Changed(u32, u32, u64),
    /// The subscription is paused; `WooCommerce` puts it on hold.
    Paused(u32, u64),
    /// A part of the payment of that second went back.
    PartRefunded(u32),
    /// The payment of that second went back.
    Refunded(u32),
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

    /// The deliveries about this event, at `second` by the shop's clock.
    pub fn bodies(self, event: ShopEvent, second: u32) -> Vec<String> {
        let bodies = match self.seller {
            Seller::Stripe => self.stripe(event, second),
            Seller::Paddle => self.paddle(event, second),
            Seller::LemonSqueezy => self.lemon_squeezy(event, second),
            Seller::WooCommerce => self.woocommerce(event, second),
        };
        bodies.iter().map(Value::to_string).collect()
    }

    /// The delivery of something that is paid once, without a subscription.
    pub fn paid_once(self, price: u32, second: u32) -> String {
        let number = self.number;
        let body = match self.seller {
            Seller::Stripe => {
                let session = json!({ "id": format!("cs_{number}"), "mode": "payment", "payment_status": "paid",
                    "payment_intent": format!("pi_{number}_1"), "customer_details": { "email": BUYER }, "amount_total": TOTAL,
                    "line_items": { "data": [{ "price": { "id": format!("{price}") }, "quantity": 1 }] } });
                self.stripe_event("checkout.session.completed", second, &session)
            }
            Seller::Paddle => {
                let items = json!([{ "price": { "id": format!("{price}"), "product_id": "pro_1" }, "quantity": 1 }]);
                let data = json!({ "id": format!("txn_{number}_1"), "subscription_id": null, "origin": "web",
                    "details": { "totals": { "grand_total": TOTAL.to_string(), "grand_total_tax": "0" } },
                    "customer_id": format!("ctm_{number}"), "billing_period": null, "items": items });
                self.paddle_event("transaction.completed", second, &data)
            }
            // An order of both looks as that of a subscription, whose own delivery has the end.
            Seller::LemonSqueezy => self.lemon_squeezy(ShopEvent::Sold(price, 1, 1), second).remove(0),
            Seller::WooCommerce => self.woocommerce(ShopEvent::Sold(price, 1, 1), second).remove(0),
        };
        body.to_string()
    }

    fn stripe(self, event: ShopEvent, second: u32) -> Vec<Value> {
        let number = self.number;
        let invoice = |reason: &str, price: u32, quantity: u32, period: (u64, u64), total: u32| {
            json!({ "id": format!("in_{number}_{second}"), "billing_reason": reason, "customer_email": BUYER, "total": total,
                "amount_paid": total, "payment_intent": format!("pi_{number}_{second}"),
                "parent": { "subscription_details": { "subscription": format!("sub_{number}") } },
                "lines": { "data": [{ "pricing": { "price_details": { "price": format!("{price}") } }, "amount": total,
                    "parent": { "subscription_item_details": { "subscription_item": format!("si_{number}") } },
                    "quantity": quantity,
                    "period": { "start": in_days(period.0).timestamp(), "end": in_days(period.1).timestamp() } }] } })
        };
        let subscription = |status: &str, price: u32, quantity: u32| {
            json!({ "id": format!("sub_{number}"), "status": status, "items": { "data": [{
                "id": format!("si_{number}"), "price": { "id": format!("{price}") }, "quantity": quantity }] } })
        };
        let refund = |of: u32, amount: u32| {
            json!({ "id": format!("ch_{number}_{of}"), "payment_intent": format!("pi_{number}_{of}"), "amount": TOTAL,
                "amount_refunded": amount, "refunded": amount == TOTAL })
        };
        let events = match event {
            ShopEvent::Sold(price, quantity, days) => vec![(
                "invoice.paid",
                invoice("subscription_create", price, quantity, (0, days), TOTAL),
            )],
            ShopEvent::Trial(price, days) => {
                vec![("invoice.paid", invoice("subscription_create", price, 1, (0, days), 0))]
            }
            ShopEvent::Paid(price, from, days) => vec![
                (
                    "invoice.paid",
                    invoice("subscription_cycle", price, 1, (from, days), TOTAL),
                ),
                ("customer.subscription.updated", subscription("active", price, 1)),
            ],
            ShopEvent::Changed(price, quantity, _) => {
                vec![("customer.subscription.updated", subscription("active", price, quantity))]
            }
            ShopEvent::Paused(price, _) => vec![("customer.subscription.updated", subscription("paused", price, 1))],
            ShopEvent::PartRefunded(of) => vec![("charge.refunded", refund(of, 1_000))],
            ShopEvent::Refunded(of) => vec![("charge.refunded", refund(of, TOTAL))],
        };
        let event = |(kind, object): (&str, Value)| self.stripe_event(kind, second, &object);
        events.into_iter().map(event).collect()
    }

    pub fn stripe_event(self, kind: &str, second: u32, object: &Value) -> Value {
        json!({ "id": format!("evt_{}_{second}_{kind}", self.number), "type": kind, "created": 1_700_000_000 + second,
            "livemode": !self.is_test, "data": { "object": object } })
    }

    fn paddle(self, event: ShopEvent, second: u32) -> Vec<Value> {
        let number = self.number;
        let items = |price: u32, quantity: u32| {
            json!([{ "price": { "id": format!("{price}"), "product_id": "pro_1",
                "billing_cycle": { "interval": "month", "frequency": 1 } }, "quantity": quantity }])
        };
        let transaction = |origin: &str, price: u32, quantity: u32, period: (u64, u64), total: u32| {
            let period =
                json!({ "starts_at": in_days(period.0).to_rfc3339(), "ends_at": in_days(period.1).to_rfc3339() });
            json!({ "id": format!("txn_{number}_{second}"), "subscription_id": format!("sub_{number}"),
                "customer_id": format!("ctm_{number}"), "origin": origin, "billing_period": period,
                "items": items(price, quantity),
                "details": { "totals": { "grand_total": total.to_string(), "grand_total_tax": "0" } } })
        };
        let refund = |of: u32, kind: &str, amount: u32| {
            json!({ "id": format!("adj_{number}_{of}_{kind}"), "transaction_id": format!("txn_{number}_{of}"),
                "status": "approved", "action": "refund", "type": kind,
                "totals": { "total": amount.to_string(), "tax": "0" } })
        };
        let subscription = |status: &str, price: u32, quantity: u32| {
            json!({ "id": format!("sub_{number}"), "status": status, "customer_id": format!("ctm_{number}"),
                "items": items(price, quantity) })
        };
        let events = match event {
            ShopEvent::Sold(price, quantity, days) => vec![(
                "transaction.completed",
                transaction("web", price, quantity, (0, days), TOTAL),
            )],
            ShopEvent::Trial(price, days) => {
                vec![("transaction.completed", transaction("web", price, 1, (0, days), 0))]
            }
            ShopEvent::Paid(price, from, days) => vec![
                (
                    "transaction.completed",
                    transaction("subscription_recurring", price, 1, (from, days), TOTAL),
                ),
                ("subscription.updated", subscription("active", price, 1)),
            ],
            ShopEvent::Changed(price, quantity, _) => {
                vec![("subscription.updated", subscription("active", price, quantity))]
            }
            ShopEvent::Paused(price, _) => vec![("subscription.paused", subscription("paused", price, 1))],
            ShopEvent::PartRefunded(of) => vec![("adjustment.updated", refund(of, "partial", 1_000))],
            ShopEvent::Refunded(of) => vec![("adjustment.updated", refund(of, "full", TOTAL))],
        };
        let event = |(kind, data): (&str, Value)| self.paddle_event(kind, second, &data);
        events.into_iter().map(event).collect()
    }

    pub fn paddle_event(self, kind: &str, second: u32, data: &Value) -> Value {
        json!({ "event_id": format!("evt_{}_{second}", self.number), "event_type": kind, "occurred_at": at(second), "data": data })
    }

    fn lemon_squeezy(self, event: ShopEvent, second: u32) -> Vec<Value> {
        let number = self.number;
        let delivery = |kind: &str, of: &str, id: u32, attributes: Value| {
            json!({ "meta": { "event_name": kind, "test_mode": self.is_test },
                "data": { "type": of, "id": format!("{id}"), "attributes": attributes } })
        };
        let order = |kind: &str, status: &str, (price, quantity): (u32, u32), back: u32| {
            let attributes = json!({ "status": status, "user_email": BUYER, "created_at": at(1), "updated_at": at(second),
                "total": TOTAL, "refunded_amount": back,
                "first_order_item": { "variant_id": price, "product_id": 9, "quantity": quantity } });
            delivery(kind, "orders", 1_000 + number, attributes)
        };
        let subscription = |kind: &str, status: &str, (price, quantity): (u32, u32), days: u64| {
            let mut attributes = json!({ "status": status, "user_email": BUYER, "updated_at": at(second),
                "order_id": 1_000 + number, "variant_id": price, "product_id": 9,
                "first_subscription_item": { "quantity": quantity }, "renews_at": in_days(days).to_rfc3339() });
            if status == "on_trial" {
                attributes["trial_ends_at"] = json!(in_days(days).to_rfc3339());
            }
            if status == "paused" {
                attributes["pause"] = json!({ "mode": "void" });
            }
            delivery(kind, "subscriptions", 2_000 + number, attributes)
        };
        let invoice = |kind: &str, paid_at: u32, status: &str, back: u32| {
            let attributes = json!({ "subscription_id": 2_000 + number, "billing_reason": "renewal", "status": status,
                "created_at": at(paid_at), "updated_at": at(second), "total": TOTAL, "refunded_amount": back });
            delivery(kind, "subscription-invoices", 100_000 * paid_at + number, attributes)
        };
        let refund = |of: u32, status: &str, back: u32| match of {
            1 => order("order_refunded", status, (SMALL, 1), back),
            of => invoice("subscription_payment_refunded", of, status, back),
        };
        match event {
            ShopEvent::Sold(price, quantity, days) => vec![
                order("order_created", "paid", (price, quantity), 0),
                subscription("subscription_created", "active", (price, quantity), days),
            ],
            ShopEvent::Trial(price, days) => vec![
                order("order_created", "paid", (price, 1), 0),
                subscription("subscription_created", "on_trial", (price, 1), days),
            ],
            ShopEvent::Paid(price, _, days) => vec![
                subscription("subscription_updated", "active", (price, 1), days),
                invoice("subscription_payment_success", second, "paid", 0),
            ],
            ShopEvent::Changed(price, quantity, days) => {
                vec![subscription("subscription_updated", "active", (price, quantity), days)]
            }
            ShopEvent::Paused(price, days) => vec![subscription("subscription_updated", "paused", (price, 1), days)],
            ShopEvent::PartRefunded(of) => vec![refund(of, "partial_refund", 1_000)],
            ShopEvent::Refunded(of) => vec![refund(of, "refunded", TOTAL)],
        }
    }

    fn woocommerce(self, event: ShopEvent, second: u32) -> Vec<Value> {
        let number = self.number;
        let lines =
            |price: u32, quantity: u32| json!([{ "product_id": 9, "variation_id": price, "quantity": quantity }]);
        let time = |time: DateTime<Utc>| time.format("%Y-%m-%dT%H:%M:%S").to_string();
        let second_text = |second: u32| time(at(second).parse().unwrap());
        let modified = second_text(second);
        // The first order, or one that renews.
        let order = |of: u32, (price, quantity): (u32, u32), back: Option<&str>| {
            let status = if back == Some("-29.90") {
                "refunded"
            } else {
                "completed"
            };
            let refunds: Vec<_> = back
                .iter()
                .map(|total| json!({ "id": 10 * number + of, "total": total }))
                .collect();
            let meta = match of {
                1 => json!([]),
                _ => json!([{ "key": "_subscription_renewal", "value": (2_000 + number).to_string() }]),
            };
            let id = if of == 1 { 1_000 + number } else { 100_000 * of + number };
            json!({ "id": id, "status": status, "currency": "EUR", "total": "29.90", "date_modified_gmt": modified,
                "date_paid_gmt": second_text(of), "billing": { "email": BUYER }, "refunds": refunds, "meta_data": meta,
                "line_items": lines(price, quantity) })
        };
        let subscription = |status: &str, (price, quantity): (u32, u32), days: u64| {
            json!({ "id": 2_000 + number, "parent_id": 1_000 + number, "status": status, "billing_period": "month",
                "date_modified_gmt": modified, "billing": { "email": BUYER },
                "next_payment_date_gmt": time(in_days(days)), "line_items": lines(price, quantity) })
        };
        match event {
            ShopEvent::Sold(price, quantity, days) => vec![
                order(1, (price, quantity), None),
                subscription("active", (price, quantity), days),
            ],
            ShopEvent::Trial(price, days) => vec![order(1, (price, 1), None), subscription("active", (price, 1), days)],
            ShopEvent::Paid(price, _, days) => vec![
                order(second, (price, 1), None),
                subscription("active", (price, 1), days),
            ],
            ShopEvent::Changed(price, quantity, days) => vec![subscription("active", (price, quantity), days)],
            ShopEvent::Paused(price, days) => vec![subscription("on-hold", (price, 1), days)],
            ShopEvent::PartRefunded(of) => vec![order(of, (SMALL, 1), Some("-10.00"))],
            ShopEvent::Refunded(of) => vec![order(of, (SMALL, 1), Some("-29.90"))],
        }
    }
}

/// That second by the shop's clock.
fn at(second: u32) -> String {
    let time = DateTime::from_timestamp(1_700_000_000 + i64::from(second), 0).unwrap();
    time.to_rfc3339()
}
