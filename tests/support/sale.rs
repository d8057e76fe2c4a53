//! Facts of sales as scenarios write them (`tests/data/sales`), and what a customer has who they are about.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use countersign_model::license::{Details, License, LicenseState, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::{QuantityMeaning, ShopId};
use countersign_model::sale::edits::Edits;
use countersign_model::sale::fact::{
    BoughtFor, CheckoutSession, Dispute, DisputeStatus, Fact, LicenseBase, Names, PaidLine, Payment, PlaceName, Refund,
    SoldItem, Subscription, SubscriptionStatus,
};
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::grants::Remainder;
use countersign_model::sale::terms::{SoldGrant, Terms};
use serde_json::Value;

type Offers = BTreeMap<String, Terms>;

/// A customer: facts of one sale, the offers in force, and what people changed.
#[derive(Clone, Default)]
pub struct Customer {
    facts: SaleFacts<String>,
    offers: Offers,
    edits: BTreeMap<String, Edits>,
}

fn time(text: &str) -> DateTime<Utc> {
    const REST: &str = "0000-01-01T00:00:00Z";
    format!("{text}{}", &REST[text.len()..]).parse().unwrap()
}

pub fn text(value: &Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}

fn at(value: &Value, name: &str) -> Option<DateTime<Utc>> {
    value[name].as_str().map(time)
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    let all = value[name].as_array().into_iter().flatten();
    all.map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn id(value: &Value, name: &str) -> ShopId {
    value[name].as_str().unwrap().parse().unwrap()
}

pub fn list(value: &Value, name: &str) -> Vec<Value> {
    value[name].as_array().cloned().unwrap_or_default()
}

fn quantity(value: &Value) -> u32 {
    u32::try_from(value["quantity"].as_u64().unwrap()).unwrap()
}

/// `cs1:year.0`, `s#0` or `license`.
fn place(name: &str) -> PlaceName<String> {
    if name == LICENSE {
        return PlaceName::License {
            license: LICENSE.to_owned(),
        };
    }
    if let Some((subscription, number)) = name.split_once('#') {
        return PlaceName::Item {
            number: number.parse().unwrap(),
            subscription: subscription.to_owned(),
        };
    }
    let (payment, line) = name.split_once(':').unwrap();
    let (price, number) = line.split_once('.').unwrap();
    PlaceName::Line {
        number: number.parse().unwrap(),
        payment: payment.to_owned(),
        price: price.parse().unwrap(),
    }
}

/// Every offer of the scenarios has a module in common with every license.
fn place_of(value: &Value) -> Option<BoughtFor<String>> {
    let name = value["license"].as_str()?;
    Some(BoughtFor {
        copy: value["copy"].as_u64().unwrap_or(0).try_into().unwrap(),
        modules: ["extra", "forms", "maps"].map(|name| name.parse().unwrap()).into(),
        place: place(name),
    })
}

fn line(line: &Value) -> PaidLine<String> {
    PaidLine {
        amount: line["amount"].as_i64(),
        from: at(line, "from"),
        item: text(line, "item").unwrap(),
        is_recurring: line["kind"] == "recurring",
        offer: None,
        price: id(line, "price"),
        product: id(line, "product"),
        quantity: quantity(line),
        to: at(line, "to"),
    }
}

fn item(item: &Value) -> SoldItem<String> {
    SoldItem {
        item: text(item, "item").unwrap(),
        offer: None,
        price: id(item, "price"),
        product: id(item, "product"),
        quantity: quantity(item),
    }
}

fn subscription(word: &Value) -> Subscription<String> {
    let status = match word["status"].as_str().unwrap() {
        "active" => SubscriptionStatus::Active,
        "trialing" => SubscriptionStatus::Trialing,
        "past_due" => SubscriptionStatus::PastDue,
        "on-hold" => SubscriptionStatus::OnHold,
        "pending-cancel" => SubscriptionStatus::PendingCancel,
        "paused" => SubscriptionStatus::Paused,
        "unpaid" => SubscriptionStatus::Unpaid,
        "canceled" | "cancelled" => SubscriptionStatus::Canceled,
        "expired" => SubscriptionStatus::Expired,
        other => panic!("{other}"),
    };
    let free = texts(word, "free");
    Subscription {
        at: at(word, "at").unwrap(),
        due_days: word["due"].as_u64().map(|days| u16::try_from(days).unwrap()),
        ended: at(word, "ended"),
        ends: at(word, "ends"),
        free: (!free.is_empty()).then(|| (time(&free[0]), time(&free[1]))),
        id: text(word, "id").unwrap(),
        items: list(word, "items").iter().map(item).collect(),
        parent: text(word, "parent"),
        place: place_of(word),
        removed: texts(word, "removed").iter().map(|id| id.parse().unwrap()).collect(),
        renews: word["renewing"].as_bool().unwrap_or(true),
        resubscribes: text(word, "resubscribes"),
        status,
    }
}

fn fact(word: &Value) -> Fact<String> {
    let at_time = || at(word, "at").unwrap();
    let id = || text(word, "id").unwrap();
    match word["w"].as_str().unwrap() {
        "payment" => Fact::Payment(Payment {
            amount: word["amount"].as_u64(),
            at: at_time(),
            id: id(),
            is_valid: word["ok"].as_bool().unwrap_or(true),
            lines: list(word, "lines").iter().map(line).collect(),
            names: texts(word, "names"),
            paid: at(word, "paid"),
            place: place_of(word),
            renews: texts(word, "renews"),
            subscription: text(word, "sub"),
        }),
        "refund" => Fact::Refund(Refund {
            amount: word["amount"].as_u64().unwrap(),
            at: at_time(),
            id: id(),
            is_approved: word["status"] == "approved",
            names: texts(word, "names"),
            of: text(word, "of").unwrap(),
        }),
        "dispute" => Fact::Dispute(Dispute {
            at: at_time(),
            id: id(),
            names: texts(word, "names"),
            of: text(word, "of").unwrap(),
            status: match word["status"].as_str().unwrap() {
                "open" => DisputeStatus::Open,
                "lost" => DisputeStatus::Lost,
                _ => DisputeStatus::Won,
            },
        }),
        "sub" => Fact::Subscription(subscription(word)),
        "session" => Fact::Session(CheckoutSession {
            at: at_time(),
            id: id(),
            place: place_of(word),
            subscription: text(word, "sub").unwrap(),
        }),
        "alias" => Fact::Names(Names {
            ids: texts(word, "names"),
        }),
        "base" => Fact::Base(LicenseBase {
            grant: SoldGrant {
                expires: text(word, "end").unwrap().parse().unwrap(),
                modules: modules(&texts(word, "modules")),
                renewal_days: None,
                site_moves: Some(7),
                sites: sites(&word["sites"]),
                staging_sites: None,
                status: LicenseStatus::Active,
            },
            license: LICENSE.to_owned(),
            shop: "shop".to_owned(),
        }),
        other => panic!("{other}"),
    }
}

fn modules(names: &[String]) -> Arc<Modules> {
    Arc::new(names.iter().map(|name| (name.parse().unwrap(), Vec::new())).collect())
}

fn sites(value: &Value) -> SiteLimit {
    SiteLimit::Limited(NonZeroU32::new(u32::try_from(value.as_u64().unwrap()).unwrap()).unwrap())
}

fn offers(value: &Value) -> Offers {
    let terms = |offer: &Value| Terms {
        grace_days: u16::try_from(offer["grace"].as_u64().unwrap()).unwrap(),
        is_nothing: offer["nothing"].as_bool().unwrap(),
        lasts: offer["period"].as_str().unwrap().parse().unwrap(),
        modules: modules(&texts(offer, "modules")),
        offer: offer["name"].as_str().unwrap().parse().unwrap(),
        quantity: match offer["quantity"].as_str().unwrap() {
            "sites" => QuantityMeaning::Sites,
            _ => QuantityMeaning::Licenses,
        },
        site_moves: None,
        sites: sites(&offer["sites"]),
        staging_sites: None,
    };
    let offers = value["offers"].as_object().unwrap();
    offers
        .iter()
        .map(|(price, offer)| (price.clone(), terms(offer)))
        .collect()
}

/// The license that no shop sold.
const LICENSE: &str = "license";

fn place_text(place: &PlaceName<String>, copy: u32) -> String {
    match place {
        PlaceName::Item { number, subscription } => format!("{subscription}#{number}/{copy}"),
        PlaceName::Line { number, payment, price } => format!("{payment}:{price}.{number}/{copy}"),
        PlaceName::License { license } => format!("{license}/{copy}"),
    }
}

impl Customer {
    /// A customer without a purchase yet. `offers` has the offers by price.
    pub fn new(offers: &Value) -> Self {
        Self {
            offers: self::offers(offers),
            ..Self::default()
        }
    }

    /// Takes the facts that another node knows.
    pub fn absorb(&mut self, other: &Self) {
        self.facts.absorb(&other.facts);
        self.facts.assign_places();
    }

    pub fn take(&mut self, word: &Value) {
        match word["w"].as_str().unwrap() {
            "offers" => self.offers = offers(word),
            "regrant" => {
                let prices = texts(word, "prices");
                let now = |price: &ShopId| self.offers.get(price.as_str()).cloned();
                self.facts
                    .regrant(|price| now(price).filter(|_| prices.iter().any(|of| of == price.as_str())));
            }
            "edit" => self.edit(word),
            _ => {
                self.facts.take(fact(word));
                let unknown = self.facts.without_terms().into_iter();
                let unknown: Vec<_> = unknown.map(|(sale, thing)| (sale, thing.price.clone())).collect();
                for (sale, price) in unknown {
                    if let Some(terms) = self.offers.get(price.as_str()) {
                        self.facts.remember(sale, price, terms.clone());
                    }
                }
                self.facts.assign_places();
            }
        }
    }

    fn edit(&mut self, word: &Value) {
        let name = text(word, "place").unwrap();
        let granted = self.facts.grants().licenses;
        let sold = granted
            .iter()
            .find(|sold| place_text(&sold.place, sold.copy) == name)
            .unwrap();
        let edits = self.edits.entry(name).or_default();
        let mut license = license(&edits.over(&sold.grant));
        let set = &word["set"];
        if let Some(end) = text(set, "end") {
            license.expires = end.parse().unwrap();
        }
        if set["status"] == "suspended" {
            license.status = LicenseStatus::Suspended;
        }
        if set["sites"].is_number() {
            license.sites = sites(&set["sites"]);
        }
        if set["modules"].is_array() {
            license.modules = modules(&texts(set, "modules"));
        }
        *edits = edits.after(&sold.grant, &license.sold_grant());
    }

    /// What the customer has on a day, and what is left, as the scenarios write it.
    pub fn shown(&self, day: NaiveDate) -> (Vec<String>, Vec<String>) {
        let grants = self.facts.grants();
        let none = Edits::default();
        let licenses = grants.licenses.iter().filter(|sold| sold.is_sold).map(|sold| {
            let edits = self.edits.get(&place_text(&sold.place, sold.copy)).unwrap_or(&none);
            let license = license(&edits.over(&sold.grant));
            let status = match license.state(day) {
                LicenseState::Active => "active",
                LicenseState::Expired => "expired",
                LicenseState::Suspended => "suspended",
                LicenseState::Revoked => "revoked",
            };
            let modules: Vec<_> = license.modules.keys().map(ToString::to_string).collect();
            format!("{status} {} {} {}", modules.join("+"), license.sites, license.expires)
        });
        let mut licenses: Vec<_> = licenses.collect();
        licenses.sort();
        let told = grants.remainder.iter().map(|remainder| match remainder {
            Remainder::NoOffer(price) => format!("no offer {price}"),
            Remainder::PartialRefund(payment) => format!("partial refund {payment}"),
            Remainder::TooMany(price) => format!("too many {price}"),
        });
        let mut told: Vec<_> = told.collect();
        told.sort();
        (licenses, told)
    }
}

fn license(grant: &SoldGrant) -> License {
    let mut license = License {
        id: LicenseId::from_bytes([1; 32]),
        status: LicenseStatus::Active,
        expires: grant.expires,
        modules: Arc::default(),
        sites: grant.sites,
        grace_period_hours: None,
        details: Details::default(),
        is_declared: false,
    };
    license.take_sold(grant);
    license
}

/// What a scenario says that [`Customer::shown`] gives.
pub fn expected(scenario: &Value) -> (Vec<String>, Vec<String>) {
    let join = |words: &Value| {
        let words = words.as_array().unwrap().iter();
        let words = words.map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned));
        words.collect::<Vec<_>>().join(" ")
    };
    let all = |name: &str| {
        let mut all: Vec<_> = list(scenario, name).iter().map(join).collect();
        all.sort();
        all
    };
    (all("licenses"), all("told"))
}
