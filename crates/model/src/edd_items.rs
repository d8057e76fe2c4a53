//! What Easy Digital Downloads calls a plugin: the numbers and names of its downloads.

use percent_encoding::percent_decode_str;

/// The downloads whose licenses cover a plugin: its own, and bundles that it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EddItems {
    /// Their post ids.
    pub ids: Vec<u64>,
    /// Their names.
    pub names: Vec<EddName>,
}

impl EddItems {
    /// Whether one of them has this name.
    pub fn has_name(&self, name: &EddName) -> bool {
        self.names.contains(name)
    }
}

/// The name of a download as it is compared: letters and digits in lower case, and one `-` for everything between them.
///
/// Shops, exports and clients write the same name with HTML entities, typographic dashes and percent signs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EddName(Box<str>);

impl EddName {
    /// The name; `None` if it has no letter and no digit.
    pub fn new(text: &str) -> Option<Self> {
        let decoded = percent_decode_str(text).decode_utf8_lossy();
        let mut name = String::new();
        let mut rest = without_entities(&decoded);
        // An entity may have been escaped once more.
        if rest.contains('&') {
            rest = without_entities(&rest);
        }
        for letter in rest.chars() {
            if letter.is_alphanumeric() {
                name.extend(letter.to_lowercase());
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        let name = name.trim_end_matches('-');
        (!name.is_empty()).then(|| Self(name.into()))
    }

    /// The text that is compared.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text with HTML entities such as `&#8211;` and `&amp;` replaced by a blank: none means a letter of a name.
fn without_entities(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        clean.push_str(before);
        let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '#');
        rest = match end {
            Some(end) if end > 0 && after[end..].starts_with(';') => {
                clean.push(if after.starts_with("amp;") { '&' } else { ' ' });
                &after[end + 1..]
            }
            _ => {
                clean.push(' ');
                after
            }
        };
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_in_many_spellings_is_one_name() {
        let name = EddName::new("Acme Forms – Pro").unwrap();
        assert_eq!(name.as_str(), "acme-forms-pro");
        for spelling in [
            "acme forms - PRO ",
            "Acme Forms &#8211; Pro",
            "Acme Forms &amp;#8211; Pro",
            "Acme%20Forms%20%E2%80%93%20Pro",
            "Acme Forms & Pro",
            "Acme Forms &amp; Pro",
            "Acme  Forms/Pro",
        ] {
            assert_eq!(EddName::new(spelling), Some(name.clone()), "{spelling}");
        }
        assert_ne!(EddName::new("Acme Forms"), Some(name));
        assert_eq!(EddName::new("Müller's"), EddName::new("müller&#8217;s"));
        assert_eq!(EddName::new(" – "), None);
    }

    proptest::proptest! {
        #[test]
        fn a_name_is_its_own_name(text in ".{0,40}") {
            if let Some(name) = EddName::new(&text) {
                proptest::prop_assert_eq!(EddName::new(name.as_str()), Some(name.clone()));
            }
        }
    }
}
