//! Tag patterns: how a repository names its release tags, and which version a tag has.

use std::fmt;
use std::str::FromStr;

use crate::version::Version;

/// A tag name with `{version}` in it: `{version}`, `v{version}`, `acme-forms/{version}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TagPattern {
    prefix: Box<str>,
    suffix: Box<str>,
}

/// The text is not a tag pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a tag pattern: expected '{{version}}' in it exactly once")]
pub struct NotATagPattern;

impl TagPattern {
    /// The default patterns: `{version}` and `v{version}`.
    pub fn defaults() -> Vec<Self> {
        ["", "v"]
            .map(|prefix| Self {
                prefix: prefix.into(),
                suffix: "".into(),
            })
            .into()
    }

    /// The version of `tag`; `None` if the tag does not match or the rest is not a version.
    ///
    /// Build metadata (`+…`, SemVer 2.0 section 10) is dropped, because it has no influence on the order.
    pub fn version_of(&self, tag: &str) -> Option<Version> {
        let rest = tag.strip_prefix(&*self.prefix)?.strip_suffix(&*self.suffix)?;
        rest.split('+').next()?.parse().ok()
    }

    /// The text before the version.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of the tag of this version.
    pub fn tag_of(&self, version: &Version) -> String {
        format!("{}{version}{}", self.prefix, self.suffix)
    }
}

impl FromStr for TagPattern {
    type Err = NotATagPattern;

    fn from_str(text: &str) -> Result<Self, NotATagPattern> {
        match text.split("{version}").collect::<Vec<_>>()[..] {
            [prefix, suffix] => Ok(Self {
                prefix: prefix.into(),
                suffix: suffix.into(),
            }),
            _ => Err(NotATagPattern),
        }
    }
}

impl fmt::Display for TagPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{version}}{}", self.prefix, self.suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_version_only_under_its_own_pattern() {
        let pattern: TagPattern = "acme-forms/{version}".parse().unwrap();
        let version = |tag| pattern.version_of(tag).map(|version| version.to_string());
        assert_eq!(version("acme-forms/1.2.3").as_deref(), Some("1.2.3"));
        assert_eq!(version("acme-forms/1.2.3+build.5").as_deref(), Some("1.2.3"));
        assert_eq!(version("acme-forms-pro/1.2.3"), None);
        assert_eq!(version("1.2.3"), None);
        assert_eq!(version("acme-forms/latest"), None);
        assert_eq!(pattern.tag_of(&"1.2.3".parse().unwrap()), "acme-forms/1.2.3");
    }

    #[test]
    fn a_pattern_names_the_version_exactly_once() {
        for bad in ["", "v", "{version}{version}", "{Version}"] {
            assert_eq!(bad.parse::<TagPattern>(), Err(NotATagPattern), "{bad}");
        }
    }
}
