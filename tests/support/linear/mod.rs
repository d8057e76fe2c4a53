//! Checks that a history of first bindings is linearizable: each request could have been answered at one moment
//! between its sending and its answer.
//!
//! The object is a list of at most `sites` hosts. Binding a host in the list, or appending it if there is space,
//! answers "bound"; otherwise the answer is the first host. Reading returns the list. A question without an answer may
//! have bound its host at any later time, or never. `wgl` asks a second checker, and `releases` checks histories in which
//! hosts also leave.

pub mod clock;
pub mod releases;
pub mod wgl;

/// A question, and when it was asked and answered on one clock that counts events.
#[derive(Clone, Debug)]
pub struct Event {
    pub asked: u64,
    pub answered: u64,
    pub what: What,
}

/// What was asked, and the answer.
#[derive(Clone, Debug)]
pub enum What {
    Bound(String),
    /// The host that asked, and the first one that the answer named.
    Elsewhere(String, String),
    Read(Vec<String>),
    /// The host that asked, and nobody knows what became of it.
    Unknown(String),
    /// The host that leaves holds no seat any more.
    Released(String),
    /// The host that wants to leave has never held a seat.
    NotBound(String),
    /// The host stays, because the license has moved too often.
    TooManyMoves(String),
    /// The host that wants to leave, and nobody knows what became of it.
    UnknownRelease(String),
}

/// Checks the history of a license whose list was `list` in the end; the error says what is impossible.
///
/// Hosts are only ever appended, so a history is linearizable if there are moments for the appends, in the order of
/// the list, with every answer given while it was true. The earliest moments are as good as any: an append can be no
/// earlier than the first question for its host, and has to come before the first answer that knows of it.
pub fn check(sites: usize, list: &[String], history: &[Event]) -> Result<(), String> {
    if list.len() > sites {
        return Err(format!("{} hosts for {sites} sites", list.len()));
    }
    // Of each append: after which event it was, and before which one.
    let mut bounds = vec![(u64::MAX, u64::MAX); list.len()];
    let mut not_before = vec![0; list.len()];
    for Event { asked, answered, what } in history {
        match what {
            What::Bound(host) => {
                let Some(index) = list.iter().position(|bound| bound == host) else {
                    return Err(format!("{host} was told it is bound, and is not in {list:?}"));
                };
                bounds[index] = (bounds[index].0.min(*asked), bounds[index].1.min(*answered));
            }
            What::Unknown(host) => {
                if let Some(index) = list.iter().position(|bound| bound == host) {
                    bounds[index].0 = bounds[index].0.min(*asked);
                }
            }
            What::Elsewhere(host, first) => {
                if list.len() < sites || list.contains(host) || list.first() != Some(first) {
                    return Err(format!(
                        "{host} was refused for {first}, with {list:?} bound to {sites} sites"
                    ));
                }
                let last = &mut bounds[sites - 1].1;
                *last = (*last).min(*answered);
            }
            What::Read(seen) => {
                if !list.starts_with(seen) {
                    return Err(format!("{seen:?} was read, and {list:?} is bound"));
                }
                if let Some(last) = seen.len().checked_sub(1) {
                    bounds[last].1 = bounds[last].1.min(*answered);
                }
                if let Some(next) = not_before.get_mut(seen.len()) {
                    *next = (*next).max(*asked);
                }
            }
            What::Released(_) | What::NotBound(_) | What::TooManyMoves(_) | What::UnknownRelease(_) => {
                return Err("a host asked to leave: `releases` checks that".to_owned());
            }
        }
    }
    let mut moment = 0;
    for ((host, (first_asked, known)), not_before) in list.iter().zip(bounds).zip(not_before) {
        if first_asked == u64::MAX {
            return Err(format!("{host} is bound, and nobody asked for it"));
        }
        moment = moment.max(first_asked).max(not_before);
        if moment >= known {
            return Err(format!(
                "{host} was bound after event {moment} and known by event {known}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(asked: u64, answered: u64, what: What) -> Event {
        Event { asked, answered, what }
    }

    fn bound(host: &str) -> What {
        What::Bound(host.into())
    }

    fn unknown(host: &str) -> What {
        What::Unknown(host.into())
    }

    fn elsewhere(host: &str, first: &str) -> What {
        What::Elsewhere(host.into(), first.into())
    }

    fn read(seen: &[&str]) -> What {
        What::Read(seen.iter().map(std::string::ToString::to_string).collect())
    }

    fn is_possible(sites: usize, list: &[&str], history: Vec<Event>) -> bool {
        let list: Vec<String> = list.iter().map(std::string::ToString::to_string).collect();
        check(sites, &list, &history).is_ok()
    }

    #[test]
    fn what_one_list_could_have_answered_is_possible() {
        assert!(is_possible(
            1,
            &["a"],
            vec![event(1, 4, bound("a")), event(2, 3, elsewhere("b", "a"))]
        ));
        assert!(is_possible(
            2,
            &["a", "b"],
            vec![event(1, 4, bound("b")), event(2, 3, bound("a"))]
        ));
        assert!(is_possible(
            2,
            &["a"],
            vec![
                event(1, 2, bound("a")),
                event(3, 4, bound("a")),
                event(5, 6, read(&["a"]))
            ]
        ));
        assert!(is_possible(
            1,
            &["a"],
            vec![event(1, 4, bound("a")), event(2, 3, read(&[]))]
        ));
        assert!(is_possible(
            1,
            &["a"],
            vec![
                event(1, 2, unknown("a")),
                event(3, 4, read(&[])),
                event(5, 6, elsewhere("b", "a"))
            ]
        ));
        assert!(is_possible(1, &[], vec![event(1, 2, unknown("a"))]));
    }

    #[test]
    fn what_no_list_could_have_answered_is_told() {
        let first = || event(1, 2, bound("a"));
        for (what, sites, list, history) in [
            (
                "one too many",
                1,
                &["a", "b"][..],
                vec![first(), event(3, 4, bound("b"))],
            ),
            (
                "a winner that is lost",
                2,
                &["a"],
                vec![first(), event(3, 4, bound("b"))],
            ),
            ("bound by nobody", 2, &["a", "b"], vec![first()]),
            (
                "refused with a seat free",
                2,
                &["a"],
                vec![first(), event(3, 4, elsewhere("b", "a"))],
            ),
            (
                "refused before anybody asked",
                1,
                &["a"],
                vec![event(1, 2, elsewhere("b", "a")), event(3, 4, bound("a"))],
            ),
            (
                "refused after it was bound",
                1,
                &["a"],
                vec![first(), event(3, 4, elsewhere("a", "a"))],
            ),
            (
                "told another first",
                2,
                &["a", "b"],
                vec![first(), event(3, 4, bound("b")), event(5, 6, elsewhere("c", "b"))],
            ),
            (
                "the later one first",
                2,
                &["b", "a"],
                vec![first(), event(3, 4, bound("b"))],
            ),
            (
                "read before it was asked for",
                1,
                &["a"],
                vec![event(1, 2, read(&["a"])), event(3, 4, bound("a"))],
            ),
            (
                "not read after it was answered",
                1,
                &["a"],
                vec![first(), event(3, 4, read(&[]))],
            ),
            (
                "known before the question without an answer",
                1,
                &["a"],
                vec![event(1, 2, elsewhere("b", "a")), event(3, 4, unknown("a"))],
            ),
            (
                "read and gone",
                1,
                &["a"],
                vec![
                    event(1, 6, bound("a")),
                    event(2, 3, read(&["a"])),
                    event(4, 5, read(&[])),
                ],
            ),
        ] {
            assert!(!is_possible(sites, list, history), "{what}");
        }
    }
}
