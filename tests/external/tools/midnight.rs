//! Tests that count the days from today.

use std::thread;
use std::time::Duration;

use chrono::{Timelike as _, Utc};

/// Waits for the next day in UTC if this one ends within two minutes. A test that runs over midnight would count from
/// another day than its server.
pub fn wait_past_midnight() {
    let left = 86_400 - Utc::now().num_seconds_from_midnight();
    if left < 120 {
        thread::sleep(Duration::from_secs(u64::from(left) + 1));
    }
}
