//! Markdown to sanitized HTML, and both to plain text.
//!
//! What comes out is shown to an administrator of somebody else's site, so every HTML text passes the sanitizer, whatever
//! made it, and plain text is made from what the sanitizer let through.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use super::encoding::without_controls;

pub use super::encoding::decode;

/// The longest Markdown text that is rendered, in bytes; a longer one is cut at a line. WordPress.org stops at 5,000 words.
const MARKDOWN_LIMIT: usize = 64 * 1024;

/// How deep elements may nest. The HTML parser takes time quadratic in the depth.
const MAX_DEPTH: usize = 32;

/// What the CMS's details window shows, and plain formatting. `div`, `span` and tables leave their text behind.
const TAGS: [&str; 25] = [
    "a",
    "abbr",
    "b",
    "blockquote",
    "br",
    "code",
    "dd",
    "del",
    "dl",
    "dt",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "i",
    "img",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "ul",
];

/// Renders the Markdown of a readme (CommonMark and `= heading =`) as sanitized HTML.
pub fn from_markdown(markdown: &str) -> String {
    let markdown = with_markdown_headings(cut_at_line(markdown, MARKDOWN_LIMIT));
    let mut html = String::with_capacity(markdown.len() * 3 / 2);
    pulldown_cmark::html::push_html(&mut html, pulldown_cmark::Parser::new(&markdown));
    sanitize(&html)
}

/// The text of Markdown: no markup, no entities; items start with `- ` or their number, paragraphs stand apart.
pub fn to_plain_text(markdown: &str) -> String {
    text_of(&from_markdown(markdown))
}

/// One line of HTML as plain text: no tags, no entities.
pub(super) fn strip(html: &str) -> String {
    let text = if html.contains(['<', '&']) { text_of(&sanitize(html)).replace('\n', " ") } else { html.to_owned() };
    text.trim().to_owned()
}

/// At most `limit` bytes of the text, whole lines where there is a line end to cut at.
pub(super) fn cut_at_line(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let head = &text[..text.floor_char_boundary(limit)];
    &head[..head.rfind('\n').unwrap_or(head.len())]
}

/// `= heading =`, which WordPress.org knows and Markdown does not.
fn with_markdown_headings(markdown: &str) -> Cow<'_, str> {
    let heading = |line: &str| {
        let title = line.trim().strip_prefix('=')?.strip_suffix('=')?.trim_matches(['=', ' ', '\t']);
        (!title.is_empty()).then(|| format!("#### {title}"))
    };
    if !markdown.contains('=') {
        return markdown.into();
    }
    let lines = markdown.lines().map(|line| heading(line).map_or(line.into(), Cow::from));
    lines.collect::<Vec<_>>().join("\n").into()
}

fn sanitize(html: &str) -> String {
    // SECURITY: ammonia decides what is safe. The step before it only spares text that an HTML parser would swallow.
    without_controls(SANITIZER.clean(&without_unknown_tags(html)).to_string()).trim().to_owned()
}

static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut sanitizer = Builder::default();
    sanitizer
        .tags(TAGS.into())
        .generic_attributes(HashSet::new())
        .tag_attributes(HashMap::from([
            ("a", HashSet::from(["href", "title"])),
            ("abbr", HashSet::from(["title"])),
            ("img", HashSet::from(["src", "alt", "title"])),
            ("ol", HashSet::from(["start"])),
        ]))
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("nofollow noopener noreferrer"))
        .attribute_filter(|element, attribute, value| {
            let refused = element == "img" && attribute == "src" && !value.starts_with("https://");
            (!refused).then_some(value.into())
        });
    sanitizer
});

/// Drops tags that are not allowed and keeps what stands between them, as `wp_kses` does.
///
/// "Fixed the <title> tag" would otherwise make an HTML parser swallow everything up to `</title>`.
fn without_unknown_tags(html: &str) -> String {
    let mut kept = String::with_capacity(html.len());
    let mut depth = 0;
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        kept.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some(end) = tag_length(rest) else {
            kept.push_str("&lt;");
            rest = &rest[1..];
            continue;
        };
        let (tag, after) = rest.split_at(end);
        rest = after;
        if may_stay(tag, &mut depth) {
            kept.push_str(tag);
        }
    }
    kept.push_str(rest);
    kept
}

/// The length of the tag or comment at the start of the text; `None` where the `<` is just a sign.
fn tag_length(text: &str) -> Option<usize> {
    if text.starts_with("<!--") {
        return text.find("-->").map(|end| end + 3);
    }
    let is_tag = text[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
    text.find('>').filter(|_| is_tag).map(|end| end + 1)
}

fn may_stay(tag: &str, depth: &mut usize) -> bool {
    let name = tag_name(tag);
    if !TAGS.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return false;
    }
    // These end by themselves, so that a long list without end tags is not a deep one.
    if ["li", "p", "dt", "dd", "br", "img"].iter().any(|flat| flat.eq_ignore_ascii_case(name)) {
        return true;
    }
    if tag.starts_with("</") {
        *depth = depth.saturating_sub(1);
        return true;
    }
    *depth += 1;
    *depth <= MAX_DEPTH
}

fn tag_name(tag: &str) -> &str {
    let name = tag.trim_start_matches(['<', '/']);
    &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())]
}

/// The text of sanitized HTML, in which `<` only ever starts a tag and attributes are quoted.
fn text_of(html: &str) -> String {
    let mut text = PlainText::default();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text.push(&rest[..start]);
        let tag = &rest[start..];
        let end = end_of_tag(tag);
        text.tag(tag_name(tag), tag.starts_with("</"));
        rest = &tag[end..];
    }
    text.push(rest);
    // Once more: authors write entities in code too, where Markdown leaves them alone.
    let mut decoded = String::with_capacity(text.out.len());
    push_decoded(&mut decoded, &text.out);
    without_controls(decoded)
}

fn end_of_tag(tag: &str) -> usize {
    let mut quoted = false;
    let end = tag.bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b'>' && !quoted
    });
    end.map_or(tag.len(), |end| end + 1)
}

/// Lays text out in lines.
#[derive(Default)]
struct PlainText {
    out: String,
    /// Line ends owed before the next text: 2 make a paragraph.
    breaks: usize,
    /// A bullet was just written: no line end may part it from its text.
    after_bullet: bool,
    /// The open lists: the next number of an ordered one.
    lists: Vec<Option<usize>>,
    preformatted: bool,
}

impl PlainText {
    fn tag(&mut self, name: &str, closing: bool) {
        match name {
            "br" | "dd" | "dt" => self.line_break(1),
            "ul" | "ol" => {
                let outermost = self.lists.len() <= usize::from(closing);
                self.line_break(if outermost { 2 } else { 1 });
                if closing {
                    self.lists.pop();
                } else {
                    self.lists.push((name == "ol").then_some(1));
                }
            }
            "li" if closing => self.line_break(1),
            "li" => self.bullet(),
            "p" | "pre" | "blockquote" | "dl" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.preformatted = name == "pre" && !closing;
                self.line_break(if self.lists.is_empty() { 2 } else { 1 });
            }
            _ => {}
        }
    }

    fn line_break(&mut self, count: usize) {
        if !self.after_bullet {
            self.breaks = self.breaks.max(count);
        }
    }

    fn bullet(&mut self) {
        self.line_break(1);
        self.after_bullet = false;
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        let depth = self.lists.len().saturating_sub(1);
        self.start_line(depth);
        self.out.push_str(&mark);
        self.after_bullet = true;
    }

    fn start_line(&mut self, depth: usize) {
        if self.breaks > 0 {
            self.out.truncate(self.out.trim_end().len());
            if !self.out.is_empty() {
                self.out.push_str(&"\n".repeat(self.breaks));
                self.out.push_str(&"  ".repeat(depth));
            }
        }
        self.breaks = 0;
    }

    fn push(&mut self, html: &str) {
        for (index, line) in html.split('\n').enumerate() {
            if index > 0 {
                self.line_break(if self.preformatted { self.breaks + 1 } else { 1 });
            }
            let at_line_start = self.breaks > 0 || self.after_bullet || self.out.is_empty();
            let line = if at_line_start && !self.preformatted { line.trim_start() } else { line };
            if line.is_empty() {
                continue;
            }
            self.start_line(self.lists.len());
            self.after_bullet = false;
            push_decoded(&mut self.out, line);
        }
    }
}

/// Decodes the entities that the sanitizer writes, the only ones left in text, and the quotes authors write in code.
fn push_decoded(out: &mut String, html: &str) {
    const ENTITIES: [(&str, char); 7] = [
        ("&amp;", '&'),
        ("&lt;", '<'),
        ("&gt;", '>'),
        ("&nbsp;", ' '),
        ("&quot;", '"'),
        ("&#39;", '\''),
        ("&#039;", '\''),
    ];
    let mut rest = html;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let (length, character) = ENTITIES
            .iter()
            .find(|(entity, _)| rest.starts_with(entity))
            .map_or((1, '&'), |&(entity, character)| (entity.len(), character));
        out.push(character);
        rest = &rest[length..];
    }
    out.push_str(rest);
}
