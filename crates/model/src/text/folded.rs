//! Texts as a search compares them: a search for `jurgen weiss` finds Jürgen Weiß.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

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
pub fn contains(text: &str, wanted: &str) -> bool {
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
            proptest::prop_assert_eq!(contains(&text, &wanted), folded(&text).contains(&wanted));
        }
    }
}
