//! Recognizes version headings of changelogs, and their versions.
//!
//! Authors mark headings in many ways, so the words decide: beside the version there must be a date or words about a
//! release ([`parsed_title`](super::parsed_title)). Used by
//! [`entries`](mod@crate::build::source::changelog::entries).

use std::net::Ipv4Addr;

use crate::build::source::changelog::parsed_title::{Lead, ParsedTitle, Rest};
use crate::build::source::changelog::title::{PRERELEASE_WORDS, is_one_of, may_lead, run};

/// How a heading is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Markdown's `#`, an underline, WordPress' `=` or an HTML heading, with its level.
    Heading(usize),
    /// `**1.2.3**`: the whole line is emphasized.
    Emphasis,
    /// Not marked.
    Plain,
    /// An item of a list.
    Bullet,
}

/// A version heading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub mark: Mark,
    /// The versions it names, each as `1.2.3` or `1.2.3-rc1`. Empty if a version is among other words: such a heading
    /// may separate two entries, but has no entry itself.
    pub versions: Vec<String>,
    /// The line without its markup.
    pub title: String,
    /// Where the entry's own text begins in the title: `1.2.3 - Fixed a bug`. The title's length if there is none.
    pub text: usize,
    /// The indent in columns.
    pub indent: usize,
    /// The number of `#`.
    pub hashes: usize,
}

impl Heading {
    /// Whether the heading ends the entry of `open`.
    pub(crate) fn parts(&self, open: &Self) -> bool {
        // Markdown ignores a single space.
        let is_nested = self.mark == Mark::Bullet && open.mark == Mark::Bullet && self.indent > open.indent + 1;
        // `**1.2 Changelog**` below `= 1.2 =`.
        let is_part = !matches!(self.mark, Mark::Heading(_))
            && self.mark != open.mark
            && self.versions.iter().all(|version| open.versions.contains(version));
        // A heading with other words separates two entries only if it is marked like theirs.
        if self.versions.is_empty() {
            self.mark == open.mark
        } else {
            !is_nested && !is_part
        }
    }

    /// Whether `line` is a heading of the whole file: `# Links` after `## 1.2`. Other levels mean nothing, because
    /// generators put `### Fixed` below `##### 1.2.1`.
    pub(crate) fn is_below(&self, line: &str) -> bool {
        self.hashes > 1 && line.starts_with("# ")
    }
}

/// The longest line that may be a heading, in bytes.
const MAX_LENGTH: usize = 250;

/// Parses a line as a version heading; `below` is the next line. With `loose`, list items and lines that begin with a
/// version count, too.
pub(crate) fn read(line: &str, below: &str, loose: bool) -> Option<Heading> {
    if line.len() > MAX_LENGTH || !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (mark, words) = unmark(line, below);
    let is_marked = matches!(mark, Mark::Heading(_));
    let is_link_definition = words.starts_with('[') && words.contains("]:");
    if !is_marked
        && (is_link_definition
            || is_of_another_block(words)
            || !loose && begins_with_tag(words, &["li", "ul", "ol"])
            || !first_word_fits(words)
            || !loose && (line.starts_with("  ") || line.starts_with('\t')))
    {
        return None;
    }
    // Most items. They cannot be headings.
    if mark == Mark::Bullet && !loose && !stands_out(line, below) {
        return None;
    }
    let title = without_markup(words);
    if !is_marked && (is_address(&title) || is_quantity(&title)) {
        return None;
    }
    let ParsedTitle {
        mut versions,
        lead,
        rest,
    } = ParsedTitle::of(&title, is_marked)?;
    let whole = title.len();
    let text = match (mark, lead, rest) {
        (_, Lead::Platform, _) => return None,
        _ if !is_marked && title.bytes().all(|byte| byte.is_ascii_digit()) => return None,
        (Mark::Heading(_), Lead::Fits, _) | (Mark::Heading(_), Lead::Name, Rest::Nothing) => whole,
        (Mark::Heading(_), _, _) => {
            versions.clear();
            whole
        }
        (_, Lead::Name | Lead::Doubtful, _) => return None,
        (Mark::Emphasis, _, _) | (Mark::Plain, _, Rest::Nothing) => whole,
        (Mark::Plain, _, Rest::Text(at)) => at,
        (Mark::Bullet, _, Rest::Nothing) if loose || stands_out(line, below) => whole,
        (_, _, Rest::Text(at) | Rest::Words(at)) if loose => at,
        _ => return None,
    };
    Some(Heading {
        mark,
        versions,
        text,
        indent: indent(line),
        hashes: leading(line.trim_start(), b'#'),
        title,
    })
}

/// The indent of code in Markdown, in columns.
pub(crate) const CODE_INDENT: usize = 4;

/// The indent of a line in columns.
pub(crate) fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| c.is_whitespace());
    blanks.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// How a line is marked, and its text without the marks. To Markdown, a heading that is indented like code is code, or a
/// part of a list's item.
pub(crate) fn unmark<'a>(line: &'a str, below: &str) -> (Mark, &'a str) {
    match unmark_trimmed(line.trim(), below) {
        (Mark::Heading(_), _) if indent(line) >= CODE_INDENT => (Mark::Plain, line.trim()),
        unmarked => unmarked,
    }
}

fn unmark_trimmed<'a>(line: &'a str, below: &str) -> (Mark, &'a str) {
    let strip = |marks: &[char]| line.trim_matches(marks);
    match line.as_bytes() {
        [b'=', ..] => (Mark::Heading(leading(line, b'=')), strip(&['=', ' ', '\t'])),
        [b'#', ..] => (Mark::Heading(leading(line, b'#')), strip(&['#', ' ', '\t'])),
        [b'<', b'h' | b'H', level @ b'1'..=b'6', b'>' | b' ', ..] => (Mark::Heading(usize::from(level - b'0')), line),
        [b'*' | b'-' | b'+', b' ' | b'\t', item @ ..] => match item.trim_ascii() {
            [b'=', .., b'='] | [b'*', b'*', .., b'*', b'*'] => unmark_trimmed(line[1..].trim(), ""),
            _ => (Mark::Bullet, line[1..].trim_start()),
        },
        _ => match (underline_level(below), line.strip_prefix('•')) {
            (Some(level), _) => (Mark::Heading(level), line),
            (None, Some(item)) => (Mark::Bullet, item.trim_start()),
            (None, None) if is_emphasized(line) => (Mark::Emphasis, line),
            (None, None) => (Mark::Plain, line),
        },
    }
}

/// The level of a heading underlined with this line: 1 for `===`, 2 for `---`.
pub(crate) fn underline_level(line: &str) -> Option<usize> {
    let line = line.trim();
    let all = |mark: u8| line.len() >= 3 && line.bytes().all(|byte| byte == mark);
    if all(b'=') {
        Some(1)
    } else if all(b'-') {
        Some(2)
    } else {
        None
    }
}

/// Whether `*`, `_`, `<strong>` or `<b>` are around the whole line.
fn is_emphasized(line: &str) -> bool {
    matches!(
        line.as_bytes(),
        [b'*' | b'_', .., b'*' | b'_' | b':'] | [b'<', b's' | b'b', .., b'>']
    )
}

fn leading(line: &str, mark: u8) -> usize {
    line.bytes().take_while(|&byte| byte == mark).count()
}

/// Whether an item is a heading: it has items of its own, or a blank line after it.
fn stands_out(line: &str, below: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    below.trim().is_empty() || indent(below) > indent(line)
}

/// Whether the line is a row of a table, the definition of a term, or begins with a mark that is escaped. `\[1.2\]` is a link
/// that is none.
fn is_of_another_block(words: &str) -> bool {
    words.starts_with(['|', ':'])
        || words.starts_with('\\') && !words.starts_with("\\[")
        || begins_with_tag(words, &["table", "thead", "tbody", "tr", "th", "td"])
}

/// Whether the line begins with one of these HTML tags.
fn begins_with_tag(words: &str, names: &[&str]) -> bool {
    let Some(tag) = words.strip_prefix('<') else {
        return false;
    };
    let end = tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len());
    names.iter().any(|name| tag[..end].eq_ignore_ascii_case(name))
}

/// Whether the first number has a sign of a price, a share or a requirement: `$8.1`, `8.1%`, `^8.1`.
fn is_quantity(title: &str) -> bool {
    let Some(first) = title.find(|c: char| c.is_ascii_digit()) else {
        return false;
    };
    let (before, number) = title.split_at(first);
    let after = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    before
        .trim_end()
        .ends_with(['$', '€', '£', '¥', '^', '~', '@', '{', '<', '>', '≤', '≥', '±', '≈'])
        || after.trim_start().starts_with(['$', '€', '£', '¥', '%', '‰', '°', '}'])
}

/// Whether the title is the address of a machine in the reader's own network, such as 127.0.0.1. Others may be versions.
fn is_address(title: &str) -> bool {
    // `10.0.0.0/8`, `127.0.0.1:8080`
    let host = title.split(['/', ':']).next().unwrap_or_default();
    host.parse::<Ipv4Addr>().is_ok_and(|address| {
        address.is_loopback()
            || address.is_private()
            || address.is_link_local()
            || address.is_unspecified()
            || address.is_broadcast()
            || address.is_documentation()
    })
}

/// Quickly rejects most lines of a changelog.
fn first_word_fits(words: &str) -> bool {
    let text = words.trim_start_matches(|c: char| !c.is_alphanumeric());
    let word = &text[..run(text, char::is_alphabetic)];
    word.is_empty() || may_lead(word) || is_one_of(word, &PRERELEASE_WORDS) || words.starts_with('<')
}

/// Removes emphasis, code marks, brackets, link targets and HTML tags.
fn without_markup(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['*', '`', '[', ']', '<', '\\', '_']) {
        text.push_str(&rest[..at]);
        let marked = &rest[at..];
        let skipped = match marked.as_bytes() {
            [b']', b'(', ..] => marked.find(')').map_or(1, |end| end + 1),
            [b'<', ..] => marked.find('>').map_or(1, |end| end + 1),
            // An underscore inside a word is part of it.
            [b'_', ..] if text.ends_with(char::is_alphanumeric) && marked[1..].starts_with(char::is_alphanumeric) => {
                text.push('_');
                1
            }
            _ => 1,
        };
        rest = &marked[skipped..];
    }
    text.push_str(rest);
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn versions(line: &str, below: &str, loose: bool) -> Option<String> {
        read(line, below, loose).map(|heading| heading.versions.join(" "))
    }

    #[test]
    fn headings_of_every_shape_are_read() {
        for (line, below, expected) in [
            ("= 1.2.3 =", "", "1.2.3"),
            ("=1.2.3=", "", "1.2.3"),
            ("= 1.2.3", "", "1.2.3"),
            ("== v1.2.3 ==", "", "1.2.3"),
            ("= 1.2.3 - 2024-01-01 =", "", "1.2.3"),
            ("= v1.2.3 (Jan 1) =", "", "1.2.3"),
            ("= 1.2.3: January 1st, 2024 =", "", "1.2.3"),
            ("= 1.2.3 - 31.01.2024 =", "", "1.2.3"),
            ("= 01/31/2024 - 1.2.3 =", "", "1.2.3"),
            ("= 2024.01.31 - 1.2.3 =", "", "1.2.3"),
            ("= Version 1.2.3 – The Big One =", "", "1.2.3"),
            ("= Version: 1.2.3 =", "", "1.2.3"),
            ("= Version 5 =", "", "5"),
            ("= 5 =", "", "5"),
            ("= 1.2.3 & 1.2.4 =", "", "1.2.3 1.2.4"),
            ("= 1.2.3, 1.2.4 and 1.2.5 =", "", "1.2.3 1.2.4 1.2.5"),
            ("= 1.2.3 (requires WordPress 6.0) =", "", "1.2.3"),
            ("= 1.0 RC1 =", "", "1.0-RC1"),
            ("= 1.0 (beta 2) =", "", "1.0-beta2"),
            ("= 1.0-rc.1 =", "", "1.0-rc.1"),
            ("= 1.0b3 - 2024-01-01 =", "", "1.0b3"),
            ("= beta-0.11.1 =", "", "0.11.1-beta"),
            ("= 1.2.x =", "", "1.2.x"),
            ("= Acme S3 Offload 1.2.3 - 2024-01-01 =", "", "1.2.3"),
            ("= Contact Form 7 5.1 =", "", "5.1"),
            ("- = 1.2.3 =", "", "1.2.3"),
            ("### 1.2.3", "", "1.2.3"),
            ("###1.2.3###", "", "1.2.3"),
            ("## [1.2.3] - 2024-01-01", "", "1.2.3"),
            (
                "## [1.2.3](https://example.com/1.2.2...1.2.3) (2024-01-01)",
                "",
                "1.2.3",
            ),
            ("##### [Version 1.2.3](https://example.com/) (2024-01-01)", "", "1.2.3"),
            ("#### [v1.2.3]", "", "1.2.3"),
            ("## \\[1.2.3\\]", "", "1.2.3"),
            ("<h4>1.2.3</h4>", "", "1.2.3"),
            ("<strong>1.2.3</strong>", "", "1.2.3"),
            ("<b>Version 1.2.3</b>:", "", "1.2.3"),
            ("1.2.3", "---", "1.2.3"),
            ("Acme 1.2.3", "=====", "1.2.3"),
            ("**1.2.3**", "", "1.2.3"),
            ("__1.2.3__", "", "1.2.3"),
            ("*1.2.3*", "", "1.2.3"),
            ("**1.2.3** - *2024-01-01*", "", "1.2.3"),
            ("**Version 1.2.3:**", "", "1.2.3"),
            ("`1.2.3`", "", "1.2.3"),
            ("1.2.3", "", "1.2.3"),
            ("v1.2.3:", "", "1.2.3"),
            ("V.1.2.3", "", "1.2.3"),
            ("Ver 1.2.3", "", "1.2.3"),
            ("Version 1.2.3", "", "1.2.3"),
            ("1.2.3 / 2024-01-01", "", "1.2.3"),
            ("1.2.3 released on 1 January 2024", "", "1.2.3"),
            ("2024-01-01 - version 1.2.3", "", "1.2.3"),
            ("[1.2.3](https://example.com/) (2024-01-01)", "", "1.2.3"),
            ("--- 1.2.3 ---", "", "1.2.3"),
            ("1.2.3 - Fixed a bug", "", "1.2.3"),
            ("* 1.2.3", "  * Fixed a bug", "1.2.3"),
            ("* 2.8, July 25, 2017", "", "2.8"),
        ] {
            assert_eq!(versions(line, below, false).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn content_is_no_heading() {
        for line in [
            "",
            "Added",
            "### Fixed",
            "#123 fixed",
            "* #123 fixed",
            "* Fixed the editor in WordPress 6.5",
            "* 3.6.3 release.",
            "* 1.2.3 - Fixed a bug",
            "* PHP 8.1",
            "### PHP 8.1 support",
            "### Requires 6.0",
            "1.5 million downloads",
            "2.0 is the official version",
            "2024-01-01",
            "01.02.2024",
            "January 15, 2024",
            "WordPress 6.5 is supported",
            "    1.2.3",
            "    ## 1.2.3",
            "\t= 1.2.3 =",
            "Fixed in 1.2.3: the editor",
            "[1.2.3]: https://example.com/compare/1.2.2...1.2.3",
        ] {
            assert_eq!(versions(line, "* More", false), None, "{line}");
        }
        // A rule after an item underlines nothing.
        assert_eq!(versions("* Fixed since 1.2.3", "---", false), None);
    }

    #[test]
    fn a_heading_in_other_words_names_no_version() {
        for line in [
            "= Changes between us and 1.2.3 beta testers =",
            "= Milestone: 1.2.3 =",
            "## Welcome 2.0, our biggest yet",
        ] {
            assert_eq!(versions(line, "", false).as_deref(), Some(""), "{line}");
        }
    }

    #[test]
    fn loose_lines_carry_their_text() {
        for (line, text) in [
            ("* 1.2.3 - Fixed a bug", "Fixed a bug"),
            ("* 1.2.3 Fixed a bug", "Fixed a bug"),
            ("- v1.2: Initial release", "Initial release"),
            ("1.2.3 (2024-01-01) - Fixed a bug", "Fixed a bug"),
            ("* 1.2.3", ""),
        ] {
            let heading = read(line, "* More", true).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(&heading.title[heading.text..], text, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[=#*_\\[\\]()<> .v0-9a-b–•:ß-]{0,40}", below in "(|===|---|  \\* x)", loose: bool) {
            if let Some(heading) = read(&line, &below, loose) {
                prop_assert!(heading.title.is_char_boundary(heading.text));
            }
        }
    }
}
