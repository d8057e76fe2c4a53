//! Keys that another system issued, such as those of a shop that a vendor leaves. They have no check symbols.
//!
//! Like a [`LicenseKey`], one is parsed, turned into a [`LicenseId`] and dropped.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::digest::Digest;
use crate::license_key::{LicenseId, LicenseKey};

/// The fewest characters. Shorter keys can be guessed: 16 hex digits are 64 bits.
pub const MIN_LENGTH: usize = 16;

/// The most characters: as many as are read of a key of ours, and more than any known system gives a key.
pub const MAX_LENGTH: usize = 128;

/// A key that is not of our form: 16 to 128 printable ASCII characters without blanks. Freemius' keys have signs such as
/// `%^+;`.
///
/// Blanks around it are dropped, and case does not matter: shops look keys up in databases that ignore it, so a site may
/// have its key in another case than the shop. One may look like a formula: no key is ever written into a sheet.
///
/// It has no `Display`, its `Debug` is redacted, and its memory is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct ForeignKey(String);

/// Why a text is no key of another system. Does not say what was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignKeyError {
    /// Nothing.
    #[error("the key is empty")]
    Empty,
    /// Too easily guessed.
    #[error("the key has fewer than {MIN_LENGTH} characters, so it can be guessed")]
    TooShort,
    /// Longer than any key.
    #[error("the key has more than {MAX_LENGTH} characters")]
    TooLong,
    /// Something else than printable ASCII.
    #[error("the key has a blank, or a character that is not printable ASCII")]
    Character,
}

impl ForeignKey {
    /// Parses what a person typed, or what a site sends.
    ///
    /// # Errors
    /// It has no such form. A text that is a key of ours is not looked at: parse it as one first.
    pub fn parse(text: &str) -> Result<Self, ForeignKeyError> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        match text.len() {
            0 => return Err(ForeignKeyError::Empty),
            length if length > MAX_LENGTH => return Err(ForeignKeyError::TooLong),
            _ => {}
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ForeignKeyError::Character);
        }
        if text.len() < MIN_LENGTH {
            return Err(ForeignKeyError::TooShort);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// The id of the license: the SHA-256 of the key in lower case.
    pub fn id(&self) -> LicenseId {
        LicenseId::from_bytes(*Digest::of(self.0.as_bytes()).as_bytes())
    }
}

impl fmt::Debug for ForeignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignKey(redacted, id {})", self.id().log_tag())
    }
}

/// The id of a key of ours or of another system. Other systems issue keys with five groups of five letters, too; one in 33
/// million of them has check symbols of ours, and is then a key of ours here and wherever it is read.
///
/// # Errors
/// It is neither.
pub fn any_id(text: &str) -> Result<LicenseId, ForeignKeyError> {
    match text.parse::<LicenseKey>() {
        Ok(key) => Ok(key.id()),
        Err(_) => Ok(ForeignKey::parse(text)?.id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDD: &str = "cc22c1ec86304b36883440e2e84cddff";

    #[test]
    fn the_id_is_the_sha256_of_the_trimmed_key_in_lower_case() {
        let id = LicenseId::from_bytes(*Digest::of(EDD.as_bytes()).as_bytes());
        for written in [EDD, &EDD.to_uppercase(), &format!(" \t{EDD}\r\n")] {
            assert_eq!(ForeignKey::parse(written).unwrap().id(), id);
            assert_eq!(any_id(written), Ok(id));
        }
        assert_ne!(ForeignKey::parse(&EDD.replacen('c', "d", 1)).unwrap().id(), id);
        assert_ne!(ForeignKey::parse(&EDD[1..]).unwrap().id(), id);
    }

    #[test]
    fn only_a_text_of_the_form_is_a_key() {
        use ForeignKeyError as E;
        for good in [
            "0123456789abcdef",
            "38b1460a-5104-4067-a91d-77b872934d51",
            "ABCD-efgh-1234-5678",
            "sk_9.a:b/c+d=0123456",
            "sk_123FGqM456Pa786WtOp%^+67Y+;sX",
            "sk_t=d7~:gkVF1Sw0!06F[J$d<>&\"'#?",
            "=1+1+1+1+1+1+1+1+1",
            "+0123456789abcdef",
            "-0123456789abcdef",
            "@0123456789abcdef",
            &"a".repeat(128),
            &"~".repeat(16),
        ] {
            assert!(ForeignKey::parse(good).is_ok(), "{good}");
        }
        for (bad, error) in [
            ("", E::Empty),
            (" \n", E::Empty),
            ("0123456789abcde", E::TooShort),
            (&"a".repeat(129), E::TooLong),
            ("0123456789 abcdef", E::Character),
            ("0123456789abcdeé", E::Character),
            ("=1 + 1 + 1 + 1 + 1", E::Character),
            ("0123456789\tabcdef", E::Character),
            ("0123456789abcdef\u{7f}", E::Character),
            ("0123456789\u{0}abcdef", E::Character),
            ("0123456789abcdef\u{feff}", E::Character),
        ] {
            assert_eq!(ForeignKey::parse(bad), Err(error), "{bad:?}");
        }
    }

    #[test]
    fn a_key_of_ours_has_its_own_id_and_one_of_its_shape_that_of_a_foreign_key() {
        let key = LicenseKey::from_random([7; 20]);
        assert_eq!(any_id(key.reveal()), Ok(key.id()));
        assert_eq!(any_id(&key.reveal().to_lowercase()), Ok(key.id()));
        let mut mistyped = key.reveal().to_owned();
        mistyped.replace_range(..1, if mistyped.starts_with('8') { "9" } else { "8" });
        assert_eq!(any_id(&mistyped), Ok(ForeignKey::parse(&mistyped).unwrap().id()));
        assert_ne!(any_id(&mistyped), Ok(key.id()));
    }

    #[test]
    fn debug_never_shows_the_key() {
        let shown = format!("{:?}", ForeignKey::parse(EDD).unwrap());
        assert!(!shown.contains("cc22") && shown.contains("redacted"), "{shown}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,140}") {
            let _ = any_id(&text);
        }
    }
}
