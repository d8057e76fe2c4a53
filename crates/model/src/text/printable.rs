//! Text from outside, made safe for a terminal and a log line.

use std::fmt::{self, Display, Write};

/// Shows text with control characters, line breaks and text-direction overrides escaped.
///
/// Everything that a repository, a request or a person wrote goes through this before it is printed. So it can
/// neither move the cursor nor imitate another line.
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            Escaping {
                to: f,
                keeps_lines: false
            },
            "{}",
            self.0
        )
    }
}

/// The same for text of several lines, whose line breaks stay. Its parts must be [`Printable`] already.
#[derive(Clone, Copy, Debug)]
pub struct PrintableLines<T>(pub T);

impl<T: Display> Display for PrintableLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            Escaping {
                to: f,
                keeps_lines: true
            },
            "{}",
            self.0
        )
    }
}

struct Escaping<'a, 'f> {
    to: &'a mut fmt::Formatter<'f>,
    keeps_lines: bool,
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Nearly every text is plain ASCII, and a table of a million licenses has several million texts.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return self.to.write_str(text);
        }
        let mut rest = text;
        let is_escaped = |c: char| is_unsafe(c) && !(self.keeps_lines && c == '\n');
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_escaped(*c)) {
            write!(self.to, "{}{}", &rest[..at], c.escape_default())?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.to.write_str(rest)
    }
}

/// Whether a terminal might obey the character, or reorder the text around it.
pub fn is_unsafe(c: char) -> bool {
    // The marks, embeddings, overrides and isolates of the bidirectional algorithm (UAX #9), and Unicode's two line
    // breaks.
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        assert_eq!(
            Printable("a\x1b[2J\r\n\u{9b}\u{202E}b").to_string(),
            r"a\u{1b}[2J\r\n\u{9b}\u{202e}b"
        );
    }

    #[test]
    fn line_breaks_stay_where_they_are_meant() {
        assert_eq!(
            PrintableLines("a\x1b\r\nb\u{2028}c\n").to_string(),
            "a\\u{1b}\\r\nb\\u{2028}c\n"
        );
    }

    #[test]
    fn text_of_any_language_stays_as_it_is() {
        assert_eq!(
            Printable("Zoë's \"Formulár\" 表单 🦀 C:\\").to_string(),
            "Zoë's \"Formulár\" 表单 🦀 C:\\"
        );
    }
}
