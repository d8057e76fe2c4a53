//! Scenarios of real life (`tests/data/sales/scenarios.jsonl`): facts in any order, and what the customer has on a day.

use serde_json::{Value, json};

use crate::support::random::Random;
use crate::support::sale::{Customer, expected, list, text};

const SCENARIOS: &str = include_str!("../data/sales/scenarios.jsonl");

/// Every order of a few things; of many, 200 random ones.
fn orders(count: usize, random: &mut Random) -> Vec<Vec<usize>> {
    if count > 5 {
        return std::iter::repeat_with(|| random.order(count)).take(200).collect();
    }
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        let longer = |order: &Vec<usize>| {
            let next = (0..count).filter(|next| !order.contains(next));
            next.map(|next| [&order[..], &[next]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

#[test]
fn in_every_order_and_twice_and_over_two_sales_that_become_one_a_customer_has_what_was_paid() {
    let mut lines = SCENARIOS.lines();
    let new = Customer::new(&serde_json::from_str(lines.next().unwrap()).unwrap());
    let mut random = Random::new(7);
    let mut scenarios = 0;
    let mut wrong = Vec::new();
    for line in lines {
        let scenario: Value = serde_json::from_str(line).unwrap();
        let facts = list(&scenario, "facts");
        let fixed = list(&scenario, "fixed");
        let day = text(&scenario, "day").unwrap().parse().unwrap();
        let expected = expected(&scenario);
        scenarios += 1;
        for order in orders(facts.len(), &mut random) {
            let mut customer = new.clone();
            for number in &order {
                customer.take(&facts[*number]);
                // Shops deliver more than once.
                customer.take(&facts[order[random.below(order.len())]]);
            }
            fixed.iter().for_each(|word| customer.take(word));
            let shown = customer.shown(day);
            if shown != expected {
                wrong.push(format!("{} {order:?}\n  {shown:?}\n  {expected:?}", scenario["name"]));
                break;
            }
        }
        if fixed.is_empty() {
            // Two nodes know a part each, until a name joins them.
            let mut one = new.clone();
            let mut other = new.clone();
            for word in &facts {
                let customer = if random.below(2) == 0 { &mut one } else { &mut other };
                customer.take(word);
            }
            one.absorb(&other);
            let shown = one.shown(day);
            if shown != expected {
                wrong.push(format!("{}, joined\n  {shown:?}\n  {expected:?}", scenario["name"]));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {scenarios}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(scenarios > 120, "{scenarios}");
}

#[test]
fn what_was_sold_keeps_its_terms_when_a_subscription_turns_out_to_go_on_from_another() {
    let new = Customer::new(&serde_json::from_str(SCENARIOS.lines().next().unwrap()).unwrap());
    let word = |id: &str, price: &str, before: Option<&str>| {
        json!({
            "w": "sub", "id": id, "at": "2026-01-01", "status": "active", "ends": "2026-02-01", "resubscribes": before,
            "items": [{ "item": id, "price": price, "product": id, "quantity": 1 }],
        })
    };
    let mut known = new.clone();
    known.take(&word("s3", "am", Some("s2")));
    let mut other = new;
    other.take(&word("s2", "pm", Some("s1")));
    known.absorb(&other);
    let shown = known.shown("2026-01-10".parse().unwrap());
    assert_eq!(shown.0, ["active forms+maps 20 2026-02-01"]);
    assert!(shown.1.is_empty(), "{:?}", shown.1);
}
