//! What sales grant, beside a second implementation of the same rules.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::support::random::Random;
use crate::support::sale::{Customer, expected, list, text};

/// How many sets of facts, over all seeds.
const SETS: usize = 18_000;

const SEEDS: [u64; 2] = [20_261_127, 20_261_128];

#[test]
fn random_facts_grant_what_a_second_implementation_says() {
    let judged: Vec<_> = thread::scope(|scope| {
        let threads = SEEDS.map(|seed| scope.spawn(move || judge(seed, SETS / SEEDS.len())));
        threads.map(|thread| thread.join().unwrap()).into_iter().collect()
    });
    let sets: usize = judged.iter().map(|judged| judged.sets).sum();
    let licenses: usize = judged.iter().map(|judged| judged.licenses).sum();
    let wrong: Vec<_> = judged.into_iter().flat_map(|judged| judged.wrong).collect();
    eprintln!("{sets} sets of facts, {licenses} licenses, {} differences", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(3)].join("\n\n"));
    assert_eq!(sets, SETS);
    assert!(licenses > SETS, "{licenses}");
}

#[derive(Default)]
struct Judged {
    sets: usize,
    licenses: usize,
    wrong: Vec<String>,
}

fn judge(seed: u64, count: usize) -> Judged {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/sales_random.py");
    let mut child = Command::new("python3")
        .arg("-B")
        .arg(script)
        .args([seed.to_string(), count.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let new = Customer::new(&serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap());
    let mut random = Random::new(seed);
    let mut judged = Judged::default();
    for line in lines {
        let line = line.unwrap();
        let set: Value = serde_json::from_str(&line).unwrap();
        let facts = list(&set, "facts");
        let day = text(&set, "day").unwrap().parse().unwrap();
        let expected = expected(&set);
        judged.sets += 1;
        judged.licenses += expected.0.len();
        let order = random.order(facts.len());
        let mut all = new.clone();
        // Two nodes know a part each, until a name joins them.
        let mut parts = [new.clone(), new.clone()];
        for number in &order {
            all.take(&facts[*number]);
            parts[random.below(2)].take(&facts[*number]);
            // Shops deliver more than once.
            if random.below(3) == 0 {
                all.take(&facts[order[random.below(order.len())]]);
            }
        }
        let [mut joined, other] = parts;
        joined.absorb(&other);
        for (how, customer) in [("in one", all), ("joined", joined)] {
            let shown = customer.shown(day);
            if shown != expected {
                judged
                    .wrong
                    .push(format!("{how}, {order:?}\n  {shown:?}\n  {expected:?}\n  {line}"));
            }
        }
    }
    assert!(child.wait().unwrap().success());
    judged
}
