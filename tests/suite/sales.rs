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

/// Every offer of the scenarios, and the day on which licenses are shown.
fn buyer() -> (Customer, chrono::NaiveDate) {
    let new = Customer::new(&serde_json::from_str(SCENARIOS.lines().next().unwrap()).unwrap());
    (new, "2026-01-10".parse().unwrap())
}

/// A license that no shop sold, as `year` grants it.
fn base() -> Value {
    json!({ "w": "base", "end": "2027-03-01", "modules": ["forms"], "sites": 1 })
}

fn bought(id: &str, day: &str, price: &str, more: Value) -> Value {
    let mut word = json!({ "w": "payment", "id": id, "at": day, "paid": day, "amount": 100, "license": "license",
        "lines": [{ "kind": "once", "item": price, "price": price, "product": price, "quantity": 1 }] });
    word.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    word
}

#[test]
fn what_is_bought_for_a_license_that_no_shop_sold_adds_and_falls_away_alone() {
    let (new, day) = buyer();
    let has = |words: &[Value]| {
        let mut customer = new.clone();
        words.iter().for_each(|word| customer.take(word));
        customer.shown(day).0.join(", ")
    };
    let once = |id: &str, price: &str| bought(id, "2026-12-01", price, json!({}));
    let back = |of: &str| json!({ "w": "refund", "id": format!("r{of}"), "of": of, "at": "2026-12-02", "amount": 100, "status": "approved" });
    let was = "active forms 1 2027-03-01";
    assert_eq!(has(&[base()]), was);
    assert_eq!(has(&[base(), once("a", "year")]), "active forms 1 2028-03-01");
    assert_eq!(
        has(&[base(), once("a", "year"), once("b", "year")]),
        "active forms 1 2029-03-01"
    );
    assert_eq!(has(&[base(), once("a", "year"), back("a")]), was);
    // Another offer: its terms, and the later end.
    assert_eq!(has(&[base(), once("a", "lifea")]), "active forms+maps 20 9999-12-31");
    assert_eq!(has(&[base(), once("a", "lifea"), back("a")]), was);
    // What costs nothing counts, too.
    let free = bought("a", "2026-12-01", "year", json!({ "amount": 0 }));
    assert_eq!(has(&[base(), free]), "active forms 1 2028-03-01");
}

#[test]
fn one_of_several_copies_is_bought_for_and_what_more_is_bought_is_new() {
    let (new, day) = buyer();
    let mut customer = new;
    let line = |quantity: u32| json!([{ "kind": "once", "item": "year", "price": "year", "product": "year", "quantity": quantity }]);
    let three =
        json!({ "w": "payment", "id": "a", "at": "2026-01-01", "paid": "2026-01-01", "amount": 100, "lines": line(3) });
    customer.take(&three);
    let more = json!({ "license": "a:year.0", "copy": 2, "lines": line(2) });
    customer.take(&bought("b", "2026-06-01", "year", more));
    let year = |end: &str| format!("active forms 1 {end}");
    let expected = ["2027-01-01", "2027-01-01", "2027-06-01", "2028-01-01"].map(year);
    assert_eq!(customer.shown(day).0, expected);
}

#[test]
fn whatever_is_bought_for_a_license_in_whatever_order_it_only_adds() {
    let (new, day) = buyer();
    let mut random = Random::new(11);
    let end_of = |shown: &str| shown.rsplit(' ').next().unwrap().to_owned();
    for _ in 0..400 {
        let mut words = vec![base()];
        let mut fallen = Vec::new();
        for number in 0..1 + random.below(5) {
            let id = format!("p{number}");
            let price = ["year", "year", "ay", "life", "lifea"][random.below(5)];
            let paid = format!("2026-{:02}-{:02}", 1 + random.below(12), 1 + random.below(28));
            words.push(bought(&id, &paid, price, json!({})));
            match random.below(4) {
                0 => words.push(json!({ "w": "refund", "id": format!("r{number}"), "of": id, "at": "2026-12-30", "amount": 100, "status": "approved" })),
                1 => words.push(json!({ "w": "dispute", "id": format!("d{number}"), "of": id, "at": "2026-12-30", "status": "lost" })),
                _ => continue,
            }
            fallen.push(id);
        }
        let of = |order: &[usize]| {
            let mut customer = new.clone();
            order.iter().for_each(|number| customer.take(&words[*number]));
            customer
        };
        let in_turn: Vec<_> = (0..words.len()).collect();
        let expected = of(&in_turn).shown(day);
        assert_eq!(expected.0.len(), 1, "{words:?}");
        for _ in 0..6 {
            let order = random.order(words.len());
            assert_eq!(
                of(&[&order[..], &order[..1]].concat()).shown(day),
                expected,
                "{order:?} {words:?}"
            );
            let (one, other) = order.split_at(random.below(order.len()));
            let mut joined = of(one);
            joined.absorb(&of(other));
            assert_eq!(joined.shown(day), expected, "{order:?} {words:?}");
        }
        // What fell away left nothing, and no payment made the end earlier.
        let is_of = |word: &Value, id: &str| word["id"] == id || word["of"] == id;
        let standing: Vec<_> = in_turn
            .iter()
            .copied()
            .filter(|at| !fallen.iter().any(|id| is_of(&words[*at], id)))
            .collect();
        assert_eq!(of(&standing).shown(day).0, expected.0, "{words:?}");
        for left_out in &standing[1..] {
            let fewer: Vec<_> = standing.iter().copied().filter(|at| at != left_out).collect();
            assert!(
                end_of(&of(&fewer).shown(day).0[0]) <= end_of(&expected.0[0]),
                "{left_out} {words:?}"
            );
        }
    }
}
