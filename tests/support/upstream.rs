//! A plugin's remote repository, an instance that builds from it, and the result of a build.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::Instance;
use super::server::countersign;

pub const TOKEN: &str = "canary-0f9a8b7c";

/// A repository `acme-forms.git` on another machine, so to speak.
pub struct Upstream {
    pub folder: TempDir,
}

impl Upstream {
    pub fn new() -> Self {
        let upstream = Self {
            folder: TempDir::new().unwrap(),
        };
        fs::create_dir(upstream.folder.path().join("work")).unwrap();
        upstream.git(&["init", "--quiet", "--bare"]);
        upstream
    }

    /// An upstream with one release, large enough to tell a whole transfer from a part.
    pub fn with_release(version: &str) -> Self {
        let upstream = Self::new();
        let noise: String = (0_u64..40_000)
            .map(|n| format!("{:x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
            .collect();
        fs::write(upstream.folder.path().join("work/noise.txt"), noise).unwrap();
        upstream.release(version);
        upstream
    }

    pub fn repository(&self) -> PathBuf {
        self.folder.path().join("acme-forms.git")
    }

    pub fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.env("GIT_DIR", self.repository())
            .current_dir(self.folder.path().join("work"));
        if arguments[0] != "init" {
            git.env("GIT_WORK_TREE", ".");
        }
        let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
        let output = without_settings(&mut git).args(who).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub fn release(&self, version: &str) {
        let header = format!("<?php\n/*\n * Plugin Name: Acme Forms\n * Version: {version}\n */\n");
        fs::write(self.folder.path().join("work/acme-forms.php"), header).unwrap();
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "-m", version]);
        self.git(&["tag", version]);
    }
}

/// git as it is on a machine where nobody has configured it.
pub fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GIT_") || name.starts_with("SSH_")) {
        command.env_remove(name);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("NO_PROXY", "*")
}

/// An instance whose plugin `acme-forms`, released in 1.2.0, is in the repository at `url`.
pub fn instance(url: &str) -> Instance {
    let instance = Instance::new();
    write_entry(&instance, "acme-forms", url);
    instance
}

pub fn write_entry(instance: &Instance, slug: &str, repository: &str) {
    let text = format!("repository = \"{repository}\"\ndownload_url = \"https://dl.example/{{version}}.zip\"\n");
    instance.write(&format!("registry/plugins/{slug}.toml"), &text);
}

/// A build that may take back what the instance has published before its repository was there.
pub fn build(instance: &Instance) -> Command {
    let mut command = careful_build(instance);
    command.arg("--accept-removed");
    command
}

pub fn careful_build(instance: &Instance) -> Command {
    let mut command = countersign(instance);
    without_settings(&mut command).args(["build", "--plugin", "acme-forms"]);
    command.env("COUNTERSIGN_ALLOWED_GIT_HOSTS", origins(instance).join(","));
    command
}

/// Where the repositories of an instance's plugins are, as entries of `allowed_git_hosts`.
pub fn origins(instance: &Instance) -> Vec<String> {
    let entries = fs::read_dir(instance.file("registry/plugins"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let texts = entries.map(|entry| fs::read_to_string(entry).unwrap());
    let origin = |text: String| {
        let url = text.split("repository = \"").nth(1)?.split('"').next()?;
        let (scheme, rest) = url.split_once("://")?;
        let host = rest.split('/').next()?.rsplit('@').next()?;
        Some(if scheme == "ssh" {
            host.to_owned()
        } else {
            format!("{scheme}://{host}")
        })
    };
    texts.filter_map(origin).collect()
}

/// Runs it; the token is nowhere in what it prints.
pub fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    assert!(!text.contains(TOKEN), "{text}");
    (status.code(), text)
}

pub fn assert_builds(command: &mut Command) {
    let (code, text) = run(command);
    assert_eq!(code, Some(0), "{text}");
}

/// Exit code 3, `reason` in the report, and what was published is as it was.
pub fn assert_keeps(instance: &Instance, command: &mut Command, reason: &str) {
    let before = published(instance);
    let (code, text) = run(command);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(reason), "no {reason:?} in {text}");
    assert_eq!(published(instance), before);
}

/// The versions in the index whose manifests are there.
pub fn published(instance: &Instance) -> Vec<String> {
    let index: Value = serde_json::from_slice(&fs::read(instance.file("releases/index.json")).unwrap()).unwrap();
    let releases = index["plugins"]["acme-forms"]["releases"].as_array().unwrap();
    let versions = releases
        .iter()
        .map(|release| release["version"].as_str().unwrap().to_owned());
    versions
        .inspect(|v| assert!(instance.file(&format!("releases/acme-forms/{v}.json")).exists()))
        .collect()
}

/// Every file and folder in the cache's one folder.
pub fn cached(instance: &Instance) -> Vec<String> {
    let folders: Vec<_> = fs::read_dir(instance.file("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let mut names: Vec<_> = fs::read_dir(&folders[0])
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
