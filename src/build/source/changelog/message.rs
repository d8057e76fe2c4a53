//! Messages of annotated tags, without the version and words about tagging.

use crate::build::source::changelog::changelog_text::ChangelogText;
use crate::build::source::changelog::entries::ChangelogEntries;
use crate::build::source::changelog::heading;
use crate::build::source::changelog::title::{Kind, PRERELEASE_WORDS, Tokens, is_announcing, is_date_word, is_one_of};
use crate::build::source::changelog::version_entry::{entry_text, of_version};
use crate::model::version::Version;

/// What an annotated tag's message says besides the version, as plain text without signatures.
pub fn from_tag_message(message: &str, version: &Version) -> Option<ChangelogText> {
    let message = ["-----BEGIN PGP", "-----BEGIN SSH"]
        .iter()
        .filter_map(|armor| message.find(armor))
        .min()
        .map_or(message, |end| &message[..end])
        .trim();
    if is_about_tagging(message) {
        return None;
    }
    let entry = of_version(message, version).or_else(|| {
        let body = match message.split_once('\n') {
            Some((first, rest)) if repeats(first, version) || is_about_tagging(first) || is_bare_name(first) => rest,
            None if repeats(message, version) => "",
            _ => message,
        };
        let is_of_others = ChangelogEntries::new(&body.into(), false).next().is_some();
        if is_of_others { None } else { entry_text(body) }
    });
    entry.filter(|entry| !is_about_tagging(&entry.text) && !names_a_release(&entry.text))
}

/// Whether the line only has the version and a few words: `Release 1.2.3`, `Acme Forms v1.2.3`.
fn repeats(line: &str, version: &Version) -> bool {
    let line = line.trim().trim_end_matches(['.', '!']);
    let is_heading = || {
        heading::read(line, "", false).is_some_and(|heading| {
            heading.text == heading.title.len() && heading.versions.iter().any(|named| named == version.as_str())
        })
    };
    line.split_whitespace().count() <= 5 && (line.ends_with(version.as_str()) || is_heading())
}

/// Whether a line only names a release, and is no heading: the heading of another version has that version's changes below.
fn is_bare_name(line: &str) -> bool {
    names_a_release(line) && !matches!(heading::unmark(line, "").0, heading::Mark::Heading(_))
}

/// Whether a line has only versions, dates, and words that name a release: `3.0.0 Release Candidate One`, `Second beta of
/// version 3`.
fn names_a_release(line: &str) -> bool {
    const COUNTS: [&str; 20] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "first", "second", "third",
        "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    ];
    const WORDS: [&str; 14] = [
        "candidate",
        "candidates",
        "the",
        "a",
        "for",
        "is",
        "this",
        "tag",
        "general",
        "availability",
        "ga",
        "snapshot",
        "nightly",
        "milestone",
    ];
    if line.len() > 100 || line.trim().contains('\n') {
        return false;
    }
    let mut has_version = false;
    let mut is_prerelease = false;
    let mut is_counted = false;
    for token in Tokens::of(line) {
        match token.kind {
            Kind::Version(version) => {
                has_version = true;
                is_prerelease |= version.contains(|c: char| c.is_ascii_alphabetic());
            }
            Kind::Number => has_version = true,
            Kind::Word if is_prerelease_word(token.text) => {
                is_prerelease = true;
            }
            Kind::Word if is_one_of(token.text, &COUNTS) => is_counted = true,
            Kind::Word if is_announcing(token.text) || is_date_word(token.text) || is_one_of(token.text, &WORDS) => {}
            Kind::Word => return false,
            Kind::Date | Kind::Sign(_) => {}
        }
    }
    // "First release" says something, "First beta release" does not.
    is_prerelease || has_version && !is_counted
}

/// A single letter may be any word.
fn is_prerelease_word(word: &str) -> bool {
    word.len() > 1 && (is_one_of(word, &PRERELEASE_WORDS) || is_one_of(word, &["candidate"]))
}

/// Whether the line is about tagging, not about the release: `Tagged by the release script`, `no message`.
fn is_about_tagging(text: &str) -> bool {
    const TOOLS: [&str; 6] = ["script", "bot", "automatic", "automatically", "automated", "git"];
    const MAKING: [&str; 8] = ["create", "created", "creating", "add", "added", "adding", "new", "make"];
    const BEHIND_TAG: [&str; 8] = ["for", "version", "release", "created", "of", "v", "stable", "made"];
    let text = text.trim().to_ascii_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    if text.lines().count() > 1 || words.len() > 12 {
        return false;
    }
    let is_number = |word: &&str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    let is_tag = |word: &&str| matches!(*word, "tag" | "tags" | "tagged" | "tagging" | "retag" | "retagged");
    match words[..] {
        ["no" | "empty", "message"] | ["no", "tag", "message"] | ["tag" | "tagged" | "none"] => true,
        ["tagged" | "tagging" | "retag" | "retagged" | "retagging", ..] | ["re", "tag" | "tagged" | "tagging", ..] => {
            true
        }
        ["tag", second, ..] if is_number(&second) || BEHIND_TAG.contains(&second) => true,
        [first, "tag", ..] | [first, "a" | "the" | "new" | "git", "tag", ..] if MAKING.contains(&first) => true,
        _ => words.iter().any(is_tag) && words.iter().any(|word| TOOLS.contains(word)),
    }
}
