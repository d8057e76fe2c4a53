//! Text from outside, made safe for a page that people read.

use std::fmt;

use unicode_normalization::char::is_combining_mark;

use crate::text::printable::is_unsafe;

/// The most characters of a text that a page shows.
const MOST: usize = 120;

/// The most characters of a sentence, or of a note.
const MOST_OF_SENTENCE: usize = 1_000;

/// The most combining marks that follow a letter.
const MOST_MARKS: usize = 2;

/// Replaces a character that is not shown.
const BOX: char = '\u{25A1}';

/// A text that others wrote, as a page shows it: controls, marks of direction and characters without width are `□`, a letter has at most
/// two combining marks, and what is beyond 120 characters is cut.
///
/// It is not escaped: the template does so.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutsideText(String);

impl OutsideText {
    /// The text as a page shows it.
    pub fn of(text: &str) -> Self {
        Self::of_at_most(text, MOST)
    }

    /// The same for a sentence of ours that quotes others, which may be longer.
    pub fn of_sentence(text: &str) -> Self {
        Self::of_at_most(text, MOST_OF_SENTENCE)
    }

    fn of_at_most(text: &str, most: usize) -> Self {
        let mut shown = String::new();
        let mut count = 0;
        let mut marks = 0;
        for c in text.chars() {
            marks = if is_combining_mark(c) { marks + 1 } else { 0 };
            if marks > MOST_MARKS {
                continue;
            }
            if count == most {
                shown.push('…');
                break;
            }
            shown.push(if is_unsafe(c) || has_no_width(c) { BOX } else { c });
            count += 1;
        }
        Self(shown)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nothing is to be seen.
    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl fmt::Display for OutsideText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the character takes no place, and joins or parts others unseen (Unicode's `Default_Ignorable_Code_Point`, without variation
/// selectors, which are combining marks).
fn has_no_width(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180E}'
        | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E00FF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        OutsideText::of(text).to_string()
    }

    #[test]
    fn text_of_any_language_stays_as_it_is() {
        for text in [
            "Zoë & Söhne",
            "متجر الياسمين",
            "表单",
            "नमस्ते",
            "🦀 ❤\u{FE0F}",
            "a\u{301}\u{323}",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_hides_or_turns_text_is_a_box() {
        assert_eq!(
            shown("a\u{202E}b\u{2066}c\u{200B}d\u{FEFF}e\n\0f\u{AD}g\u{E0041}"),
            "a□b□c□d□e□□f□g□"
        );
    }

    #[test]
    fn a_letter_has_two_marks_at_most_and_a_text_120_characters() {
        assert_eq!(shown(&format!("Z{}o", "\u{30D}".repeat(500))), "Z\u{30D}\u{30D}o");
        assert_eq!(shown(&"x".repeat(120)), "x".repeat(120));
        assert_eq!(shown(&"é".repeat(10_000)), "é".repeat(120) + "…");
        assert!(OutsideText::of(" \u{20}").is_empty() && !OutsideText::of("\u{200B}").is_empty());
    }
}
