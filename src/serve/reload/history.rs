//! Counts the reloads of each part, with the time of the last one. [`component`](crate::serve::reload::component)
//! counts.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::Utc;
use enum_map::EnumMap;

use crate::serve::health::Part;
use crate::serve::metrics::Counters;

/// Counters of a part's reloads.
#[derive(Debug, Default)]
pub struct Reloads {
    /// The new state is in force.
    pub done: Counters<Part>,
    /// The last good state stayed in force.
    pub failed: Counters<Part>,
    last: EnumMap<Part, AtomicI64>,
}

impl Reloads {
    /// When the state in force was loaded, in seconds since 1970; 0 if at the start.
    pub fn last(&self, part: Part) -> i64 {
        self.last[part].load(Ordering::Relaxed)
    }

    /// Counts a reload of a part, and records its time if it succeeded.
    pub(crate) fn count(&self, part: Part, done: bool) {
        if done {
            self.done[part].inc();
            self.last[part].store(Utc::now().timestamp(), Ordering::Relaxed);
        } else {
            self.failed[part].inc();
        }
    }
}
