//! Converts Markdown to sanitized HTML, and both to plain text.
//!
//! Administrators of customers' sites see the result. So all HTML is sanitized, whatever made it, and plain text is
//! made from sanitized HTML.

mod cut;
mod hidden;
mod plain_text;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use crate::build::source::cache::rendered;
use crate::build::source::changelog::{CODE_INDENT, indent};
use crate::build::source::encoding::without_controls;
use crate::build::source::markdown::{Block, BlockLines};
use plain_text::{end_of_tag, push_decoded, tag_name, text_of};

pub use crate::build::source::encoding::decode;
pub(crate) use cut::cut_at_line;
pub use cut::{cut_at_block, cut_text};

/// The longest Markdown to render, in bytes; longer text is cut at a line. WordPress.org stops at 5,000 words.
pub(crate) const MARKDOWN_LIMIT: usize = 64 * 1024;

/// The longest line of HTML to strip, in bytes: what WordPress reads of a plugin header.
const LINE_LIMIT: usize = 8 * 1024;

/// The deepest nesting of elements. The HTML parser needs time quadratic in the depth.
const MAX_DEPTH: usize = 32;

/// Elements that the CMS's details window shows, and plain formatting. Of `div`, `span` and tables, the text stays.
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
pub fn from_markdown(markdown: &str) -> Rc<str> {
    rendered(cut_at_line(markdown, MARKDOWN_LIMIT), |markdown| {
        let markdown = with_markdown_headings(markdown);
        let mut html = String::with_capacity(markdown.len() * 3 / 2);
        pulldown_cmark::html::push_html(&mut html, hidden::shown_events(&markdown).into_iter());
        sanitize(&html)
    })
}

/// The same up to a number of bytes of HTML: as many whole paragraphs as fit, and `…` if something is missing.
pub fn from_markdown_up_to(markdown: &str, limit: usize) -> String {
    const MORE: &str = "\n<p>…</p>";
    let whole = from_markdown(markdown);
    // Rendering has a limit of its own beyond this.
    if whole.len() <= limit && markdown.len() <= MARKDOWN_LIMIT {
        return whole.to_string();
    }
    let mut kept = markdown;
    let mut most = limit.min(markdown.len());
    loop {
        kept = cut_at_paragraph(kept, most);
        let html = from_markdown(kept);
        if html.is_empty() || html.len() + MORE.len() <= limit {
            return if html.is_empty() {
                String::new()
            } else {
                format!("{html}{MORE}")
            };
        }
        // Markup is longer than its Markdown. Small steps, so that little is lost.
        most = kept.len() * 7 / 8;
    }
}

/// At most `limit` bytes: whole paragraphs if one ends there, else whole lines.
fn cut_at_paragraph(text: &str, limit: usize) -> &str {
    let head = cut_at_line(text, limit);
    if head.len() == text.len() {
        head
    } else {
        head[..head.rfind("\n\n").unwrap_or(head.len())].trim_end()
    }
}

/// The text of Markdown without markup and entities. Items start with `- ` or their number; paragraphs are separate.
pub fn to_plain_text(markdown: &str) -> String {
    text_of(&from_markdown(markdown))
}

/// Plain text as HTML: paragraphs and line ends, and nothing is markup.
pub(crate) fn from_plain_text(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let paragraphs = escaped.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty());
    let paragraphs: Vec<_> = paragraphs
        .map(|paragraph| format!("<p>{}</p>", paragraph.trim().replace('\n', "<br>\n")))
        .collect();
    paragraphs.join("\n")
}

/// One line of HTML, at most 8 KiB of it, as plain text: no tags, no entities.
pub(crate) fn strip(html: &str) -> String {
    let html = cut_at_line(html, LINE_LIMIT);
    let text = if html.contains(['<', '&']) {
        text_of(&sanitize(&hidden::shown(html))).replace('\n', " ")
    } else {
        html.to_owned()
    };
    text.trim().to_owned()
}

/// The URL of the first link in sanitized HTML.
pub(crate) fn first_address(html: &str) -> Option<String> {
    let tag = &html[html.find("<a ")?..];
    let tag = &tag[..end_of_tag(tag)];
    let (_, address) = tag.split_once("href=\"")?;
    let mut decoded = String::new();
    push_decoded(&mut decoded, address.split('"').next()?);
    Some(decoded)
}

/// `= heading =`, a heading of WordPress.org that Markdown does not have.
fn with_markdown_headings(markdown: &str) -> Cow<'_, str> {
    fn heading(line: &str) -> Option<&str> {
        let title = line.trim().strip_prefix('=')?.strip_suffix('=')?;
        Some(title.trim_matches(['=', ' ', '\t'])).filter(|title| !title.is_empty())
    }
    if !markdown.contains('=') {
        return markdown.into();
    }
    let blocks = BlockLines::of(markdown);
    let mut at = 0;
    let mut changed = String::with_capacity(markdown.len() + markdown.len() / 16);
    for line in markdown.split_inclusive('\n') {
        match (heading(line).filter(|_| indent(line) < CODE_INDENT), blocks.at(at)) {
            (Some(title), None) => changed += &format!("#### {title}\n"),
            // In HTML, Markdown marks no heading.
            (Some(title), Some(Block::Html)) => changed += &format!("<h4>{title}</h4>\n"),
            _ => changed.push_str(line),
        }
        at += line.len();
    }
    changed.into()
}

fn sanitize(html: &str) -> String {
    // SECURITY: ammonia decides what is safe. The step before it only saves text that an HTML parser would swallow.
    without_controls(SANITIZER.clean(&without_unknown_tags(html)).to_string())
        .trim()
        .to_owned()
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

/// Removes forbidden tags and keeps their content, as `wp_kses` does.
///
/// "Fixed the `<title>` tag" would otherwise make an HTML parser swallow everything up to `</title>`.
fn without_unknown_tags(html: &str) -> String {
    // Where the last tag and the last comment end. Searching beyond would take quadratic time.
    let (html, tail) = html.split_at(html.rfind('>').map_or(0, |end| end + 1));
    let last_comment = html.rfind("-->").unwrap_or(0);
    let mut kept = String::with_capacity(html.len() + tail.len());
    let mut depth = 0;
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        kept.push_str(&rest[..start]);
        rest = &rest[start..];
        let is_tag = rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
        let is_comment = rest.starts_with("<!--") && html.len() - rest.len() < last_comment;
        let end = match (is_tag, is_comment) {
            (false, _) => None,
            (true, false) => rest.find('>').map(|end| end + 1),
            (true, true) => rest.find("-->").map(|end| end + 3),
        };
        match end {
            Some(end) => {
                if may_stay(&rest[..end], &mut depth) {
                    kept.push_str(&rest[..end]);
                }
                rest = &rest[end..];
            }
            // Only a sign.
            None => {
                kept.push_str("&lt;");
                rest = &rest[1..];
            }
        }
    }
    kept.push_str(rest);
    kept.push_str(&tail.replace('<', "&lt;"));
    kept
}

fn may_stay(tag: &str, depth: &mut usize) -> bool {
    let name = tag_name(tag);
    if !TAGS.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return false;
    }
    // These end by themselves, so that a long list without end tags is not deep.
    if ["li", "p", "dt", "dd", "br", "img"]
        .iter()
        .any(|flat| flat.eq_ignore_ascii_case(name))
    {
        return true;
    }
    if tag.starts_with("</") {
        *depth = depth.saturating_sub(1);
        return true;
    }
    *depth += 1;
    *depth <= MAX_DEPTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::source::html::plain_text::end_of_tag;
    use crate::build::source::testing::thread_time;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn markdown_becomes_the_html_the_cms_shows() {
        for (markdown, expected) in [
            ("", ""),
            (
                "*a* **b** `<c>`",
                "<p><em>a</em> <strong>b</strong> <code>&lt;c&gt;</code></p>",
            ),
            ("= Heading =\ntext", "<h4>Heading</h4>\n<p>text</p>"),
            ("text\n* item", "<p>text</p>\n<ul>\n<li>item</li>\n</ul>"),
            (
                "[a](https://example.com/ \"t\")",
                "<p><a href=\"https://example.com/\" title=\"t\" rel=\"nofollow noopener noreferrer\">a</a></p>",
            ),
            (
                "![a](https://example.com/a.png)",
                "<p><img src=\"https://example.com/a.png\" alt=\"a\"></p>",
            ),
            ("AT&T &copy; 1 < 2", "<p>AT&amp;T © 1 &lt; 2</p>"),
        ] {
            assert_eq!(&*from_markdown(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn plain_text_is_shown_as_it_is() {
        for (text, expected) in [
            ("", ""),
            (
                "a <b> & *c*\n- d\n\n\n\ne",
                "<p>a &lt;b&gt; &amp; *c*<br>\n- d</p>\n<p>e</p>",
            ),
        ] {
            assert_eq!(from_plain_text(text), expected);
            assert_eq!(sanitize(expected), expected);
        }
    }

    #[test]
    fn headings_of_wordpress_in_code_stay_code() {
        let markdown = "= 1.2 =\n\n```\n= 1.1 =\n```\n\n    = 1.0 =\n";
        let expected = "<h4>1.2</h4>\n<pre><code>= 1.1 =\n</code></pre>\n<pre><code>= 1.0 =\n</code></pre>";
        assert_eq!(&*from_markdown(markdown), expected);
    }

    #[test]
    fn a_section_is_cut_behind_a_paragraph_and_within_its_limit() {
        assert_eq!(from_markdown_up_to("", 100), "");
        assert_eq!(from_markdown_up_to("a\n\nb", 100), "<p>a</p>\n<p>b</p>");
        for unit in [
            "= Why? =\n\nBecause of *this* & that.\n\n",
            "x",
            "* item\n",
            "<b>",
            "&",
            "ü ",
            "> ",
            "1. a\n\n   b\n\n",
        ] {
            let text = unit.repeat(100_000 / unit.len());
            for limit in [64, 1000, 8192] {
                let html = from_markdown_up_to(&text, limit);
                assert!(html.len() <= limit, "{unit}: {}", html.len());
                assert!(html.is_empty() || html.ends_with("\n<p>…</p>"), "{unit}: {html}");
            }
        }
        let html = from_markdown_up_to(&"= Why? =\n\nBecause.\n\n".repeat(1000), 8192);
        assert!(
            html.len() > 6000 && html.ends_with("<p>Because.</p>\n<p>…</p>"),
            "{}",
            html.len()
        );
    }

    #[test]
    fn nothing_that_runs_or_tracks_gets_through() {
        for (markdown, expected) in [
            ("a <script>alert(1)</script> b", "<p>a  b</p>"),
            ("<style>p {}</style>", ""),
            ("<STYLE type=\"x\">\np {}\n\nq {}\n</style>\n\nb", "<p>b</p>"),
            (
                "<div>\n<style>\np {}\n\nq {}\n</style>\n</div>\n\nb",
                "<p></p>\n\n<p>b</p>",
            ),
            ("<textarea rows=2>x\n\ny</textarea>\n\nb", "<p>b</p>"),
            ("a <textarea>x</textarea> b", "<p>a  b</p>"),
            ("<title>x</title>\n\nb", "<p>b</p>"),
            (
                "a <title>*x* `y` ![z](https://e.example/z.png)</title> b",
                "<p>a  b</p>",
            ),
            ("<template>x</template> b", "<p> b</p>"),
            ("<script>document.write('<p>x</p>')</script>\n\nb", "<p>b</p>"),
            ("<b onclick=\"x()\" style=\"a:b\" class=\"c\">a</b>", "<p><b>a</b></p>"),
            (
                "[a](javascript:x)",
                "<p><a rel=\"nofollow noopener noreferrer\">a</a></p>",
            ),
            (
                "<a href=\"java\nscript:x\">a</a>",
                "<p><a rel=\"nofollow noopener noreferrer\">a</a></p>",
            ),
            (
                "[a](/wp-admin/x)",
                "<p><a rel=\"nofollow noopener noreferrer\">a</a></p>",
            ),
            ("![a](http://example.com/a.png)", "<p><img alt=\"a\"></p>"),
            ("<img src=x onerror=alert(1)>", "<img>"),
            ("<img src='data:image/svg+xml,x'>", "<img>"),
            ("<iframe src='https://example.com/'></iframe> b", "b"),
            ("a <!-- b --> c", "<p>a  c</p>"),
            ("<svg><b>x</b></svg>", "<p><b>x</b></p>"),
        ] {
            assert_eq!(&*from_markdown(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn a_tag_in_a_sentence_swallows_no_text() {
        for tag in [
            "title",
            "textarea",
            "script",
            "style",
            "iframe",
            "noscript",
            "plaintext",
            "select",
            "xmp",
            "svg",
        ] {
            let html = from_markdown(&format!("* Fixed the <{tag}> tag\n* Fixed more\n\n<{tag}> again"));
            assert!(html.contains("Fixed more") && html.contains("again"), "{tag}: {html}");
        }
    }

    #[test]
    fn a_line_of_html_is_stripped() {
        for (html, expected) in [
            ("  plain  ", "plain"),
            (
                "<a href='https://example.com/'>Acme</a> &amp; <em>sons</em>",
                "Acme & sons",
            ),
            ("a < b > c", "a < b > c"),
            ("I <3 WordPress", "I <3 WordPress"),
            ("a <b c", "a <b c"),
            ("a<br>b", "a b"),
            ("a <style>b {}</style>c", "a c"),
            ("the <title> tag", "the  tag"),
        ] {
            assert_eq!(strip(html), expected, "{html}");
        }
    }

    #[test]
    fn hostile_markdown_takes_no_time() {
        let mebibyte = 1024 * 1024;
        for seed in [
            "=",
            "*",
            "_",
            "<",
            ">",
            "> ",
            "[",
            "](",
            "![",
            "* ",
            "- ",
            "`",
            "&",
            "<b>",
            "<a",
            "<!--",
            "<ul><li>",
            "<p>",
            "#",
            "<table><tr><td>",
            "</b>",
            "<b><p>",
            "*a_ ",
            "[a](",
            "\n> * ",
            "1. ",
            "<![CDATA[",
            "<?",
            "\\",
            "~",
            "|",
            "<blockquote>",
            "<a href='x'><p>",
            "<h1><h2>",
        ] {
            let markdown = seed.repeat(mebibyte / seed.len());
            let start = thread_time();
            to_plain_text(&markdown);
            strip(&markdown);
            // Unoptimized; quadratic time would be minutes.
            let took = thread_time() - start;
            assert!(took < Duration::from_secs(5), "{seed}: {took:?}");
        }
    }

    #[test]
    fn hidden_elements_that_end_late_take_no_time() {
        for (seed, end) in [
            ("<title>", "\n\na <title></title>"),
            ("a <title>b ", "\n\na </title>"),
            ("*<style>* ", "\n\na </style>"),
            ("a <title>\n\n", "a </title>"),
            ("<div><style>\n\n", "a </style>"),
            ("<!-- <style> ", "-->"),
        ] {
            let markdown = format!("a {}{end}", seed.repeat((MARKDOWN_LIMIT - 100) / seed.len()));
            let start = thread_time();
            to_plain_text(&markdown);
            // Unoptimized; in quadratic time all took 6.8 s, in linear time 0.14 s.
            let took = thread_time() - start;
            assert!(took < Duration::from_secs(1), "{seed}: {took:?}");
        }
    }

    proptest! {
        #[test]
        fn sanitized_html_never_runs(markdown in "(<(script|img|a|b|svg|style|!--|/b|p)|[ =\"'>/]|on(load|error)=|href=|src=|javascript:|x|\n|[*`&;(\\[\\])#-]|\\PC){0,40}") {
            let html = from_markdown(&markdown);
            prop_assert!(html.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            // Outside of text and quoted values, where `<` and `"` are escaped, only allowed names are left.
            for tag in html.split('<').skip(1) {
                prop_assert!(TAGS.contains(&tag_name(tag)), "{html}");
                let inside = &tag[..end_of_tag(tag)];
                for (index, attribute) in inside.split('"').enumerate() {
                    if index % 2 == 0 {
                        prop_assert!(!attribute.contains(" on"), "{html}");
                    } else {
                        prop_assert!(!attribute.trim().to_lowercase().starts_with("javascript:") || inside.contains("title="), "{html}");
                    }
                }
            }
        }

        #[test]
        fn any_text_becomes_plain_text(markdown: String) {
            let text = to_plain_text(&markdown);
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            prop_assert_eq!(text.trim_end(), &text);
        }
    }
}
