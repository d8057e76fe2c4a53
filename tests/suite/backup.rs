//! The recipes of docs/backup.md, and `bindings verify` on copies.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::support::server::{countersign, countersign_in};
use crate::support::{Instance, License, Server, eventually};

/// The commands of a page's section, as its `sh` blocks have them.
fn commands_of(section: &str) -> Vec<String> {
    let page = include_str!("../../docs/backup.md");
    let section = page
        .split(&format!("\n## {section}\n"))
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let blocks = section
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// A license for any number of sites, bound to `a.com`, `b.com` and `c.com`; no server runs.
fn bound() -> (Instance, License) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    instance.write("countersign.toml", "[serve]\ngrace_period_hours = 100\n");
    let server = Server::start(&instance);
    for site in ["a.com", "b.com", "c.com"] {
        assert_eq!(server.validate(&license, site).code(), "ok");
    }
    assert!(server.stop().success());
    (instance, license)
}

/// Exit code and JSON of `bindings verify` of a store, as `user` where one is given and this one may become another.
fn verify(store: &Path, user: Option<u32>) -> (Option<i32>, Value) {
    let plain = countersign_in(Path::new("/"));
    let mut command = match user {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args([
                format!("--reuid={user}"),
                format!("--regid={user}"),
                "--clear-groups".into(),
            ]);
            command.arg(plain.get_program());
            command
        }
        None => Command::new(plain.get_program()),
    };
    let output = command
        .arg("--store")
        .arg(store)
        .args(["bindings", "verify", "--json"])
        .output()
        .unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (
        output.status.code(),
        serde_json::from_str(&printed).unwrap_or(Value::String(printed)),
    )
}

#[test]
fn the_drill_of_the_page_brings_everything_back() {
    let (instance, license) = bound();
    assert!(
        countersign(&instance)
            .args(["keys", "publish"])
            .status()
            .unwrap()
            .success()
    );
    let server = Server::start(&instance);
    let elsewhere = tempfile::tempdir().unwrap();
    let bin = elsewhere.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_countersign"), bin.join("countersign")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let backup = elsewhere.path().join("backup");
    let restored = elsewhere.path().join("restored");

    // Sites bind all the while; what was acknowledged before a copy was begun has to be in it.
    let acknowledged = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    let before_the_copy = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let host = format!("site{number}.com");
                if server.validate(&license, &host).code() == "ok" {
                    acknowledged.lock().unwrap().push(host);
                }
            }
        });
        eventually("sites bind", || acknowledged.lock().unwrap().len() > 50);
        let before = acknowledged.lock().unwrap().clone();
        let mut umask = String::new();
        for command in commands_of("The drill") {
            // Each line by itself, so that the first that fails is named; a umask would be forgotten.
            umask = if command.starts_with("umask") {
                format!("{command}\n")
            } else {
                umask
            };
            let ended = Command::new("sh")
                .args(["-ec", &format!("{umask}{command}")])
                .current_dir(instance.path())
                .envs([
                    ("BACKUP", backup.as_os_str()),
                    ("RESTORED", restored.as_os_str()),
                    ("PATH", path.as_ref()),
                ])
                .env_remove("COUNTERSIGN_INSTANCE")
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
            assert_eq!(ended.status.code(), Some(0), "{command}: {printed}");
        }
        done.store(true, Ordering::Relaxed);
        before
    });
    let key_id = server.validate(&license, "a.com").json()["key_id"].clone();
    server.stop();

    let mode = |path: &str| fs::metadata(restored.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("keys/signing.pem"), mode("store/ledger.jsonl")], [0o600; 2]);
    let exported = countersign_in(&restored).args(["bindings", "export"]).output().unwrap();
    let exported = String::from_utf8(exported.stdout).unwrap();
    for host in before_the_copy
        .iter()
        .map(String::as_str)
        .chain(["a.com", "b.com", "c.com"])
    {
        assert!(exported.contains(&format!("\"{host}\"")), "{host} is not in the copy");
    }
    let server = Server::start_in(&restored, &[]);
    let answer = server.validate(&license, "site0.com").json();
    assert_eq!(
        (&answer["key_id"], &answer["grace_period_hours"]),
        (&key_id, &100.into())
    );
    assert_eq!(
        server.updates(&license, "site0.com", "&current_version=1.0.0").status,
        200
    );
}

#[test]
fn a_perfect_copy_is_proved_wherever_it_is_whoever_owns_it_and_whatever_is_beside_it() {
    let (instance, _) = bound();
    let original = verify(&instance.file("store"), None);
    assert_eq!((original.0, &original.1["index"]), (Some(0), &"agrees".into()));
    let folder = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .unwrap();
    let am_root = chown(folder.path(), Some(0), None).is_ok();
    let digests = |found: &Value| ["lines", "last_digest", "bindings"].map(|name| found[name].clone());
    for index in [false, true] {
        let copy = folder.path().join(format!("copy-{index}"));
        fs::create_dir(&copy).unwrap();
        fs::copy(instance.file("store/ledger.jsonl"), copy.join("ledger.jsonl")).unwrap();
        if index {
            let index = instance.file("store/index");
            assert!(
                Command::new("cp")
                    .arg("-a")
                    .arg(index)
                    .arg(&copy)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let (exit, found) = verify(&copy, None);
        assert_eq!(
            (exit, digests(&found)),
            (Some(0), digests(&original.1)),
            "index {index}: {found}"
        );
        assert_eq!(
            found["index"].as_str().unwrap().split(';').next(),
            Some(if index { "agrees" } else { "none" })
        );

        // Read-only, as a snapshot or a mounted backup is, for its owner and for another user.
        let readable = "chmod -R a+rX,a-w \"$1\"";
        assert!(
            Command::new("sh")
                .args(["-c", readable, "sh"])
                .arg(&copy)
                .status()
                .unwrap()
                .success()
        );
        let before = listing(&copy);
        for user in [None, am_root.then_some(65_534)] {
            let (exit, found) = verify(&copy, user);
            assert_eq!(
                (exit, digests(&found)),
                (Some(0), digests(&original.1)),
                "index {index}, {user:?}: {found}"
            );
        }
        // Root may write anywhere, and has to leave alone what is somebody else's.
        if am_root {
            assert!(
                Command::new("chown")
                    .args(["-R", "12345"])
                    .arg(&copy)
                    .status()
                    .unwrap()
                    .success()
            );
            let (exit, found) = verify(&copy, None);
            assert_eq!((exit, digests(&found)), (Some(0), digests(&original.1)), "{found}");
            let expected = if index { "not compared" } else { "none" };
            assert!(found["index"].as_str().unwrap().starts_with(expected), "{found}");
        }
        assert_eq!(listing(&copy), before, "a look changes nothing");
        assert!(
            Command::new("chmod")
                .args(["-R", "u+w"])
                .arg(&copy)
                .status()
                .unwrap()
                .success()
        );
    }
}

/// Every file below a folder with its size and the time of its last change.
fn listing(folder: &Path) -> String {
    let found = Command::new("find")
        .arg(folder)
        .args(["-printf", "%p %s %T@\n"])
        .output()
        .unwrap();
    let mut lines: Vec<_> = String::from_utf8(found.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn a_copy_that_is_cut_in_its_last_line_is_reported_as_such_and_one_that_is_changed_is_refused() {
    let (instance, _) = bound();
    let whole = fs::read(instance.file("store/ledger.jsonl")).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let ledger = copy.path().join("ledger.jsonl");
    let last_line = whole[..whole.len() - 1]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .unwrap()
        + 1;
    for length in [last_line + 1, last_line + 40, whole.len() - 1] {
        fs::write(&ledger, &whole[..length]).unwrap();
        let (exit, found) = verify(copy.path(), None);
        assert_eq!(
            (exit, &found["lines"], &found["bindings"]),
            (Some(0), &2.into(), &2.into()),
            "{length}: {found}"
        );
        assert!(
            found["torn_end"]
                .as_str()
                .unwrap()
                .starts_with("the last line is incomplete, as in a copy"),
            "{found}"
        );
    }
    let mut changed = whole;
    changed[last_line - 20] ^= 1;
    fs::write(&ledger, changed).unwrap();
    let (exit, report) = verify(copy.path(), None);
    assert!(
        exit == Some(3) && report.to_string().contains("the ledger is damaged: line 2 "),
        "{report}"
    );
}
