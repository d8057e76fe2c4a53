//! Checks histories in which clients also release their sites.
//!
//! The ledger says which changes there were, in which order, and each must be one that the rules allow. Then a moment is
//! searched for each answer, as Wing and Gong do: an answer that changed nothing is true between two changes, and each change
//! is made by a question that was open. A yes may be as old as a node's last look at the log.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Event, What};

/// What holds for a license.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub sites: usize,
    /// How many releases its sites have.
    pub most_moves: usize,
    /// How old a yes may be, on the clock of the events.
    pub age: u64,
}

/// How a site was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Secret,
    /// By the key alone: the host may take its seat back.
    Key,
    /// Another host took back its seat.
    Return,
}

/// A line of the ledger about a license.
#[derive(Clone, Debug)]
pub enum Change {
    Bound(String, DateTime<Utc>),
    Released(String, How, DateTime<Utc>),
}

/// The changes of each license in a ledger, by its id.
pub fn changes<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, Vec<Change>> {
    let mut changes: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    for line in lines {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |member: &str| line[member].as_str().unwrap_or_else(|| panic!("{line}")).to_owned();
        let time = text("time").parse().unwrap();
        let change = match (text("event").as_str(), line["how"].as_str()) {
            ("bound", _) => Change::Bound(text("host"), time),
            (_, Some("secret")) => Change::Released(text("host"), How::Secret, time),
            (_, Some("key")) => Change::Released(text("host"), How::Key, time),
            (_, Some("return")) => Change::Released(text("host"), How::Return, time),
            _ => panic!("{line}"),
        };
        changes.entry(text("license")).or_default().push(change);
    }
    changes
}

/// The seats of a license between two changes.
#[derive(Clone, Debug, Default)]
struct Seats {
    /// In the order of binding.
    held: Vec<(String, DateTime<Utc>)>,
    released: Vec<(String, How, DateTime<Utc>)>,
}

impl Seats {
    fn holds(&self, host: &str) -> bool {
        self.held.iter().any(|(held, _)| held == host)
    }

    /// The releases, but not those of sites that left with their secret and came back before another one left.
    fn moves(&self) -> usize {
        let came_back = |number: usize, host: &String| match self.released.get(number + 1) {
            Some((next, ..)) => next == host,
            None => self.holds(host),
        };
        let released = self.released.iter().enumerate();
        let moves = released.filter(|(number, (host, how, _))| match how {
            How::Secret => !came_back(*number, host),
            How::Key => true,
            How::Return => false,
        });
        moves.count()
    }

    /// Who leaves so that this host takes its seat back: the first who came since.
    fn leaving(&self, host: &str) -> Option<&String> {
        let (_, how, time) = self.released.iter().rfind(|(released, ..)| released == host)?;
        let came_since = |(_, bound_at): &&(String, DateTime<Utc>)| bound_at >= time;
        let came_since = self.held.iter().find(came_since).filter(|_| *how == How::Key);
        came_since.map(|(leaving, _)| leaving)
    }

    fn bind(&mut self, host: &str, time: DateTime<Utc>, rules: Rules) -> Result<(), String> {
        if self.holds(host) {
            return Err(format!("{host} was bound twice"));
        }
        self.held.push((host.to_owned(), time));
        match self.held.len() > rules.sites {
            true => Err(format!("{} hosts for {} sites", self.held.len(), rules.sites)),
            false => Ok(()),
        }
    }

    fn release(&mut self, host: &str, how: How, time: DateTime<Utc>, rules: Rules) -> Result<(), String> {
        if !self.holds(host) {
            return Err(format!("{host} was released, and held no seat"));
        }
        if how != How::Return && self.moves() >= rules.most_moves {
            return Err(format!("{host} was released after {} moves", rules.most_moves));
        }
        self.held.retain(|(held, _)| held != host);
        self.released.push((host.to_owned(), how, time));
        Ok(())
    }

    /// Whether this answer is true of them, and changed nothing.
    fn say(&self, what: &What, rules: Rules) -> bool {
        let was_released = |host: &String| self.released.iter().any(|(released, ..)| released == host);
        match what {
            What::Bound(host) => self.holds(host),
            What::Elsewhere(host, first) => {
                let is_first = self.held.first().is_some_and(|(held, _)| held == first);
                self.held.len() == rules.sites && !self.holds(host) && is_first && self.leaving(host).is_none()
            }
            What::Read(seen) => self.held.iter().map(|(held, _)| held).eq(seen),
            What::Released(host) => !self.holds(host) && was_released(host),
            What::NotBound(host) => !self.holds(host) && !was_released(host),
            What::TooManyMoves(host) => self.holds(host) && self.moves() >= rules.most_moves,
            What::Unknown(_) | What::UnknownRelease(_) => false,
        }
    }
}

/// Which question makes a change.
#[derive(Debug, PartialEq)]
enum Cause {
    Bind(String),
    Release(String),
}

impl Cause {
    fn is(&self, what: &What) -> bool {
        match (self, what) {
            (Self::Bind(host), What::Bound(asked) | What::Unknown(asked))
            | (Self::Release(host), What::Released(asked) | What::UnknownRelease(asked)) => host == asked,
            _ => false,
        }
    }
}

/// The causes of all changes, and the seats before the first and after each.
fn replayed(changes: &[Change], rules: Rules) -> Result<(Vec<Cause>, Vec<Seats>), String> {
    let mut causes = Vec::new();
    let mut seats = vec![Seats::default()];
    let mut now = Seats::default();
    let mut changes = changes.iter();
    while let Some(change) = changes.next() {
        match change {
            Change::Bound(host, time) => {
                now.bind(host, *time, rules)?;
                causes.push(Cause::Bind(host.clone()));
            }
            Change::Released(host, How::Return, time) => {
                let Some(Change::Bound(returned, bound_at)) = changes.next() else {
                    return Err(format!("{host} left, and nobody took its seat"));
                };
                if now.held.len() < rules.sites || now.leaving(returned) != Some(host) {
                    return Err(format!(
                        "{host} left for {returned}, which could not take its seat back"
                    ));
                }
                now.release(host, How::Return, *time, rules)?;
                now.bind(returned, *bound_at, rules)?;
                causes.push(Cause::Bind(returned.clone()));
            }
            Change::Released(host, how, time) => {
                now.release(host, *how, *time, rules)?;
                causes.push(Cause::Release(host.clone()));
            }
        }
        seats.push(now.clone());
    }
    Ok((causes, seats))
}

/// The most events of a history.
const MOST: usize = 256;

/// Which events have their moment.
type Done = [u64; MOST / 64];

/// The search for the moments.
struct Search<'a> {
    rules: Rules,
    history: &'a [Event],
    causes: Vec<Cause>,
    seats: Vec<Seats>,
    /// Where it was without success.
    seen: HashSet<(usize, Done)>,
    /// The longest way, for the error.
    furthest: (usize, Done),
}

/// Checks the history of a license with these changes; the error says what is impossible.
pub fn check(rules: Rules, changes: &[Change], history: &[Event]) -> Result<(), String> {
    let (causes, seats) = replayed(changes, rules)?;
    assert!(history.len() <= MOST, "{} events", history.len());
    let mut search = Search {
        rules,
        history,
        causes,
        seats,
        seen: HashSet::new(),
        furthest: (0, Done::default()),
    };
    if search.succeeds(0, Done::default()) {
        return Ok(());
    }
    let (at, done) = search.furthest;
    let open: Vec<_> = (0..history.len()).filter(|index| !has(&done, *index)).collect();
    let open: Vec<_> = open.into_iter().map(|index| &history[index]).take(8).collect();
    Err(format!(
        "no moments for all answers: after {at} of {} changes no moment for {open:?}, next {:?}",
        search.causes.len(),
        search.causes.get(at)
    ))
}

fn has(done: &Done, index: usize) -> bool {
    done[index / 64] >> (index % 64) & 1 == 1
}

fn with(mut done: Done, index: usize) -> Done {
    done[index / 64] |= 1 << (index % 64);
    done
}

/// Whether nobody knows the answer.
pub fn is_open(what: &What) -> bool {
    matches!(what, What::Unknown(_) | What::UnknownRelease(_))
}

impl Search<'_> {
    /// Whether the rest has moments, after `at` changes and with those that are `done`.
    fn succeeds(&mut self, at: usize, done: Done) -> bool {
        let (done, deadline) = self.settled(at, done);
        if !self.seen.insert((at, done)) {
            return false;
        }
        let count = |(at, done): &(usize, Done)| at + done.iter().map(|bits| bits.count_ones() as usize).sum::<usize>();
        if count(&(at, done)) > count(&self.furthest) {
            self.furthest = (at, done);
        }
        if at == self.causes.len() {
            return self.left(&done).all(|index| is_open(&self.history[index].what));
        }
        if !self.can_be_caused(at, &done) {
            return false;
        }
        let cause = self.cause(at, &done, deadline);
        let now = self.now(at, &done, deadline);
        now.into_iter().any(|index| self.succeeds(at, with(done, index)))
            || cause.is_some_and(|index| self.succeeds(at + 1, with(done, index)))
    }

    /// Whether as many questions are left as make the changes that are left.
    fn can_be_caused(&self, at: usize, done: &Done) -> bool {
        let causes = &self.causes[at..];
        causes.iter().all(|cause| {
            let needed = causes.iter().filter(|other| *other == cause).count();
            let left = self.left(done).filter(|index| cause.is(&self.history[*index].what));
            left.count() >= needed
        })
    }

    /// The request that makes the next change. Every other one that could have made it is answered truly right after it, so the
    /// one that is answered first is as good as any.
    fn cause(&self, at: usize, done: &Done, deadline: u64) -> Option<usize> {
        let can_cause = |index: &usize| {
            let Event { asked, what, .. } = &self.history[*index];
            *asked < deadline && self.causes[at].is(what)
        };
        self.left(done).filter(can_cause).min_by_key(|index| self.end(*index))
    }

    /// Answers that are true here and could make a later change: whose moment may be now. The one that all others wait for,
    /// and of those that are not true after the next change, the first.
    fn now(&self, at: usize, done: &Done, deadline: u64) -> Vec<usize> {
        let is_true = |index: &usize| self.is_true(at, *index, deadline);
        let waited_for = self
            .left(done)
            .filter(is_true)
            .find(|index| self.end(*index) == deadline);
        let mut now: Vec<usize> = waited_for.into_iter().collect();
        for is_yes in [true, false] {
            let ends = |index: &usize| {
                let what = &self.history[*index].what;
                matches!(what, What::Bound(_)) == is_yes && is_true(index) && !self.seats[at + 1].say(what, self.rules)
            };
            let first = self.left(done).filter(ends).min_by_key(|index| self.end(*index));
            now.extend(first.filter(|first| Some(*first) != waited_for));
        }
        now
    }

    fn left(&self, done: &Done) -> impl Iterator<Item = usize> + use<> {
        let done = *done;
        (0..self.history.len()).filter(move |index| !has(&done, *index))
    }

    /// When an event has its moment at the latest.
    fn end(&self, index: usize) -> u64 {
        let Event { answered, what, .. } = &self.history[index];
        if is_open(what) { u64::MAX } else { *answered }
    }

    /// With all answers that are true here and can change nothing later; and before when the next moment is.
    fn settled(&self, at: usize, mut done: Done) -> (Done, u64) {
        loop {
            let deadline = self.left(&done).map(|index| self.end(index)).min().unwrap_or(u64::MAX);
            let can_settle = |index: &usize| {
                let what = &self.history[*index].what;
                self.is_true(at, *index, deadline) && !self.causes[at..].iter().any(|cause| cause.is(what))
            };
            let settled = self.left(&done).filter(can_settle).fold(done, with);
            if settled == done {
                return (done, deadline);
            }
            done = settled;
        }
    }

    /// Whether an answer is true here, and its question was asked early enough.
    fn is_true(&self, at: usize, index: usize, deadline: u64) -> bool {
        let Event { asked, what, .. } = &self.history[index];
        let age = match what {
            What::Bound(_) => self.rules.age,
            _ => 0,
        };
        asked.saturating_sub(age) < deadline && self.seats[at].say(what, self.rules)
    }
}

#[cfg(test)]
mod tests;
