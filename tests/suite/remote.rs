//! Plugins whose repositories are elsewhere: mirrored over http, ssh and file addresses, or kept as they were.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::server::countersign;
use crate::support::{Instance, eventually};

const TOKEN: &str = "canary-0f9a8b7c";

/// A repository `acme-forms.git` on another machine, so to speak.
struct Upstream {
    folder: TempDir,
}

impl Upstream {
    fn new() -> Self {
        let upstream = Self { folder: TempDir::new().unwrap() };
        fs::create_dir(upstream.folder.path().join("work")).unwrap();
        upstream.git(&["init", "--quiet", "--bare"]);
        upstream
    }

    /// An upstream with one release, large enough to tell a whole transfer from a part.
    fn with_release(version: &str) -> Self {
        let upstream = Self::new();
        let noise: String = (0_u64..40_000).map(|n| format!("{:x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
        fs::write(upstream.folder.path().join("work/noise.txt"), noise).unwrap();
        upstream.release(version);
        upstream
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("acme-forms.git")
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.env("GIT_DIR", self.repository()).current_dir(self.folder.path().join("work"));
        if arguments[0] != "init" {
            git.env("GIT_WORK_TREE", ".");
        }
        let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
        let output = without_settings(&mut git).args(who).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn release(&self, version: &str) {
        let header = format!("<?php\n/*\n * Plugin Name: Acme Forms\n * Version: {version}\n */\n");
        fs::write(self.folder.path().join("work/acme-forms.php"), header).unwrap();
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "-m", version]);
        self.git(&["tag", version]);
    }

    fn file_url(&self) -> String {
        format!("file://{}", self.repository().display())
    }

    fn ssh_url(&self) -> String {
        format!("ssh://git@git.example{}", self.repository().display())
    }
}

/// The upstream over smart HTTP, for those who know the token. Ends when it is dropped.
struct GitServer {
    child: Child,
    _stdin: ChildStdin,
    host: String,
    lengths: mpsc::Receiver<usize>,
}

impl GitServer {
    fn start(upstream: &Upstream) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/git_http.py");
        let mut python = Command::new("python3");
        python.arg(script).arg(upstream.folder.path()).args(["x-access-token", TOKEN]);
        let mut child =
            without_settings(&mut python).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        let (sender, lengths) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line.parse().unwrap())));
        Self { _stdin: child.stdin.take().unwrap(), child, host: format!("127.0.0.1:{port}"), lengths }
    }

    fn url(&self) -> String {
        format!("http://{}/acme-forms.git", self.host)
    }

    /// How many bytes were sent since this was asked last.
    fn sent(&self) -> usize {
        self.lengths.try_iter().sum()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// git as it is on a machine where nobody has configured it.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GIT_") || name.starts_with("SSH_")) {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("NO_PROXY", "*")
}

/// An instance whose plugin `acme-forms`, released in 1.2.0, is in the repository at `url`.
fn instance(url: &str) -> Instance {
    let instance = Instance::new();
    write_entry(&instance, "acme-forms", url);
    instance
}

fn write_entry(instance: &Instance, slug: &str, repository: &str) {
    let text = format!("repository = \"{repository}\"\ndownload_url = \"https://dl.example/{{version}}.zip\"\n");
    instance.write(&format!("registry/plugins/{slug}.toml"), &text);
}

fn build(instance: &Instance) -> Command {
    let mut command = countersign(instance);
    without_settings(&mut command).args(["build", "--plugin", "acme-forms"]);
    command
}

fn with_token<'a>(command: &'a mut Command, server: &GitServer) -> &'a mut Command {
    command.env("COUNTERSIGN_GIT_HOST", &server.host).env("COUNTERSIGN_GIT_TOKEN", TOKEN)
}

/// Runs it; the token is nowhere in what it prints.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(!text.contains(TOKEN), "{text}");
    (status.code(), text)
}

fn assert_builds(command: &mut Command) {
    let (code, text) = run(command);
    assert_eq!(code, Some(0), "{text}");
}

/// Exit code 3, `reason` in the report, and what was published is as it was.
fn assert_keeps(instance: &Instance, command: &mut Command, reason: &str) {
    let before = published(instance);
    let (code, text) = run(command);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(reason), "no {reason:?} in {text}");
    assert_eq!(published(instance), before);
}

/// The versions in the index whose manifests are there.
fn published(instance: &Instance) -> Vec<String> {
    let index: Value = serde_json::from_slice(&fs::read(instance.file("releases/index.json")).unwrap()).unwrap();
    let releases = index["plugins"]["acme-forms"]["releases"].as_array().unwrap();
    let versions = releases.iter().map(|release| release["version"].as_str().unwrap().to_owned());
    versions.inspect(|v| assert!(instance.file(&format!("releases/acme-forms/{v}.json")).exists())).collect()
}

/// Every file and folder in the cache's one folder.
fn cached(instance: &Instance) -> Vec<String> {
    let folders: Vec<_> = fs::read_dir(instance.file("cache")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let mut names: Vec<_> =
        fs::read_dir(&folders[0]).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mirror(instance: &Instance) -> PathBuf {
    let folder = fs::read_dir(instance.file("cache")).unwrap().next().unwrap().unwrap().path();
    folder.join("acme-forms.git")
}

/// A script in place of ssh. Its last argument is the command for the other side.
fn ssh(upstream: &Upstream, script: &str) -> PathBuf {
    let path = upstream.folder.path().join("ssh.sh");
    fs::write(&path, format!("#!/bin/sh\n[ \"$1\" = -G ] && exit 1\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const CONNECT: &str = "for command; do :; done; exec sh -c \"$command\"";

fn is_alive(pid: &str) -> bool {
    // A process that has ended and was not waited for yet is still listed.
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    state.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

#[test]
fn a_second_build_fetches_what_is_new_and_drops_tags_that_are_gone() {
    let upstream = Upstream::with_release("1.0");
    upstream.release("1.1");
    let server = GitServer::start(&upstream);
    let instance = instance(&server.url());
    assert_builds(with_token(&mut build(&instance), &server));
    assert_eq!(published(&instance), ["1.1", "1.0"]);
    let whole = server.sent();
    assert!(whole > 100_000, "{whole}");

    upstream.release("1.2");
    upstream.git(&["tag", "-d", "1.0"]);
    assert_builds(with_token(&mut build(&instance), &server));
    assert_eq!(published(&instance), ["1.2", "1.1"]);
    let part = server.sent();
    assert!((1..10_000).contains(&part), "{part}");
    assert_eq!(cached(&instance), ["acme-forms.git", "lock"]);
}

#[test]
fn without_the_right_token_nobody_is_asked_and_the_reason_is_told() {
    let upstream = Upstream::with_release("1.3");
    let server = GitServer::start(&upstream);
    let instance = instance(&server.url());
    let hint = "set COUNTERSIGN_GIT_HOST and COUNTERSIGN_GIT_TOKEN";
    let no_token = "could not read Username";
    assert_keeps(&instance, &mut build(&instance), no_token);
    assert_keeps(&instance, &mut build(&instance), hint);
    assert_keeps(&instance, build(&instance).env("GIT_ASKPASS", "/bin/echo"), no_token);

    let mut wrong = build(&instance);
    with_token(&mut wrong, &server).env("COUNTERSIGN_GIT_TOKEN", format!("{TOKEN}-not"));
    assert_keeps(&instance, wrong.arg("--json"), "Authentication failed");

    let mut elsewhere = build(&instance);
    with_token(&mut elsewhere, &server).env("COUNTERSIGN_GIT_HOST", "git.example.com");
    assert_keeps(&instance, &mut elsewhere, no_token);
    assert_eq!(cached(&instance), ["lock"], "nothing half-made");

    let (code, text) = run(with_token(&mut build(&instance), &server).env_remove("COUNTERSIGN_GIT_HOST"));
    assert_eq!(code, Some(2), "{text}");
    assert_builds(with_token(&mut build(&instance), &server));
}

#[test]
fn gits_own_credential_helper_is_asked() {
    let upstream = Upstream::with_release("1.3");
    let server = GitServer::start(&upstream);
    let instance = instance(&server.url());
    let settings = upstream.folder.path().join("gitconfig");
    let helper = format!("!f() {{ echo username=x-access-token; echo password={TOKEN}; }}; f");
    let output =
        Command::new("git").args(["config", "-f"]).arg(&settings).args(["credential.helper", &helper]).status();
    assert!(output.unwrap().success());
    assert_builds(build(&instance).env("GIT_CONFIG_GLOBAL", settings));
    assert_eq!(published(&instance), ["1.3"]);
}

#[test]
fn a_server_that_never_answers_is_given_up_in_time_and_stops_no_other_plugin() {
    let upstream = Upstream::with_release("1.3");
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let instance = instance(&format!("http://127.0.0.1:{port}/acme-forms.git"));
    write_entry(&instance, "acme-maps", &upstream.file_url());
    let begun = Instant::now();
    let mut command = build(&instance);
    command.args(["--plugin", "acme-maps", "--fetch-timeout", "1"]);
    assert_keeps(&instance, &mut command, "not done within 1 s; --fetch-timeout gives it more");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(instance.file("releases/acme-maps/1.3.json").exists());
}

#[test]
fn an_ssh_address_goes_through_the_ssh_command_of_the_person() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.ssh_url());
    assert_builds(build(&instance).env("GIT_SSH_COMMAND", ssh(&upstream, CONNECT)));
    assert_eq!(published(&instance), ["1.3"]);

    let refusing = ssh(&upstream, "echo 'git@git.example: Permission denied (publickey).' >&2; exit 255");
    let told = "Permission denied (publickey).; fatal: Could not read from remote repository.";
    assert_keeps(&instance, build(&instance).env("GIT_SSH_COMMAND", refusing), told);
}

#[test]
fn a_build_that_is_killed_while_it_fetches_takes_git_with_it_and_leaves_no_mirror() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.ssh_url());
    let begun = upstream.folder.path().join("begun");
    let stuck = ssh(&upstream, &format!("echo $$ >{0}~; mv {0}~ {0}; exec sleep 600", begun.display()));
    let mut killed = build(&instance).env("GIT_SSH_COMMAND", stuck).stderr(Stdio::null()).spawn().unwrap();
    eventually("ssh is started", Duration::from_secs(30), || begun.exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let ssh_pid = fs::read_to_string(begun).unwrap();
    eventually("ssh has ended, too", Duration::from_secs(30), || !is_alive(&ssh_pid));
    assert!(!mirror(&instance).exists());

    assert_builds(build(&instance).env("GIT_SSH_COMMAND", ssh(&upstream, CONNECT)));
    assert_eq!(published(&instance), ["1.3"]);
    assert_eq!(cached(&instance), ["acme-forms.git", "lock"]);
}

#[test]
fn what_cannot_be_fetched_stays_and_offline_it_is_read_as_it_was() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    assert_keeps(&instance, build(&instance).arg("--offline"), "no mirror of it yet, and --offline");
    assert!(!instance.file("cache").exists());
    assert_builds(&mut build(&instance));

    upstream.release("1.4");
    assert_builds(build(&instance).arg("--offline"));
    assert_eq!(published(&instance), ["1.3"]);

    fs::rename(upstream.repository(), upstream.folder.path().join("away")).unwrap();
    assert_keeps(&instance, &mut build(&instance), "does not appear to be a git repository");
    assert_builds(build(&instance).arg("--offline"));
    assert_eq!(published(&instance), ["1.3"]);
}

#[test]
fn a_damaged_mirror_is_made_again() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    assert_builds(&mut build(&instance));
    for damage in ["objects", "HEAD"] {
        let damaged = mirror(&instance).join(damage);
        fs::rename(&damaged, instance.file(&format!("moved-{damage}"))).unwrap();
        assert_builds(&mut build(&instance));
        assert!(damaged.exists());
        assert_eq!(published(&instance), ["1.3"]);
    }
    upstream.release("1.4");
    fs::write(mirror(&instance).join("refs/tags/1.4.lock"), "").unwrap();
    assert_builds(&mut build(&instance));
    assert_eq!(published(&instance), ["1.4", "1.3"]);
    assert_eq!(cached(&instance), ["acme-forms.git", "lock"]);
}

#[test]
fn check_fetches_and_publishes_nothing() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    let (code, text) = run(build(&instance).arg("--check"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("would add 1: 1.3"), "{text}");
    assert_eq!(published(&instance), ["1.2.0"]);
}

#[test]
fn builds_at_the_same_time_share_a_mirror_and_so_do_plugins_of_one_repository() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    write_entry(&instance, "acme-maps", &upstream.file_url());
    let check = || run(build(&instance).args(["--plugin", "acme-maps", "--check"]));
    let results: Vec<_> = thread::scope(|scope| {
        let builds: Vec<_> = (0..4).map(|_| scope.spawn(check)).collect();
        builds.into_iter().map(|build| build.join().unwrap()).collect()
    });
    for (code, text) in results {
        assert_eq!(code, Some(1), "{text}");
        assert_eq!(text.matches("fetching file://").count(), 1, "{text}");
        assert_eq!(text.matches("would add 1: 1.3").count(), 2, "{text}");
    }
    assert_eq!(cached(&instance), ["acme-forms.git", "lock"]);
}

#[test]
fn where_there_is_no_git_that_is_said() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    let programs = upstream.folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink("/bin/sh", programs.join("sh")).unwrap();
    assert_keeps(&instance, build(&instance).env("PATH", programs), "the git command is needed and is not installed");
}

#[test]
fn a_hook_of_the_person_is_not_run_and_what_a_hook_sets_is_not_heard() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    let hooks = upstream.folder.path().join("hooks");
    fs::create_dir(&hooks).unwrap();
    let proof = upstream.folder.path().join("proof");
    let hook = hooks.join("reference-transaction");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", proof.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = upstream.folder.path().join("gitconfig");
    fs::write(&settings, format!("[core]\nhooksPath = {}\n", hooks.display())).unwrap();
    let mut command = build(&instance);
    command.env("GIT_CONFIG_GLOBAL", settings).env("GIT_DIR", "/nowhere").env("GIT_OBJECT_DIRECTORY", "/nowhere");
    assert_builds(&mut command);
    assert!(!proof.exists());
}
