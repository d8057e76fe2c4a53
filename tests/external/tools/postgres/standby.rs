//! A synchronous standby: a commit is answered when the standby has it on disk.

use std::fs;

use super::{Cluster, PATIENCE};
use crate::support::eventually_within;
use crate::tools::daemon::{run, unprivileged};

impl Cluster {
    /// Copies this server, and waits for the copy with each commit from now on.
    pub fn standby(&self) -> Self {
        let mut standby = Self::stopped(self.version);
        let source = format!(
            "host=127.0.0.1 port={} user=postgres application_name=standby",
            self.port
        );
        let mut copy = unprivileged(self.version.program("pg_basebackup"));
        copy.args([
            "--checkpoint=fast",
            "--write-recovery-conf",
            "--no-sync",
            "--dbname",
            &source,
        ]);
        run(copy.arg("--pgdata").arg(standby.data()));
        standby.launch();
        self.psql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        self.psql("SELECT pg_reload_conf()");
        self.wait_for_standby();
        standby
    }

    /// Waits until the standby is one that commits wait for.
    pub fn wait_for_standby(&self) {
        eventually_within("a synchronous standby", PATIENCE, || {
            self.psql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        });
    }

    /// Makes a primary of a standby. The old primary is not told.
    pub fn promote(&self) {
        // It would wait for a standby of its own.
        self.psql("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.psql("SELECT pg_reload_conf()");
        assert_eq!(self.psql("SELECT pg_promote()"), "t");
        assert!(!fs::exists(self.data().join("standby.signal")).unwrap());
    }
}
