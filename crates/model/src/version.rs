//! Versions, in the order of the CMS: PHP's `version_compare`.
//!
//! A server with another order would offer updates that never install, or the same update for ever.

use std::cmp::Ordering;
use std::str::FromStr;

use compact_str::CompactString;

use crate::channel::Channel;
use crate::checked_text::checked_text;
use crate::stage::Stage;

/// The longest version in bytes.
const MAX_LENGTH: usize = 64;

/// The most numeric parts of a version.
const MAX_PARTS: usize = 5;

/// One to five numeric parts, and an optional suffix that is a number or begins with a letter: `1.4`, `1.2-1`,
/// `2.0.0-beta.1`, `1.2rc1`.
///
/// Never starts with `v`, never has build metadata. It is kept as written and compared as PHP compares. Two versions
/// can be [equal in order](Version::cmp_php) with different texts, so there is no `Ord`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(CompactString);

checked_text!(Version);

/// The text is not a version.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a version: expected 1 to 5 numbers joined by '.', then at most a suffix such as -beta.1")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        let (numbers, suffix) = split_numbers(text);
        let parts = || numbers.as_bytes().split(|&byte| byte == b'.');
        let numbers_hold = parts().count() <= MAX_PARTS && parts().all(|part| !part.is_empty());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let suffix_holds = suffix.is_empty()
            || suffix.strip_prefix('-').is_some_and(is_number)
            || suffix.bytes().all(plain)
                && suffix
                    .trim_start_matches(['.', '-'])
                    .starts_with(|c: char| c.is_ascii_alphabetic())
                && suffix.split(['.', '-']).skip(1).all(|part| !part.is_empty());
        if text.len() <= MAX_LENGTH && numbers_hold && suffix_holds {
            Ok(Self(text.into()))
        } else {
            Err(NotAVersion)
        }
    }
}

/// Splits `1.2.0-beta.1` into `1.2.0` and `-beta.1`.
fn split_numbers(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit() && byte != b'.')
        .unwrap_or(text.len());
    let numbers = &text[..end];
    // In `1.2.beta` the last dot belongs to the suffix.
    match numbers.strip_suffix('.') {
        Some(before) if end < text.len() => (before, &text[end - 1..]),
        _ => (numbers, &text[end..]),
    }
}

impl Version {
    /// The order of PHP's `version_compare`.
    pub fn cmp_php(&self, other: &Self) -> Ordering {
        // Most sites that ask are up to date.
        if self == other {
            return Ordering::Equal;
        }
        // Most versions are only numbers, which are canonical.
        let numbers = |version: &Self| version.0.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if numbers(self) && numbers(other) {
            return compare_canonical(self.0.as_bytes(), other.0.as_bytes());
        }
        php_version_compare(&self.0, &other.0)
    }

    /// How finished a release of this version is.
    pub fn stage(&self) -> Stage {
        let (numbers, suffix) = split_numbers(&self.0);
        Stage::of(numbers, suffix)
    }

    /// Whether this is never the latest: yes for `1.2-rc1` and `1.2-preview`, no for `1.2-p1`.
    pub fn is_prerelease(&self) -> bool {
        self.channel() != Some(Channel::Stable)
    }

    /// The channel; `None` for a version that sites are never offered, such as `1.2-dev`.
    pub fn channel(&self) -> Option<Channel> {
        match self.stage() {
            Stage::In(channel) => Some(channel),
            Stage::Unnamed | Stage::Misread(_) => None,
        }
    }

    /// The numeric parts: `1.2.0` of `1.2.0-beta.1`.
    pub fn numbers(&self) -> &str {
        split_numbers(&self.0).0
    }

    /// Whether the numeric parts meet a requirement such as `>=1.4, <3`.
    ///
    /// Missing parts count as 0; parts after the third are ignored. The suffix is ignored, too, so that `<2.0` also
    /// excludes `2.0-beta`.
    pub fn satisfies(&self, requirement: &semver::VersionReq) -> bool {
        let mut parts = split_numbers(&self.0)
            .0
            .split('.')
            .map(|part| part.parse().unwrap_or(u64::MAX));
        let mut next = || parts.next().unwrap_or(0);
        requirement.matches(&semver::Version::new(next(), next(), next()))
    }
}

/// PHP's `version_compare($a, $b)` for any two strings (`ext/standard/versioning.c`).
///
/// Not a total order if a string ends in a sign: `1.` is older than itself. A string ends at its first NUL.
pub fn php_version_compare(a: &str, b: &str) -> Ordering {
    let [a, b] = [a, b].map(|text| text.split('\0').next().unwrap_or_default());
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    compare_canonical(&canonicalize(a), &canonicalize(b))
}

/// How PHP misreads the `Version` of a plugin's header, and what to write; `None` if it reads it as its author means it.
///
/// To PHP, `_` and `+` separate the parts of a version, too. A version that begins with a word, such as `v1.3.0`, is older or
/// newer than all that begin with a number.
pub fn misread_header(header: &str) -> Option<String> {
    let numbers = header.trim_start_matches(|c: char| !c.is_ascii_digit());
    if numbers.len() < header.len() {
        let meant: Version = numbers.parse().ok()?;
        return Some(format!("PHP does not take it for {meant}; write {meant}"));
    }
    let version: Version = header.replace(['_', '+'], "-").parse().ok()?;
    match version.stage() {
        Stage::Misread(misread) => Some(misread.to_string()),
        _ => None,
    }
}

/// Replaces `-`, `_`, `+` and every other sign with a dot, and puts dots between digits and letters. Keeps the first
/// byte.
fn canonicalize(version: &str) -> Vec<u8> {
    let mut bytes = version.bytes();
    let mut previous = match bytes.next() {
        Some(first) if first != b'#' => first,
        _ => return version.as_bytes().to_vec(),
    };
    let mut canonical = Vec::with_capacity(version.len() * 2);
    canonical.push(previous);
    for byte in bytes {
        let joins = matches!(byte, b'-' | b'_' | b'+');
        let boundary =
            !joins && (is_word(previous) && byte.is_ascii_digit() || previous.is_ascii_digit() && is_word(byte));
        let sign = !byte.is_ascii_alphanumeric();
        if (boundary || sign) && canonical.last() != Some(&b'.') {
            canonical.push(b'.');
        }
        if boundary || !sign {
            canonical.push(byte);
        }
        previous = byte;
    }
    canonical
}

/// What PHP calls a non-digit: anything but digits and dots.
fn is_word(byte: u8) -> bool {
    !byte.is_ascii_digit() && byte != b'.'
}

/// Means "a number" when a number is compared with a word.
const NUMBER: &[u8] = b"#N#";

fn compare_canonical(mut a: &[u8], mut b: &[u8]) -> Ordering {
    loop {
        let (a_part, a_rest) = split_part(a);
        let (b_part, b_rest) = split_part(b);
        match (compare_parts(a_part, b_part), a_rest, b_rest) {
            (Ordering::Equal, Some(a_rest @ [_, ..]), Some(b_rest @ [_, ..])) => (a, b) = (a_rest, b_rest),
            (Ordering::Equal, Some(rest), _) => return compare_rest(rest),
            (Ordering::Equal, None, Some(rest)) => return compare_rest(rest).reverse(),
            (decided, ..) => return decided,
        }
    }
}

/// The first part, and the rest after its dot.
fn split_part(version: &[u8]) -> (&[u8], Option<&[u8]>) {
    match version.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&version[..dot], Some(&version[dot + 1..])),
        None => (version, None),
    }
}

fn compare_parts(a: &[u8], b: &[u8]) -> Ordering {
    match (starts_with_digit(a), starts_with_digit(b)) {
        (true, true) => number(a).cmp(&number(b)),
        (false, false) => word_rank(a).cmp(&word_rank(b)),
        (true, false) => word_rank(NUMBER).cmp(&word_rank(b)),
        (false, true) => word_rank(a).cmp(&word_rank(NUMBER)),
    }
}

/// If one version has more parts: a number makes it newer; for a word, the word's rank decides.
fn compare_rest(rest: &[u8]) -> Ordering {
    if starts_with_digit(rest) {
        Ordering::Greater
    } else {
        compare_canonical(rest, NUMBER)
    }
}

fn starts_with_digit(part: &[u8]) -> bool {
    part.first().is_some_and(u8::is_ascii_digit)
}

/// C's `strtol` in base 10: leading digits, saturating.
fn number(part: &[u8]) -> i64 {
    part.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0_i64, |value, byte| {
            value.saturating_mul(10).saturating_add(i64::from(byte - b'0'))
        })
}

/// Ranks: unknown words, then dev, alpha, beta, RC, a number, and pl. The first name that is a prefix counts.
fn word_rank(word: &[u8]) -> i8 {
    const RANKS: [(&[u8], i8); 10] = [
        (b"dev", 0),
        (b"alpha", 1),
        (b"a", 1),
        (b"beta", 2),
        (b"b", 2),
        (b"RC", 3),
        (b"rc", 3),
        (b"#", 4),
        (b"pl", 5),
        (b"p", 5),
    ];
    RANKS
        .iter()
        .find(|(name, _)| word.starts_with(name))
        .map_or(-1, |&(_, rank)| rank)
}

/// Whether a version is in a list, however either is written: `1.2` is `1.2.0` here.
pub fn has_version(list: &[Version], version: &Version) -> bool {
    list.iter()
        .any(|listed| same_version(listed.as_str(), version.as_str()))
}

/// Whether two versions differ only in zero parts at the end of the numbers, or in upper and lower case.
pub fn same_version(a: &str, b: &str) -> bool {
    php_version_compare(&plain(a), &plain(b)) == Ordering::Equal
}

/// `1.2.0-RC1` → `1.2-rc1`.
fn plain(version: &str) -> String {
    let end = version
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(version.len());
    let mut numbers: Vec<_> = version[..end].trim_end_matches('.').split('.').collect();
    while numbers.len() > 1
        && numbers
            .last()
            .is_some_and(|part| part.bytes().all(|digit| digit == b'0'))
    {
        numbers.pop();
    }
    format!("{}{}", numbers.join("."), version[end..].to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_one_to_five_numbers_and_at_most_a_suffix() {
        for good in [
            "1",
            "1.2",
            "0.3.01",
            "3.1.0.1.1",
            "20210617",
            "1.2-beta",
            "1.2.0-RC.1",
            "1.2b3",
            "1.2.dev",
            "1.2-1",
        ] {
            assert!(good.parse::<Version>().is_ok(), "{good}");
        }
        let long = format!("1.{}", "0".repeat(MAX_LENGTH));
        for bad in [
            "",
            "v1.2",
            ".1",
            "1.",
            "1..2",
            "1.2.3.4.5.6",
            "1.2-",
            "1.2-1-2",
            "1.2.-1",
            "1.2-1a",
            "1.2+5",
            "1.2@3",
            "beta",
            "1.2-b..1",
            "1.2/3",
            "1 .2",
            "1.2-ß",
            &long,
        ] {
            assert_eq!(bad.parse::<Version>(), Err(NotAVersion), "{bad}");
        }
    }

    #[test]
    fn only_what_is_meant_as_stable_is_no_prerelease() {
        for (version, expected) in [
            ("1.2", false),
            ("1.2-1", false),
            ("1.2-beta", true),
            ("1.2rc1", true),
            ("1.2-p1", false),
            ("1.2-pl2", false),
            ("1.2-pro", true),
            ("1.2-preview.1", true),
        ] {
            let version: Version = version.parse().unwrap();
            assert_eq!(version.is_prerelease(), expected, "{version}");
        }
    }

    #[test]
    fn requirements_read_missing_parts_as_zero_and_leave_the_suffix_out() {
        let requirement = semver::VersionReq::parse(">=1.4, <3").unwrap();
        for (version, expected) in [
            ("1.4", true),
            ("1.3.9", false),
            ("2.9.9.9", true),
            ("3", false),
            ("3.0-beta", false),
            ("1.4-rc1", true),
        ] {
            assert_eq!(
                version.parse::<Version>().unwrap().satisfies(&requirement),
                expected,
                "{version}"
            );
        }
    }

    #[test]
    fn order_is_the_one_php_prints() {
        use Ordering::*;
        for (a, b, expected) in [
            ("1.2", "1.2.0", Less),
            ("1.10", "1.9", Greater),
            ("1.0-beta1", "1.0beta1", Equal),
            ("1.0b", "1.0beta", Equal),
            ("1.0rc1", "1.0", Less),
            ("1.0pl1", "1.0", Greater),
            ("1.0-1", "1.0", Greater),
            ("1.0-dev", "1.0-alpha", Less),
            ("1.0-foo", "1.0-dev", Less),
            ("1.01", "1.1", Equal),
            ("", "1", Less),
            ("", "", Equal),
        ] {
            assert_eq!(php_version_compare(a, b), expected, "{a} against {b}");
            assert_eq!(php_version_compare(b, a), expected.reverse(), "{b} against {a}");
        }
    }

    #[test]
    fn strings_that_are_no_versions_compare_as_in_php_too() {
        use Ordering::*;
        for (a, b, expected) in [
            ("1.", "1.", Less),
            ("1-foo", "1-", Less),
            ("1-", "1-foo", Less),
            ("1-pl", "1-", Greater),
            ("-1", "-", Greater),
            ("1#2", "1", Greater),
            ("1#", "1", Equal),
            ("1\x002", "1", Equal),
            ("\0", "", Equal),
            ("9223372036854775808", "9223372036854775809", Equal),
        ] {
            assert_eq!(php_version_compare(a, b), expected, "{a:?} against {b:?}");
        }
    }
}
