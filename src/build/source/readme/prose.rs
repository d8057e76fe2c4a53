//! Tells the text of a readme from what is around it: fields, badges, comments, code, tables, and lines of links.

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::build::source::changelog;
use crate::build::source::html;
use crate::build::source::markdown::{Block, BlockLines};
use crate::build::source::readme::fields::{field, is_known};

/// The lines of a paragraph that say something, with their numbers from 0.
pub(super) struct Paragraph<'a>(Vec<(usize, &'a str)>);

impl<'a> Paragraph<'a> {
    /// The fields of the readme in it, with their lines.
    pub(super) fn fields(&self) -> impl Iterator<Item = (usize, String, &'a str)> {
        self.0.iter().filter_map(|(number, line)| {
            let (name, value) = field(line)?;
            is_known(&name).then_some((*number, name, value))
        })
    }

    /// Whether it is text: no fields, and not only a heading.
    pub(super) fn is_text(&self) -> bool {
        self.fields().next().is_none() && !self.is_heading()
    }

    fn is_heading(&self) -> bool {
        let is_heading = |line: &str| line.starts_with(['=', '#']) || changelog::is_underline(line);
        let is_underlined = matches!(self.0[..], [_, (_, line)] if changelog::is_underline(line));
        is_underlined || self.0.iter().all(|(_, line)| is_heading(line))
    }

    /// Its lines.
    pub(super) fn text(&self) -> String {
        let lines: Vec<&str> = self.0.iter().map(|(_, line)| *line).collect();
        lines.join("\n")
    }
}

/// The paragraphs of a text in Markdown. None is empty.
pub(super) fn paragraphs(markdown: &str) -> Vec<Paragraph<'_>> {
    let blocks = BlockLines::of(markdown);
    let mut paragraphs = vec![Paragraph(Vec::new())];
    let mut at = 0;
    for (number, line) in markdown.split_inclusive('\n').enumerate() {
        let content = line.trim();
        let is_read = matches!(
            blocks.at(at),
            None | Some(Block::Quotation | Block::Html | Block::Nested)
        );
        at += line.len();
        let Some(Paragraph(open)) = paragraphs.last_mut() else {
            continue;
        };
        let underlines = changelog::is_underline(content) && !open.is_empty();
        if content.is_empty() {
            if !open.is_empty() {
                paragraphs.push(Paragraph(Vec::new()));
            }
        } else if is_read && (underlines || !is_decoration(content)) {
            open.push((number, content));
        }
    }
    paragraphs.retain(|Paragraph(lines)| !lines.is_empty());
    paragraphs
}

/// Whether a line has no words about the plugin: only pictures, tags, a rule, the target of a link, or links.
pub(super) fn is_decoration(line: &str) -> bool {
    // Most lines.
    if line.starts_with(char::is_alphanumeric) && !line.contains('<') {
        return false;
    }
    // `[TOC]`, `[[_TOC_]]` and `{:toc}` become a table of contents.
    let mark = line.trim_matches(['[', ']', '{', '}', '_', ':']);
    if line.starts_with(['[', '{']) && mark.eq_ignore_ascii_case("toc") {
        return true;
    }
    // The targets may be anywhere in the readme.
    let resolve = |link: BrokenLink<'_>| {
        let is_explicit = !matches!(link.link_type, LinkType::Shortcut | LinkType::ShortcutUnknown);
        is_explicit.then_some((CowStr::Borrowed("https:"), CowStr::Borrowed("")))
    };
    let mut seen = SeenLine::default();
    for event in Parser::new_with_broken_link_callback(line, Options::empty(), Some(resolve)) {
        match event {
            Event::Start(Tag::Image { .. }) => seen.pictures += 1,
            Event::End(TagEnd::Image) => seen.pictures -= 1,
            Event::Start(Tag::Link { dest_url, .. }) => seen.open_link(dest_url.starts_with('#')),
            Event::End(TagEnd::Link) => seen.link = None,
            Event::Text(text) | Event::Code(text) => seen.text(&text),
            Event::Html(tags) | Event::InlineHtml(tags) => seen.html(&tags),
            _ => {}
        }
    }
    !seen.has_words && (seen.pages >= 2 || seen.pages == seen.anchors)
}

/// What a line shows.
#[derive(Default)]
struct SeenLine {
    /// How many pictures are open.
    pictures: usize,
    /// Whether the open link leads to a part of the page; `None` if no link is open.
    link: Option<bool>,
    /// Whether the open link was counted.
    is_counted: bool,
    /// Links with a text.
    pages: usize,
    /// Those of them that lead to a part of the page.
    anchors: usize,
    /// Words outside of links.
    has_words: bool,
}

impl SeenLine {
    fn open_link(&mut self, is_anchor: bool) {
        self.link = Some(is_anchor);
        self.is_counted = false;
    }

    fn text(&mut self, text: &str) {
        // `:rocket:`
        let is_sign = |word: &&str| word.len() > 2 && word.starts_with(':') && word.ends_with(':');
        let mut words = text.split_whitespace().filter(|word| !is_sign(word));
        if self.pictures > 0 || !words.any(|word| word.contains(char::is_alphanumeric)) {
            return;
        }
        match self.link {
            None => self.has_words = true,
            Some(is_anchor) if !self.is_counted => {
                self.is_counted = true;
                self.pages += 1;
                self.anchors += usize::from(is_anchor);
            }
            Some(_) => {}
        }
    }

    fn html(&mut self, html: &str) {
        let mut rest = html;
        while let Some(start) = rest.find('<') {
            self.text(&html::strip(&rest[..start]));
            let tag = &rest[start..];
            let end = tag.find('>').map_or(tag.len(), |end| end + 1);
            let name = tag[1..end].to_ascii_lowercase();
            if name.starts_with("a ") {
                self.open_link(name.contains("=\"#") || name.contains("='#"));
            } else if name.starts_with("/a") {
                self.link = None;
            }
            rest = &tag[end..];
        }
        self.text(&html::strip(rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn badges_and_lines_of_links_are_decoration() {
        for line in [
            "![Banner](banner.png)",
            "[![License](https://e.example/l.svg)](https://e.example/)",
            "[![Build][build-badge]][build] [![Code][code-badge]][code]",
            "<p align=\"center\"><img src=\"logo.png\" alt=\"Logo\"></p>",
            "<a href=\"https://e.example\"><img src=\"x.svg\"></a>",
            "<p align=\"center\">",
            "<br/>",
            "---",
            "* * *",
            "[build]: https://e.example/build",
            ":rocket: [Getting Started](#getting-started) - :computer: [SDK Usage](#sdk-usage) - [Feedback](#feedback)",
            "* [Installation](#installation)",
            "[Website](https://e.example/) | [Docs][docs] | **[Support](https://e.example/s)**",
            "<a href=\"#a\">Install</a> &bull; <a href=\"#b\">Use</a>",
        ] {
            assert!(is_decoration(line), "{line}");
        }
        for line in [
            "A short text.",
            "WordPress Plugin for [Acme](https://e.example) Authentication",
            "**Acme**",
            "[Acme](https://e.example/)",
            "* Forms",
            "![Logo](x.png) Acme makes forms",
            "<p align=\"center\">Forms for all.</p>",
            "`acme` adds a field",
            "[note] Forms",
            "# Acme",
        ] {
            assert!(!is_decoration(line), "{line}");
        }
    }

    #[test]
    fn paragraphs_have_what_says_something() {
        let text = "![Banner](b.png)\nForms.\n<!-- a\n\nb -->\nFor all.\n\n```\ncode\n```\n\n---\n\nTitle\n-----\n\n**Tags:** a\n";
        let paragraphs = paragraphs(text);
        let texts: Vec<_> = paragraphs
            .iter()
            .map(|paragraph| (paragraph.text(), paragraph.is_text()))
            .collect();
        let expected = [
            ("Forms.", true),
            ("For all.", true),
            ("Title\n-----", false),
            ("**Tags:** a", false),
        ];
        assert_eq!(texts, expected.map(|(text, is_text)| (text.to_owned(), is_text)));
        assert_eq!(paragraphs[3].fields().next(), Some((16, "tags".to_owned(), "a")));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "(\\[|\\]|\\(|\\)|!|<a href=\"#|\">|</a>|<|>|:x:|#|\\* |\\PC){0,20}") {
            is_decoration(&line);
        }
    }
}
