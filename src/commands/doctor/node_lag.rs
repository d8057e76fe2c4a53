//! Checks that the node that runs here has read the ledger up to the last line of its database.
//!
//! `database` reads that line first, so a node that works knows it within a moment. `nodes` checks the other nodes by what
//! they wrote into the database.

use std::thread;
use std::time::{Duration, Instant};

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, ok, warning};

/// How long the node may take. It looks four times a second.
const CATCH_UP: Duration = Duration::from_secs(3);

/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(100);

const PART: &str = "server";

/// What to say if the database has the line `last_line`. `ask` tells the last line that the node has read; where it tells
/// none, there is nothing to compare.
pub(super) fn finding(last_line: u64, mut ask: impl FnMut() -> Option<u64>) -> Option<Finding> {
    let begun = Instant::now();
    loop {
        let read = ask()?;
        if read >= last_line {
            return Some(ok(PART, format!("has read the ledger up to line {read}")));
        }
        if begun.elapsed() > CATCH_UP {
            return Some(warning(
                PART,
                format!(
                    "{} behind: has read the ledger up to line {read}, and the database has line {last_line}",
                    counted(last_line - read, "line")
                ),
                "look at its log, and at the network between this machine and the database",
            ));
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Severity;

    #[test]
    fn a_node_has_a_moment_to_read_the_last_line() {
        let mut positions = [5, 6, 7].into_iter();
        let found = finding(7, || positions.next()).unwrap();
        assert_eq!(
            (found.verdict, found.finding.as_str()),
            (Severity::Ok, "has read the ledger up to line 7")
        );
        // Others may have appended since.
        let found = finding(7, || Some(9)).unwrap();
        assert_eq!(found.verdict, Severity::Ok);
        assert!(finding(7, || None).is_none());
    }
}
