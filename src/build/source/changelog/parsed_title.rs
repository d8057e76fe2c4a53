//! Parses a title into its versions and the words before and after them.
//!
//! [`title`](super::title) splits the words; [`heading`](super::heading) decides by the result.

use crate::build::source::changelog::title::{
    Kind, PLATFORM_WORDS, PRERELEASE_WORDS, Token, Tokens, is_calendar_version, is_date_word, is_one_of, may_lead,
};

/// The words before the versions of a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Only dates and words about a release.
    Fits,
    /// Words that may be the plugin's name.
    Name,
    /// Words that make it the version of something else, such as PHP.
    Platform,
    /// Anything else.
    Doubtful,
}

/// The words after the versions of a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing but dates and words about the release.
    Nothing,
    /// A separator, then text that starts here.
    Text(usize),
    /// Words that start here and go on without a separator.
    Words(usize),
}

/// A parsed title.
pub(super) struct ParsedTitle {
    pub versions: Vec<String>,
    pub lead: Lead,
    pub rest: Rest,
}

impl ParsedTitle {
    /// Parses a title; `None` if it has no version. `is_marked`: the line is marked as a heading.
    pub(super) fn of(title: &str, is_marked: bool) -> Option<Self> {
        let tokens: Vec<Token<'_>> = Tokens::of(title).collect();
        let first = first_version(&tokens, is_marked)?;
        let mut versions = Vec::new();
        let mut next = first;
        // "1.2.3 & 1.2.4" is a heading of both.
        for (index, token) in tokens.iter().enumerate().skip(first) {
            match &token.kind {
                Kind::Version(version) => {
                    versions.push(version.clone());
                    next = index + 1;
                }
                Kind::Number | Kind::Date if index == first => {
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
        Some(Self {
            versions,
            lead: lead(words),
            rest: rest(title, &tokens[next..]),
        })
    }
}

/// The first version, a lone number, or in a marked heading a date in the form of a version: `2026.8.7`.
fn first_version(tokens: &[Token<'_>], is_marked: bool) -> Option<usize> {
    let version = tokens.iter().position(|token| matches!(token.kind, Kind::Version(_)));
    let is_dotted = |token: &Token<'_>| matches!(token.kind, Kind::Date) && is_calendar_version(token.text);
    version
        .or_else(|| matches!(tokens, [Token { kind: Kind::Number, .. }]).then_some(0))
        .or_else(|| tokens.iter().position(is_dotted).filter(|_| is_marked))
}

fn lead(tokens: &[Token<'_>]) -> Lead {
    if tokens
        .iter()
        .all(|token| !matches!(token.kind, Kind::Word) || may_lead(token.text))
    {
        return Lead::Fits;
    }
    match tokens.iter().rev().find(|token| !matches!(token.kind, Kind::Number)) {
        Some(Token {
            kind: Kind::Word, text, ..
        }) if is_one_of(text, &PLATFORM_WORDS) => Lead::Platform,
        Some(Token { kind: Kind::Word, .. }) => Lead::Name,
        _ => Lead::Doubtful,
    }
}

fn rest(title: &str, tokens: &[Token<'_>]) -> Rest {
    let mut separator = None;
    // `1.2.3. Not for production`
    let tokens = &tokens[tokens
        .iter()
        .take_while(|token| matches!(token.kind, Kind::Sign('.' | ',' | ';')))
        .count()..];
    for (index, token) in tokens.iter().enumerate() {
        match token.kind {
            // `1.2.3 #45` refers to an issue.
            Kind::Sign('#') if matches!(tokens.get(index + 1), Some(Token { kind: Kind::Number, .. })) => {
                return Rest::Words(separator.unwrap_or(tokens[0].start));
            }
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
