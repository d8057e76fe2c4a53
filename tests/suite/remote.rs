//! Plugins with remote repositories: mirrored over ssh and file URLs, or kept as they were.
//! `tests/external/remote.rs` has http with a token.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::upstream::{
    Upstream, assert_builds, assert_keeps, build, cached, instance, published, run, write_entry,
};
use crate::support::{Instance, eventually};

fn mirror(instance: &Instance) -> PathBuf {
    let folder = fs::read_dir(instance.file("cache"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
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

impl Upstream {
    pub fn file_url(&self) -> String {
        format!("file://{}", self.repository().display())
    }

    pub fn ssh_url(&self) -> String {
        format!("ssh://git@git.example{}", self.repository().display())
    }
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
    command.args(["--plugin", "acme-maps", "--fetch-timeout", "20"]);
    assert_keeps(
        &instance,
        &mut command,
        "not done within 20 s; --fetch-timeout allows more",
    );
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
    assert!(instance.file("releases/acme-maps/1.3.json").exists());
}

#[test]
fn an_ssh_address_goes_through_the_ssh_command_of_the_person() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.ssh_url());
    assert_builds(build(&instance).env("GIT_SSH_COMMAND", ssh(&upstream, CONNECT)));
    assert_eq!(published(&instance), ["1.3"]);

    let refusing = ssh(
        &upstream,
        "echo 'git@git.example: Permission denied (publickey).' >&2; exit 255",
    );
    let reason = "Permission denied (publickey).; fatal: Could not read from remote repository.";
    assert_keeps(&instance, build(&instance).env("GIT_SSH_COMMAND", refusing), reason);
}

#[test]
fn a_build_that_is_killed_while_it_fetches_takes_git_with_it_and_leaves_no_mirror() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.ssh_url());
    let begun = upstream.folder.path().join("begun");
    let stuck = ssh(
        &upstream,
        &format!("echo $$ >{0}~; mv {0}~ {0}; exec sleep 600", begun.display()),
    );
    let mut killed = build(&instance)
        .env("GIT_SSH_COMMAND", stuck)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("ssh is started", || begun.exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let ssh_pid = fs::read_to_string(begun).unwrap();
    eventually("ssh has ended, too", || !is_alive(&ssh_pid));
    assert!(!mirror(&instance).exists());

    assert_builds(build(&instance).env("GIT_SSH_COMMAND", ssh(&upstream, CONNECT)));
    assert_eq!(published(&instance), ["1.3"]);
    assert_eq!(cached(&instance), ["acme-forms.git", "lock"]);
}

#[test]
fn what_cannot_be_fetched_stays_and_offline_it_is_read_as_it_was() {
    let upstream = Upstream::with_release("1.3");
    let instance = instance(&upstream.file_url());
    assert_keeps(
        &instance,
        build(&instance).arg("--offline"),
        "it has no mirror yet, and --offline",
    );
    assert!(!instance.file("cache").exists());
    assert_builds(&mut build(&instance));

    upstream.release("1.4");
    assert_builds(build(&instance).arg("--offline"));
    assert_eq!(published(&instance), ["1.3"]);

    fs::rename(upstream.repository(), upstream.folder.path().join("away")).unwrap();
    assert_keeps(
        &instance,
        &mut build(&instance),
        "does not appear to be a git repository",
    );
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
    assert_keeps(
        &instance,
        build(&instance).env("PATH", programs),
        "the git command is not installed",
    );
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
    command
        .env("GIT_CONFIG_GLOBAL", settings)
        .env("GIT_DIR", "/nowhere")
        .env("GIT_OBJECT_DIRECTORY", "/nowhere");
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
    fs::write(
        mirror.join("objects/info/alternates"),
        format!("{}\n", objects.display()),
    )
    .unwrap();
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
    assert!(
        text.contains("its mirror was changed after it was fetched: build once without --offline"),
        "{text}"
    );
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
        assert_keeps(
            &instance,
            build(&instance).arg("--all").args(offline),
            "its hash is not its name",
        );
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
        &|| {
            assert!(
                Command::new("mkfifo")
                    .arg(folder.join("acme-forms.git/refs/tags/9"))
                    .status()
                    .unwrap()
                    .success()
            );
        },
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
        assert_keeps(
            &instance,
            build(&instance).args(["--offline", "--all"]),
            "its mirror was changed after it was fetched",
        );
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
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(3 << 20)
    .collect();
    fs::write(upstream.folder.path().join("work/noise"), noise).unwrap();
    upstream.release("1.3");
    let instance = instance(&upstream.file_url());
    let reason = "larger than 1 MiB; --fetch-limit allows more";
    assert_keeps(&instance, build(&instance).args(["--fetch-limit", "1"]), reason);
    assert_eq!(cached(&instance), ["lock"], "nothing half-made");
    assert_builds(&mut build(&instance));
    assert_keeps(&instance, build(&instance).args(["--fetch-limit", "1"]), reason);
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
        let hint = format!("allowed_git_hosts does not allow it: to fetch from it, add \"{allowed}\"");
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
