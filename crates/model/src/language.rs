//! The language of a person's mails.

use std::str::FromStr;

use crate::checked_text::checked_text;

/// The longest tag, in bytes (RFC 5646 section 4.4.1).
const MAX_LENGTH: usize = 35;

/// A tag of a language in lower case, such as `de` or `pt-br` (RFC 5646). Names of locales such as `de_DE` are read as tags, too.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Language(Box<str>);

checked_text!(Language);

/// The text is no tag of a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a language: expected a tag such as \"de\" or \"pt-BR\"")]
pub struct NotALanguage;

impl Language {
    /// The language and those that it is a kind of, the most exact one first: `pt-br`, `pt`.
    pub fn with_wider(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.as_str()), |tag| Some(tag.rsplit_once('-')?.0))
    }
}

impl FromStr for Language {
    type Err = NotALanguage;

    fn from_str(text: &str) -> Result<Self, NotALanguage> {
        let tag = text.replace('_', "-").to_ascii_lowercase();
        let mut parts = tag.split('-');
        let first = parts.next().unwrap_or_default();
        let is_first = matches!(first.len(), 2 | 3) && first.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_part = |part: &str| matches!(part.len(), 1..=8) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_tag = tag.len() <= MAX_LENGTH && is_first && parts.all(is_part);
        is_tag.then(|| Self(tag.into())).ok_or(NotALanguage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_and_the_name_of_a_locale_are_one_language() {
        for text in ["pt-BR", "pt_BR", "PT-br"] {
            let language: Language = text.parse().unwrap();
            assert_eq!(language.with_wider().collect::<Vec<_>>(), ["pt-br", "pt"]);
        }
        assert!("de_DE_formal".parse::<Language>().is_ok());
        for bad in [
            "",
            "auto",
            "d",
            "de-",
            "de-ab.c",
            "../de",
            "d1",
            "de_DE.UTF-8",
            "de-123456789",
        ] {
            assert_eq!(bad.parse::<Language>(), Err(NotALanguage), "{bad}");
        }
    }
}
