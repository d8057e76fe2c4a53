//! File descriptors: how many the process may open, and how many of them connections may use.
//!
//! A process without free descriptors can neither accept, reload nor write. So the limit is raised as far as the system
//! allows, and a reserve is kept from public connections. `listener` enforces the limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The reserve for everything but public connections: the store, reloads, the admin listener and its connections.
const RESERVE: u64 = 256;

/// Descriptors of one connection: its socket, and the public file that it sends.
const PER_CONNECTION: u64 = 2;

/// How many public connections the process's limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// How many files the process may open; `None` for any number.
    pub limit: Option<u64>,
    /// The limit of connections: the setting, or as many as the process's limit allows.
    pub connections: usize,
    /// The setting.
    pub wanted: usize,
}

impl Descriptors {
    /// Raises the soft limit to the hard one, if possible, and divides the result.
    pub fn raised(wanted: usize) -> Self {
        let limits = getrlimit(Resource::Nofile);
        let raised = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limits.maximum,
                ..limits
            },
        );
        Self::within(if raised.is_ok() { limits.maximum } else { limits.current }, wanted)
    }

    /// The same without raising the limit: what a server started here would have.
    pub fn expected(wanted: usize) -> Self {
        Self::within(getrlimit(Resource::Nofile).maximum, wanted)
    }

    fn within(limit: Option<u64>, wanted: usize) -> Self {
        let Some(most) = limit else {
            return Self {
                limit,
                connections: wanted,
                wanted,
            };
        };
        let reserve = RESERVE.min(most / 2);
        let connections = ((most - reserve) / PER_CONNECTION).max(1);
        Self {
            limit,
            connections: wanted.min(usize::try_from(connections).unwrap_or(usize::MAX)),
            wanted,
        }
    }

    /// Whether the limit is lower than the setting.
    pub fn are_short(&self) -> bool {
        self.connections < self.wanted
    }

    /// What to do if it is lower.
    pub const HINT: &str =
        "raise the limit on open files (systemd: LimitNOFILE, a shell: ulimit -n), or lower max_connections";

    /// The connection limit of the admin listener: a quarter of the reserve at most.
    pub fn admin_connections(&self, wanted: usize) -> usize {
        let quarter = self.limit.map_or(RESERVE, |limit| RESERVE.min(limit / 2)) / 4;
        wanted.min(usize::try_from(quarter).unwrap_or(wanted)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_the_reserve_leaves_and_never_more_than_was_asked_for() {
        for (limit, wanted, connections, admin) in [
            (None, usize::MAX, usize::MAX, 64),
            (Some(1 << 20), 4_096, 4_096, 64),
            (Some(8_448), 4_096, 4_096, 64),
            (Some(8_446), 4_096, 4_095, 64),
            (Some(1_024), 4_096, 384, 64),
            (Some(1_024), 100, 100, 64),
            (Some(256), 4_096, 64, 32),
            (Some(3), 4_096, 1, 1),
            (Some(0), 4_096, 1, 1),
        ] {
            let found = Descriptors::within(limit, wanted);
            assert_eq!(
                (found.connections, found.admin_connections(64)),
                (connections, admin),
                "{limit:?} {wanted}"
            );
            assert_eq!(found.are_short(), connections < wanted);
            if let Some(limit) = limit.filter(|limit| *limit >= 16) {
                let used = 2 * found.connections as u64 + found.admin_connections(64) as u64;
                assert!(used < limit, "{used} of {limit}");
            }
        }
    }
}
