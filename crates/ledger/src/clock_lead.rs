//! How far a node's clock is ahead of the database's.
//!
//! The times of lines are the database's, so seats do not depend on it. Statements have the node's time: a site that saw
//! one of a node ahead refuses what others sign until time has caught up.

use std::fmt::{self, Display, Formatter};

use chrono::TimeDelta;

/// How far clocks may differ. Machines whose clocks the network sets differ by milliseconds.
const TOLERANCE: TimeDelta = TimeDelta::seconds(10);

/// Positive where the node is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLead(pub TimeDelta);

impl ClockLead {
    /// Whether an operator has to set a clock.
    pub fn is_too_much(&self) -> bool {
        self.0.abs() > TOLERANCE
    }
}

impl Display for ClockLead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.num_seconds();
        match seconds {
            ..0 => write!(f, "{} s behind", -seconds),
            _ => write!(f, "{seconds} s ahead of"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_told_and_a_few_are_tolerated() {
        let lead = |seconds| ClockLead(TimeDelta::seconds(seconds));
        assert_eq!(lead(3_600).to_string(), "3600 s ahead of");
        assert_eq!(lead(-11).to_string(), "11 s behind");
        let judged = [-11, -10, 0, 10, 11].map(|seconds| lead(seconds).is_too_much());
        assert_eq!(judged, [true, false, false, false, true]);
    }
}
