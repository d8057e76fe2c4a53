//! The registry in git, in both ways of docs/registry.md, with two people at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::server::countersign_in;
use crate::support::{Instance, License, Server, eventually};

const SOON: Duration = Duration::from_secs(10);

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A shell's line in a folder, as `person`.
fn sh(folder: &Path, person: &str, line: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder);
    named(&mut command, person).output().unwrap()
}

fn done(folder: &Path, person: &str, line: &str) -> String {
    let output = sh(folder, person, line);
    assert!(output.status.success(), "{line}: {}", text(&output));
    text(&output)
}

fn named<'a>(command: &'a mut Command, person: &str) -> &'a mut Command {
    let address = format!("{person}@acme.example");
    command
        .envs([("GIT_AUTHOR_NAME", person), ("GIT_COMMITTER_NAME", person)])
        .envs([("GIT_AUTHOR_EMAIL", &address), ("GIT_COMMITTER_EMAIL", &address)])
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
}

/// `countersign license …` on a registry, as `person`.
fn license(registry: &Path, person: &str, arguments: &str) -> Output {
    let mut command = countersign_in(registry.parent().unwrap());
    command
        .arg("--registry")
        .arg(registry)
        .arg("license")
        .args(arguments.split(' '));
    named(&mut command, person).output().unwrap()
}

fn licensed(registry: &Path, person: &str, arguments: &str) -> String {
    let output = license(registry, person, arguments);
    assert!(output.status.success(), "{arguments}: {}", text(&output));
    text(&output)
}

/// The lines of a page's `sh` blocks below a heading.
fn commands_of(heading: &str) -> Vec<&'static str> {
    let page = include_str!("../../docs/registry.md");
    let section = page
        .split(&format!("\n## {heading}"))
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    section
        .split("```sh\n")
        .skip(1)
        .flat_map(|rest| rest.split("```").next().unwrap().lines())
        .collect()
}

/// A server's instance whose registry is a clone of a bare repository, and clones of two people.
struct Vendor {
    folder: TempDir,
    instance: Instance,
    licenses: [License; 3],
}

impl Vendor {
    fn new() -> Self {
        let licenses = [License::new(), License::new(), License::new()];
        let tables: Vec<_> = licenses.iter().map(|license| license.toml("sites = 9")).collect();
        let instance = Instance::with_licenses(&tables);
        let vendor = Self {
            folder: TempDir::new().unwrap(),
            instance,
            licenses,
        };
        let registry = vendor.registry();
        done(
            &registry,
            "root",
            "git init -q -b main && git add . && git commit -qm 'as it is'",
        );
        done(
            vendor.folder.path(),
            "root",
            &format!("git clone -q --bare '{}' bare.git", registry.display()),
        );
        fs::remove_dir_all(&registry).unwrap();
        for clone in [registry.as_path(), &vendor.clone_of("alice"), &vendor.clone_of("bob")] {
            done(
                vendor.folder.path(),
                "root",
                &format!("git clone -q bare.git '{}'", clone.display()),
            );
        }
        vendor
    }

    fn registry(&self) -> PathBuf {
        self.instance.file("registry")
    }

    fn clone_of(&self, person: &str) -> PathBuf {
        self.folder.path().join(person).join("registry")
    }

    /// What the timer's unit runs, here.
    fn pull(&self) -> Output {
        let unit = include_str!("../../packaging/systemd/countersign-registry.service");
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        assert!(
            commands_of("A. In git").contains(&line.strip_prefix("/usr/bin/").unwrap()),
            "the page has the unit's line"
        );
        let here = line.replace("/srv/countersign/registry", self.registry().to_str().unwrap());
        sh(Path::new("/"), "countersign", here.strip_prefix("/usr/bin/").unwrap())
    }
}

#[test]
fn in_git_two_people_at_once_change_licenses_and_the_server_only_pulls() {
    let vendor = Vendor::new();
    let server = Server::start(&vendor.instance);
    let [first, second, third] = &vendor.licenses;
    let alice = vendor.clone_of("alice");
    let bob = vendor.clone_of("bob");
    let page = commands_of("A. In git");
    let pull = page[0];
    let issue = page[1].split_once("license ").unwrap().1.replace("acme-forms", "forms");
    let push = page[2];
    assert_eq!(
        (pull, push, &page[3..5]),
        ("git pull --ff-only", "git push", &["git pull --rebase", "git push"][..])
    );

    let issue = issue.as_str();
    // At once: each issues one license and suspends another, from the same state.
    std::thread::scope(|scope| {
        for (person, clone, theirs) in [("alice", &alice, first), ("bob", &bob, second)] {
            scope.spawn(move || {
                done(clone, person, pull);
                let told = licensed(clone, person, issue);
                assert!(told.contains("\nCommitted: license: issue "), "{told}");
                licensed(clone, person, &format!("suspend {} --commit", theirs.id));
            });
        }
    });
    done(&alice, "alice", push);
    assert!(!sh(&bob, "bob", push).status.success(), "alice was first");
    // Before bob knows of it nothing is wrong here; afterwards he is told before he changes anything more.
    done(&bob, "bob", "git fetch -q");
    let refused = license(&bob, "bob", &format!("suspend {} --commit", third.id));
    let told = text(&refused);
    assert!(
        refused.status.code() == Some(3) && told.contains("2 commits behind origin/main"),
        "{told}"
    );
    assert!(
        told.contains(&format!("hint: git -C {} pull --rebase", bob.display())),
        "{told}"
    );
    done(&bob, "bob", page[3]);
    done(&bob, "bob", page[4]);
    let log = done(&bob, "bob", "git log --format='%an %s' -4");
    assert_eq!(
        log.lines().filter(|line| line.starts_with("alice license: ")).count(),
        2,
        "{log}"
    );
    assert!(
        log.contains(&format!("bob license: suspend {}", &second.id[..12])),
        "{log}"
    );

    assert!(vendor.pull().status.success());
    eventually("both are in force", SOON, || {
        [first, second]
            .iter()
            .all(|license| server.validate(license, "a.com").code() == "suspended")
    });
    assert_eq!(server.validate(third, "a.com").code(), "ok");
    assert_eq!(
        done(&vendor.registry(), "root", "ls licenses | wc -l").trim(),
        "3",
        "one file each, and the old one"
    );

    // The same license by two people is a conflict, and the page says what to do.
    done(&alice, "alice", pull);
    licensed(
        &alice,
        "alice",
        &format!("renew {} --expires 2098-01-01 --commit", third.id),
    );
    licensed(
        &bob,
        "bob",
        &format!("renew {} --expires 2097-01-01 --commit", third.id),
    );
    done(&alice, "alice", push);
    let conflict = sh(&bob, "bob", page[3]);
    assert!(
        !conflict.status.success() && text(&conflict).contains("CONFLICT"),
        "{}",
        text(&conflict)
    );
    for line in &page[5..7] {
        done(&bob, "bob", line);
    }
    licensed(
        &bob,
        "bob",
        &format!("renew {} --expires 2097-01-01 --commit", third.id),
    );
    done(&bob, "bob", push);
    assert!(vendor.pull().status.success());
    eventually("bob's date", SOON, || {
        server.validate(third, "a.com").json()["expires"] == "2097-01-01"
    });
}

#[test]
fn a_change_on_the_server_is_told_and_never_overwritten_by_a_pull() {
    let vendor = Vendor::new();
    let registry = vendor.registry();
    let alice = vendor.clone_of("alice");
    let [first, second, _] = &vendor.licenses;
    let told = licensed(&registry, "root", &format!("suspend {}", first.id));
    assert!(!told.contains("note: "), "clean and not behind: {told}");
    let told = licensed(&registry, "root", &format!("suspend {}", second.id));
    let dirty = format!(
        "note: {}: not committed: licenses/licenses.toml; --commit commits",
        registry.display()
    );
    assert!(told.contains(&dirty), "{told}");
    let refused = license(&registry, "root", &format!("resume {} --commit", first.id));
    let told = text(&refused);
    assert!(
        refused.status.code() == Some(3) && told.contains("not committed: licenses/licenses.toml\nhint: "),
        "{told}"
    );

    licensed(&alice, "alice", &format!("revoke {} --commit", first.id));
    done(&alice, "alice", "git push");
    let mine = fs::read(registry.join("licenses/licenses.toml")).unwrap();
    let pull = vendor.pull();
    assert!(
        !pull.status.success() && text(&pull).contains("would be overwritten"),
        "{}",
        text(&pull)
    );
    assert_eq!(fs::read(registry.join("licenses/licenses.toml")).unwrap(), mine);
    let told = licensed(&registry, "root", &format!("resume {}", second.id));
    assert!(
        told.contains("1 commit behind origin/main, so this change may conflict"),
        "{told}"
    );
    done(&registry, "root", "git checkout -q .");
    assert!(vendor.pull().status.success());
    assert!(licensed(&registry, "root", &format!("show {}", first.id)).contains("revoked"));
}

#[test]
fn on_the_server_each_command_is_one_commit_also_of_two_people_at_once() {
    let vendor = License::new();
    let instance = Instance::with_licenses(&[vendor.toml("")]);
    let registry = instance.file("registry");
    let outside = license(&registry, "root", &format!("suspend {} --commit", vendor.id));
    assert!(
        outside.status.code() == Some(3) && text(&outside).contains("not in a git repository"),
        "{}",
        text(&outside)
    );
    for line in commands_of("B. On the server") {
        done(&registry, "root", line);
    }
    let commit = |person: &str, arguments: &str| {
        let mut command = countersign_in(instance.path());
        command
            .arg("license")
            .args(arguments.split(' '))
            .env("COUNTERSIGN_COMMIT", "true");
        let output = named(&mut command, person).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", text(&output));
        text(&output)
    };
    let mut keys: Vec<String> = std::thread::scope(|scope| {
        let issue = |person: &'static str| {
            move || -> Vec<String> {
                let each = |_| {
                    commit(person, "issue --module forms --expires 2099-01-01")
                        .lines()
                        .next()
                        .unwrap()
                        .to_owned()
                };
                (0..4).map(each).collect()
            }
        };
        let started = [scope.spawn(issue("alice")), scope.spawn(issue("bob"))];
        started.into_iter().flat_map(|issued| issued.join().unwrap()).collect()
    });
    commit("bob", &format!("suspend {}", vendor.id));
    let log = done(&registry, "root", "git log --format='%an %s'");
    for person in ["alice", "bob"] {
        let issued = log
            .lines()
            .filter(|line| line.starts_with(&format!("{person} license: issue ")))
            .count();
        assert_eq!(issued, 4, "{log}");
    }
    assert_eq!(
        log.lines().next().unwrap(),
        format!("bob license: suspend {}", &vendor.id[..12])
    );
    assert_eq!(done(&registry, "root", "git status --porcelain"), "");
    // Nothing new is no commit, and a look needs none.
    assert!(!commit("bob", &format!("suspend {}", vendor.id)).contains("Committed"));
    commit("bob", "list");
    assert_eq!(done(&registry, "root", "git log --format=%h").lines().count(), 10);
    let trail = done(&registry, "root", "git log -p");
    keys.retain(|key| trail.contains(key.as_str()));
    assert!(keys.is_empty(), "a license key is in the trail");
}

/// A registry on the server as page B has it, with one license.
fn with_a_trail() -> (Instance, PathBuf, License) {
    let theirs = License::new();
    let instance = Instance::with_licenses(&[theirs.toml("")]);
    let registry = instance.file("registry");
    done(
        &registry,
        "root",
        "git init -q -b main && git add . && git commit -qm 'as it is'",
    );
    (instance, registry, theirs)
}

#[test]
fn what_git_does_not_look_at_is_not_changed_with_commit() {
    let (instance, registry, theirs) = with_a_trail();
    let file = registry.join("licenses/licenses.toml");
    let before = fs::read_to_string(&file).unwrap();
    let refused = |arguments: &str, reason: &str| {
        let output = license(&registry, "root", &format!("{arguments} --commit"));
        let told = text(&output);
        assert!(
            output.status.code() == Some(3) && told.contains(reason),
            "{arguments}: {told}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
    };
    for (hide, show) in [
        ("--assume-unchanged", "--no-assume-unchanged"),
        ("--skip-worktree", "--no-skip-worktree"),
    ] {
        done(
            &registry,
            "root",
            &format!("git update-index {hide} licenses/licenses.toml"),
        );
        let reason = "licenses.toml: git is set to ignore changes of this file";
        refused(&format!("suspend {}", theirs.id), reason);
        refused(&format!("rekey {}", theirs.id), reason);
        refused("issue --module forms --expires never --file licenses.toml", reason);
        done(
            &registry,
            "root",
            &format!("git update-index {show} licenses/licenses.toml"),
        );
    }
    let own = License::new();
    done(
        &registry,
        "root",
        "echo 'licenses/*' >.gitignore && git add .gitignore && git commit -qm ignored",
    );
    instance.write("registry/licenses/shop.toml", &own.toml(""));
    refused(&format!("suspend {}", own.id), "shop.toml: git ignores this file");
    refused("issue --module forms --expires never", "git ignores this file");
    refused(
        "issue --module forms --expires never --file shop.toml",
        "shop.toml: git ignores this file",
    );
    // Others are committed all the same.
    assert!(
        licensed(&registry, "root", &format!("suspend {} --commit", theirs.id)).contains("Committed: license: suspend")
    );
}

#[test]
fn a_change_that_git_does_not_see_is_told() {
    let (instance, registry, _) = with_a_trail();
    let linked = License::new();
    instance.write("elsewhere.toml", &linked.toml(""));
    done(
        &registry,
        "root",
        "ln -s ../../elsewhere.toml licenses/linked.toml && git add . && git commit -qm linked",
    );
    let output = license(&registry, "root", &format!("suspend {} --commit", linked.id));
    let told = text(&output);
    assert!(
        output.status.code() == Some(4) && told.contains("git sees no change in "),
        "{told}"
    );
    assert!(
        told.contains("linked.toml\n") && told.contains("is now suspended"),
        "{told}"
    );
}

#[test]
fn a_broken_plugin_entry_keeps_no_license_from_being_suspended_with_commit() {
    let (instance, registry, theirs) = with_a_trail();
    instance.write("registry/plugins/acme-maps.toml", "modul = 'maps'\n");
    done(&registry, "root", "git commit -qam broken");
    let told = licensed(&registry, "root", &format!("suspend {} --commit", theirs.id));
    assert!(told.contains("Committed: license: suspend"), "{told}");
}

#[test]
fn a_look_at_a_checkout_runs_nothing_that_its_configuration_names() {
    let (instance, registry, theirs) = with_a_trail();
    let ran = instance.file("ran");
    let program = instance.file("program");
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat\n", ran.display())).unwrap();
    done(&registry, "root", &format!("chmod +x '{}'", program.display()));
    let program = program.display();
    done(
        &registry,
        "root",
        &format!(
            "echo '*.toml filter=evil' >.git/info/attributes
             echo '*.md filter=e.vil' >>.git/info/attributes
             git config filter.evil.clean '{program}' && git config filter.evil.required true
             git config filter.e.vil.process '{program}' && git config core.fsmonitor '{program}'"
        ),
    );
    // As long as before and written anew: git has to compare it.
    let rewrite = || {
        for name in ["licenses/licenses.toml", "plugins/acme-forms.toml"] {
            let file = registry.join(name);
            let content = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            fs::write(&file, content).unwrap();
        }
    };
    rewrite();
    let told = licensed(
        &registry,
        "root",
        "issue --module forms --expires never --file new.toml",
    );
    assert!(!ran.exists(), "{told}");
    rewrite();
    let output = license(&registry, "root", &format!("suspend {} --commit", theirs.id));
    // A file that is not committed ends it before the commit, which may run filters.
    assert!(
        output.status.code() == Some(3) && text(&output).contains("new.toml"),
        "{}",
        text(&output)
    );
    assert!(!ran.exists());
}

#[test]
fn what_does_not_answer_is_waited_for_with_a_limit() {
    let (_instance, registry, theirs) = with_a_trail();
    done(&registry, "root", "rm .git/index && mkfifo .git/index");
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| license(&registry, "root", &format!("suspend {} --commit", theirs.id)));
        let told = licensed(&registry, "root", &format!("sites {} 7", theirs.id));
        assert!(
            told.contains("cannot read the git status: git: not done within 10 s"),
            "{told}"
        );
        let output = committing.join().unwrap();
        assert!(
            output.status.code() == Some(4) && text(&output).contains("not done within 10 s"),
            "{}",
            text(&output)
        );
    });
    let (_instance, registry, theirs) = with_a_trail();
    let held = fs::File::open(registry.join("licenses")).unwrap();
    held.lock().unwrap();
    let output = license(&registry, "root", &format!("suspend {}", theirs.id));
    let told = text(&output);
    assert!(
        output.status.code() == Some(4) && told.contains("another command has held it for 10 s"),
        "{told}"
    );
    assert!(told.starts_with("waiting for another command, which holds "), "{told}");
}
