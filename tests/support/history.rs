//! Repositories described by a text: files written and removed, and tags, in order. git makes the repository.
//!
//! ```text
//! Whatever is before the first step is a comment.
//! >>> write acme.php
//! <?php // The text up to the next step.
//! >>> write readme.txt as crlf latin-1
//! >>> remove old.php
//! >>> tag v1.0
//! >>> tag v1.1
//! A text makes the tag an annotated one, with this message.
//! ```

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// 2026-11-20 10:17:03 UTC: when the first commit is made. Each further one is made a day later.
const FIRST_COMMIT: usize = 1_795_169_823;

/// Makes the bare repository `path`. Its objects are the same on every machine.
pub fn make_repository(history: &str, path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    // No setting of the person who runs the tests has a say.
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(path).env_clear().stdin(Stdio::piped());
        git.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        git.env("GIT_CONFIG_NOSYSTEM", "1").spawn().expect("git is installed")
    };
    assert!(git(&["init", "--quiet", "--bare", "."]).wait().unwrap().success());
    let mut importer = git(&["fast-import", "--quiet"]);
    importer.stdin.take().unwrap().write_all(&stream(history)).unwrap();
    assert!(importer.wait().unwrap().success(), "{history}");
}

/// The history as git-fast-import(1) reads it.
fn stream(history: &str) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut changes = Vec::new();
    let mut commits = 0;
    let steps = format!("\n{history}");
    for step in steps.split("\n>>> ").skip(1) {
        let (step, text) = step.split_once('\n').unwrap_or((step, ""));
        let text = text.trim_end();
        let (verb, object) = step.split_once(' ').unwrap();
        match verb {
            "write" => {
                let (path, forms) = object.split_once(" as ").unwrap_or((object, ""));
                changes.extend(format!("M 644 inline {path}\n").bytes());
                changes.extend(data(&encoded(&format!("{text}\n"), forms)));
            }
            "remove" => changes.extend(format!("D {object}\n").bytes()),
            "tag" => {
                if !changes.is_empty() {
                    commits += 1;
                    let who = who(commits);
                    stream.extend(format!("commit refs/heads/main\nmark :{commits}\ncommitter {who}\n").bytes());
                    stream.extend(data(b"Work"));
                    stream.append(&mut changes);
                }
                if text.is_empty() {
                    stream.extend(format!("reset refs/tags/{object}\nfrom :{commits}\n\n").bytes());
                } else {
                    stream.extend(format!("tag {object}\nfrom :{commits}\ntagger {}\n", who(commits)).bytes());
                    stream.extend(data(text.as_bytes()));
                }
            }
            _ => panic!("no step: {verb}"),
        }
    }
    assert!(changes.is_empty(), "the last step is a tag");
    stream
}

fn who(commit: usize) -> String {
    format!("Ada <ada@example.com> {} +0000", FIRST_COMMIT + (commit - 1) * 86_400)
}

fn data(bytes: &[u8]) -> Vec<u8> {
    [format!("data {}\n", bytes.len()).as_bytes(), bytes, b"\n"].concat()
}

fn encoded(text: &str, forms: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for form in forms.split_whitespace() {
        let text = String::from_utf8(bytes).expect("latin-1 is last");
        bytes = match form {
            "crlf" => text.replace('\n', "\r\n").into(),
            "cr" => text.replace('\n', "\r").into(),
            "bom" => format!("\u{FEFF}{text}").into(),
            "latin-1" => text.chars().map(|c| u8::try_from(c).expect("in Latin-1")).collect(),
            _ => panic!("no form: {form}"),
        };
    }
    bytes
}
