//! The checker takes what is possible and bites on what is not. It agrees with the two others where they apply.

use super::*;
use crate::support::linear::{self, wgl};
use crate::support::random::Random;

fn at(second: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(second.into(), 0).unwrap()
}

/// `+a` is bound, `-a` leaves with its secret, `*a` by the key alone, `~a` because another one takes its seat back.
fn ledger(text: &str) -> Vec<Change> {
    let change = |(number, word): (usize, &str)| {
        let (how, host) = word.split_at(1);
        let host = host.to_owned();
        let time = at(number as u32);
        match how {
            "+" => Change::Bound(host, time),
            "-" => Change::Released(host, How::Secret, time),
            "*" => Change::Released(host, How::Key, time),
            _ => Change::Released(host, How::Return, time),
        }
    };
    text.split_whitespace().enumerate().map(change).collect()
}

fn event(asked: u64, answered: u64, what: What) -> Event {
    Event { asked, answered, what }
}

fn bound(host: &str) -> What {
    What::Bound(host.into())
}

fn elsewhere(host: &str, first: &str) -> What {
    What::Elsewhere(host.into(), first.into())
}

fn released(host: &str) -> What {
    What::Released(host.into())
}

const RULES: Rules = Rules {
    sites: 1,
    most_moves: 2,
    age: 0,
};

fn verdict(rules: Rules, changes: &str, history: &[Event]) -> Result<(), String> {
    check(rules, &ledger(changes), history)
}

#[test]
fn what_the_rules_allow_is_possible() {
    let moved = [
        event(1, 2, bound("a")),
        event(3, 4, released("a")),
        event(5, 6, bound("b")),
    ];
    verdict(RULES, "+a -a +b", &moved).unwrap();
    // A release that is repeated changes nothing, and both may be the first.
    let twice = [
        event(1, 2, bound("a")),
        event(3, 6, released("a")),
        event(4, 5, released("a")),
    ];
    verdict(RULES, "+a -a", &twice).unwrap();
    // The same host again, at the same time as it leaves.
    let again = [
        event(1, 2, bound("a")),
        event(3, 8, released("a")),
        event(4, 7, bound("a")),
        event(9, 10, elsewhere("b", "a")),
    ];
    verdict(RULES, "+a -a +a", &again).unwrap();
    // A yes that was there before it left counts as old, or as the one that bound it again.
    let old = Rules { age: 5, ..RULES };
    let late = [
        event(1, 2, bound("a")),
        event(3, 4, released("a")),
        event(8, 9, bound("a")),
    ];
    verdict(old, "+a -a", &late).unwrap();
    verdict(RULES, "+a -a +a", &late).unwrap();
    // Nobody knows what became of two questions, and the ledger does.
    let unknown = [
        event(1, 2, What::Unknown("a".into())),
        event(3, 4, What::UnknownRelease("a".into())),
        event(5, 6, bound("b")),
        event(7, 8, What::UnknownRelease("b".into())),
    ];
    verdict(RULES, "+a -a +b", &unknown).unwrap();
    // Released by the key alone, a host takes its seat back.
    let back = [
        event(1, 2, bound("a")),
        event(3, 4, released("a")),
        event(5, 6, bound("b")),
        event(7, 8, bound("a")),
        event(9, 10, elsewhere("b", "a")),
    ];
    verdict(RULES, "+a *a +b ~b +a", &back).unwrap();
    let spent = [
        event(1, 2, bound("a")),
        event(3, 4, released("a")),
        event(5, 6, bound("b")),
        event(7, 8, released("b")),
        event(9, 10, bound("c")),
        event(11, 12, What::TooManyMoves("c".into())),
        event(13, 14, What::NotBound("d".into())),
    ];
    verdict(RULES, "+a -a +b -b +c", &spent).unwrap();
}

#[test]
fn what_the_rules_forbid_is_told() {
    let first = || event(1, 2, bound("a"));
    let leaves = || event(3, 4, released("a"));
    for (what, changes, history) in [
        (
            "a seat that was never freed",
            "+a +b",
            vec![first(), event(3, 4, bound("b"))],
        ),
        ("told released and still bound", "+a", vec![first(), leaves()]),
        ("released by nobody", "+a -a", vec![first()]),
        (
            "refused with a seat free",
            "+a -a",
            vec![first(), leaves(), event(5, 6, elsewhere("b", "a"))],
        ),
        (
            "a yes after it left",
            "+a -a",
            vec![first(), leaves(), event(5, 6, bound("a"))],
        ),
        (
            "bound before the seat was freed",
            "+a -a +b",
            vec![first(), event(3, 4, bound("b")), event(5, 6, released("a"))],
        ),
        (
            "told a first that had left",
            "+a -a +b",
            vec![
                first(),
                leaves(),
                event(5, 6, bound("b")),
                event(7, 8, elsewhere("c", "a")),
            ],
        ),
        (
            "never bound, but it was",
            "+a -a",
            vec![first(), leaves(), event(5, 6, What::NotBound("a".into()))],
        ),
        (
            "too many moves after one",
            "+a -a +a",
            vec![
                first(),
                leaves(),
                event(5, 6, bound("a")),
                event(7, 8, What::TooManyMoves("a".into())),
            ],
        ),
        (
            "one move too many",
            "+a -a +b -b +a -a",
            vec![
                first(),
                leaves(),
                event(5, 6, bound("b")),
                event(7, 8, released("b")),
                event(9, 10, bound("a")),
                event(11, 12, released("a")),
            ],
        ),
        (
            "taken back after a release with the secret",
            "+a -a +b ~b +a",
            vec![first(), leaves(), event(5, 6, bound("b")), event(7, 8, bound("a"))],
        ),
        (
            "taken back from a host that was there before",
            "+a ~a +b",
            vec![first(), event(3, 4, bound("b"))],
        ),
        (
            "refused although it may return",
            "+a *a +b",
            vec![
                first(),
                leaves(),
                event(5, 6, bound("b")),
                event(7, 8, elsewhere("a", "b")),
            ],
        ),
        (
            "the ledger's order is not that of the answers",
            "+a -a +a",
            vec![first(), event(3, 4, bound("a")), event(5, 6, released("a"))],
        ),
    ] {
        assert!(verdict(RULES, changes, &history).is_err(), "{what}");
    }
    // Older than a yes may be.
    let old = Rules { age: 5, ..RULES };
    let late = [first(), leaves(), event(10, 11, bound("a"))];
    assert!(verdict(old, "+a -a", &late).is_err());
}

fn host(random: &mut Random) -> String {
    ["a", "b", "c"][random.below(3)].to_owned()
}

/// Answers that seats gave, each at a moment between question and answer; and the changes.
fn possible(random: &mut Random, rules: Rules, with_releases: bool) -> (Vec<Change>, Vec<Event>) {
    let mut history = Vec::new();
    let mut moments: Vec<(u64, usize)> = Vec::new();
    for index in 0..7 {
        // No two events are at the same time.
        let asked = random.below(40) as u64 * 100 + index;
        let moment = asked + random.below(1_000) as u64;
        let answered = (moment / 100 + random.below(10) as u64) * 100 + 150 + index;
        let what = match random.below(6) {
            0 => What::Unknown(host(random)),
            1 | 2 if with_releases => What::Released(host(random)),
            3 if with_releases => What::UnknownRelease(host(random)),
            _ => What::Bound(host(random)),
        };
        history.push(event(asked, answered, what));
        moments.push((moment, index as usize));
    }
    moments.sort_unstable();
    let mut seats = Seats::default();
    let mut changes = Vec::new();
    for (_, index) in moments {
        let time = at(changes.len() as u32);
        let what = &mut history[index].what;
        match what {
            What::Unknown(_) | What::UnknownRelease(_) if random.below(2) == 0 => {}
            What::Bound(host) | What::Unknown(host) if seats.holds(host) => {}
            What::Bound(host) | What::Unknown(host) if seats.held.len() < rules.sites => {
                changes.push(Change::Bound(host.clone(), time));
                seats.bind(host, time, rules).unwrap();
            }
            What::Bound(host) => *what = What::Elsewhere(host.clone(), seats.held[0].0.clone()),
            What::Released(host) | What::UnknownRelease(host)
                if seats.holds(host) && seats.moves() < rules.most_moves =>
            {
                changes.push(Change::Released(host.clone(), How::Secret, time));
                seats.release(host, How::Secret, time, rules).unwrap();
            }
            What::Released(host) if seats.holds(host) => *what = What::TooManyMoves(host.clone()),
            What::Released(host) if !seats.released.iter().any(|(released, ..)| released == host) => {
                *what = What::NotBound(host.clone());
            }
            _ => {}
        }
    }
    (changes, history)
}

#[test]
fn without_releases_it_agrees_with_the_checker_of_first_bindings() {
    let mut random = Random::new(4);
    let mut impossible = 0;
    for _ in 0..20_000 {
        let rules = Rules {
            sites: [1, 2][random.below(2)],
            ..RULES
        };
        let (mut changes, mut history) = possible(&mut random, rules, false);
        check(rules, &changes, &history).unwrap();
        let event = random.below(history.len());
        match random.below(4) {
            0 => changes.reverse(),
            1 => drop(changes.pop()),
            2 => history[event].what = What::Bound(host(&mut random)),
            _ => history[event].what = What::Elsewhere(host(&mut random), host(&mut random)),
        }
        let list: Vec<String> = changes
            .iter()
            .map(|change| match change {
                Change::Bound(host, _) | Change::Released(host, ..) => host.clone(),
            })
            .collect();
        let is_possible = check(rules, &changes, &history).is_ok();
        assert_eq!(
            is_possible,
            linear::check(rules.sites, &list, &history).is_ok(),
            "{list:?}, {history:?}"
        );
        impossible += usize::from(!is_possible);
    }
    assert!((2_000..18_000).contains(&impossible), "{impossible}");
}

#[test]
fn what_it_takes_a_checker_that_others_wrote_takes_too() {
    let mut random = Random::new(72);
    let mut impossible = 0;
    for _ in 0..10_000 {
        let rules = Rules {
            sites: [1, 2][random.below(2)],
            ..RULES
        };
        let (changes, mut history) = possible(&mut random, rules, true);
        check(rules, &changes, &history).unwrap_or_else(|error| panic!("{error}: {changes:?}, {history:?}"));
        let mut left = Seats::default();
        for change in &changes {
            let _ = match change {
                Change::Bound(host, time) => left.bind(host, *time, rules),
                Change::Released(host, how, time) => left.release(host, *how, *time, rules),
            };
        }
        let left: Vec<String> = left.held.into_iter().map(|(host, _)| host).collect();
        let known = |history: &[Event]| -> Vec<Event> {
            let is_known = |event: &&Event| !is_open(&event.what);
            history.iter().filter(is_known).cloned().collect()
        };
        // The other one needs to know every answer.
        let is_whole = known(&history).len() == history.len();
        if is_whole {
            assert!(
                wgl::seats_are_linearizable(rules.sites, &left, &history),
                "{changes:?}, {history:?}"
            );
        }
        let index = random.below(history.len());
        history[index].what = match random.below(5) {
            0 => bound(&host(&mut random)),
            1 => released(&host(&mut random)),
            2 => What::NotBound(host(&mut random)),
            3 => What::TooManyMoves(host(&mut random)),
            _ => elsewhere(&host(&mut random), &host(&mut random)),
        };
        let is_possible = check(rules, &changes, &history).is_ok();
        if is_possible && known(&history).len() == history.len() {
            assert!(
                wgl::seats_are_linearizable(rules.sites, &left, &history),
                "{changes:?}, {history:?}"
            );
        }
        impossible += usize::from(!is_possible);
    }
    assert!((1_000..9_000).contains(&impossible), "{impossible}");
}
