//! A running preview on a free port, and repositories to preview.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use super::server::countersign_in;

/// A running preview; it is killed when it is dropped.
pub struct Preview {
    child: Child,
    pub address: SocketAddr,
}

impl Preview {
    /// Previews with these arguments, from within `folder`.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = countersign_in(Path::new("."));
        command
            .args(["preview", "--port", "0"])
            .args(arguments)
            .current_dir(folder);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("preview on http://")
            .and_then(|rest| rest.strip_suffix('/'));
        let address = address
            .unwrap_or_else(|| panic!("the preview did not start: {line}"))
            .parse()
            .unwrap();
        Self { child, address }
    }

    /// SIGTERM, and the exit code.
    pub fn stop(mut self) -> Option<i32> {
        let killed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Preview {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `countersign preview --print` with these arguments, from within `folder`.
pub fn print(folder: &Path, arguments: &[&str]) -> Output {
    countersign_in(Path::new("."))
        .args(["preview", "--print"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// An instance with the plugin `acme-forms`, whose repository has tags, a working tree and pictures.
pub struct Workplace {
    folder: TempDir,
}

impl Workplace {
    /// Tags 1.0.0, 1.1.0 and 1.2.0, all published; then an uncommitted 1.3.0.
    pub fn new() -> Self {
        let workplace = Self {
            folder: TempDir::new().unwrap(),
        };
        workplace.write("registry/licenses/none.toml", "# none yet\n");
        workplace.write(
            "registry/plugins/acme-forms.toml",
            "repository = \"../../acme-forms\"\ndownload_url = \"https://dl.example/{slug}-{version}.zip\"\n\
             icons = { svg = \"https://dl.example/icon.svg\" }\nbanners = { low = \"https://dl.example/banner.png\" }\n",
        );
        fs::create_dir(workplace.repository()).unwrap();
        workplace.git(&["init", "--quiet", "--initial-branch", "main"]);
        for (version, date) in [
            ("1.0.0", "2026-03-02"),
            ("1.1.0", "2026-05-27"),
            ("1.2.0", "2026-09-14"),
        ] {
            workplace.edit(version, &format!("* New: whatever {version} brings."));
            workplace.git(&["add", "--all"]);
            workplace.git_on(date, &["commit", "--quiet", "--message", version]);
            workplace.git(&["tag", version]);
        }
        let built = countersign_in(workplace.path()).arg("build").output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        workplace.edit("1.3.0", "* New: several forms on one page.");
        workplace
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn repository(&self) -> PathBuf {
        self.path().join("acme-forms")
    }

    pub fn write(&self, relative: &str, content: &str) {
        let path = self.path().join(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes header and readme of a version into the working tree.
    pub fn edit(&self, version: &str, changelog: &str) {
        self.write("acme-forms/acme-forms.php", &header(version));
        self.write("acme-forms/readme.txt", &readme(version, changelog));
    }

    pub fn git(&self, arguments: &[&str]) {
        self.git_on("2026-11-20", arguments);
    }

    fn git_on(&self, date: &str, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
            .args(arguments);
        // No setting of the person who runs the tests has a say.
        git.env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        for which in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            git.env(which, format!("{date}T10:17:03Z"));
        }
        assert!(
            git.current_dir(self.repository()).status().unwrap().success(),
            "{arguments:?}"
        );
    }
}

pub fn header(version: &str) -> String {
    format!(
        "<?php\n/**\n * Plugin Name: Acme Forms\n * Plugin URI: https://example.com/forms\n * Version: {version}\n \
         * Author: Acme\n * Requires at least: 6.2\n * Requires PHP: 8.1\n */\n"
    )
}

pub fn readme(version: &str, changelog: &str) -> String {
    format!(
        "=== Acme Forms ===\nTested up to: 6.8\n\nA small contact form for any page.\n\n== Description ==\n\n\
         Write `[acme_form]` into a page.\n\n== Changelog ==\n\n= {version} =\n\n{changelog}\n"
    )
}
