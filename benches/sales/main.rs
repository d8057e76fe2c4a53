//! `make bench`: the cost of the function that says what a sale grants.
//!
//! The sale is a subscription of three years: 36 invoices, each with a second name, one of them refunded, and one item. It is in the
//! form that the ledger keeps. Medians are reported; nothing fails. docs/benchmarks.md says how to read the figures.
#![allow(unreachable_pub, reason = "nothing uses the modules of a benchmark from outside")]
#![allow(clippy::print_stdout, reason = "printing is what a benchmark does")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot go on has no figures"
)]

#[path = "../serve/report.rs"]
#[allow(dead_code, reason = "other benchmarks ask for more")]
mod report;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, Months, Utc};
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license::{Modules, SiteLimit};
use countersign_model::offer::{LicenseTerm, QuantityMeaning, ShopId};
use countersign_model::sale::fact::{Fact, PaidLine, Payment, Refund, SoldItem, Subscription, SubscriptionStatus};
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;
use report::{Target, heading, median, row};

const PAYMENTS: u32 = 36;

/// Runs of which the median counts, and calls in each.
const RUNS: usize = 31;
const CALLS: u32 = 1_000;

fn id(name: &str) -> Hex128 {
    Hex128::first_half(Digest::of(name.as_bytes()))
}

fn price() -> ShopId {
    "price_month".parse().expect("an id")
}

fn day(month: u32) -> DateTime<Utc> {
    let first: DateTime<Utc> = "2026-01-15T10:00:00Z".parse().expect("a time");
    first + Months::new(month)
}

fn payment(month: u32) -> Fact<Hex128> {
    Fact::Payment(Payment {
        amount: Some(1_900),
        at: day(month),
        id: id(&format!("in_{month}")),
        is_valid: true,
        lines: vec![PaidLine {
            amount: Some(1_900),
            from: Some(day(month)),
            item: id("si"),
            is_recurring: true,
            offer: None,
            price: price(),
            product: price(),
            quantity: 1,
            to: Some(day(month + 1)),
        }],
        names: vec![id(&format!("pi_{month}"))],
        paid: Some(day(month)),
        place: None,
        renews: Vec::new(),
        subscription: Some(id("sub")),
    })
}

fn subscription(month: u32) -> Fact<Hex128> {
    Fact::Subscription(Subscription {
        at: day(month),
        due_days: None,
        ended: None,
        ends: None,
        free: None,
        id: id("sub"),
        items: vec![SoldItem {
            item: id("si"),
            offer: None,
            price: price(),
            product: price(),
            quantity: 1,
        }],
        parent: None,
        place: None,
        removed: Vec::new(),
        renews: true,
        resubscribes: None,
        status: SubscriptionStatus::Active,
    })
}

fn sale() -> SaleFacts<Hex128> {
    let mut facts = SaleFacts::default();
    (0..PAYMENTS).map(payment).for_each(|fact| facts.take(fact));
    facts.take(subscription(PAYMENTS - 1));
    facts.take(Fact::Refund(Refund {
        amount: 1_900,
        at: day(7),
        id: id("re"),
        is_approved: true,
        names: Vec::new(),
        of: id("pi_7"),
    }));
    let terms = Terms {
        grace_days: 3,
        is_nothing: false,
        lasts: LicenseTerm::Subscription,
        modules: Arc::new(Modules::from([("forms".parse().expect("a name"), Vec::new())])),
        offer: "month".parse().expect("a name"),
        quantity: QuantityMeaning::Licenses,
        site_moves: None,
        sites: SiteLimit::DEFAULT,
        staging_sites: None,
    };
    facts.remember(id("sub"), price(), terms);
    facts.assign_places();
    facts
}

/// Microseconds that a call takes.
fn cost(mut call: impl FnMut()) -> f64 {
    let run = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
    };
    median((0..RUNS).map(run).collect::<Vec<_>>().into_iter())
}

fn main() {
    let facts = sale();
    assert_eq!(facts.grants().licenses.len(), 1);
    heading("What a sale of 36 payments grants");
    let function = cost(|| {
        black_box(black_box(&facts).grants());
    });
    row("the function", function, "µs", Target::AtMost(50.0));
    let folded = cost(|| {
        let mut facts = facts.clone();
        facts.take(payment(PAYMENTS));
        facts.assign_places();
        black_box(facts.grants());
    });
    row(
        "    with a copy of the facts, one more and its place",
        folded,
        "µs",
        Target::None,
    );
}
