//! A rotation of the signing key, killed by strace at each system call in turn.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::Instance;
use crate::support::rotation::{copy, keys, next, prepared, private_keys, run};
use crate::support::server::countersign;

/// System calls that change something on the disk, and those that make it durable.
const CHANGES: &str = "openat,write,fsync,fdatasync,rename,renameat2,unlink,unlinkat,mkdir,chmod,fchmod,fchmodat";

#[test]
fn a_rotation_that_is_killed_at_any_moment_leaves_a_key_that_works_and_loses_none() {
    let (template, old, new) = prepared();
    let both = private_keys(&template.file("keys"));
    assert_eq!(both.len(), 2);
    let mut signing = BTreeSet::new();
    let mut kills = 0;
    // Each kind of call is counted for itself, so each is gone through until a rotation comes to its end.
    for call in CHANGES.split(',') {
        for number in 1.. {
            let instance = Instance::empty();
            for part in ["keys", "public", "registry"] {
                copy(&template.file(part), &instance.file(part));
            }
            let plain = countersign(&instance);
            let rotation = Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
                .args(["-e", &format!("inject={call}:signal=KILL:when={number}")])
                .arg(plain.get_program())
                .args(plain.get_args())
                .args(["keys", "rotate"])
                .arg(next(&instance))
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .output()
                .unwrap();
            let left = keys(&instance);
            assert!(left[0].0 == old || left[0].0 == new, "{call} {number}: {left:?}");
            assert_eq!(
                private_keys(&instance.file("keys")),
                both,
                "{call} {number}: a private key is gone"
            );
            signing.insert(left[0].0.clone());
            if rotation.status.success() {
                assert_eq!(left, [(new.clone(), false), (old.clone(), true)]);
                break;
            }
            kills += 1;
            // A person who runs it again gets what was asked for, and can go back.
            if left[0].0 == old {
                let (exit, told) = run(&instance, &["keys", "rotate", next(&instance).to_str().unwrap()]);
                assert_eq!(exit, Some(0), "{call} {number}: {told}");
            }
            let (exit, told) = run(&instance, &["keys", "rotate", "--back"]);
            assert_eq!(
                (exit, keys(&instance)[0].0.as_str()),
                (Some(0), old.as_str()),
                "{call} {number}: {told}"
            );
        }
    }
    assert_eq!(
        signing,
        BTreeSet::from([old, new]),
        "some were killed before the key was in force, some behind it"
    );
    assert!(kills > 30, "{kills}");
}
