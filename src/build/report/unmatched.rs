//! Tags under no pattern of the entry: tells versions of the plugin from tags of something else, such as another
//! plugin.

use crate::build::report::outcome::Reason;
use countersign_model::plugin::Plugin;
use countersign_model::tag_pattern::TagPattern;
use countersign_model::version::Version;

use percent_encoding::percent_decode_str;

/// Words beside a version that name nothing.
const RELEASE_WORDS: [&str; 12] = [
    "v", "ver", "version", "r", "rel", "release", "releases", "tag", "tags", "stable", "plugin", "wp",
];

/// Words after a version that tell how it was made, or which edition it is. PHP takes some for pre-releases and some for
/// newer versions, but they are neither.
const BUILD_WORDS: [&str; 15] = [
    "built",
    "build",
    "release",
    "released",
    "stable",
    "final",
    "dist",
    "prod",
    "production",
    "deploy",
    "compiled",
    "packaged",
    "pro",
    "premium",
    "plus",
];

/// Classifies the tags of one plugin.
pub(crate) struct Unmatched {
    /// Names of the plugin: its slug, its folder, its repository.
    names: Vec<String>,
    /// Whether the entry's patterns name a plugin, so that tags without a name belong to another.
    is_named: bool,
}

impl Unmatched {
    /// `repository` is the name of the repository's folder.
    pub(crate) fn of(plugin: &Plugin, repository: Option<&str>) -> Self {
        let folder = plugin.source.as_ref().and_then(|source| source.path.rsplit('/').next());
        let names = [Some(plugin.slug.as_str()), folder, repository].into_iter().flatten();
        let names: Vec<_> = names.map(name_in).filter(|name| !name.is_empty()).collect();
        let is_named = plugin.tags.iter().all(|pattern| !name_in(pattern.prefix()).is_empty());
        Self { names, is_named }
    }

    /// Why a tag is not a release, and the version it may mean.
    pub(crate) fn judge(&self, tag: &str) -> (Option<Version>, Reason) {
        let Some((prefix, version, suffix)) = split(tag) else {
            return (None, Reason::NotAVersion);
        };
        let name = name_in(prefix);
        // npm puts the vendor before the name: `@acme/forms@1.2.3`.
        let in_scope = prefix.strip_prefix('@').and_then(|scoped| scoped.split_once('/'));
        let is_own = if name.is_empty() {
            !self.is_named
        } else {
            self.names.contains(&name) || in_scope.is_some_and(|(_, name)| self.names.contains(&name_in(name)))
        };
        if !is_own {
            return (
                None,
                if name.is_empty() {
                    Reason::NotAVersion
                } else {
                    Reason::OtherName
                },
            );
        }
        let pattern = format!("{prefix}{{version}}{suffix}");
        let takes = |pattern: &TagPattern| pattern.version_of(tag).is_some();
        match (version.parse(), pattern.parse::<TagPattern>().ok().filter(takes)) {
            (Ok(version), Some(_)) => (Some(version), Reason::OtherPattern(pattern)),
            _ => (None, Reason::NotAVersion),
        }
    }
}

/// The pattern under which a version with such a suffix is stable: `{version}-built` for `1.2-built`.
pub(crate) fn built_pattern(tag: &str, version: &Version) -> Option<Reason> {
    let suffix = version.as_str().strip_prefix(version.numbers())?;
    let word = suffix.trim_start_matches(['-', '.']).to_ascii_lowercase();
    let prefix = tag.strip_suffix(version.as_str())?;
    BUILD_WORDS
        .contains(&&*word)
        .then(|| Reason::OtherPattern(format!("{prefix}{{version}}{suffix}")))
}

/// Splits a tag's name around its version: `release-`, `1.2-rc.1` and nothing for `release-1.2-rc.1`.
fn split(tag: &str) -> Option<(&str, &str, &str)> {
    let is_escape = |at: usize| is_escape(&tag.as_bytes()[at..]);
    let is_start = |at: usize| {
        // `%202.8.3` is an encoded space and 2.8.3.
        if (1..=2).any(|back| at >= back && is_escape(at - back)) {
            return false;
        }
        let before = tag[..at].chars().next_back();
        let parted = at >= 3 && is_escape(at - 3)
            || before.is_none_or(|before| !before.is_ascii_digit() && before != '.' || tag[..at].ends_with("v."));
        parted && tag[at..].starts_with(|c: char| c.is_ascii_digit())
    };
    let numbers = |at: usize| {
        let text = &tag[at..];
        text[..text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len())]
            .trim_end_matches('.')
    };
    let mut starts = tag
        .char_indices()
        .map(|(at, _)| at)
        .filter(|&at| is_start(at) && numbers(at).contains('.'));
    let start = starts.next_back()?;
    let numbers = numbers(start);
    let rest = &tag[start + numbers.len()..];
    let word = rest.trim_start_matches(['-', '.', '_']);
    if word.is_empty() && rest.is_empty() || is_build_word(word) {
        return Some((&tag[..start], numbers, rest));
    }
    // A suffix that belongs to the version.
    let whole = &tag[start..];
    whole.parse::<Version>().is_ok().then_some((&tag[..start], whole, ""))
}

/// Whether the text starts with a percent-encoded byte.
fn is_escape(text: &[u8]) -> bool {
    matches!(text, [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

fn is_build_word(word: &str) -> bool {
    BUILD_WORDS.contains(&&*word.to_ascii_lowercase())
}

/// The words that name something, joined: `acme-forms` for `release/Acme_Forms-v`.
fn name_in(text: &str) -> String {
    let text = percent_decode_str(text).decode_utf8_lossy();
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_ascii_lowercase);
    words
        .filter(|word| !word.is_empty() && !RELEASE_WORDS.contains(&&**word))
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(names: &[&str], is_named: bool, tag: &str) -> String {
        let unmatched = Unmatched {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            is_named,
        };
        match unmatched.judge(tag) {
            (version, Reason::OtherPattern(pattern)) => format!("{} by {pattern}", version.unwrap()),
            (None, Reason::OtherName) => "another's".into(),
            (None, Reason::NotAVersion) => "none".into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pattern_is_found_for_what_looks_like_a_version() {
        for (tag, expected) in [
            ("release-1.7.10", "1.7.10 by release-{version}"),
            ("release/2.0-rc.1", "2.0-rc.1 by release/{version}"),
            ("v.1.14.1", "1.14.1 by v.{version}"),
            ("V2.0.0", "2.0.0 by V{version}"),
            ("release-1.2-built", "1.2 by release-{version}-built"),
            ("acme-forms/v2.20.0", "2.20.0 by acme-forms/v{version}"),
            ("Acme_Forms-1.2", "1.2 by Acme_Forms-{version}"),
            ("@acme/acme-forms@1.2.3", "1.2.3 by @acme/acme-forms@{version}"),
            ("@acme/forms@1.2.3", "1.2.3 by @acme/forms@{version}"),
            ("%202.8.3", "2.8.3 by %20{version}"),
            ("v%2E2.8.3", "2.8.3 by v%2E{version}"),
            ("1.2-premium", "1.2 by {version}-premium"),
            ("acme-maps/1.2.3", "another's"),
            ("acme-forms-pro-1.2.3", "another's"),
            ("@acme/maps@1.2.3", "another's"),
            ("beta-v1.8.0", "another's"),
            ("archive/v1.9.4", "another's"),
            ("nightly", "none"),
            ("1.0-1", "1.0-1 by {version}"),
            ("2.5.2@332589", "none"),
            ("", "none"),
        ] {
            assert_eq!(judged(&["acme-forms"], false, tag), expected, "{tag}");
        }
        assert_eq!(
            judged(&["acme-forms"], true, "3.0.0"),
            "none",
            "tags without a name are not this plugin's"
        );
        assert_eq!(
            judged(&["acme-forms"], true, "acme-forms-3.0"),
            "3.0 by acme-forms-{version}"
        );
    }

    #[test]
    fn a_word_about_the_build_makes_no_prerelease() {
        let pattern = |tag: &str, version: &str| match built_pattern(tag, &version.parse().unwrap()) {
            Some(Reason::OtherPattern(pattern)) => pattern,
            _ => String::new(),
        };
        assert_eq!(pattern("1.2-built", "1.2-built"), "{version}-built");
        assert_eq!(pattern("v1.2-Stable", "1.2-Stable"), "v{version}-Stable");
        assert_eq!(pattern("v1.2-premium", "1.2-premium"), "v{version}-premium");
        assert_eq!(pattern("1.2-rc1", "1.2-rc1"), "");
        assert_eq!(pattern("1.2", "1.2"), "");
    }
}
