//! Generates a plugin's repository with a given number of releases, the same on every machine.
//!
//! Every release has an annotated tag, a readme of 40 kB that begins with its own changelog entry, and a main file.
//! `git fast-import` packs the repository, which is kept between runs.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The main file; the slug of the plugin with `.php`.
pub const MAIN_FILE: &str = "acme-forms.php";

/// How long a readme is, in bytes.
const README: usize = 40_000;

/// Makes the repository of a plugin with many releases unless it is there; bare, with packed references.
pub fn generate(path: &Path, releases: usize) -> io::Result<()> {
    generate_with(path, |stream| write_history(stream, releases))
}

/// Makes a repository unless it is there, from the stream that `write` gives `git fast-import`.
pub fn generate_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::process::ChildStdin>) -> io::Result<()>,
) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    eprintln!("generating {}", path.display());
    let unfinished = path.with_extension("unfinished");
    let _ = std::fs::remove_dir_all(&unfinished);
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "core.fsync=none", "--git-dir"])
            .arg(&unfinished)
            .args(arguments);
        git
    };
    succeed(git(&["init", "--quiet", "--bare"]))?;
    let mut import = git(&["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
    if let Some(stdin) = import.stdin.take() {
        let mut stream = BufWriter::new(stdin);
        write(&mut stream)?;
        stream.flush()?;
    }
    if !import.wait()?.success() {
        return Err(io::Error::other("git fast-import failed"));
    }
    succeed(git(&["pack-refs", "--all"]))?;
    std::fs::rename(unfinished, path)
}

fn succeed(mut command: Command) -> io::Result<()> {
    if command.status()?.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{command:?} failed")))
    }
}

/// The stream of git-fast-import(1). Files of one name follow one another, so that each is a delta to the one before.
fn write_history(stream: &mut impl Write, releases: usize) -> io::Result<()> {
    for release in 0..releases {
        write_blob(stream, 2 * release + 1, &readme(release))?;
    }
    for release in 0..releases {
        write_blob(stream, 2 * release + 2, &main_file(release))?;
    }
    for release in 0..releases {
        let version = version(release);
        let who = format!("Acme <acme@example.com> {} +0000", 1_600_000_000 + 3600 * release);
        writeln!(stream, "commit refs/heads/main\nmark :{}", 2 * releases + release + 1)?;
        writeln!(stream, "committer {who}\n{}", data(&format!("Release {version}")))?;
        writeln!(
            stream,
            "M 644 :{} readme.txt\nM 644 :{} {MAIN_FILE}",
            2 * release + 1,
            2 * release + 2
        )?;
        writeln!(stream, "tag v{version}\nfrom :{}", 2 * releases + release + 1)?;
        writeln!(stream, "tagger {who}\n{}", data(&format!("Version {version}")))?;
    }
    Ok(())
}

fn write_blob(stream: &mut impl Write, mark: usize, text: &str) -> io::Result<()> {
    writeln!(stream, "blob\nmark :{mark}\n{}", data(text))
}

pub fn data(text: &str) -> String {
    format!("data {}\n{text}", text.len())
}

/// Counts up by tens: 1.0.0, 1.0.1, … 1.0.9, 1.1.0.
fn version(release: usize) -> String {
    format!("{}.{}.{}", 1 + release / 1000, release / 10 % 100, release % 10)
}

fn readme(release: usize) -> String {
    let version = version(release);
    let mut text = format!(
        "=== Acme Forms ===\nContributors: acme\nTags: forms, contact, survey\nRequires at least: 5.9\n\
         Tested up to: 6.5\nRequires PHP: 7.4\nStable tag: {version}\nLicense: GPLv2 or later\n\n\
         Forms for every purpose, without a line of code.\n\n== Description ==\n\n{}\n\n== Installation ==\n\n\
         1. Upload the folder to `/wp-content/plugins/`.\n2. Activate the plugin.\n3. Make a form.\n\n\
         == Frequently Asked Questions ==\n\n{}\n\n== Upgrade Notice ==\n\n= {version} =\n{}\n\n== Changelog ==\n",
        (0..20).map(|n| sentence(n, 40)).collect::<Vec<_>>().join("\n\n"),
        (20..40)
            .map(|n| format!("= {}? =\n\n{}", sentence(n, 6), sentence(n, 30)))
            .collect::<Vec<_>>()
            .join("\n\n"),
        sentence(release, 12),
    );
    // The releases before the first one are history that was never tagged.
    for age in 0.. {
        let entry = match release.checked_sub(age) {
            Some(release) => entry(&self::version(release), release),
            None => entry(&format!("0.{}", 9_999 - (age - release)), age),
        };
        if text.len() + entry.len() > README {
            return text;
        }
        text.push_str(&entry);
    }
    text
}

fn entry(version: &str, seed: usize) -> String {
    let mut text = format!(
        "\n= {version} - 20{:02}-{:02}-{:02} =\n\n",
        15 + seed % 10,
        1 + seed % 12,
        1 + seed % 28
    );
    for item in 0..2 + seed % 5 {
        let kind = ["Fixed", "New", "Improved", "Security"][(seed + item) % 4];
        let _ = write!(
            text,
            "* **{kind}:** {}",
            sentence(seed * 7 + item, 6 + (seed + item) % 12)
        );
        let _ = match (seed + item) % 6 {
            0 => writeln!(text, " See [the guide](https://example.com/guide/{seed}).",),
            1 => writeln!(text, " The filter is `acme_forms_{item}`."),
            _ => writeln!(text),
        };
    }
    text
}

/// So many words; the same for the same seed.
pub fn sentence(seed: usize, words: usize) -> String {
    const WORDS: [&str; 32] = [
        "form",
        "field",
        "the editor",
        "a warning",
        "with",
        "PHP 8",
        "notification",
        "email",
        "in",
        "multisite",
        "of",
        "block",
        "import",
        "translations",
        "for",
        "upload",
        "validation",
        "spam",
        "on",
        "mobile",
        "entries",
        "export",
        "when",
        "empty",
        "the",
        "settings",
        "page",
        "conditional",
        "logic",
        "and",
        "submit",
        "is",
    ];
    let mut state = seed as u64;
    let mut next = || {
        // Knuth's MMIX generator; its high bits are the random ones.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        WORDS[(state >> 59) as usize]
    };
    (0..words).map(|_| next()).collect::<Vec<_>>().join(" ")
}

pub fn main_file(release: usize) -> String {
    let mut text = format!(
        "<?php\n/**\n * Plugin Name: Acme Forms\n * Description: Forms for every purpose.\n * Version: {}\n\
         * Author: Acme\n * Author URI: https://example.com/\n * Requires at least: 5.9\n * Requires PHP: 7.4\n */\n",
        version(release),
    );
    for function in 0..60 {
        let _ = writeln!(
            text,
            "\n/** {}. */\nfunction acme_forms_{function}( $form ) {{\n\treturn apply_filters( 'acme_forms_{function}', \
             $form );\n}}",
            sentence(function, 8),
        );
    }
    text
}
