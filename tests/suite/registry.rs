//! The registry in git, as docs/registry.md has it, with two people at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::server::countersign_in;
use crate::support::{Instance, License, Server, eventually};

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

/// `countersign license …` on a registry.
fn license(registry: &Path, arguments: &str) -> Output {
    let mut command = countersign_in(registry.parent().unwrap());
    let arguments = arguments.split(' ');
    command.arg("--registry").arg(registry).arg("license").args(arguments);
    command.output().unwrap()
}

/// Changes the line below the id of a license with an editor, and commits that.
fn committed(registry: &Path, person: &str, license: &License, line: &str) {
    edited(registry, license, line);
    done(registry, person, "git add licenses && git commit -qm 'A change'");
}

/// The old line goes if it has the same field.
fn edited(registry: &Path, license: &License, line: &str) {
    let path = registry.join("licenses/licenses.toml");
    let text = fs::read_to_string(&path).unwrap();
    let id = format!("id = \"{}\"\n", license.id);
    let (before, after) = text.split_once(&id).unwrap();
    let field = line.split(' ').next().unwrap();
    let (old, rest) = after.split_once('\n').unwrap();
    let after = if old.starts_with(field) { rest } else { after };
    fs::write(path, format!("{before}{id}{line}\n{after}")).unwrap();
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
            commands_of("The registry in git").contains(&line.strip_prefix("/usr/bin/").unwrap()),
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
    let page = commands_of("The registry in git");
    let [pull, issue, commit, push, rebase, push_again, abort, reset, _] = page[..] else {
        panic!("{page:?}")
    };
    assert_eq!((pull, push, push_again), ("git pull --ff-only", "git push", "git push"));
    let program = env!("CARGO_BIN_EXE_countersign");
    let declare = |person: &str| {
        let line = issue
            .replace("countersign ", &format!("'{program}' --registry . "))
            .replace("acme-forms", "forms");
        line.replace("order-1234", person)
    };

    // At once: each declares a license and suspends another, from the same state.
    std::thread::scope(|scope| {
        for (person, clone, theirs) in [("alice", &alice, first), ("bob", &bob, second)] {
            let declare = declare(person);
            scope.spawn(move || {
                done(clone, person, pull);
                let key = done(clone, person, &declare);
                let key = key.lines().last().unwrap().to_owned();
                let written = fs::read_to_string(clone.join(format!("licenses/{person}.toml"))).unwrap();
                assert!(
                    written.starts_with("[[license]]\n") && !written.contains(&key),
                    "{written}"
                );
                done(clone, person, commit);
                committed(clone, person, theirs, "status = \"suspended\"");
            });
        }
    });
    done(&alice, "alice", push);
    assert!(!sh(&bob, "bob", push).status.success(), "alice was first");
    done(&bob, "bob", rebase);
    done(&bob, "bob", push);
    assert!(vendor.pull().status.success());
    eventually("both are in force", || {
        let mut suspended = [first, second].into_iter();
        suspended.all(|license| server.validate(license, "a.com").code() == "suspended")
    });
    assert_eq!(server.validate(third, "a.com").code(), "ok");
    let files = done(&vendor.registry(), "root", "ls licenses | wc -l");
    assert_eq!(files.trim(), "3", "one file each, and the old one");

    // The same license by two people is a conflict, and the page says what to do.
    done(&alice, "alice", pull);
    committed(&alice, "alice", third, "expires = 2098-01-01");
    committed(&bob, "bob", third, "expires = 2097-01-01");
    done(&alice, "alice", push);
    let conflict = sh(&bob, "bob", rebase);
    let is_conflict = !conflict.status.success() && text(&conflict).contains("CONFLICT");
    assert!(is_conflict, "{}", text(&conflict));
    for line in [abort, reset] {
        done(&bob, "bob", line);
    }
    committed(&bob, "bob", third, "expires = 2097-01-01");
    done(&bob, "bob", push);
    assert!(vendor.pull().status.success());
    eventually("bob's date", || {
        server.validate(third, "a.com").json()["expires"] == "2097-01-01"
    });
}

#[test]
fn a_change_on_the_server_is_never_overwritten_by_a_pull() {
    let vendor = Vendor::new();
    let registry = vendor.registry();
    let alice = vendor.clone_of("alice");
    let [first, second, _] = &vendor.licenses;
    edited(&registry, second, "status = \"suspended\"");
    committed(&alice, "alice", first, "status = \"revoked\"");
    done(&alice, "alice", "git push");
    let mine = fs::read(registry.join("licenses/licenses.toml")).unwrap();
    let pull = vendor.pull();
    let is_refused = !pull.status.success() && text(&pull).contains("would be overwritten");
    assert!(is_refused, "{}", text(&pull));
    assert_eq!(fs::read(registry.join("licenses/licenses.toml")).unwrap(), mine);
    done(&registry, "root", "git checkout -q .");
    assert!(vendor.pull().status.success());
    assert!(text(&license(&registry, &format!("show {}", first.id))).contains("revoked"));
}
