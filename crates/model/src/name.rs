//! Names of modules and features.

use std::str::FromStr;

use crate::checked_text::checked_text;

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`: the name of a module or of a feature.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

checked_text!(Name);

/// The text is not a name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a name: expected 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', starting with a letter or a digit")]
pub struct NotAName;

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let well_formed = (1..=64).contains(&text.len())
            && text.as_bytes()[0].is_ascii_alphanumeric()
            && text.as_bytes().iter().all(plain);
        if well_formed {
            Ok(Self(text.into()))
        } else {
            Err(NotAName)
        }
    }
}

/// Every slug is a name: unless the registry says otherwise, a plugin's module has the name of the plugin.
impl From<&crate::slug::Slug> for Name {
    fn from(slug: &crate::slug::Slug) -> Self {
        Self(slug.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_allow_what_vendors_call_modules_and_nothing_that_needs_escaping() {
        for good in ["forms", "Pro", "pdf_export", "v2.exports", "0"] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", ".hidden", "-x", "a b", "a\"b", "ü", &"a".repeat(65)] {
            assert_eq!(bad.parse::<Name>(), Err(NotAName), "{bad:?}");
        }
    }
}
