//! Splits a heading into tokens: versions, numbers, dates, and words about a release.
//!
//! [`heading`](crate::build::source::changelog::heading) decides by them.

/// The kind of a token.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Numbers joined by dots, with their suffix, normalized: `1.2.3`, `1.2.3-rc1`.
    Version(String),
    /// Without a dot.
    Number,
    Date,
    Word,
    Sign(char),
}

/// A word, a number or a sign of a title.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Its offset in the title.
    pub start: usize,
}

/// Splits a title into versions, numbers, words and signs.
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// The last word announces a version.
    announced: bool,
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(title: &'a str) -> Self {
        Self {
            text: title,
            at: 0,
            announced: false,
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.text[self.at..].trim_start();
        let start = self.text.len() - rest.len();
        let first = rest.chars().next()?;
        let (kind, length) = if first.is_ascii_digit() {
            number(rest, self.announced)
        } else if first.is_alphabetic() {
            (Kind::Word, word_length(rest))
        } else {
            (Kind::Sign(first), first.len_utf8())
        };
        let text = &rest[..length];
        self.at = start + length;
        self.announced = match kind {
            Kind::Word => is_one_of(text, &VERSION_WORDS),
            Kind::Sign('.' | '#' | ':') => self.announced,
            _ => false,
        };
        Some(Token { kind, text, start })
    }
}

/// Words about a release, before its version.
const RELEASE_WORDS: [&str; 28] = [
    "v",
    "ver",
    "vers",
    "version",
    "versions",
    "release",
    "released",
    "releases",
    "rel",
    "build",
    "update",
    "stable",
    "hotfix",
    "patch",
    "maintenance",
    "security",
    "major",
    "minor",
    "final",
    "public",
    "new",
    "in",
    "of",
    "the",
    "changes",
    "changelog",
    "for",
    "tag",
];

/// A number after one of these is a version, even without a dot.
const VERSION_WORDS: [&str; 6] = ["v", "ver", "vers", "version", "versions", "release"];

/// Words that may be around a version with its date.
const DATE_WORDS: [&str; 19] = [
    "release", "released", "on", "date", "dated", "of", "stable", "final", "utc", "gmt", "am", "pm", "st", "nd", "rd",
    "th", "at", "latest", "sept",
];

/// A version after one of these is not the plugin's.
pub(crate) const PLATFORM_WORDS: [&str; 16] = [
    "php",
    "wordpress",
    "wp",
    "woocommerce",
    "mysql",
    "jquery",
    "with",
    "than",
    "since",
    "from",
    "to",
    "until",
    "least",
    "api",
    "requires",
    "gutenberg",
];

pub(crate) const PRERELEASE_WORDS: [&str; 9] = ["alpha", "beta", "rc", "dev", "pre", "preview", "pl", "a", "b"];

/// What `rc` is short for.
const CANDIDATE: &str = "release candidate";

const CALENDAR: [&str; 19] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Compares without regard to ASCII capitals.
pub(crate) fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// Whether a number after the word is a version.
pub(crate) fn is_announcing(word: &str) -> bool {
    is_one_of(word, &VERSION_WORDS)
}

/// Whether the word may be before the version of a heading.
pub(crate) fn may_lead(word: &str) -> bool {
    is_one_of(word, &RELEASE_WORDS) || is_date_word(word)
}

/// Whether the word may be after the version of a heading.
pub(crate) fn is_date_word(word: &str) -> bool {
    is_one_of(word, &DATE_WORDS) || is_in_calendar(word)
}

/// The name of a month or a day, or at least its first three letters.
fn is_in_calendar(word: &str) -> bool {
    let begins = |name: &&str| {
        name.get(..word.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    word.len() >= 3 && CALENDAR.iter().any(begins)
}

/// The length of the matching characters at the start.
pub(crate) fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// A word may have digits (`S3`), but `v1` is two tokens.
fn word_length(text: &str) -> usize {
    let letters = run(text, |c| c.is_alphabetic() || c == '\'');
    if is_one_of(&text[..letters], &VERSION_WORDS) {
        letters
    } else {
        run(text, |c| c.is_alphanumeric() || c == '\'')
    }
}

fn number(text: &str, announced: bool) -> (Kind, usize) {
    if let Some(length) = date_length(text) {
        return (Kind::Date, length);
    }
    let numbers = text[..run(text, |c| c.is_ascii_digit() || c == '.')].trim_end_matches('.');
    if !announced && is_dotted_date(numbers) {
        return (Kind::Date, numbers.len());
    }
    if !announced && !numbers.contains('.') {
        return (Kind::Number, numbers.len());
    }
    let (suffix, length) = suffix(&text[numbers.len()..]);
    (Kind::Version(format!("{numbers}{suffix}")), numbers.len() + length)
}

/// The suffix of a version after its numbers: `-rc.1`, `b2`, ` Beta 1`, `.x`. Returns it normalized, with its length.
fn suffix(text: &str) -> (String, usize) {
    let joined = run(text, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    let attached = text[..joined].trim_end_matches(['-', '.', '_']);
    let word = attached.trim_start_matches(['-', '.', '_']);
    let letters = &word[..run(word, |c| c.is_ascii_alphabetic())];
    if !letters.is_empty() && !is_in_calendar(letters) {
        return (attached.to_owned(), attached.len());
    }
    let spaced = text.trim_start_matches([' ', '-', '(', '–', ',']);
    let length = run(spaced, |c| c.is_ascii_alphabetic());
    let (word, length) = match spaced.get(..CANDIDATE.len()) {
        Some(words) if words.eq_ignore_ascii_case(CANDIDATE) => ("rc", CANDIDATE.len()),
        _ => (&spaced[..length], length),
    };
    if spaced.len() == text.len() || !is_one_of(word, &PRERELEASE_WORDS) {
        return (String::new(), 0);
    }
    let behind = spaced[length..].trim_start_matches([' ', '-', '.']);
    let number = &behind[..run(behind, |c| c.is_ascii_digit())];
    let end = if number.is_empty() {
        spaced.len() - length
    } else {
        behind.len() - number.len()
    };
    (format!("-{word}{number}"), text.len() - end)
}

/// Whether a dotted date may be a version, too: the year comes first.
pub(crate) fn is_calendar_version(date: &str) -> bool {
    date.find('.') == Some(4)
}

/// The length of a date in numbers: `2024-01-31`, `31/1/2024`; an open one is `2024-01-XX`.
fn date_length(text: &str) -> Option<usize> {
    let length = run(text, |c| c.is_ascii_digit() || matches!(c, '-' | '/' | 'x' | 'X'));
    let date = &text[..length];
    let is_date = |sign: char| {
        date.split(sign).count() == 3
            && date
                .split(sign)
                .all(|part| (1..=4).contains(&part.len()) && !part.contains(['-', '/']))
    };
    (is_date('-') || is_date('/')).then_some(length)
}

/// `31.01.2024` and `2024.01.31` are dates.
fn is_dotted_date(numbers: &str) -> bool {
    let parts: Vec<u32> = numbers.split('.').map_while(|part| part.parse().ok()).collect();
    let is_year = |year: u32| (1990..=2100).contains(&year);
    match parts[..] {
        [a, b, c] => is_year(a) && b <= 12 && c <= 31 || is_year(c) && a <= 31 && b <= 31,
        _ => false,
    }
}

/// A version with at least three numbers, no signs, no capitals and no short words: `1.2-RC.1` and `1.2.0 rc1` are both
/// `1.2.0rc1`, `1.2b2` and `1.2.0 Beta 2` both `1.2.0beta2`.
///
/// A fourth number stays: 1.1.8.0 is not 1.1.8.
pub(crate) fn canonical(version: &str) -> String {
    let end = version
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(version.len());
    let (numbers, suffix) = version.split_at(end);
    let numbers = numbers.trim_end_matches('.');
    let zeros = ".0".repeat(2_usize.saturating_sub(numbers.matches('.').count()));
    let suffix: String = suffix.chars().filter(char::is_ascii_alphanumeric).collect();
    let suffix = suffix.to_ascii_lowercase();
    let (word, number) = suffix.split_at(run(&suffix, |c| c.is_ascii_alphabetic()));
    let word = match word {
        "a" => "alpha",
        "b" => "beta",
        word => word,
    };
    [numbers, &zeros, word, number].concat()
}
