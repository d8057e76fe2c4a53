//! Removes the content of elements that browsers do not show as text: `<script>`, `<style>` and the like.
//!
//! Authors also write about such elements: "Fixed the `<title>` tag". So an unclosed tag hides nothing.

use std::collections::HashMap;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::build::source::html::plain_text::tag_name;

/// Elements whose content is no text of the page.
const HIDDEN: [&str; 8] = [
    "iframe", "noembed", "noframes", "script", "style", "template", "textarea", "title",
];

/// HTML without hidden content.
pub(super) fn shown(html: &str) -> String {
    let Cut { mut kept, open } = cut(html);
    if let Some(open) = open {
        kept.push_str(&html[open.start..]);
    }
    kept
}

/// The events of Markdown without hidden content. An element that begins in a block of HTML ends where it is closed; one in
/// a sentence, in the same paragraph.
pub(super) fn shown_events(markdown: &str) -> Vec<Event<'_>> {
    let events: Vec<Event<'_>> = Parser::new(markdown).collect();
    let ends = last_ends(&events);
    if ends.is_empty() {
        return events;
    }
    let ends_behind = |name: &str, at: usize| ends.get(name).is_some_and(|end| *end > at);
    let mut shown = Vec::with_capacity(events.len());
    // Elements that the rest of the paragraph does not close, so that each paragraph is searched once for each.
    let mut unclosed = Vec::new();
    let mut at = 0;
    while let Some(event) = events.get(at) {
        if !is_of_paragraph(event) {
            unclosed.clear();
        }
        match event {
            Event::Start(Tag::HtmlBlock) => {
                let mut rest = events[at..].iter();
                let length = rest.position(|event| matches!(event, Event::End(TagEnd::HtmlBlock)));
                let end = length.map_or(events.len(), |length| at + length);
                let html: String = events[at..end].iter().filter_map(html_of).collect();
                let Cut { mut kept, open } = cut(&html);
                at = match open {
                    Some(open) if ends_behind(open.name, end) => {
                        shown.push(Event::Html(kept.into()));
                        skip_to_end(&events, end + 1, open.name, &mut shown)
                    }
                    open => {
                        kept.push_str(open.map_or("", |open| &html[open.start..]));
                        shown.push(Event::Html(kept.into()));
                        end
                    }
                };
            }
            Event::InlineHtml(tag) => {
                let name = opened(tag).filter(|name| ends_behind(name, at) && !unclosed.contains(name));
                match name.and_then(|name| end_in_paragraph(&events[at..], name)) {
                    Some(length) => at += length,
                    None => {
                        unclosed.extend(name);
                        shown.push(event.clone());
                    }
                }
            }
            _ => shown.push(event.clone()),
        }
        at += 1;
    }
    shown
}

/// Adds the blocks up to the end tag, without their texts, and what is behind the tag. Returns the number of its event.
fn skip_to_end<'a>(events: &[Event<'a>], from: usize, name: &str, shown: &mut Vec<Event<'a>>) -> usize {
    for (at, event) in events.iter().enumerate().skip(from) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                if let Some(end) = end_of(html, name) {
                    shown.push(Event::InlineHtml(html[end..].to_owned().into()));
                    return at;
                }
            }
            Event::Start(Tag::Image { .. } | Tag::Link { .. } | Tag::HtmlBlock)
            | Event::End(TagEnd::Image | TagEnd::Link | TagEnd::HtmlBlock) => {}
            Event::Start(_) | Event::End(_) => shown.push(event.clone()),
            _ => {}
        }
    }
    events.len()
}

/// How many events are before the end tag, if it is in the paragraph that the first event is in.
fn end_in_paragraph(events: &[Event<'_>], name: &str) -> Option<usize> {
    let mut rest = events.iter().take_while(|event| is_of_paragraph(event));
    rest.position(|event| closes(event, name))
}

/// Whether a paragraph goes on with the event.
fn is_of_paragraph(event: &Event<'_>) -> bool {
    let is_inline = |tag: &TagEnd| {
        matches!(
            tag,
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image
        )
    };
    match event {
        Event::Start(tag) => is_inline(&tag.to_end()),
        Event::End(tag) => is_inline(tag),
        _ => true,
    }
}

/// The last event with an end tag of each hidden element.
fn last_ends(events: &[Event<'_>]) -> HashMap<&'static str, usize> {
    let mut ends = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        for name in HIDDEN.into_iter().filter(|name| closes(event, name)) {
            ends.insert(name, at);
        }
    }
    ends
}

fn html_of<'a>(event: &'a Event<'_>) -> Option<&'a str> {
    match event {
        Event::Html(html) | Event::InlineHtml(html) => Some(html),
        _ => None,
    }
}

fn closes(event: &Event<'_>, name: &str) -> bool {
    html_of(event).is_some_and(|html| end_of(html, name).is_some())
}

/// Where the first end tag of the element ends.
fn end_of(html: &str, name: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = html[at..].find("</") {
        at += start + 2;
        if tag_name(&html[at..]).eq_ignore_ascii_case(name) {
            return Some(html[at..].find('>').map_or(html.len(), |end| at + end + 1));
        }
    }
    None
}

/// The hidden element that the tag opens.
fn opened(tag: &str) -> Option<&'static str> {
    if !tag[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let name = tag_name(tag);
    HIDDEN.into_iter().find(|hidden| hidden.eq_ignore_ascii_case(name))
}

/// HTML without the hidden content that ends in it.
struct Cut {
    kept: String,
    open: Option<OpenElement>,
}

/// A hidden element that does not end.
struct OpenElement {
    name: &'static str,
    /// Where it starts in the HTML. Nothing is kept from there on.
    start: usize,
}

fn cut(html: &str) -> Cut {
    let mut kept = String::with_capacity(html.len());
    let last_comment = html.rfind("-->").unwrap_or(0);
    let mut at = 0;
    while let Some(start) = html[at..].find('<').map(|start| at + start) {
        kept.push_str(&html[at..start]);
        let tag = &html[start..];
        let is_comment = tag.starts_with("<!--") && start < last_comment;
        let name = opened(tag);
        at = start
            + match (name, name.and_then(|name| end_of(tag, name))) {
                (Some(_), Some(end)) => end,
                (Some(name), None) => {
                    let open = Some(OpenElement { name, start });
                    return Cut { kept, open };
                }
                (None, _) => {
                    let comment = if is_comment { tag.find("-->") } else { None };
                    let length = comment.map_or(1, |end| end + 3);
                    kept.push_str(&tag[..length]);
                    length
                }
            };
    }
    kept.push_str(&html[at..]);
    Cut { kept, open: None }
}
