//! Splits a changelog into entries, from version heading to version heading.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::HashSet;
use std::rc::Rc;

use crate::build::source::changelog::heading::{self, Heading, Mark};
use crate::build::source::changelog::known::Known;
use crate::build::source::changelog::title::canonical;
use crate::build::source::html;
use crate::build::source::markdown::Markdown;

/// The text under a version heading.
pub(super) struct ChangelogEntry<'a> {
    pub heading: Heading,
    /// Markdown.
    pub body: Cow<'a, str>,
}

/// The entries in order. Text before the first version heading is dropped.
pub(super) fn entries<'a>(markdown: &Markdown<'a>) -> ChangelogEntries<'a> {
    // List items such as `* 1.1 Fixed a bug` count as headings only if there are no others. Usually they are content.
    let is_item = |entry: ChangelogEntry<'_>| entry.heading.mark == Mark::Bullet;
    if ChangelogEntries::new(markdown, false).all(is_item) {
        return ChangelogEntries::new(markdown, true);
    }
    ChangelogEntries::new(markdown, false)
}

/// The text before the first version heading; all of it if there is none.
pub(crate) fn above_versions(markdown: &str) -> &str {
    let first = entries(&markdown.into()).next;
    &markdown[..first.map_or(markdown.len(), |(at, _)| at)]
}

/// Walks from heading to heading.
pub(super) struct ChangelogEntries<'a> {
    markdown: Markdown<'a>,
    loose: bool,
    /// Where the line of the next heading begins, and the heading, if it was read this time.
    next: Option<(usize, Option<Heading>)>,
    /// The versions that marked headings name; searched for when the first line without a mark names one.
    marked: OnceCell<HashSet<String>>,
    /// Whether a line without a mark was looked at since the last call of [`Self::next_html`]: then the other entries decide
    /// where this one ends.
    met_unmarked: Cell<bool>,
}

impl<'a> ChangelogEntries<'a> {
    /// In a `loose` changelog, list items count as headings, too.
    pub(super) fn new(markdown: &Markdown<'a>, loose: bool) -> Self {
        let mut entries = Self {
            markdown: markdown.clone(),
            loose,
            next: None,
            marked: OnceCell::new(),
            met_unmarked: Cell::new(false),
        };
        entries.next = entries.text_and_heading(0, None).1;
        entries
    }

    /// The text from `start` to the next heading that may follow `open`, and that heading.
    fn text_and_heading(&self, start: usize, open: Option<&Heading>) -> (&'a str, Option<(usize, Option<Heading>)>) {
        let Markdown { text, blocks } = &self.markdown;
        let mut lines = text[start..].split_inclusive('\n').peekable();
        let mut at = start;
        // Where a heading of the whole file ends the entry.
        let mut closed = None;
        // Where a heading such as "Older versions" ends the list, if no version follows.
        let mut list_end = None;
        // Where a heading without text of its own begins.
        let mut bare = None;
        while let Some(line) = lines.next() {
            let below = lines.peek().copied().unwrap_or_default();
            if !blocks.may_be_heading(at, line) {
                bare = None;
                at += line.len();
                continue;
            }
            let parts = |heading: &Heading| open.map_or(!heading.versions.is_empty(), |open| heading.parts(open));
            let heading = heading::read(without_end(line), below, self.loose).filter(parts);
            if let Some(heading) = heading.filter(|heading| !self.is_content(heading)) {
                let end = closed.or(bare).unwrap_or(at);
                return (&text[start..end], Some((at, Some(heading))));
            }
            if closed.is_none() && open.is_some_and(|open| open.is_below(line)) {
                closed = Some(at);
            }
            if closes(line, below) {
                list_end.get_or_insert(at);
                bare.get_or_insert(at);
            } else if !line.trim().is_empty() && !is_underline(line) {
                bare = None;
            }
            at += line.len();
        }
        let end = closed.into_iter().chain(list_end).min().unwrap_or(at);
        (&text[start..end], None)
    }

    /// Whether the heading that begins here is marked.
    fn is_marked_at(&self, start: usize) -> bool {
        let mut lines = self.markdown.text[start..].split_inclusive('\n');
        let [line, below] = [(); 2].map(|()| lines.next().unwrap_or_default());
        matches!(heading::unmark(without_end(line), below), (Mark::Heading(_), _))
    }

    /// Whether a line only looks like a heading: it has no mark, and names versions that have marked headings.
    fn is_content(&self, heading: &Heading) -> bool {
        if matches!(heading.mark, Mark::Heading(_)) {
            return false;
        }
        self.met_unmarked.set(true);
        let marked = self.marked();
        heading
            .versions
            .iter()
            .all(|version| marked.contains(&canonical(version)))
    }

    fn marked(&self) -> &HashSet<String> {
        self.marked.get_or_init(|| {
            let Markdown { text, blocks } = &self.markdown;
            let mut marked = HashSet::new();
            let mut lines = text.split_inclusive('\n').peekable();
            let mut at = 0;
            while let Some(line) = lines.next() {
                let below = lines.peek().copied().unwrap_or_default();
                let is_heading = |heading: &Heading| matches!(heading.mark, Mark::Heading(_));
                if blocks.may_be_heading(at, line)
                    && let Some(heading) = heading::read(without_end(line), below, false).filter(is_heading)
                {
                    marked.extend(heading.versions.iter().map(|version| canonical(version)));
                }
                at += line.len();
            }
            marked
        })
    }

    /// The next entry as HTML. Most entries are the same from tag to tag, and need not be read again.
    pub(super) fn next_html(&mut self) -> Option<Rc<str>> {
        let start = self.next.as_ref()?.0;
        let text = self.markdown.text;
        let is_marked = self.is_marked_at(start);
        // A loose changelog is read differently, what is code depends on the text before, too, and where an entry with lines
        // without marks ends depends on all marked headings.
        let is_cached = |entries: &Self, seen: usize| {
            let is_whole = is_marked || entries.marked().is_empty();
            is_whole && !entries.loose && !entries.markdown.blocks.any_in(start..start + seen)
        };
        if let Some((_, known)) = Known::of(&text[start..]).filter(|(seen, _)| is_cached(self, *seen)) {
            self.next = Some((start + known.length, None));
            return Some(known.html);
        }
        self.met_unmarked.set(false);
        let entry = self.next()?;
        let is_alone = !self.met_unmarked.get() || self.marked().is_empty();
        // The rest of the heading's line belongs to the entry.
        let title = entry.heading.title[..entry.heading.text].trim_end_matches([' ', '-', '–', '—', ':', '|', '>']);
        let html = html::from_markdown(&format!("#### {title}\n\n{}", entry.body));
        if let Some((next, _)) = self.next {
            let known = Known {
                length: next - start,
                html: html.clone(),
            };
            let seen = known.seen(&text[start..]);
            if is_alone && is_cached(self, seen) {
                known.keep(&text[start..]);
            }
        }
        Some(html)
    }
}

impl<'a> Iterator for ChangelogEntries<'a> {
    type Item = ChangelogEntry<'a>;

    fn next(&mut self) -> Option<ChangelogEntry<'a>> {
        let (start, heading) = self.next.take()?;
        let mut lines = self.markdown.text[start..].split_inclusive('\n');
        let line = lines.next()?;
        let below = lines.next().unwrap_or_default();
        let heading = heading.or_else(|| heading::read(without_end(line), below, self.loose))?;
        let underline = if is_underline(below) { below.len() } else { 0 };
        let (text, next) = self.text_and_heading(start + line.len() + underline, Some(&heading));
        self.next = next;
        // Markdown would read indented text as code.
        let text = if heading.mark == Mark::Bullet {
            outdented(text)
        } else {
            text.into()
        };
        let beside = &heading.title[heading.text..];
        let body = if beside.is_empty() {
            text
        } else {
            format!("{beside}\n{text}").into()
        };
        Some(ChangelogEntry { heading, body })
    }
}

/// The lines without their common indent.
fn outdented(text: &str) -> Cow<'_, str> {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let common = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(indent)
        .min()
        .unwrap_or(0);
    if common == 0 {
        return text.into();
    }
    text.lines()
        .map(|line| line.get(common..).unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
        .into()
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

/// Whether a heading without a version introduces other versions: `= Older versions =`, `## Archive`. Such a heading ends the
/// list if no version follows. `### Past events` is a part of an entry.
fn closes(line: &str, below: &str) -> bool {
    let (mark, title) = heading::unmark(line, below);
    if !matches!(mark, Mark::Heading(_) | Mark::Emphasis) {
        return false;
    }
    let title = title.to_ascii_lowercase();
    let mut words = title
        .split(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty());
    let begins = words.next().is_some_and(|first| OLDER_WORDS.contains(&first));
    let mut rest = words.peekable();
    begins && (rest.peek().is_none() || rest.any(|word| LIST_WORDS.contains(&word)))
}

/// The first word of a heading that ends a list of versions.
const OLDER_WORDS: [&str; 8] = [
    "older", "earlier", "previous", "past", "prior", "archive", "archived", "full",
];

/// What such a heading is about.
const LIST_WORDS: [&str; 13] = [
    "version",
    "versions",
    "release",
    "releases",
    "changelog",
    "changelogs",
    "change",
    "changes",
    "log",
    "logs",
    "history",
    "entries",
    "updates",
];

/// Whether the line is a version heading; `below` is the next line.
pub(crate) fn is_version_heading(line: &str, below: &str) -> bool {
    heading::read(line, below, false).is_some_and(|heading| !heading.versions.is_empty())
}

/// Whether the line underlines a heading.
pub(crate) fn is_underline(line: &str) -> bool {
    heading::underline_level(line).is_some()
}
