//! Version headings of changelogs: tells whether a line is one, and of which versions.
//!
//! Plugin authors mark headings in every way there is, so a line is judged by its words: what stands beside the version
//! must be a date or speak of a release. The answer goes to [`super::entries`].

/// How a line stands out as a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Markdown's `#`, an underline, WordPress' `=` or an HTML heading, with its level.
    Heading(usize),
    /// `**1.2.3**`: the whole line is emphasized.
    Emphasis,
    /// Nothing but its words.
    Plain,
    /// An item of a list.
    Bullet,
}

/// A version heading.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heading {
    pub mark: Mark,
    /// The versions it names, each as `1.2.3` or `1.2.3-rc1`. Empty where a version stands in other words: such a heading
    /// may part two entries, but nobody's entry is below it.
    pub versions: Vec<String>,
    /// The line without its markup.
    pub title: String,
    /// Where in the title the entry's own text begins: `1.2.3 - Fixed a bug`. The title's length where there is none.
    pub text: usize,
}

/// The longest line that may be a heading, in bytes.
const MAX_LENGTH: usize = 250;

/// Reads a line as a version heading; `below` is the next line. With `loose`, an item or a line that just begins with a
/// version is one too.
pub(super) fn read(line: &str, below: &str, loose: bool) -> Option<Heading> {
    if line.len() > MAX_LENGTH || !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (mark, words) = unmark(line, below);
    let is_marked = matches!(mark, Mark::Heading(_));
    if !is_marked && (!first_word_fits(words) || !loose && line.starts_with("  ")) {
        return None;
    }
    let title = without_markup(words);
    let Reading { mut versions, lead, rest } = Reading::of(&title)?;
    let whole = title.len();
    let text = match (mark, lead, rest) {
        (_, Lead::Platform, _) => return None,
        (Mark::Heading(_), Lead::Fits, _) | (Mark::Heading(_), Lead::Name, Rest::Nothing) => whole,
        (Mark::Heading(_), _, _) => {
            versions.clear();
            whole
        }
        (_, Lead::Name | Lead::Doubtful, _) => return None,
        (Mark::Emphasis, _, _) | (Mark::Plain, _, Rest::Nothing) => whole,
        (Mark::Plain, _, Rest::Text(at)) => at,
        (Mark::Bullet, _, Rest::Nothing) if loose || is_deeper(below, line) => whole,
        (_, _, Rest::Text(at) | Rest::Words(at)) if loose => at,
        _ => return None,
    };
    Some(Heading { mark, versions, title, text })
}

/// How a line is marked, and what is left without the marks.
pub(super) fn unmark<'a>(line: &'a str, below: &str) -> (Mark, &'a str) {
    let line = line.trim();
    let strip = |marks: &[char]| line.trim_matches(marks);
    if let Some(level) = underline_level(below) {
        return (Mark::Heading(level), line);
    }
    match line.as_bytes() {
        [b'=', ..] => (Mark::Heading(leading(line, b'=')), strip(&['=', ' ', '\t'])),
        [b'#', ..] => (Mark::Heading(leading(line, b'#')), strip(&['#', ' ', '\t'])),
        [b'<', b'h' | b'H', level @ b'1'..=b'6', b'>' | b' ', ..] => (Mark::Heading(usize::from(level - b'0')), line),
        [b'*' | b'-' | b'+', b' ' | b'\t', ..] => (Mark::Bullet, line[1..].trim_start()),
        [b'*' | b'_', .., b'*' | b'_' | b':'] | [b'<', b's' | b'b', .., b'>'] => (Mark::Emphasis, line),
        _ => match line.strip_prefix('•') {
            Some(item) => (Mark::Bullet, item.trim_start()),
            None => (Mark::Plain, line),
        },
    }
}

/// The level of a heading underlined with this line: 1 for `===`, 2 for `---`.
pub(super) fn underline_level(line: &str) -> Option<usize> {
    let line = line.trim();
    let all = |mark: u8| line.len() >= 3 && line.bytes().all(|byte| byte == mark);
    if all(b'=') {
        Some(1)
    } else if all(b'-') {
        Some(2)
    } else {
        None
    }
}

fn leading(line: &str, mark: u8) -> usize {
    line.bytes().take_while(|&byte| byte == mark).count()
}

/// Whether the line below starts further right: an item with items of its own.
fn is_deeper(below: &str, line: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    !below.trim().is_empty() && indent(below) > indent(line)
}

/// Rejects most lines of a changelog at once.
fn first_word_fits(words: &str) -> bool {
    let words = words.trim_start_matches(|c: char| !c.is_alphanumeric());
    let word = &words[..run(words, char::is_alphabetic)];
    word.is_empty() || may_lead(word) || is_one_of(word, &PRERELEASE_WORDS) || words.starts_with(['<', '['])
}

/// Drops emphasis, code marks, brackets, link targets and HTML tags.
fn without_markup(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['*', '`', '[', ']', '<', '\\', '_']) {
        text.push_str(&rest[..at]);
        let marked = &rest[at..];
        let skipped = match marked.as_bytes() {
            [b']', b'(', ..] => marked.find(')').map_or(1, |end| end + 1),
            [b'<', ..] => marked.find('>').map_or(1, |end| end + 1),
            // An underscore inside a word is part of it.
            [b'_', ..] if text.ends_with(char::is_alphanumeric) && marked[1..].starts_with(char::is_alphanumeric) => {
                text.push('_');
                1
            }
            _ => 1,
        };
        rest = &marked[skipped..];
    }
    text.push_str(rest);
    text.trim().to_owned()
}

/// What leads up to the versions of a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// Only dates and words about a release.
    Fits,
    /// Words that may be the plugin's name.
    Name,
    /// The version is that of PHP, say.
    Platform,
    /// Anything else.
    Doubtful,
}

/// What follows the versions of a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Nothing but dates and words about the release.
    Nothing,
    /// A separator, then text that starts here.
    Text(usize),
    /// Words that start here and go on without a separator.
    Words(usize),
}

/// A title, taken apart around its versions.
struct Reading {
    versions: Vec<String>,
    lead: Lead,
    rest: Rest,
}

impl Reading {
    fn of(title: &str) -> Option<Self> {
        let tokens: Vec<Token<'_>> = Tokens { text: title, at: 0, announced: false }.collect();
        let first = first_version(&tokens)?;
        let mut versions = Vec::new();
        let mut next = first;
        // "1.2.3 & 1.2.4" is a heading of both.
        for (index, token) in tokens.iter().enumerate().skip(first) {
            match &token.kind {
                Kind::Version(version) => {
                    versions.push(version.clone());
                    next = index + 1;
                }
                Kind::Number if index == first => {
                    versions.push(token.text.to_owned());
                    next = index + 1;
                }
                Kind::Sign('&' | ',' | '/' | '+' | '-' | '–') => {}
                Kind::Word if is_one_of(token.text, &["and", "to", "v", "version"]) => {}
                _ => break,
            }
        }
        let mut words = &tokens[..first];
        // "beta-0.11.1" is 0.11.1-beta.
        let last_word = words.iter().rposition(|token| !matches!(token.kind, Kind::Sign(_)));
        if let Some(at) = last_word.filter(|&at| is_one_of(words[at].text, &PRERELEASE_WORDS)) {
            versions[0] = format!("{}-{}", versions[0], words[at].text);
            words = &words[..at];
        }
        Some(Self { versions, lead: lead(words), rest: rest(title, &tokens[next..]) })
    }
}

/// The first version, or a number that stands alone.
fn first_version(tokens: &[Token<'_>]) -> Option<usize> {
    let version = tokens.iter().position(|token| matches!(token.kind, Kind::Version(_)));
    version.or_else(|| matches!(tokens, [Token { kind: Kind::Number, .. }]).then_some(0))
}

fn lead(tokens: &[Token<'_>]) -> Lead {
    if tokens.iter().all(|token| !matches!(token.kind, Kind::Word) || may_lead(token.text)) {
        return Lead::Fits;
    }
    match tokens.iter().rev().find(|token| !matches!(token.kind, Kind::Number)) {
        Some(Token { kind: Kind::Word, text, .. }) if is_one_of(text, &PLATFORM_WORDS) => Lead::Platform,
        Some(Token { kind: Kind::Word, .. }) => Lead::Name,
        _ => Lead::Doubtful,
    }
}

fn rest(title: &str, tokens: &[Token<'_>]) -> Rest {
    let mut separator = None;
    for token in tokens {
        match token.kind {
            Kind::Sign('-' | '–' | '—' | ':' | '|' | '>') => separator = Some(token.start + token.text.len()),
            Kind::Word | Kind::Version(_) if !is_date_word(token.text) => {
                return match separator {
                    Some(end) => Rest::Text(end + title[end..].len() - title[end..].trim_start().len()),
                    None => Rest::Words(tokens[0].start),
                };
            }
            _ => {}
        }
    }
    Rest::Nothing
}

/// Words that speak of a release, in front of its version.
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

/// A number behind one of these is a version, also without a dot.
const VERSION_WORDS: [&str; 6] = ["v", "ver", "vers", "version", "versions", "release"];

/// Words that may stand around a version with its date.
const DATE_WORDS: [&str; 19] = [
    "release", "released", "on", "date", "dated", "of", "stable", "final", "utc", "gmt", "am", "pm", "st", "nd", "rd",
    "th", "at", "latest", "sept",
];

/// A version behind one of these is not the plugin's.
const PLATFORM_WORDS: [&str; 16] = [
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

const PRERELEASE_WORDS: [&str; 9] = ["alpha", "beta", "rc", "dev", "pre", "preview", "pl", "a", "b"];

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

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}

fn may_lead(word: &str) -> bool {
    is_one_of(word, &RELEASE_WORDS) || is_date_word(word)
}

fn is_date_word(word: &str) -> bool {
    is_one_of(word, &DATE_WORDS) || is_in_calendar(word)
}

/// The name of a month or a day, or at least its first three letters.
fn is_in_calendar(word: &str) -> bool {
    let begins = |name: &&str| name.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    word.len() >= 3 && CALENDAR.iter().any(begins)
}

#[derive(Debug)]
enum Kind {
    Version(String),
    /// Part of a date, or a whole one.
    Number,
    Word,
    Sign(char),
}

#[derive(Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    start: usize,
}

/// Splits a title into versions, numbers, words and signs.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// The last word announces a version.
    announced: bool,
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

/// The length of the characters that fit.
fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// A word may have digits (`S3`), but `v1` is two tokens.
fn word_length(text: &str) -> usize {
    let letters = run(text, |c| c.is_alphabetic() || c == '\'');
    if is_one_of(&text[..letters], &VERSION_WORDS) { letters } else { run(text, |c| c.is_alphanumeric() || c == '\'') }
}

fn number(text: &str, announced: bool) -> (Kind, usize) {
    if let Some(length) = date_length(text) {
        return (Kind::Number, length);
    }
    let numbers = text[..run(text, |c| c.is_ascii_digit() || c == '.')].trim_end_matches('.');
    if !announced && (!numbers.contains('.') || is_dotted_date(numbers)) {
        return (Kind::Number, numbers.len());
    }
    let (suffix, length) = suffix(&text[numbers.len()..]);
    (Kind::Version(format!("{numbers}{suffix}")), numbers.len() + length)
}

/// What belongs to the version behind its numbers: `-rc.1`, `b2`, ` Beta 1`, `.x`. Returns it normalized, and its length.
fn suffix(text: &str) -> (String, usize) {
    let joined = run(text, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    let attached = text[..joined].trim_end_matches(['-', '.', '_']);
    let word = attached.trim_start_matches(['-', '.', '_']);
    let letters = &word[..run(word, |c| c.is_ascii_alphabetic())];
    if !letters.is_empty() && !is_in_calendar(letters) {
        return (attached.to_owned(), attached.len());
    }
    let spaced = text.trim_start_matches([' ', '-', '(', '–']);
    let word = &spaced[..run(spaced, |c| c.is_ascii_alphabetic())];
    if spaced.len() == text.len() || !is_one_of(word, &PRERELEASE_WORDS) {
        return (String::new(), 0);
    }
    let behind = spaced[word.len()..].trim_start_matches([' ', '-', '.']);
    let number = &behind[..run(behind, |c| c.is_ascii_digit())];
    let end = if number.is_empty() { spaced.len() - word.len() } else { behind.len() - number.len() };
    (format!("-{word}{number}"), text.len() - end)
}

/// The length of a date in numbers: `2024-01-31`, `31/1/2024`.
fn date_length(text: &str) -> Option<usize> {
    let length = run(text, |c| c.is_ascii_digit() || matches!(c, '-' | '/'));
    let date = &text[..length];
    let is_date = |sign: char| {
        date.split(sign).count() == 3
            && date.split(sign).all(|part| (1..=4).contains(&part.len()) && !part.contains(['-', '/']))
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
