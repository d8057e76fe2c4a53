//! Slugs: a plugin's name in the updates address, and in file names under `registry/` and `releases/`.

use std::str::FromStr;

use crate::checked_text::checked_text;

/// `^[a-z0-9][a-z0-9-]{0,63}$`: safe in a path, a URL and a terminal by construction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(Box<str>);

checked_text!(Slug);

/// The text is not a slug.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a plugin slug: expected 1 to 64 of a-z, 0-9 and '-', starting with a letter or a digit")]
pub struct NotASlug;

impl FromStr for Slug {
    type Err = NotASlug;

    fn from_str(text: &str) -> Result<Self, NotASlug> {
        let plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let well_formed = (1..=64).contains(&text.len()) && !text.starts_with('-') && text.as_bytes().iter().all(plain);
        if well_formed {
            Ok(Self(text.into()))
        } else {
            Err(NotASlug)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_short_lower_case_and_start_with_a_letter_or_digit() {
        for good in ["a", "0", "acme-forms", "3d-", &"a".repeat(64)] {
            assert!(good.parse::<Slug>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "Acme",
            "a_b",
            "a.b",
            "../a",
            "a/b",
            "ä",
            "a\n",
            &"a".repeat(65),
        ] {
            assert_eq!(bad.parse::<Slug>(), Err(NotASlug), "{bad:?}");
        }
    }
}
