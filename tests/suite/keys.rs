//! Accidents with the signing key: two rotations at once, a missing key. `tests/external/keys.rs` kills rotations.

use std::fs;
use std::thread;

use crate::support::rotation::{copy, keys, prepared, private_keys, run};
use crate::support::{Instance, License, Server};

#[test]
fn of_rotations_at_once_each_is_done_or_refused_and_no_key_is_lost() {
    let (instance, ..) = prepared();
    for number in 1..4 {
        let out = instance.file(&format!("keys/next{number}.pem"));
        assert_eq!(
            run(
                &instance,
                &["keys", "generate", "--bits", "2048", "--out", out.to_str().unwrap()]
            )
            .0,
            Some(0)
        );
    }
    let before = private_keys(&instance.file("keys"));
    let ended: Vec<_> = thread::scope(|scope| {
        let rotate = |name: &str| run(&instance, &["keys", "rotate", instance.file(name).to_str().unwrap()]);
        let names = ["keys/next.pem", "keys/next1.pem", "keys/next2.pem", "keys/next3.pem"];
        let started: Vec<_> = names.map(|name| scope.spawn(move || rotate(name))).into();
        started.into_iter().map(|rotation| rotation.join().unwrap()).collect()
    });
    let done = ended.iter().filter(|(exit, _)| *exit == Some(0)).count();
    for (exit, output) in &ended {
        let busy = output.contains("another command is changing the keys") && output.contains("\nhint: ");
        assert!(*exit == Some(0) || (*exit == Some(4) && busy), "{exit:?}: {output}");
    }
    assert!(done >= 1, "{ended:?}");
    assert_eq!(private_keys(&instance.file("keys")), before);
    assert_eq!(keys(&instance).len(), done + 1);
}

#[test]
fn a_missing_key_of_an_instance_that_had_one_is_restored_and_not_made_anew() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    assert_eq!(run(&instance, &["keys", "publish"]).0, Some(0));
    let id = keys(&instance)[0].0.clone();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    server.stop();
    fs::remove_file(instance.file("keys/signing.pem")).unwrap();
    let restore = format!(
        "restore {} from the backup (key {id})",
        instance.file("keys/signing.pem").display()
    );
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"][..],
        &["doctor"],
        &["keys", "list"],
        &["keys", "generate"],
    ] {
        let (exit, output) = run(&instance, arguments);
        assert!(
            exit != Some(0) && output.contains(&format!("hint: {restore}")),
            "{arguments:?}: {output}"
        );
        assert!(!instance.file("keys/signing.pem").exists(), "{arguments:?}");
    }
    // The store alone shows it, too: nobody is bound without a key.
    let other = Instance::empty();
    copy(&instance.file("store"), &other.file("store"));
    let (exit, output) = run(&other, &["init"]);
    let hint =
        "keys/signing.pem from the backup (plugins pin it); if no backup has it: countersign init --old-key-is-lost";
    assert!(exit == Some(3) && output.contains(hint), "{output}");
    assert!(
        !other.file("keys").exists() && !other.file("registry").exists(),
        "nothing was made"
    );
    assert_eq!(run(&other, &["init", "--old-key-is-lost"]).0, Some(0));
}
