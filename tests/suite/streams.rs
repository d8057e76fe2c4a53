//! Commands whose stdout or stderr cannot be written, paths that are not UTF-8, and names with control characters.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::Instance;
use crate::support::server::{countersign, countersign_in};

const ISSUE: [&str; 6] = ["license", "issue", "--module", "forms", "--expires", "never"];

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of the ledger; none where there is no store.
fn ledger(instance: &Instance) -> Vec<Value> {
    let text = fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Issues a license, and returns its id.
fn issue(instance: &Instance) -> String {
    let issued = json(instance.path(), &ISSUE);
    issued["id"].as_str().unwrap().to_owned()
}

/// What a command prints as JSON.
fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = countersign_in(folder).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", error(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"))
}

#[test]
fn a_path_that_is_not_utf8_keeps_nothing_from_being_shown() {
    let parent = Instance::empty();
    let folder: PathBuf = parent.path().join(OsStr::from_bytes(b"in\xffstance"));
    let made = countersign_in(parent.path())
        .args([OsStr::new("init"), folder.as_os_str(), OsStr::new("--json")])
        .output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", error(&made));
    assert!(
        serde_json::from_slice::<Value>(&made.stdout).unwrap()["folder"]
            .as_str()
            .unwrap()
            .ends_with("in\u{fffd}stance")
    );

    let issued = json(
        &folder,
        &[
            "license",
            "issue",
            "--any-module",
            "--module",
            "forms",
            "--expires",
            "never",
        ],
    );
    let rekeyed = json(&folder, &["license", "rekey", issued["license_key"].as_str().unwrap()]);
    assert_eq!(rekeyed["replaces"], issued["id"]);
    let shown = json(&folder, &["license", "show", rekeyed["license_key"].as_str().unwrap()]);
    assert_eq!(shown["replaces"], issued["id"]);
    json(&folder, &["license", "list"]);
    let rotated = json(&folder, &["keys", "generate", "--rotate", "--bits", "2048"]);
    assert!(
        rotated["retired"]
            .as_str()
            .unwrap()
            .contains("in\u{fffd}stance/keys/retired/"),
        "{rotated}"
    );
    for verb in ["list", "publish"] {
        json(&folder, &["keys", verb]);
    }
    json(&folder, &["keys", "rotate", "--back"]);
    let retired = json(&folder, &["keys", "list"]);
    let retired = retired
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["state"] == "retired")
        .unwrap();
    // An id may begin with a hyphen.
    let removed = countersign_in(&folder)
        .args(["keys", "remove", "--json", "--", retired["key_id"].as_str().unwrap()])
        .output();
    let removed = removed.unwrap();
    assert!(removed.status.success(), "{}", error(&removed));
    serde_json::from_slice::<Value>(&removed.stdout).unwrap();
}

#[test]
fn a_stderr_that_cannot_be_written_changes_nothing_else() {
    let lines: [&[&str]; 8] = [
        &ISSUE,
        &["license", "show", "00000000"],
        &["license", "show", "00000000", "--json"],
        &["build", "--offline"],
        &["doctor"],
        &["preview", "--print"],
        &["nosuch"],
        &["license", "list", "--nosuch", "--json"],
    ];
    let instance = Instance::issuing(&[]);
    for arguments in lines {
        let run = |stderr: Stdio| countersign(&instance).args(arguments).stderr(stderr).output().unwrap();
        let expected = run(Stdio::piped()).status.code();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        for (kind, stderr) in [("a full disk", Stdio::from(full())), ("a closed pipe", writer.into())] {
            let output = run(stderr);
            assert_eq!(output.status.code(), expected, "{arguments:?} on {kind}");
            assert!(
                arguments != ISSUE || output.stdout.len() > 20,
                "the key is shown on {kind}"
            );
        }
    }
}

#[test]
fn a_server_whose_log_cannot_be_written_serves() {
    let instance = Instance::new();
    let mut command = countersign(&instance);
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"]);
    let mut server = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("listening on http://"), "{line:?}");
    assert!(
        Command::new("kill")
            .arg(server.id().to_string())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_key_that_nobody_would_see_is_not_made() {
    let instance = Instance::issuing(&[]);
    let license = issue(&instance);
    let before = ledger(&instance);
    for arguments in [
        &ISSUE[..],
        &["license", "rekey", &license],
        &["license", "rekey", &license, "--json"],
    ] {
        let program = countersign(&instance);
        let closed = |redirection: &str| {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")])
                .arg(program.get_program());
            shell.args(program.get_args()).args(arguments).output().unwrap()
        };
        for redirection in [">&-", ">/dev/null"] {
            let output = closed(redirection);
            let error = error(&output);
            assert!(
                output.status.code() == Some(4) && error.contains("nobody would see the key"),
                "{arguments:?}: {error}"
            );
            assert_eq!(ledger(&instance), before, "{arguments:?} {redirection}");
        }
    }
}

#[test]
fn a_change_that_cannot_be_printed_is_reported_as_written() {
    let instance = Instance::issuing(&[]);
    let id = &*issue(&instance);
    let written = "error: the change is written, but stdout cannot be written to\ncaused by: No space left on device";
    for (arguments, trace) in [
        (&["license", "suspend", id][..], "status"),
        (&["license", "sites", id, "7", "--json"], "sites"),
        (&["license", "rekey", id], "replaces"),
        (&ISSUE, "license"),
    ] {
        let before = ledger(&instance);
        let output = countersign(&instance).args(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}");
        let error = error(&output);
        let as_json: Option<Value> = error.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let says_so =
            as_json.is_some_and(|error| error["error"].as_str().unwrap().starts_with("the change is written"));
        assert!(says_so || error.contains(written), "{arguments:?}: {error}");
        let after = ledger(&instance);
        let new = &after[before.len()..];
        assert!(
            new.iter().any(|line| line.get(trace).is_some()),
            "{arguments:?}: {new:?}"
        );
    }
    let rotated = countersign(&instance)
        .args(["keys", "generate", "--rotate"])
        .stdout(full())
        .output()
        .unwrap();
    assert!(self::error(&rotated).contains("the change is written"), "{rotated:?}");
}

#[test]
fn a_key_that_was_lost_on_the_way_is_printed_by_the_command_in_the_hint() {
    let instance = Instance::issuing(&[]);
    let output = countersign(&instance).args(ISSUE).stdout(full()).output().unwrap();
    let error = error(&output);
    let lines = ledger(&instance).len();
    let (_, hint) = error.split_once("the same command with --request ").unwrap();
    let request = hint.split(' ').next().unwrap();
    let repeat = [&ISSUE[..], &["--request", request]].concat();
    let again = json(instance.path(), &repeat);
    assert_eq!(again["repeated"], true);
    assert!(error.contains(&again["id"].as_str().unwrap()[..12]), "{error}");
    assert_eq!(json(instance.path(), &repeat)["license_key"], again["license_key"]);
    assert_eq!(ledger(&instance).len(), lines, "nothing was issued again");
    let other = [&repeat[..], &["--sites", "2"]].concat();
    let refused = countersign(&instance).args(other).output().unwrap();
    let error = self::error(&refused);
    assert!(
        refused.status.code() == Some(3) && error.contains("another license was issued by a request of this name"),
        "{error}"
    );
}

#[test]
fn nothing_in_an_error_steers_the_terminal() {
    let instance = Instance::new();
    let name = "no\x1b[2J\u{9b}\u{202e}such\nerror: all is well";
    let hostile = |arguments: &[&str]| {
        let output = countersign(&instance).args(arguments).output().unwrap();
        let text = error(&output);
        assert!(
            !text.contains(['\x1b', '\u{9b}', '\u{202e}']),
            "{arguments:?}: {text:?}"
        );
        assert_eq!(
            text.lines().filter(|line| line.starts_with("error: ")).count(),
            1,
            "{text:?}"
        );
    };
    hostile(&["-C", name, "license", "list"]);
    hostile(&["--registry", name, "license", "list"]);
    hostile(&["--registry", name, "license", "suspend", "00000000"]);
    hostile(&["verify", name, "--key", name]);
    hostile(&["preview", name]);
    instance.write(&format!("registry/licenses/{name}.toml"), "x = 1\ny = 2\n");
    let output = countersign(&instance).args(["license", "list"]).output().unwrap();
    let text = error(&output);
    // One complaint a line, as ever.
    assert_eq!(text.lines().count(), 2, "{text:?}");
    assert!(!text.contains(['\x1b', '\u{9b}', '\u{202e}']), "{text:?}");
}
