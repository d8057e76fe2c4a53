//! The same question answered by a checker that others wrote, which tries the orders one by one: for small histories.

use todc_utils::{Action, History, Specification, WGLChecker};

use super::{Event, What};

/// A list of at most `SITES` hosts.
struct List<const SITES: usize>;

impl<const SITES: usize> Specification for List<SITES> {
    type State = Vec<String>;
    type Operation = What;

    fn init() -> Vec<String> {
        Vec::new()
    }

    fn apply(what: &What, list: &Vec<String>) -> (bool, Vec<String>) {
        let mut list = list.clone();
        let is_possible = match what {
            What::Bound(host) if list.contains(host) => true,
            What::Bound(host) if list.len() < SITES => {
                list.push(host.clone());
                true
            }
            What::Bound(_) => false,
            What::Elsewhere(host, first) => list.len() == SITES && !list.contains(host) && list.first() == Some(first),
            What::Read(seen) => *seen == list,
            _ => unreachable!("it was replaced, or is no question for a first binding"),
        };
        (is_possible, list)
    }
}

/// How many releases the sites of a license have in [`seats_are_linearizable`].
const MOVES: usize = 2;

/// The hosts that hold a seat, and those that left with their secrets, in their order.
type Held = (Vec<String>, Vec<String>);

/// How often hosts left and did not come back before another one left.
fn moves((held, gone): &Held) -> usize {
    let came_back = |number: usize, host| {
        gone.get(number + 1)
            .map_or_else(|| held.contains(host), |next| next == host)
    };
    gone.iter()
        .enumerate()
        .filter(|(number, host)| !came_back(*number, host))
        .count()
}

/// At most `SITES` hosts that may leave.
struct Seats<const SITES: usize>;

impl<const SITES: usize> Specification for Seats<SITES> {
    type State = Held;
    type Operation = What;

    fn init() -> Held {
        Held::default()
    }

    fn apply(what: &What, before: &Held) -> (bool, Held) {
        let (mut held, mut gone) = before.clone();
        let may_move = moves(before) < MOVES;
        let is_possible = match what {
            What::Released(host) if held.contains(host) => {
                held.retain(|other| other != host);
                gone.push(host.clone());
                may_move
            }
            What::Released(host) => gone.contains(host),
            What::NotBound(host) => !held.contains(host) && !gone.contains(host),
            What::TooManyMoves(host) => held.contains(host) && !may_move,
            other => {
                let (is_possible, after) = List::<SITES>::apply(other, &held);
                held = after;
                is_possible
            }
        };
        (is_possible, (held, gone))
    }
}

/// Whether a history is linearizable in which hosts leave with their secrets, at most twice, and that left `held` behind.
/// Every answer is known.
pub fn seats_are_linearizable(sites: usize, held: &[String], history: &[Event]) -> bool {
    let history = complete(held, history);
    match sites {
        1 => WGLChecker::<Seats<1>>::is_linearizable(history),
        2 => WGLChecker::<Seats<2>>::is_linearizable(history),
        _ => unreachable!("no test has so many"),
    }
}

/// Whether a history is linearizable that left `list` behind, for 1, 2 or 5 sites.
pub fn is_linearizable(sites: usize, list: &[String], history: &[Event]) -> bool {
    let history = complete(list, history);
    match sites {
        1 => WGLChecker::<List<1>>::is_linearizable(history),
        2 => WGLChecker::<List<2>>::is_linearizable(history),
        5 => WGLChecker::<List<5>>::is_linearizable(history),
        _ => unreachable!("no test has so many"),
    }
}

/// The history with an answer to each question, and with the list read after all of them.
fn complete(list: &[String], history: &[Event]) -> History<What> {
    let mut actions = Vec::new();
    for (process, event) in history.iter().enumerate() {
        let (what, answered) = match &event.what {
            // It bound its host at some time, or it is as if it was never asked.
            What::Unknown(host) if list.contains(host) => (What::Bound(host.clone()), u64::MAX),
            What::Unknown(_) => continue,
            known => (known.clone(), event.answered),
        };
        actions.push((event.asked, process, Action::Call(what.clone())));
        actions.push((answered, process, Action::Response(what)));
    }
    actions.sort_by_key(|(time, ..)| *time);
    let mut actions: Vec<_> = actions
        .into_iter()
        .map(|(_, process, action)| (process, action))
        .collect();
    let last = What::Read(list.to_vec());
    actions.push((history.len(), Action::Call(last.clone())));
    actions.push((history.len(), Action::Response(last)));
    History::from_actions(actions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::linear::check;
    use crate::support::random::Random;

    fn host(random: &mut Random) -> String {
        ["a", "b", "c"][random.below(3)].to_owned()
    }

    fn hosts(random: &mut Random) -> Vec<String> {
        (0..random.below(3)).map(|_| host(random)).collect()
    }

    /// Answers that a list gave, each at a moment between question and answer; and the list.
    fn possible(random: &mut Random, sites: usize) -> (Vec<String>, Vec<Event>) {
        let mut history = Vec::new();
        let mut moments: Vec<(u64, usize)> = Vec::new();
        for index in 0..6 {
            // No two events are at the same time.
            let asked = random.below(40) as u64 * 100 + index;
            let moment = asked + random.below(1_000) as u64;
            let answered = (moment / 100 + random.below(10) as u64) * 100 + 150 + index;
            let what = match random.below(5) {
                0 => What::Read(Vec::new()),
                1 => What::Unknown(host(random)),
                _ => What::Bound(host(random)),
            };
            history.push(Event { asked, answered, what });
            moments.push((moment, index as usize));
        }
        moments.sort_unstable();
        let mut list: Vec<String> = Vec::new();
        for (_, index) in moments {
            let what = &mut history[index].what;
            match what {
                What::Read(seen) => seen.clone_from(&list),
                What::Unknown(_) if random.below(2) == 0 => {}
                What::Bound(host) | What::Unknown(host) if list.contains(host) => {}
                What::Bound(host) | What::Unknown(host) if list.len() < sites => list.push(host.clone()),
                What::Bound(host) => *what = What::Elsewhere(host.clone(), list[0].clone()),
                _ => {}
            }
        }
        (list, history)
    }

    #[test]
    fn two_checkers_agree_on_small_histories() {
        let mut random = Random::new(21);
        let mut impossible = 0;
        for _ in 0..20_000 {
            let sites = [1, 2][random.below(2)];
            let (mut list, mut history) = possible(&mut random, sites);
            check(sites, &list, &history).unwrap_or_else(|error| panic!("{error}: {list:?}, {history:?}"));
            assert!(is_linearizable(sites, &list, &history), "{list:?}, {history:?}");
            let event = random.below(history.len());
            match random.below(5) {
                0 => list.reverse(),
                1 => drop(list.pop()),
                2 => history[event].what = What::Bound(host(&mut random)),
                3 => history[event].what = What::Elsewhere(host(&mut random), host(&mut random)),
                _ => history[event].what = What::Read(hosts(&mut random)),
            }
            let is_possible = check(sites, &list, &history).is_ok();
            assert_eq!(
                is_possible,
                is_linearizable(sites, &list, &history),
                "{sites} sites, {list:?}, {history:?}"
            );
            impossible += usize::from(!is_possible);
        }
        assert!((2_000..18_000).contains(&impossible), "{impossible}");
    }
}
