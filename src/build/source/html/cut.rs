//! Cuts texts that are too long: HTML at the end of a block, plain text at the end of a line.

use crate::build::source::html::plain_text::{end_of_tag, tag_name};

/// Marks a sentence that was cut.
const ELLIPSIS: &str = "…";

/// As much of sanitized HTML as fits in `limit` bytes, up to the end of a block; all elements are closed.
///
/// If whole blocks would use less than half of the limit, the next one is cut between two words.
pub fn cut_at_block(html: &str, limit: usize) -> String {
    if html.len() <= limit {
        return html.to_owned();
    }
    let mut open: Vec<&str> = Vec::new();
    let mut ends_length = 0;
    let mut block = None;
    let mut word = None;
    let mut at = 0;
    while at <= limit && at < html.len() {
        let rest = &html[at..];
        if rest.starts_with('<') {
            let name = tag_name(rest);
            at += end_of_tag(rest);
            if rest.starts_with("</") {
                open.pop();
                ends_length -= name.len() + "</>".len();
                if is_block(name) && at + ends_length <= limit {
                    block = Some((at, open.clone()));
                }
            } else if !tag_is_void(name) {
                open.push(name);
                ends_length += name.len() + "</>".len();
            }
        } else {
            let text = &rest[..rest.find('<').unwrap_or(rest.len())];
            let room = limit.checked_sub(at + ends_length + ELLIPSIS.len());
            if let Some(length) = room.map(|room| last_word(text, room)).filter(|length| *length > 0) {
                word = Some((at + length, open.clone()));
            }
            at += text.len();
        }
    }
    let (end, open, mark) = match (block, word) {
        (Some((end, open)), word) if end * 2 >= limit || word.as_ref().is_none_or(|(word, _)| *word < end) => {
            (end, open, "")
        }
        (_, Some((end, open))) => (end, open, ELLIPSIS),
        (Some((end, open)), None) => (end, open, ""),
        (None, None) => return String::new(),
    };
    let ends: String = open.iter().rev().map(|name| format!("</{name}>")).collect();
    format!("{}{mark}{ends}", html[..end].trim_end())
}

/// As much of a text as fits in `limit` bytes, up to the end of a line, or of a word if more than half of the limit
/// would stay unused.
pub fn cut_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let lines = cut_at_line(text, limit);
    if lines.contains('\n') && lines.len() * 2 >= limit {
        return lines.trim_end().to_owned();
    }
    let words = last_word(text, limit.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", text[..words].trim_end())
}

/// Elements with content. A heading alone has none.
fn is_block(name: &str) -> bool {
    matches!(name, "p" | "li" | "ul" | "ol" | "dl" | "dd" | "pre" | "blockquote")
}

/// The length of the words that fit into `room`; a single word may be cut, an entity never.
fn last_word(text: &str, room: usize) -> usize {
    if text.len() <= room {
        return text.len();
    }
    let end = (0..=room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let head = &text[..end];
    if let Some(blank) = head.rfind(char::is_whitespace).filter(|blank| *blank > 0) {
        return blank;
    }
    head.rfind('&')
        .filter(|start| !head[*start..].contains(';'))
        .unwrap_or(end)
}

/// At most `limit` bytes of the text: whole lines, if there is a line end to cut at.
pub(crate) fn cut_at_line(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let head = &text[..(0..=limit).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0)];
    &head[..head.rfind('\n').unwrap_or(head.len())]
}

/// Whether the element has no end tag.
fn tag_is_void(name: &str) -> bool {
    matches!(name, "br" | "img")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::source::html::from_markdown;
    use proptest::prelude::*;

    /// Whether every element that is opened is closed, in order.
    fn is_balanced(html: &str) -> bool {
        let mut open = Vec::new();
        let mut rest = html;
        while let Some(start) = rest.find('<') {
            let tag = &rest[start..];
            let name = tag_name(tag);
            if tag.starts_with("</") {
                if open.pop() != Some(name) {
                    return false;
                }
            } else if !matches!(name, "br" | "img") {
                open.push(name);
            }
            rest = &tag[end_of_tag(tag)..];
        }
        open.is_empty()
    }

    #[test]
    fn html_is_cut_behind_a_block() {
        let html = from_markdown("#### 1.2\n\n* one\n* two\n* three\n\nA paragraph.");
        for (limit, expected) in [
            (html.len(), &*html),
            (
                html.len() - 1,
                "<h4>1.2</h4>\n<ul>\n<li>one</li>\n<li>two</li>\n<li>three</li>\n</ul>",
            ),
            (50, "<h4>1.2</h4>\n<ul>\n<li>one</li>\n<li>two</li></ul>"),
        ] {
            assert_eq!(cut_at_block(&html, limit), expected);
        }
        let sentence = from_markdown(&format!("#### 1.2\n\n{}", "word ".repeat(100)));
        assert_eq!(cut_at_block(&sentence, 40), "<h4>1.2</h4>\n<p>word word word…</p>");
    }

    #[test]
    fn text_is_cut_at_a_line_or_else_at_a_word() {
        assert_eq!(cut_text("one\ntwo\nthree", 8), "one\ntwo");
        assert_eq!(cut_text("one two three", 12), "one two…");
        assert_eq!(cut_text("a\nbbb bbb bbb bbb", 14), "a\nbbb bbb…");
        assert_eq!(cut_text("one", 3), "one");
    }

    proptest! {
        #[test]
        fn what_was_cut_is_balanced_and_never_empty(
            markdown in "(word |&amp; |<b>|</b>|<ul><li>|`<x>`|\n\n|\n\\* |\n  \\* |# |[a](https://example.com/a)|> |ß|verylongword){1,60}",
            limit in 60_usize..400,
        ) {
            let html = from_markdown(&markdown);
            prop_assert!(is_balanced(&html), "{html}");
            let cut = cut_at_block(&html, limit);
            prop_assert!(cut.len() <= limit, "{cut}");
            prop_assert!(is_balanced(&cut), "{html}\n{cut}");
            let text = crate::build::source::html::plain_text::text_of(&html);
            if limit >= 200 && !text.trim().is_empty() && html.matches('<').count() < 12 {
                prop_assert!(!crate::build::source::html::plain_text::text_of(&cut).trim().is_empty(), "{html}\n{cut}");
            }
        }
    }
}
