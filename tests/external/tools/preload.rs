//! Libraries between a program and the system (`tests/preload/*.c`), compiled once and loaded with LD_PRELOAD.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::support::server::countersign;
use crate::support::{Instance, Server};

impl Server {
    /// Starts with more in its environment: a library to load, and its settings.
    pub fn start_with_environment(instance: &Instance, flags: &[&str], environment: &[(&str, &Path)]) -> Self {
        let mut command = countersign(instance);
        command.envs(environment.iter().copied());
        Self::start_command(command, flags)
    }
}

/// Writes down what a program does to its files; `power` reads it.
pub fn power() -> &'static Path {
    static LIBRARY: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| compiled("power"));
    &LIBRARY.1
}

/// Shows a program another time of day: as many seconds away as a file says.
pub fn clock() -> &'static Path {
    static LIBRARY: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| compiled("clock"));
    &LIBRARY.1
}

/// Does not return from opening a certain file while another one exists.
pub fn hang() -> &'static Path {
    static LIBRARY: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| compiled("hang"));
    &LIBRARY.1
}

fn compiled(name: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let library = folder.path().join(format!("{name}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/preload/{name}.c"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source);
    assert!(gcc.status().expect("gcc is installed").success());
    (folder, library)
}
