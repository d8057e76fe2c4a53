//! Markdown, and which of its lines are no headings, as CommonMark reads blocks: code, comments, quotations, tables and the
//! like. Indented code is known by its indent alone.
//!
//! `pulldown-cmark` finds the blocks. [`changelog`](crate::build::source::changelog) and
//! [`readme`](crate::build::source::readme) read the other lines.

use std::ops::Range;
use std::rc::Rc;

use memchr::{memchr3, memmem};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A text in Markdown. Copies are cheap.
#[derive(Clone)]
pub struct Markdown<'a> {
    pub(crate) text: &'a str,
    pub(crate) blocks: Rc<BlockLines>,
}

impl<'a> From<&'a str> for Markdown<'a> {
    fn from(text: &'a str) -> Self {
        Self {
            text,
            blocks: Rc::new(BlockLines::of(text)),
        }
    }
}

impl<'a> From<&'a String> for Markdown<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

/// The block in which a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Code, or HTML that shows its text as it is.
    Code,
    /// What nobody sees: an HTML comment or the like, the target of a link, the fields at the start of a page.
    Comment,
    /// A table.
    Table,
    /// A quotation.
    Quotation,
    /// A quotation that GitHub shows as a note: `> [!NOTE]`.
    Alert,
    /// Other HTML.
    Html,
    /// A heading in an item of a list, or a footnote.
    Nested,
}

/// The lines of a text that are in such blocks.
#[derive(Default)]
pub(crate) struct BlockLines(Vec<(Range<usize>, Block)>);

/// HTML that is not read: how it begins and ends. But for the last one, blocks of it go on over blank lines (CommonMark
/// 0.31.2, section 4.6, kinds 1 to 5).
const HTML: [(&str, &str, Block); 9] = [
    ("<!--", "-->", Block::Comment),
    ("<?", "?>", Block::Comment),
    ("<![cdata[", "]]>", Block::Code),
    ("<!", ">", Block::Comment),
    ("<pre", "</pre>", Block::Code),
    ("<script", "</script>", Block::Code),
    ("<style", "</style>", Block::Code),
    ("<textarea", "</textarea>", Block::Code),
    CODE,
];

/// To WordPress.org, its text is code over blank lines, too.
const CODE: (&str, &str, Block) = ("<code", "</code>", Block::Code);

/// The most passes over a text: for blocks without an end, and for [`CODE`] that other code hid.
const MAX_AGAIN: usize = 4;

/// What was read as a part of another block, and has to be read again.
enum Again {
    /// Behind the start of a block that nothing closes.
    Unclosed(usize),
    /// Between code elements.
    Code(Vec<Range<usize>>),
}

impl BlockLines {
    /// Finds them. A block that nothing closes counts as none: it would take the rest of the text, such as all older
    /// entries of a changelog.
    pub(crate) fn of(text: &str) -> Self {
        if !may_have_blocks(text) {
            return Self::default();
        }
        let mut blocks = with_hash_headings(text);
        let mut apart = Vec::new();
        if let Some(end) = end_of_front_matter(text) {
            blank_lines_out(&mut blocks, 0..end);
            apart.push((0..end, Block::Comment));
        }
        for _ in 0..=MAX_AGAIN {
            match read(text, &blocks) {
                Ok(mut lines) => {
                    lines.append(&mut apart);
                    return Self(in_order(lines));
                }
                Err(Again::Unclosed(start)) => {
                    let end = line_end(&blocks, start);
                    blank_out(&mut blocks, start..end, " ");
                }
                Err(Again::Code(elements)) => {
                    for element in elements {
                        blank_lines_out(&mut blocks, element.clone());
                        apart.push((element, Block::Code));
                    }
                }
            }
        }
        Self(in_order(apart))
    }

    /// The block of the line that begins at this offset; `None` if it may be a heading or a field.
    pub(crate) fn at(&self, line_start: usize) -> Option<Block> {
        let before = self.0.partition_point(|(lines, _)| lines.start <= line_start);
        let (lines, kind) = self.0.get(before.checked_sub(1)?)?;
        lines.contains(&line_start).then_some(*kind)
    }

    /// Whether the line that begins at this offset may be a heading.
    pub(crate) fn may_be_heading(&self, line_start: usize, line: &str) -> bool {
        match self.at(line_start) {
            None => true,
            // WordPress.org looks for its own headings first.
            Some(Block::Html) => line.trim_start().starts_with(['=', '<']),
            Some(_) => false,
        }
    }

    /// Whether one of these lines is in the range.
    pub(crate) fn any_in(&self, range: Range<usize>) -> bool {
        let after = self.0.partition_point(|(lines, _)| lines.end <= range.start);
        self.0.get(after).is_some_and(|(lines, _)| lines.start < range.end)
    }
}

/// The lines of the blocks in `blocks`, which is `text` with [other headings](with_hash_headings).
fn read(text: &str, blocks: &str) -> Result<Vec<(Range<usize>, Block)>, Again> {
    let mut found = Vec::new();
    let mut code_elements: Vec<Range<usize>> = Vec::new();
    let mut lists = 0;
    let last_code = memmem::rfind(blocks.as_bytes(), CODE.1.as_bytes()).unwrap_or(0);
    let is_rest = |range: &Range<usize>| blocks[range.end..].trim().is_empty();
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_GFM;
    let mut events = Parser::new_ext(blocks, options).into_offset_iter();
    for (_, definition) in events.reference_definitions().iter() {
        found.push((whole_lines(blocks, definition.span.clone()), Block::Comment));
    }
    for (event, range) in &mut events {
        if code_elements.last().is_some_and(|code| range.start < code.end) {
            continue;
        }
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                if is_rest(&range) && !is_closed_fence(&blocks[range.clone()]) {
                    return Err(Again::Unclosed(range.start));
                }
                found.push((whole_lines(blocks, range), Block::Code));
            }
            Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => {
                let html = &blocks[range.clone()];
                let known = HTML.iter().find(|(start, ..)| begins_with(html, start));
                if let Some((_, end, _)) = known.filter(|known| **known != CODE)
                    && is_rest(&range)
                    && !contains(html, end)
                {
                    return Err(Again::Unclosed(range.start));
                }
                let lines = whole_lines(blocks, range.clone());
                if known == Some(&CODE) && range.start < last_code && lines.start <= range.start {
                    let line = line_end(blocks, range.start);
                    if !contains(&blocks[range.start..line], CODE.1)
                        && let Some(end) = blocks[line..].find(CODE.1)
                    {
                        code_elements.push(lines.start..line_end(blocks, line + end));
                        continue;
                    }
                }
                match (known, event) {
                    (Some((_, _, kind)), Event::InlineHtml(_)) => found.push((lines, *kind)),
                    (_, Event::Start(_)) => html_lines(blocks, lines, &mut found),
                    _ => {}
                }
            }
            Event::Start(Tag::Table(_)) => found.push((whole_lines(blocks, range), Block::Table)),
            Event::Start(Tag::BlockQuote(kind)) => {
                let kind = kind.map_or(Block::Quotation, |_| Block::Alert);
                found.push((whole_lines(blocks, range), kind));
            }
            Event::Start(Tag::FootnoteDefinition(_)) => found.push((whole_lines(blocks, range), Block::Nested)),
            Event::Start(Tag::List(_)) => lists += 1,
            Event::End(TagEnd::List(_)) => lists -= 1,
            // Authors indent WordPress' headings as they like.
            Event::Start(Tag::Heading { .. }) if lists > 0 && !text[range.start..].starts_with('=') => {
                found.push((whole_lines(blocks, range), Block::Nested));
            }
            _ => {}
        }
    }
    if code_elements.is_empty() {
        Ok(found)
    } else {
        Err(Again::Code(code_elements))
    }
}

/// The lines of an HTML block, where comments and code are not HTML.
fn html_lines(text: &str, block: Range<usize>, found: &mut Vec<(Range<usize>, Block)>) {
    let html = text[block.clone()].to_ascii_lowercase();
    let mut inside: Option<(&str, Block)> = None;
    let mut at = 0;
    for line in html.split_inclusive('\n') {
        let own = inside.map_or(Block::Html, |(_, kind)| kind);
        // How far the line was read.
        let mut rest = line;
        let mut first = None;
        while !rest.is_empty() {
            match inside {
                Some((end, _)) => match rest.find(end) {
                    Some(found) => {
                        rest = &rest[found + end.len()..];
                        inside = None;
                    }
                    None => rest = "",
                },
                None => match rest.find('<') {
                    Some(found) => {
                        let is_first = line[..line.len() - rest.len() + found].trim().is_empty();
                        rest = &rest[found..];
                        let known = HTML.iter().find(|(start, ..)| begins_with(rest, start));
                        inside = known.map(|(_, end, kind)| (*end, *kind));
                        first = first.or(inside.filter(|_| is_first));
                        rest = &rest[1..];
                    }
                    None => rest = "",
                },
            }
        }
        let start = block.start + at;
        let kind = first.map_or(own, |(_, kind)| kind);
        found.push((start..start + line.len(), kind));
        at += line.len();
    }
}

/// Sorts ranges by their start. Where two have a line, the first one counts.
fn in_order(mut found: Vec<(Range<usize>, Block)>) -> Vec<(Range<usize>, Block)> {
    found.sort_by_key(|(lines, _)| lines.start);
    let mut end = 0;
    for (lines, _) in &mut found {
        lines.start = lines.start.max(end);
        end = lines.end.max(end);
    }
    found.retain(|(lines, _)| lines.start < lines.end);
    found
}

/// Quickly rejects most texts. With `str::contains`, this took a third of the CPU time of a build.
fn may_have_blocks(text: &str) -> bool {
    let bytes = text.as_bytes();
    let marks = ["```", "~~~", "]:", "  #", "\t#", "  --", "  ==", "\t--", "\t=="];
    memchr3(b'<', b'>', b'|', bytes).is_some()
        || text.starts_with(FRONT)
        || marks.iter().any(|mark| memmem::find(bytes, mark.as_bytes()).is_some())
}

/// The line above and below the fields at the start of a page.
const FRONT: &str = "---";

/// Where the fields at the start of a page end: YAML between two lines of hyphens, as site generators read it.
fn end_of_front_matter(text: &str) -> Option<usize> {
    let mut lines = text.split_inclusive('\n');
    let mut at = lines.next().filter(|line| line.trim_end() == FRONT)?.len();
    for (number, line) in lines.enumerate() {
        at += line.len();
        let content = line.trim_end();
        if number > 0 && matches!(content, FRONT | "...") {
            return Some(at);
        }
        let is_field = content.starts_with([' ', '\t', '#', '-']) || content.split_once(':').is_some();
        // A rule above a text.
        if number == 0 && !is_field || content.is_empty() {
            return None;
        }
    }
    None
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

/// Overwrites lines with spaces.
fn blank_lines_out(text: &mut String, range: Range<usize>) {
    let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
    let blanks: String = text[range.clone()].bytes().map(blank).collect();
    text.replace_range(range, &blanks);
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
    // `<prefix>` is no `<pre>`.
    let is_whole = |rest: &str| !start.ends_with(char::is_alphanumeric) || !rest.starts_with(char::is_alphanumeric);
    html.split_at_checked(start.len())
        .is_some_and(|(begin, rest)| begin.eq_ignore_ascii_case(start) && is_whole(rest))
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
        let lines = BlockLines::of(text);
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
        for text in ["`## 1.2`\n## 1.1\n", "<!-- a -->", "= 1.2 =\n* a\n= 1.1 =\n"] {
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
            "> a\n",
            "<code>\n\n",
            "<code>\n\n</code>\n\n",
            "<div>\n",
            "<div><!--",
            "[a]: b\n",
            "a | b\n--|--\n",
            "- a\n  # b\n",
            "[^a]: b\n",
            "---\na: b\n",
            "<!a",
        ] {
            let markdown = seed.repeat(1024 * 1024 / seed.len());
            let start = thread_time();
            BlockLines::of(&markdown);
            // Unoptimized; quadratic time would be minutes.
            let took = thread_time() - start;
            assert!(took < Duration::from_secs(5), "{seed:?}: {took:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(```|~~~|<!--|-->|<pre>|</pre>|<code>|</code>|<div>|<!|---|: |\\[\\^?a\\]:|\\||    |\t|= ?|## |- |> |1\\.2|ß|\r?\n|\\PC){0,40}") {
            let shown = visible(&text);
            prop_assert!(shown.len() <= text.len());
        }
    }
}
