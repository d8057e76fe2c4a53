//! Markdown, and which of its lines are code or comments, as CommonMark reads blocks. Such a line is never a heading or a
//! field. Indented code is known by its indent alone.
//!
//! `pulldown-cmark` finds the blocks. [`changelog`](crate::build::source::changelog) and
//! [`readme`](crate::build::source::readme) read the other lines.

use std::ops::Range;
use std::rc::Rc;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

/// A text in Markdown. Copies are cheap.
#[derive(Clone)]
pub struct Markdown<'a> {
    pub(crate) text: &'a str,
    pub(crate) verbatim: Rc<VerbatimLines>,
}

impl<'a> From<&'a str> for Markdown<'a> {
    fn from(text: &'a str) -> Self {
        Self {
            text,
            verbatim: Rc::new(VerbatimLines::of(text)),
        }
    }
}

impl<'a> From<&'a String> for Markdown<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

/// Why a line is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbatim {
    /// Code, or HTML that shows its text as it is.
    Code,
    /// An HTML comment or the like.
    Comment,
}

/// The lines of a text that are code or comments.
#[derive(Default)]
pub(crate) struct VerbatimLines(Vec<(Range<usize>, Verbatim)>);

/// HTML blocks that go on over blank lines: how they begin and end (CommonMark 0.31.2, section 4.6, kinds 1 to 5).
const HTML: [(&str, &str, Verbatim); 7] = [
    ("<!--", "-->", Verbatim::Comment),
    ("<?", "?>", Verbatim::Comment),
    ("<![cdata[", "]]>", Verbatim::Code),
    ("<pre", "</pre>", Verbatim::Code),
    ("<script", "</script>", Verbatim::Code),
    ("<style", "</style>", Verbatim::Code),
    ("<textarea", "</textarea>", Verbatim::Code),
];

/// How many blocks without an end to pass over.
const MAX_UNCLOSED: usize = 4;

impl VerbatimLines {
    /// Finds them. A block that nothing closes counts as none: it would take the rest of the text, such as all older
    /// entries of a changelog.
    pub(crate) fn of(text: &str) -> Self {
        if !may_have_blocks(text) {
            return Self::default();
        }
        let mut blocks = with_hash_headings(text);
        let mut passed = 0;
        loop {
            match Self::read(&blocks) {
                Ok(lines) => return lines,
                // What follows was read as a part of the block.
                Err(unclosed) if passed < MAX_UNCLOSED => {
                    let end = line_end(&blocks, unclosed);
                    blank_out(&mut blocks, unclosed..end, " ");
                    passed += 1;
                }
                Err(_) => return Self::default(),
            }
        }
    }

    /// Why the line that begins at this offset is not read; `None` if it is.
    pub(crate) fn at(&self, line_start: usize) -> Option<Verbatim> {
        let before = self.0.partition_point(|(lines, _)| lines.start <= line_start);
        let (lines, kind) = self.0.get(before.checked_sub(1)?)?;
        lines.contains(&line_start).then_some(*kind)
    }

    /// Whether one of these lines is in the range.
    pub(crate) fn any_in(&self, range: Range<usize>) -> bool {
        let after = self.0.partition_point(|(lines, _)| lines.end <= range.start);
        self.0.get(after).is_some_and(|(lines, _)| lines.start < range.end)
    }

    /// The lines, or the offset of a block that nothing closes.
    fn read(text: &str) -> Result<Self, usize> {
        let mut lines = Vec::new();
        let is_rest = |range: &Range<usize>| text[range.end..].trim().is_empty();
        for (event, range) in Parser::new(text).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                    if is_rest(&range) && !is_closed_fence(&text[range.clone()]) {
                        return Err(range.start);
                    }
                    lines.push((whole_lines(text, range), Verbatim::Code));
                }
                Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => {
                    let html = &text[range.clone()];
                    let Some((_, end, kind)) = HTML.iter().find(|(start, ..)| begins_with(html, start)) else {
                        continue;
                    };
                    if is_rest(&range) && !contains(html, end) {
                        return Err(range.start);
                    }
                    lines.push((whole_lines(text, range), *kind));
                }
                _ => {}
            }
        }
        lines.sort_by_key(|(lines, _)| lines.start);
        Ok(Self(lines))
    }
}

/// Quickly rejects most texts.
fn may_have_blocks(text: &str) -> bool {
    let is_html = |at: usize| HTML.iter().any(|(start, ..)| begins_with(&text[at..], start));
    text.contains("```") || text.contains("~~~") || memchr::memchr_iter(b'<', text.as_bytes()).any(is_html)
}

/// Replaces `= heading =` by `# `: WordPress.org ends a block at such a heading. Every line keeps its length.
fn with_hash_headings(text: &str) -> String {
    let mut hashed = text.to_owned();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let indent = content.len() - content.trim_start_matches(' ').len();
        let title = &content[indent..];
        if indent < 4 && title.starts_with('=') && title.len() > 1 && !title.trim_matches('=').is_empty() {
            blank_out(&mut hashed, at + indent..at + content.len(), "#");
        }
        at += line.len();
    }
    hashed
}

/// Overwrites a range with `mark` and spaces.
fn blank_out(text: &mut String, range: Range<usize>, mark: &str) {
    let spaces = " ".repeat(range.len() - mark.len());
    text.replace_range(range, &format!("{mark}{spaces}"));
}

/// The lines that begin in the range, also the first one if only spaces are before the range.
fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    // A line may have very many comments, so this does not look for its start.
    let before = text[..range.start].trim_end_matches([' ', '\t']);
    let is_whole = before.is_empty() || before.ends_with('\n');
    (if is_whole { before.len() } else { range.start + 1 })..range.end
}

fn line_end(text: &str, start: usize) -> usize {
    text[start..].find('\n').map_or(text.len(), |end| start + end)
}

/// Whether the last line of a fenced block is a fence, too.
fn is_closed_fence(block: &str) -> bool {
    let mut lines = block.trim_end().lines();
    let open = lines.next().unwrap_or_default();
    let mark = open.chars().next().unwrap_or_default();
    // In a quotation or a list, other marks may be before it.
    let last = lines
        .next_back()
        .unwrap_or_default()
        .trim_start_matches(['>', ' ', '\t']);
    last.len() >= 3 && last.chars().all(|c| c == mark)
}

fn begins_with(html: &str, start: &str) -> bool {
    let html = html.trim_start();
    html.get(..start.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

fn contains(html: &str, end: &str) -> bool {
    html.to_ascii_lowercase().contains(end)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::build::source::testing::thread_time;

    /// The lines that are read, without the others.
    fn visible(text: &str) -> String {
        let lines = VerbatimLines::of(text);
        let mut at = 0;
        let mut kept = String::new();
        for line in text.split_inclusive('\n') {
            if lines.at(at).is_none() {
                kept.push_str(line);
            }
            at += line.len();
        }
        kept
    }

    #[test]
    fn code_and_comments_are_not_read() {
        for block in [
            "```\n## 1.2\n```\n",
            "````md\n## 1.2\n```\n# no\n````\n",
            "~~~ text\n= 1.2 =\n~~~\n",
            "```sh\n# 1.2 a comment\n```\n",
            "<!-- ## 1.2 -->\n",
            "<!--\n## 1.2\n\n- a draft\n-->\n",
            "<pre>\n## 1.2\n\n= 1.1 =\n</pre>\n",
            "<?php\n# 1.2\n\n?>\n",
        ] {
            let text = format!("## 1.3\n- First.\n\nText\n\n{block}\n- Last.\n\n## 1.2\n- Old.\n");
            assert_eq!(visible(&text), text.replace(block, ""), "{block}");
            let text = text
                .replace("## 1.3", "= 1.3 =")
                .replace("\n\n## 1.2\n- Old", "\n= 1.2 =\n- Old");
            assert!(visible(&text).ends_with("- Last.\n= 1.2 =\n- Old.\n"), "{text}");
        }
        let list = "- a\n\n  ```\n  ## 1.2\n  ```\n- ```\n  ## 1.2\n  ```\n- b\n";
        assert_eq!(visible(list), "- a\n\n- ```\n- b\n");
        let sentence = "A sentence <!-- with\n## no heading\n--> more\n## 1.2\n";
        assert!(visible(sentence).ends_with("## 1.2\n"));
    }

    #[test]
    fn what_only_looks_like_code_is_read() {
        for text in [
            "`## 1.2`\n## 1.1\n",
            "<h4>1.2</h4>\n<div>\n## 1.1\n</div>\n",
            "<!-- a -->",
            "= 1.2 =\n* a\n= 1.1 =\n",
        ] {
            assert_eq!(visible(text), text.replace("<!-- a -->", ""), "{text}");
        }
        assert_eq!(visible("<!-- a -->\n## 1.2\n<!-- b --> \n# 1.1\n"), "## 1.2\n# 1.1\n");
    }

    #[test]
    fn a_block_without_an_end_takes_nothing() {
        for open in ["```\n", "~~~\n", "<!-- draft\n", "<pre>\n", "```\n<!--\n"] {
            let text = format!("## 1.3\n\n{open}- a\n## 1.2\n- b\n");
            assert_eq!(visible(&text), text, "{open}");
        }
        let text = "<!-- draft\n- a\n## 1.2\n\n```\n# 1\n```\n- b\n";
        assert_eq!(visible(text), text.replace("```\n# 1\n```\n", ""));
    }

    #[test]
    fn hostile_markdown_takes_no_time() {
        for seed in [
            "a <!-- b --> ",
            "<!-- a -->\n",
            "<!-- a --> \n ",
            "```\n",
            "- ```\n",
            "~~~\n```\n",
            "<pre>\n",
            "<!--\n",
            "= a =\n<!--",
            "<?",
            "> ```\n",
        ] {
            let markdown = seed.repeat(1024 * 1024 / seed.len());
            let start = thread_time();
            VerbatimLines::of(&markdown);
            // Unoptimized; quadratic time would be minutes.
            let took = thread_time() - start;
            assert!(took < Duration::from_secs(5), "{seed:?}: {took:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(```|~~~|<!--|-->|<pre>|</pre>|    |\t|= ?|## |- |> |1\\.2|ß|\r?\n|\\PC){0,40}") {
            let shown = visible(&text);
            prop_assert!(shown.len() <= text.len());
        }
    }
}
