//! How often each part was reloaded, and when last. [`component`](crate::serve::reload::component) counts, `/metrics` shows it.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::Utc;
use enum_map::EnumMap;

use crate::serve::health::Part;
use crate::serve::metrics::Counters;

/// How often each part was loaded again.
#[derive(Debug, Default)]
pub struct Reloads {
    /// What was loaded is in force.
    pub done: Counters<Part>,
    /// The last good state stayed in force.
    pub failed: Counters<Part>,
    last: EnumMap<Part, AtomicI64>,
}

impl Reloads {
    /// When what is in force was loaded, in seconds since 1970; 0 where that was at the start.
    pub fn last(&self, part: Part) -> i64 {
        self.last[part].load(Ordering::Relaxed)
    }

    /// Counts a reload of a part, and notes its time where it was done.
    pub(crate) fn count(&self, part: Part, done: bool) {
        if done {
            self.done[part].inc();
            self.last[part].store(Utc::now().timestamp(), Ordering::Relaxed);
        } else {
            self.failed[part].inc();
        }
    }
}
