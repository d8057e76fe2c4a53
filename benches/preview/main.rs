//! `make bench`: the time until the preview's first page, and until an edit is on the screen.
//!
//! The repository has 300 tags, each with its own readme of 40 kB. Medians are reported; nothing fails. The browser
//! is that of the tests. docs/benchmarks.md says how to read the figures.
#![allow(unreachable_pub, reason = "nothing uses the modules of a benchmark from outside")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what a benchmark does"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot go on has no figures"
)]

#[path = "../../tests/external/tools/browser.rs"]
#[allow(dead_code, reason = "the tests ask it for more")]
mod browser;
#[path = "../build/repository.rs"]
mod repository;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use browser::Browser;

/// Tags of the repository.
const TAGS: usize = 300;

/// Runs of each measurement; odd, so that there is a median.
const ROUNDS: usize = 11;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&folder)?;
    let clone = clone(&folder)?;
    let (first, spread) = first_page(&clone)?;
    let (edit, edit_spread) = edit_to_screen(&clone)?;
    println!(
        "\npreview of a repository with {TAGS} tags, a readme of 40 kB each (medians of {ROUNDS}, and the longest)\n"
    );
    for (name, median, longest) in [
        ("start to the first page", first, spread),
        ("edit to the screen", edit, edit_spread),
    ] {
        println!("{name:26} {median:7.3} s {longest:9.3} s   target: under 1 s");
    }
    Ok(())
}

/// Clones the repository into a new working tree, which replaces an earlier one.
fn clone(folder: &Path) -> io::Result<PathBuf> {
    let bare = folder.join(format!("acme-forms-{TAGS}.git"));
    repository::generate(&bare, TAGS)?;
    let clone = folder.join("preview/acme-forms");
    let _ = fs::remove_dir_all(&clone);
    let status = Command::new("git")
        .args(["clone", "--quiet", "--branch", "main"])
        .arg(&bare)
        .arg(&clone)
        .status()?;
    if status.success() {
        Ok(clone)
    } else {
        Err(io::Error::other("git clone failed"))
    }
}

/// Seconds from the program's start to the last byte of the first page, program by program.
fn first_page(clone: &Path) -> io::Result<(f64, f64)> {
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let preview = Preview::start(clone)?;
        let mut stream = TcpStream::connect(&preview.address)?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut page = Vec::new();
        stream.read_to_end(&mut page)?;
        seconds.push(begun.elapsed().as_secs_f64());
        assert!(page.starts_with(b"HTTP/1.1 200"), "the first page came");
    }
    Ok(median(seconds))
}

/// Seconds from writing the readme to a drawn frame that has its new text, with the driver's own delay.
fn edit_to_screen(clone: &Path) -> io::Result<(f64, f64)> {
    let preview = Preview::start(clone)?;
    let mut browser = Browser::at(&format!("http://{}/", preview.address));
    let readme = clone.join("readme.txt");
    let text = fs::read_to_string(&readme)?;
    let mut seconds = Vec::new();
    for round in 0..ROUNDS {
        let marked = format!("edit-number-{round}-");
        let begun = Instant::now();
        fs::write(
            &readme,
            text.replacen("== Description ==", &format!("== Description ==\n\n{marked}\n"), 1),
        )?;
        browser.does("drawn", &["#panel-description", &marked]);
        seconds.push(begun.elapsed().as_secs_f64());
    }
    fs::write(&readme, text)?;
    Ok(median(seconds))
}

/// The median, and the longest.
fn median(mut seconds: Vec<f64>) -> (f64, f64) {
    seconds.sort_by(f64::total_cmp);
    (seconds[seconds.len() / 2], seconds[seconds.len() - 1])
}

struct Preview {
    child: Child,
    address: String,
}

impl Preview {
    fn start(clone: &Path) -> io::Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(["preview", "--port", "0"]).arg(clone);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line
            .trim()
            .trim_start_matches("preview on http://")
            .trim_end_matches('/')
            .to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Preview {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
