//! What the suffix of a version says of its release: `-beta.1`, `-patch.2`, or a word that PHP misreads.
//!
//! PHP's `version_compare` compares the beginnings of words: it takes every word that begins with `p` for a patch, so
//! a site takes `1.3.0-preview.1` for newer than `1.3.0`. PHP does not know `Beta` or `BETA`, and orders them before `dev`.

use std::fmt;

use crate::channel::Channel;

/// How finished a release is, by the suffix of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A release of a channel. No suffix, a number, or `p`, `pl` or `patch` with a number is stable; `rc`, `RC`, `beta`, `b`, `alpha`
    /// and `a`, with or without a number, name the channel.
    In(Channel),
    /// Another suffix that PHP takes for older than the version without it: built, and in no channel.
    Unnamed,
    /// A suffix that PHP reads in another way than its author means it. A tag with such a version is not published.
    Misread(MisreadSuffix),
}

/// How PHP misreads a suffix, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisreadSuffix {
    reading: Reading,
    /// The version's numbers.
    numbers: String,
    /// What to write for the suffix.
    instead: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Newer,
    OlderThanDev,
}

impl fmt::Display for MisreadSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.reading {
            Reading::Newer => "newer than ",
            Reading::OlderThanDev => "older than any -dev of ",
        };
        write!(f, "PHP takes it for {order}{}; write {}", self.numbers, self.instead)
    }
}

impl Stage {
    /// The stage of the version with these numbers and this suffix, which may be empty: `1.2.0` and `-beta.1`.
    pub(super) fn of(numbers: &str, suffix: &str) -> Self {
        let (separator, rest) = split_separator(suffix);
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(letters);
        let number = split_separator(behind).1;
        let has_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let misread = |reading, instead: String| {
            Self::Misread(MisreadSuffix {
                reading,
                numbers: numbers.to_owned(),
                instead,
            })
        };
        let named = channel(word).filter(|_| has_number || behind.is_empty());
        match word {
            "" => Self::In(Channel::Stable),
            "p" | "pl" | "patch" if has_number => Self::In(Channel::Stable),
            "p" | "pl" | "patch" => misread(Reading::Newer, format!("-{word}.1, or -beta.1")),
            // PHP has no other word that is newer than a number.
            _ if word.starts_with('p') => misread(Reading::Newer, "-beta.1".to_owned()),
            _ if channel(word).is_none() && channel(&word.to_ascii_lowercase()).is_some() => misread(
                Reading::OlderThanDev,
                format!("{separator}{}{behind}", word.to_ascii_lowercase()),
            ),
            _ => named.map_or(Self::Unnamed, Self::In),
        }
    }
}

/// Splits one `.` or `-` off the start.
fn split_separator(text: &str) -> (&str, &str) {
    text.split_at(usize::from(text.starts_with(['.', '-'])))
}

/// The channel that has exactly this name.
fn channel(word: &str) -> Option<Channel> {
    match word {
        "alpha" | "a" => Some(Channel::Alpha),
        "beta" | "b" => Some(Channel::Beta),
        "rc" | "RC" => Some(Channel::Rc),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    fn stage(suffix: &str) -> Stage {
        format!("1.3.0{suffix}").parse::<Version>().unwrap().stage()
    }

    #[test]
    fn a_suffix_has_the_stage_that_its_author_and_php_agree_on() {
        for (suffixes, expected) in [
            (
                &["", "-1", "-p1", "p1", ".pl2", "-patch3", "-patch.3", "-pl-2"][..],
                Stage::In(Channel::Stable),
            ),
            (&["-rc1", "-RC.1", "rc", "-RC", ".rc-2"], Stage::In(Channel::Rc)),
            (&["-beta", "-b2", "b2", ".beta.1", "-beta-1"], Stage::In(Channel::Beta)),
            (&["-alpha", "-a.1", "a1"], Stage::In(Channel::Alpha)),
            (
                &[
                    "-dev",
                    "-foo",
                    "-beta.1.2",
                    "-betatest",
                    "-beta1a",
                    "-beta-test",
                    "-built",
                    "-snapshot.7",
                    "-PL1",
                ],
                Stage::Unnamed,
            ),
        ] {
            for suffix in suffixes {
                assert_eq!(stage(suffix), expected, "{suffix}");
            }
        }
    }

    #[test]
    fn a_misread_suffix_is_reported_with_what_to_write() {
        for (suffix, expected) in [
            ("-preview.1", "PHP takes it for newer than 1.3.0; write -beta.1"),
            ("-pre", "PHP takes it for newer than 1.3.0; write -beta.1"),
            ("-pre1", "PHP takes it for newer than 1.3.0; write -beta.1"),
            ("-pro", "PHP takes it for newer than 1.3.0; write -beta.1"),
            (".plus.2", "PHP takes it for newer than 1.3.0; write -beta.1"),
            ("-patchwork", "PHP takes it for newer than 1.3.0; write -beta.1"),
            ("-p", "PHP takes it for newer than 1.3.0; write -p.1, or -beta.1"),
            (
                "-patch1.2",
                "PHP takes it for newer than 1.3.0; write -patch.1, or -beta.1",
            ),
            ("-Beta1", "PHP takes it for older than any -dev of 1.3.0; write -beta1"),
            (
                ".ALPHA.2",
                "PHP takes it for older than any -dev of 1.3.0; write .alpha.2",
            ),
            ("Rc1", "PHP takes it for older than any -dev of 1.3.0; write rc1"),
            ("-B", "PHP takes it for older than any -dev of 1.3.0; write -b"),
            (
                "-Beta-test",
                "PHP takes it for older than any -dev of 1.3.0; write -beta-test",
            ),
        ] {
            match stage(suffix) {
                Stage::Misread(misread) => assert_eq!(misread.to_string(), expected, "{suffix}"),
                other => panic!("{suffix}: {other:?}"),
            }
        }
    }
}
