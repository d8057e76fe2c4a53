//! The permissions of files that commands create, whatever the umask is.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What the server's user reads.
const READ_BY_THE_SERVER: [&str; 4] = ["countersign.toml", "registry", "releases", "public"];

/// The program with a umask that takes everything from everybody else.
fn run_with_umask_077(instance: &Path, arguments: &[&str]) {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "umask 077; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_countersign"),
            "-C",
        ])
        .arg(instance);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("COUNTERSIGN_")) {
        command.env_remove(name);
    }
    let output = command.args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn everything_below(path: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(path)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    std::iter::once(path.to_owned())
        .chain(below.flat_map(|path| everything_below(&path)))
        .collect()
}

/// Makes an instance in a folder of this mode and owner, and uses every verb that writes.
fn everything_made_is_as_readable_as_the_folder(mode: u32, owner: Option<u32>) {
    let folder = TempDir::new().unwrap();
    let parent = folder.path().join("srv");
    fs::create_dir(&parent).unwrap();
    chown(&parent, owner, owner).unwrap();
    fs::set_permissions(&parent, fs::Permissions::from_mode(mode)).unwrap();
    let instance = parent.join("acme");
    run_with_umask_077(&instance, &["init", "--demo", instance.to_str().unwrap()]);
    run_with_umask_077(&instance, &["build"]);
    run_with_umask_077(&instance, &["keys", "generate", "--rotate", "--bits", "2048"]);
    fs::remove_dir_all(instance.join("public/keys")).unwrap();
    run_with_umask_077(&instance, &["keys", "publish"]);

    let folder = fs::metadata(&parent).unwrap();
    for path in READ_BY_THE_SERVER
        .iter()
        .flat_map(|name| everything_below(&instance.join(name)))
    {
        let made = fs::metadata(&path).unwrap();
        assert_eq!(
            (made.uid(), made.gid()),
            (folder.uid(), folder.gid()),
            "{}",
            path.display()
        );
        let reads = |mode: u32| mode & 0o044;
        assert_eq!(reads(made.mode()), reads(mode), "{}: {:o}", path.display(), made.mode());
    }
    assert!(instance.join("releases/acme-forms/1.2.0.json").exists());
    for path in everything_below(&instance.join("store")) {
        let made = fs::metadata(&path).unwrap();
        assert_eq!(
            (made.uid(), made.mode() & 0o077),
            (folder.uid(), 0),
            "{}",
            path.display()
        );
    }
    let key = fs::metadata(instance.join("keys/signing.pem")).unwrap();
    assert_eq!(
        (key.uid(), key.mode() & 0o777),
        (folder.uid(), 0o600),
        "a private key stays its owner's"
    );
}

#[test]
fn a_umask_of_077_takes_nothing_from_who_may_read_the_folder() {
    everything_made_is_as_readable_as_the_folder(0o755, None);
    everything_made_is_as_readable_as_the_folder(0o750, None);
}

#[test]
fn what_root_makes_belongs_to_whom_the_folder_belongs() {
    let probe = TempDir::new().unwrap();
    // Only root can give a file away, and only root can leave one that the server's user cannot read.
    let owner = chown(probe.path(), Some(12_345), Some(12_345))
        .is_ok()
        .then_some(12_345);
    everything_made_is_as_readable_as_the_folder(0o750, owner);
}
