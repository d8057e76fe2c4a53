//! Messages of annotated tags, without the version and words about tagging.

use crate::build::source::changelog::entries::ChangelogEntries;
use crate::build::source::changelog::heading;
use crate::build::source::changelog::title::{Kind, PRERELEASE_WORDS, Tokens, is_announcing, is_date_word, is_one_of};
use crate::build::source::changelog::version_entry::{ChangelogText, entry_text, of_version};
use countersign_model::version::Version;

/// What an annotated tag's message says besides the version, as plain text: no signatures, trailers, or addresses of people.
pub fn from_tag_message(message: &str, version: &Version) -> Option<ChangelogText> {
    let message = ["-----BEGIN PGP", "-----BEGIN SSH"]
        .iter()
        .filter_map(|armor| message.find(armor))
        .min()
        .map_or(message, |end| &message[..end]);
    let message = without_addresses(without_trailers(message).trim());
    let message = message.trim();
    if says_nothing(message) {
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
    entry.filter(|entry| !says_nothing(&entry.text))
}

/// Whether each line is about making the release.
fn says_nothing(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.all(|line| is_about_tagging(line) || is_merge(line) || names_a_release(line))
}

/// Cuts trailers off. By git's rule (git-interpret-trailers(1)), the last paragraph has them if a line of it is git's and at
/// least a quarter of its lines are trailers. What git's lines say of people goes from the other paragraphs, too.
///
/// Git also reads a paragraph of nothing but `Name: value` lines as trailers. Here it stays: `Fixed: the editor` is a changelog.
fn without_trailers(message: &str) -> String {
    let lines: Vec<&str> = message.trim_end().lines().collect();
    let last = lines
        .iter()
        .rposition(|line| line.trim().is_empty())
        .map_or(0, |blank| blank + 1);
    let has_trailers = are_trailers(&lines[last..]);
    let mut is_cut = false;
    let mut kept = String::with_capacity(message.len());
    for (number, line) in lines.iter().enumerate() {
        let is_trailer = has_trailers && number >= last && trailer_name(line).is_some() || is_of_git(line);
        // A line that begins with a blank continues the one above it.
        is_cut = is_trailer || is_cut && line.starts_with([' ', '\t']);
        if !is_cut {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn are_trailers(paragraph: &[&str]) -> bool {
    let own = paragraph.iter().filter(|line| !line.starts_with([' ', '\t']));
    let (trailers, others): (Vec<&&str>, Vec<_>) =
        own.partition(|line| trailer_name(line).is_some() || is_of_git(line));
    trailers.iter().any(|line| is_of_git(line)) && trailers.len() * 3 >= others.len()
}

/// The name in `Name: value`: letters, digits and hyphens.
fn trailer_name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(':')?;
    let name = name.trim_end_matches([' ', '\t']);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then_some(name)
}

/// Whether git or a tool of reviewers wrote the line: `Signed-off-by: Ada <ada@example.com>`.
fn is_of_git(line: &str) -> bool {
    let of_people = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.ends_with("-by") || matches!(&*name, "cc" | "change-id" | "git-svn-id")
    };
    line.starts_with("(cherry picked from commit ") || trailer_name(line).is_some_and(of_people)
}

/// Removes `<ada@example.com>`. The sites' administrators see the text.
fn without_addresses(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let inside = &rest[start + 1..];
        let end = inside
            .find(['<', '>', '\n', ' '])
            .filter(|end| inside[*end..].starts_with('>'));
        match end.filter(|end| inside[..*end].contains('@') && !inside[..*end].contains('/')) {
            Some(end) => {
                kept.push_str(rest[..start].trim_end_matches(' '));
                rest = &inside[end + 1..];
            }
            None => {
                kept.push_str(&rest[..=start]);
                rest = inside;
            }
        }
    }
    kept.push_str(rest);
    kept
}

/// Whether git wrote the line about a merge: `Merge branch 'main' into release`.
fn is_merge(line: &str) -> bool {
    let mut words = line.trim_start_matches(['-', '*', ' ']).split_whitespace();
    let is_merged = |word: &str| {
        matches!(
            word,
            "branch" | "branches" | "tag" | "tags" | "commit" | "pull" | "remote-tracking" | "remote"
        )
    };
    words.next().is_some_and(|word| word.eq_ignore_ascii_case("merge")) && words.next().is_some_and(is_merged)
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

/// Whether a line has only versions, dates, and words that name or make a release: `3.0.0 Release Candidate One`, `Second
/// beta of version 3`, `Prepare release`.
fn names_a_release(line: &str) -> bool {
    const COUNTS: [&str; 20] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "first", "second", "third",
        "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    ];
    const WORDS: [&str; 20] = [
        "candidate",
        "candidates",
        "the",
        "a",
        "for",
        "is",
        "this",
        "to",
        "new",
        "number",
        "tag",
        "general",
        "availability",
        "ga",
        "snapshot",
        "nightly",
        "milestone",
        "ci",
        "skip",
        "plugin",
    ];
    const MAKING: [&str; 16] = [
        "prepare",
        "prepares",
        "prepared",
        "preparing",
        "preparation",
        "bump",
        "bumps",
        "bumped",
        "bumping",
        "update",
        "updates",
        "updated",
        "updating",
        "chore",
        "cut",
        "publish",
    ];
    if line.len() > 100 || line.trim().contains('\n') {
        return false;
    }
    let mut is_named = false;
    let mut is_prerelease = false;
    let mut is_counted = false;
    for token in Tokens::of(line) {
        match token.kind {
            Kind::Version(version) => {
                is_named = true;
                is_prerelease |= version.contains(|c: char| c.is_ascii_alphabetic());
            }
            Kind::Number => is_named = true,
            Kind::Word if is_prerelease_word(token.text.trim_end_matches(|c: char| c.is_ascii_digit())) => {
                is_prerelease = true;
            }
            Kind::Word if is_one_of(token.text, &COUNTS) => is_counted = true,
            Kind::Word if is_announcing(token.text) || is_one_of(token.text, &MAKING) => is_named = true,
            Kind::Word if is_date_word(token.text) || is_one_of(token.text, &WORDS) => {}
            Kind::Word => return false,
            Kind::Date | Kind::Sign(_) => {}
        }
    }
    // "First release" says something, "First beta release" does not.
    is_prerelease || is_named && !is_counted
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
