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
    command.env("COUNTERSIGN_ALLOWED_GIT_HOSTS", origins(instance).join(","));
    command
}

/// Where the repositories of an instance's plugins are, as entries of `allowed_git_hosts`.
fn origins(instance: &Instance) -> Vec<String> {
    let entries = fs::read_dir(instance.file("registry/plugins")).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.map(|entry| fs::read_to_string(entry).unwrap());
    let origin = |text: String| {
        let url = text.split("repository = \"").nth(1)?.split('"').next()?;
        let (scheme, rest) = url.split_once("://")?;
        let host = rest.split('/').next()?.rsplit('@').next()?;
        Some(if scheme == "ssh" { host.to_owned() } else { format!("{scheme}://{host}") })
    };
    texts.filter_map(origin).collect()
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

/// Makes git tell that it was run, in every way a repository's own files can.
fn booby_trap(mirror: &Path, upstream: &Upstream, evil: &Upstream, proof: &Path) {
    let run = format!("touch {}", proof.display());
    let hooks = mirror.join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    for name in ["reference-transaction", "post-checkout", "pre-auto-gc"] {
        fs::write(hooks.join(name), format!("#!/bin/sh\n{run}\n")).unwrap();
        fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let included = evil.folder.path().join("included");
    fs::write(&included, format!("[core]\nfsmonitor = \"{run}\"\n")).unwrap();
    let config = format!(
        "[core]\nrepositoryformatversion = 0\nbare = true\nhooksPath = {hooks}\nsshCommand = \"{run}; false\"\n\
         gitProxy = \"{run}\"\nalternateRefsCommand = \"{run}\"\n[credential]\nhelper = \"!{run}\"\n\
         [remote \"{url}\"]\nuploadpack = \"{run}; git-upload-pack\"\n\
         [url \"{other}\"]\ninsteadOf = {url}\n[include]\npath = {included}\n",
        hooks = hooks.display(),
        url = upstream.file_url(),
        other = evil.file_url(),
        included = included.display(),
    );
    fs::write(mirror.join("config"), config).unwrap();
    fs::create_dir_all(mirror.join("objects/info")).unwrap();
    let objects = evil.repository().join("objects");
    fs::write(mirror.join("objects/info/alternates"), format!("{}\n", objects.display())).unwrap();
    fs::create_dir_all(mirror.join("info")).unwrap();
    fs::write(mirror.join("info/grafts"), "").unwrap();
    fs::write(mirror.join("commondir"), evil.repository().display().to_string()).unwrap();
}

#[test]
fn a_cache_that_somebody_else_wrote_runs_nothing_and_swaps_nothing() {
    let upstream = Upstream::with_release("1.3");
    let evil = Upstream::with_release("6.6.6");
    let instance = instance(&upstream.file_url());
    assert_builds(&mut build(&instance));
    let proof = evil.folder.path().join("proof");

    booby_trap(&mirror(&instance), &upstream, &evil, &proof);
    let (code, text) = run(build(&instance).arg("--offline"));
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("its mirror is not as it was fetched: build once without --offline"), "{text}");
    assert!(!proof.exists(), "offline");

    upstream.release("1.4");
    assert_builds(build(&instance).arg("--all"));
    assert_eq!(published(&instance), ["1.4", "1.3"]);
    assert!(!proof.exists());
    for name in ["hooks", "info", "commondir", "objects/info"] {
        assert!(!mirror(&instance).join(name).exists(), "{name}");
    }
    assert_builds(build(&instance).args(["--offline", "--all"]));
}

#[test]
fn an_object_that_was_rewritten_in_a_mirror_is_noticed() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    assert_builds(&mut build(&instance));

    let object = |version: &str| {
        let name = Command::new("git")
            .env("GIT_DIR", upstream.repository())
            .args(["rev-parse", &format!("{version}:acme-forms.php")])
            .output()
            .unwrap();
        let name = String::from_utf8(name.stdout).unwrap();
        format!("objects/{}/{}", &name[..2], name[2..].trim())
    };
    let honest = mirror(&instance).join(object("1.3"));
    upstream.release("9.9");
    fs::remove_file(&honest).unwrap();
    fs::copy(upstream.repository().join(object("9.9")), &honest).unwrap();
    upstream.git(&["tag", "-d", "9.9"]);
    for offline in [&[][..], &["--offline"]] {
        assert_keeps(&instance, build(&instance).arg("--all").args(offline), "its hash is not its name");
    }
}

#[test]
fn a_mirror_that_others_may_write_to_or_that_holds_no_files_is_made_anew() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    assert_builds(&mut build(&instance));
    let folder = mirror(&instance).parent().unwrap().to_owned();
    let spoil: [&dyn Fn(); 3] = [
        &|| fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap(),
        &|| assert!(Command::new("mkfifo").arg(folder.join("acme-forms.git/refs/tags/9")).status().unwrap().success()),
        &|| {
            let objects = folder.join("acme-forms.git/objects");
            fs::rename(&objects, folder.join("elsewhere")).unwrap();
            symlink("../elsewhere", &objects).unwrap();
        },
    ];
    for spoil in spoil {
        let old = folder.join("acme-forms.git/old");
        fs::write(&old, "").unwrap();
        spoil();
        assert_keeps(&instance, build(&instance).args(["--offline", "--all"]), "its mirror is not as it was fetched");
        assert_builds(build(&instance).arg("--all"));
        assert!(!old.exists());
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(cached(&instance), ["acme-forms.git", "lock"]);
    }
}

#[test]
fn a_repository_that_is_too_large_is_given_up() {
    let upstream = Upstream::new();
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(3 << 20)
    .collect();
    fs::write(upstream.folder.path().join("work/noise"), noise).unwrap();
    upstream.release("1.3");
    let instance = instance(&upstream.file_url());
    let told = "larger than 1 MiB; --fetch-limit gives it more";
    assert_keeps(&instance, build(&instance).args(["--fetch-limit", "1"]), told);
    assert_eq!(cached(&instance), ["lock"], "nothing half-made");
    assert_builds(&mut build(&instance));
    assert_keeps(&instance, build(&instance).args(["--fetch-limit", "1"]), told);
}

#[test]
fn a_host_that_is_not_allowed_is_not_asked() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let upstream = Upstream::with_release("1.3");
    for (url, allowed) in [
        (format!("http://{address}/a.git"), format!("http://{address}")),
        (format!("https://{address}/a.git"), address.to_string()),
        (format!("git://{address}/a.git"), format!("git://{address}")),
        (format!("ssh://git@{address}/a.git"), address.to_string()),
        (upstream.file_url(), "file://".to_owned()),
    ] {
        let instance = instance(&url);
        let hint = format!("allowed_git_hosts does not have it: if it is to be fetched from, add \"{allowed}\"");
        for entries in [None, Some("git.example.com,https://127.0.0.2")] {
            let mut command = build(&instance);
            command.env_remove("COUNTERSIGN_ALLOWED_GIT_HOSTS");
            entries.map(|entries| command.args(["--allowed-git-hosts", entries]));
            assert_keeps(&instance, &mut command, &hint);
        }
        assert!(listener.accept().is_err(), "{url} was asked");
    }
    let instance = instance(&upstream.file_url());
    instance.write("countersign.toml", "[build]\nallowed_git_hosts = [\"file://\"]\n");
    assert_builds(build(&instance).env_remove("COUNTERSIGN_ALLOWED_GIT_HOSTS"));
}

#[test]
fn a_redirect_leads_to_no_other_host() {
    let upstream = Upstream::with_release("1.3");
    let server = GitServer::start(&upstream);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let instance = instance(&format!("http://{}/acme-forms.git", listener.local_addr().unwrap()));
    let target = server.url();
    let redirecting = thread::spawn(move || {
        use std::io::Write;
        let (mut client, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        let path = line.split(' ').nth(1).unwrap().trim_start_matches("/acme-forms.git");
        let answer = format!(
            "HTTP/1.1 301 Moved Permanently\r\nLocation: {target}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        client.write_all(answer.as_bytes()).unwrap();
    });
    let told = "redirects are not followed: name the address it leads to";
    assert_keeps(&instance, with_token(&mut build(&instance), &server), told);
    redirecting.join().unwrap();
    assert_eq!(server.sent(), 0);
}
