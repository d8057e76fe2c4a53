//! `.gitattributes` as far as `git archive` looks at it: which paths have the attribute `export-ignore`.
//!
//! A file's lines become lines in gitignore syntax, which [`rules`](crate::build::packing::rules) matches: the last one that
//! fits decides in both (gitattributes(5)).

use std::collections::BTreeMap;

/// The attribute.
const EXPORT_IGNORE: &str = "export-ignore";

/// A line that begins like this defines a macro, a set of attributes under one name.
const MACRO: &str = "[attr]";

/// Macros by name: whether each sets `export-ignore`, or takes it away. They are defined at the repository's root.
pub(super) type AttributeMacros = BTreeMap<String, bool>;

/// The lines about `export-ignore`, in gitignore syntax: a pattern that has it, or `!` and a pattern that does not.
///
/// A file at the repository's root (`is_root`) may define macros, which hold for all files.
pub(super) fn export_ignore(text: &str, is_root: bool, macros: &mut AttributeMacros) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches([' ', '\t']);
        if let Some(definition) = line.strip_prefix(MACRO) {
            let mut words = definition.split_ascii_whitespace();
            if let Some(name) = words.next().filter(|_| is_root)
                && let Some(ignores) = state(words, macros)
            {
                macros.insert(name.to_owned(), ignores);
            }
            continue;
        }
        let Some((pattern, rest)) = pattern(line) else { continue };
        // Negative patterns are forbidden in this file.
        if pattern.starts_with('!') {
            continue;
        }
        if let Some(ignores) = state(rest.split_ascii_whitespace(), macros) {
            lines.push(ignore_line(&pattern, ignores));
        }
    }
    lines
}

/// What the attributes of a line say of `export-ignore`; the last one that says anything counts.
fn state<'a>(attributes: impl Iterator<Item = &'a str>, macros: &AttributeMacros) -> Option<bool> {
    let mut state = None;
    for attribute in attributes {
        let (name, sets) = match attribute.strip_prefix(['-', '!']) {
            Some(name) => (name, false),
            None => (attribute, true),
        };
        match name.split_once('=') {
            // Set to a value is not set: `git archive` packs it.
            Some((EXPORT_IGNORE, _)) => state = Some(false),
            Some(_) => {}
            None if name == EXPORT_IGNORE => state = Some(sets),
            // A macro counts only where it is set; taking it away takes nothing else away.
            None if sets => state = macros.get(name).copied().or(state),
            None => {}
        }
    }
    state
}

/// The pattern at the beginning of a line, and what follows it; `None` for a comment and an empty line.
fn pattern(line: &str) -> Option<(String, &str)> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    if let Some((pattern, rest)) = line.strip_prefix('"').and_then(unquoted) {
        return Some((pattern, rest));
    }
    let end = line.find([' ', '\t', '\r']).unwrap_or(line.len());
    Some((line[..end].to_owned(), &line[end..]))
}

/// The text up to the closing quotation mark, and what follows it. Quotes are C's.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    loop {
        let (first, behind) = rest.split_first()?;
        rest = behind;
        match first {
            b'"' => {
                let behind = &text[text.len() - rest.len()..];
                return Some((String::from_utf8(bytes).ok()?, behind));
            }
            b'\\' => {
                let (escaped, behind) = rest.split_first()?;
                rest = behind;
                bytes.push(match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'"' | b'\\' => *escaped,
                    b'0'..=b'3' => {
                        let digits = rest.get(..2)?;
                        rest = &rest[2..];
                        octal(*escaped, digits)?
                    }
                    _ => return None,
                });
            }
            byte => bytes.push(*byte),
        }
    }
}

/// A byte of three octal digits, the first of which is 0 to 3.
fn octal(first: u8, more: &[u8]) -> Option<u8> {
    let digits = [first, *more.first()?, *more.get(1)?];
    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()
}

/// A pattern as a line in gitignore syntax.
fn ignore_line(pattern: &str, ignores: bool) -> String {
    let negation = if ignores { "" } else { "!" };
    // What begins a comment there begins a name here; what is at the end of a quoted pattern belongs to it.
    let comment = if pattern.starts_with('#') { "\\" } else { "" };
    let spaces = pattern.len() - pattern.trim_end_matches(' ').len();
    let name = &pattern[..pattern.len() - spaces];
    format!("{negation}{comment}{name}{}", "\\ ".repeat(spaces))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        export_ignore(text, true, &mut AttributeMacros::new())
    }

    #[test]
    fn lines_about_the_attribute_become_lines_of_gitignore() {
        let text = "# comment\n\n/tests export-ignore\n*.md\ttext export-ignore\r\nreadme.md -export-ignore\n\
                    /docs !export-ignore\n*.php text eol=lf\n*.map export-ignore=yes\n  indented export-ignore\n!no export-ignore\n";
        let expected = ["/tests", "*.md", "!readme.md", "!/docs", "!*.map", "indented"];
        assert_eq!(lines(text), expected);
    }

    #[test]
    fn the_last_word_of_a_line_counts() {
        assert_eq!(
            lines("a export-ignore -export-ignore\nb -export-ignore export-ignore\n"),
            ["!a", "b"]
        );
    }

    #[test]
    fn a_macro_of_the_root_sets_what_it_stands_for() {
        let mut macros = AttributeMacros::new();
        let text =
            "[attr]dev export-ignore -text\n[attr]keep -export-ignore\n[attr]both dev\na dev\nb keep\nc both\nd -dev\n";
        assert_eq!(export_ignore(text, true, &mut macros), ["a", "!b", "c"]);
        assert_eq!(
            export_ignore("[attr]mine export-ignore\ne dev\nf mine\n", false, &mut macros),
            ["e"]
        );
    }

    #[test]
    fn quoted_patterns_are_read_as_git_writes_them() {
        let text = "\"with space\" export-ignore\n\"\\303\\274.txt\" export-ignore\n\"end \" export-ignore\n\"open export-ignore\n#x\n";
        assert_eq!(lines(text), ["with space", "ü.txt", "end\\ ", "\"open"]);
        assert_eq!(lines("\"#hash\" export-ignore\n"), ["\\#hash"]);
    }
}
