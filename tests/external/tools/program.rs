//! Runs other programs; `make tools` installs them.

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a program in the project's folder and gives what it prints.
pub fn run(program: &str, script: &str, input: &str) -> String {
    let mut child = Command::new(program)
        .arg(script)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tool is installed: make tools");
    // On a thread of its own: a tool may print before it has read everything.
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {script}");
    writer.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
