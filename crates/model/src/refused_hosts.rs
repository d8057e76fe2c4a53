//! The hosts that a license was refused to, because it is bound to others: many of them look like a shared key.
//!
//! It is telemetry: no decision depends on it. The store keeps it, and `countersign review` lists it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::site_host::SiteHost;

/// The hosts that are kept of one license.
pub const MOST_HOSTS: usize = 32;

/// A license that so many hosts were refused is worth a look. Fewer are staging sites and moves.
pub const MANY_HOSTS: usize = 5;

/// Hosts that a license was refused to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedHosts {
    /// The first refusal.
    pub since: DateTime<Utc>,
    /// The latest one.
    pub last: DateTime<Utc>,
    /// In the order of their latest refusal, at most [`MOST_HOSTS`].
    hosts: Vec<SiteHost>,
}

impl RefusedHosts {
    /// One refused host.
    pub fn new(host: SiteHost, time: DateTime<Utc>) -> Self {
        Self {
            since: time,
            last: time,
            hosts: vec![host],
        }
    }

    /// Adds what was refused after this. The hosts that were refused longest ago leave.
    pub fn merge(&mut self, newer: Self) {
        self.since = self.since.min(newer.since);
        // Not the greater one: a clock that was ahead must not keep the license here for ever.
        self.last = newer.last;
        self.hosts.retain(|host| !newer.hosts.contains(host));
        self.hosts.extend(newer.hosts);
        let leaving = self.hosts.len().saturating_sub(MOST_HOSTS);
        self.hosts.drain(..leaving);
    }

    /// The hosts, the latest last.
    pub fn hosts(&self) -> &[SiteHost] {
        &self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(host: &str, seconds: i64) -> RefusedHosts {
        RefusedHosts::new(host.parse().unwrap(), DateTime::from_timestamp(seconds, 0).unwrap())
    }

    #[test]
    fn a_host_counts_once_and_the_one_refused_longest_ago_leaves() {
        let mut all = refused("host0.com", 100);
        for number in 1..32 {
            all.merge(refused(&format!("host{number}.com"), 100 + number));
        }
        all.merge(refused("host0.com", 200));
        assert_eq!((all.hosts().len(), all.hosts()[31].as_str()), (32, "host0.com"));
        all.merge(refused("new.com", 201));
        let hosts: Vec<_> = all.hosts().iter().map(SiteHost::as_str).collect();
        assert_eq!((hosts.len(), hosts[0], hosts[31]), (32, "host2.com", "new.com"));
        assert_eq!((all.since.timestamp(), all.last.timestamp()), (100, 201));
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<RefusedHosts>(&json).unwrap(), all);
    }

    #[test]
    fn a_clock_that_was_ahead_does_not_freeze_the_time_of_the_latest_refusal() {
        let mut all = refused("a.com", 9_000);
        all.merge(refused("a.com", 100));
        assert_eq!((all.since.timestamp(), all.last.timestamp()), (100, 100));
    }
}
