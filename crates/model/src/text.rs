//! Parts of messages and pages: suggestions, chains of errors, paths in commands, and texts as a search compares them.
//!
//! [`printable`] and [`outside_text`] make text from outside safe, [`toml_error`] describes errors in a TOML file, and [`stderr`]
//! writes messages.

use std::error::Error;
use std::fmt;
use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::license_key::LicenseKey;

pub mod outside_text;
pub mod printable;
pub mod stderr;
pub mod toml_error;

/// The least similarity of a suggestion, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The most similar of the `known` names; `None` if none is similar.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similar = known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(known, given), known));
    let best = similar
        .filter(|(similarity, _)| *similarity > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, known)| known)
}

/// ` (did you mean "module"?)` with the most similar of the `known` names; nothing if none is similar.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known)
        .map(|known| format!(" (did you mean {known:?}?)"))
        .unwrap_or_default()
}

/// Shows the error, then each cause after a colon.
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'static));

impl ErrorChain<'_> {
    /// The first line, and how many more there are.
    pub fn first_line(self) -> String {
        let chain = self.to_string();
        let mut lines = chain.lines();
        let first = lines.next().unwrap_or_default();
        match lines.count() {
            0 => first.to_owned(),
            more => format!("{first} (and {more} more)"),
        }
    }
}

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// A path quoted for a shell.
pub fn shell_quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The most characters of a name in a message.
const MAX_NAME: usize = 200;

/// A message without license keys, in which each quoted or unbroken text has at most 200 characters, and then `…`.
///
/// SECURITY: a part of a key is no key that anybody finds, so keys go first.
pub fn short_message(message: &str) -> String {
    let message = LicenseKey::redact(message);
    let mut short = String::new();
    let mut quote = None;
    let mut is_escaped = false;
    let mut length = 0;
    for letter in message.chars() {
        let is_quote = matches!(letter, '"' | '`') && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        let ends = match quote {
            Some(opened) => is_quote && letter == opened,
            None => is_quote || letter.is_whitespace(),
        };
        if ends {
            quote = if quote.is_none() && is_quote {
                Some(letter)
            } else {
                None
            };
            length = 0;
        } else {
            length += 1;
        }
        match length {
            0..=MAX_NAME => short.push(letter),
            _ if length == MAX_NAME + 1 => short.push('…'),
            _ => {}
        }
    }
    short
}

/// A text in lower case, without accents, and with other letters for those that keyboards lack. Two texts that a person takes for the
/// same fold to the same one; Unicode calls that a search at the primary level (UTS #10 section 8).
pub fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    let letters = text.nfkd().filter(|letter| !is_combining_mark(*letter));
    for letter in letters.flat_map(char::to_lowercase) {
        match letter {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'đ' => folded.push('d'),
            'ł' => folded.push('l'),
            'ı' => folded.push('i'),
            'ς' => folded.push('σ'),
            letter => folded.push(letter),
        }
    }
    folded
}

/// Whether the folded `text` contains `wanted`, which is [`folded`]. A text in ASCII, as most are, is not copied: a search looks at a
/// million of them.
pub fn contains_folded(text: &str, wanted: &str) -> bool {
    if !text.is_ascii() {
        return folded(text).contains(wanted);
    }
    let wanted = wanted.as_bytes();
    let mut parts = text.as_bytes().windows(wanted.len().max(1));
    wanted.is_empty() || parts.any(|part| part.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_meant_and_none_where_none_is_similar() {
        let meant = |given| did_you_mean(given, ["listen", "admin_listen", "proxies"]);
        assert_eq!(meant("lisen"), " (did you mean \"listen\"?)");
        assert_eq!(meant("adminlisten"), " (did you mean \"admin_listen\"?)");
        assert_eq!(meant("zzz"), "");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_and_of_several_lines_the_first_can_be_had() {
        let outer = Outer(std::io::Error::other("first\nsecond\nthird"));
        assert_eq!(ErrorChain(&outer).to_string(), "outer: first\nsecond\nthird");
        assert_eq!(ErrorChain(&outer).first_line(), "outer: first (and 2 more)");
        assert_eq!(ErrorChain(&std::io::Error::other("alone")).first_line(), "alone");
    }

    #[test]
    fn paths_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(shell_quoted(Path::new("demo/public")), "demo/public");
        assert_eq!(shell_quoted(Path::new("it's here")), r"'it'\''s here'");
    }

    #[test]
    fn a_name_is_cut_and_what_is_said_about_it_is_not() {
        let long = "x".repeat(65_536);
        let cut = "x".repeat(MAX_NAME);
        let about = r#" (did you mean "module"?), expected one of `a b`, `c` in line 7 or below"#;
        for (message, expected) in [
            (
                format!("unknown field \"{long}\"{about}"),
                format!("unknown field \"{cut}…\"{about}"),
            ),
            (
                format!("unknown field `{long}`{about}"),
                format!("unknown field `{cut}…`{about}"),
            ),
            (
                format!("{long} is set twice{about}"),
                format!("{cut}… is set twice{about}"),
            ),
            (
                format!("field \"{}\" is{about}", "a \\\" b ".repeat(9_999)),
                format!("field \"{}…\" is{about}", &"a \\\" b ".repeat(99)[..MAX_NAME]),
            ),
            (format!("a{about}"), format!("a{about}")),
        ] {
            assert_eq!(short_message(&message), expected);
        }
        let key = LicenseKey::from_random([7; 20]);
        let hidden = short_message(&format!("\"{}{}\"", "x-".repeat(95), key.reveal()));
        assert!(!hidden.contains(&key.reveal()[..5]), "{hidden}");
    }

    #[test]
    fn what_a_person_takes_for_the_same_is_the_same() {
        for (written, typed) in [
            ("Jürgen Weiß", "jurgen weiss"),
            ("Café Ørsted", "cafe orsted"),
            ("Εργαστήρι Ήλιος", "εργαστηρι ηλιοσ"),
            ("ŁÓDŹ", "lodz"),
            ("I\u{307}stanbul", "istanbul"),
            ("ﬁne", "fine"),
            ("متجر", "متجر"),
            ("Anna@Example.com", "anna@example.com"),
        ] {
            assert_eq!(folded(written), folded(typed), "{written}");
        }
        assert_ne!(folded("weis"), folded("weiß"));
    }

    proptest::proptest! {
        #[test]
        fn a_text_contains_what_its_folded_copy_contains(text in "[a-cA-CäßÄ@ ]{0,12}", wanted in "[a-cA-Cäß@]{0,3}") {
            let wanted = folded(&wanted);
            proptest::prop_assert_eq!(contains_folded(&text, &wanted), folded(&text).contains(&wanted));
        }
    }
}
