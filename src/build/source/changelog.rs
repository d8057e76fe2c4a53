//! Changelogs: the entry of exactly one version, and the latest entries as HTML.
//!
//! The input is the readme's section, a changelog file or a tag's message. The result goes to the manifest's
//! `changelog` and `sections.changelog`. `heading` recognizes version headings.

mod entries;
mod heading;
mod known;
mod message;
mod notices;
mod parsed_title;
mod title;
mod version_entry;

use crate::build::source::html;
use crate::build::source::markdown::Markdown;
use entries::entries;
pub(crate) use entries::{above_versions, is_underline, is_version_heading};
pub(crate) use heading::{CODE_INDENT, indent};
pub use message::from_tag_message;
pub use notices::without_notices;
pub(crate) use version_entry::find;
use version_entry::points_elsewhere;
pub use version_entry::{ChangelogText, ENTRY_LIMIT, of_version};

/// The latest entries as sanitized HTML: as many whole entries as `limit_bytes` allow, in the changelog's order.
///
/// If not even the first one fits, as many of its blocks as do. It is never empty unless the changelog is. A
/// changelog without version headings counts as one entry. The limit includes the closing line.
pub fn to_html<'a>(changelog: impl Into<Markdown<'a>>, limit_bytes: usize) -> ChangelogText {
    let changelog = changelog.into();
    let mut html = String::new();
    let mut found = false;
    let mut entries = entries(&changelog);
    while let Some(piece) = entries.next_html() {
        found = true;
        if html.len() + piece.len() + 1 > limit_bytes {
            return if html.is_empty() {
                cut_html(&piece, limit_bytes)
            } else {
                ChangelogText::whole(html)
            };
        }
        html.push_str(&piece);
        html.push('\n');
    }
    if found {
        return ChangelogText::whole(html);
    }
    let everything = html::from_markdown(changelog.text);
    if everything.len() > limit_bytes {
        return cut_html(&everything, limit_bytes);
    }
    let text = html::to_plain_text(changelog.text);
    let is_pointer = points_elsewhere(&text, &everything);
    let text = if is_pointer && !everything.contains("://") {
        String::new()
    } else {
        everything.to_string()
    };
    ChangelogText {
        text,
        is_cut: false,
        is_pointer,
    }
}

fn cut_html(html: &str, limit: usize) -> ChangelogText {
    let text = html::cut_at_block(html, limit - version_entry::closing_room(limit));
    ChangelogText {
        text,
        is_cut: true,
        is_pointer: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::source::testing::thread_time;
    use countersign_model::version::Version;
    use proptest::prelude::*;
    use std::time::Duration;

    fn entry(markdown: &str, version: &str) -> Option<String> {
        of_version(markdown, &version.parse().unwrap()).map(|entry| entry.text)
    }

    fn shown(markdown: &str, limit: usize) -> String {
        to_html(markdown, limit).text
    }

    const HOMEPAGE: &str = "https://example.com/forms";

    #[test]
    fn an_entry_is_found_under_any_style_of_heading() {
        for (above, own, below) in [
            ("= 1.3 =", "= 1.2 =", "= 1.1 ="),
            (
                "## [1.3]",
                "## [1.2](https://example.com/1.1...1.2) (2024-01-01)",
                "## [1.1]",
            ),
            ("**1.3**", "**1.2**", "*1.1*"),
            ("1.3\n---", "Version 1.2\n-----------", "1.1\n---"),
            ("### 1.3", "1.2 / 2024-01-01", "<h4>1.1</h4>"),
            ("* 1.3", "* 1.2", "* 1.1"),
            ("= 1.3 =", "= 1.2 & 1.2.1 =", "beta-1.1:"),
            ("= 1.3 =", "= 1.2 =", "= Something about 1.1 or so ="),
            ("= 1.3 =", "= 1.2 =", "= Older versions ="),
        ] {
            let markdown = format!("Intro\n\n{above}\n  * new\n\n{own}\n  * mine\n  * PHP 8.1\n\n{below}\n  * old\n");
            assert_eq!(entry(&markdown, "1.2").as_deref(), Some("- mine\n- PHP 8.1"), "{own}");
        }
    }

    #[test]
    fn one_line_entries_are_found() {
        let items = "* 1.2: Second line\n* 1.1 - Fixed a bug\n* 1.1 - Fixed another\n* 1.0 First release";
        assert_eq!(entry(items, "1.2").as_deref(), Some("Second line"));
        assert_eq!(entry(items, "1.1").as_deref(), Some("Fixed a bug\n\nFixed another"));
        assert_eq!(entry(items, "1.0").as_deref(), Some("First release"));
        assert_eq!(
            entry("1.1 - 2024-01-01 - Fixed\n1.0 - First", "1.1").as_deref(),
            Some("Fixed")
        );
    }

    #[test]
    fn another_versions_text_is_never_taken() {
        let markdown = "= 1.1.8.0 =\na\n= 1.0 RC1 =\nb\n= 2.0 =\nc\n= 2.0.0 =\nd\n= 3.0.0 =\ne\n= 1.10 =\nf";
        for (version, expected) in [
            ("1.1.8", None),
            ("1.1.8.0", Some("a")),
            ("3.0.0.0", None),
            ("1.1", None),
            ("1.0", None),
            ("1.0-rc.1", Some("b")),
            ("2.0", Some("c")),
            ("2.0.0", Some("d")),
            ("2", None),
            ("3", Some("e")),
            ("1.1.0", None),
            ("1.10.0", Some("f")),
            ("1", None),
        ] {
            assert_eq!(entry(markdown, version).as_deref(), expected, "{version}");
        }
    }

    #[test]
    fn a_word_of_a_prerelease_may_be_short_or_spelled_out() {
        let markdown = "= 3.4.0 Beta 2 =\na\n= 3.4.0-a1 =\nb\n= 3.3.0 Release Candidate 1 =\nc\n= 3.2.0, beta 1 =\nd\n";
        for (version, expected) in [
            ("3.4.0b2", Some("a")),
            ("3.4.0-beta.2", Some("a")),
            ("3.4-b2", Some("a")),
            ("3.4.0b1", None),
            ("3.4.0", None),
            ("3.4.0-alpha1", Some("b")),
            ("3.3.0-rc.1", Some("c")),
            ("3.3.0rc1", Some("c")),
            ("3.3.0", None),
            ("3.2.0b1", Some("d")),
        ] {
            assert_eq!(entry(markdown, version).as_deref(), expected, "{version}");
        }
    }

    #[test]
    fn a_heading_about_the_past_ends_only_the_list() {
        for inside in [
            "**Full Site Editing**",
            "### Past events",
            "**Full changelog**",
            "### Previous versions",
            "**Older browsers**",
            "### Archive",
            "#### Prior releases of the API",
            "### Earlier",
        ] {
            let markdown = format!("= 1.2 =\n\n**New**\n\n* a\n\n{inside}\n\n* b\n\n= 1.1 =\n* old\n");
            let text = entry(&markdown, "1.2").unwrap();
            assert!(text.starts_with("New") && text.ends_with("- b"), "{inside}: {text}");
            assert!(shown(&markdown, 1000).contains("<li>b</li>"), "{inside}");
        }
        for last in [
            "= Older versions =",
            "## Archive",
            "**Previous releases**",
            "= Earlier =",
        ] {
            let markdown = format!("= 1.2 =\n* a\n\n= 1.1 =\n* old\n\n{last}\n\nSee the site.\n");
            assert_eq!(entry(&markdown, "1.1").as_deref(), Some("- old"), "{last}");
            let above = format!("= 1.2 =\n* a\n\n{last}\n\n= 1.1 =\n* old\n");
            assert_eq!(entry(&above, "1.2").as_deref(), Some("- a"), "{last}");
        }
        let markdown = "= 1.1 =\n* a\n\n### Past events\n\n* b\n";
        assert!(entry(markdown, "1.1").unwrap().ends_with("- b"));
    }

    #[test]
    fn headings_in_code_and_comments_are_content() {
        for block in [
            "```\n## 1.2\nkey: value\n```",
            "~~~\n= 1.2 =\nkey: value\n~~~",
            "    ## 1.2\n    key: value",
            "```\n1.2\n---\nkey: value\n```",
            "```sh\n# 1.2 of key: value\n# Links\nrm key: value\n```",
            "- a\n\n  ```\n  ## 1.2\n  key: value\n  ```",
            "- a\n\n    ## 1.2\n    key: value",
            "```md\n# Changelog\n\n## 1.3\n- key: value\n\n## 1.2\n- b\n```",
        ] {
            let markdown =
                format!("# Changelog\n\n## 1.3\n- First.\n\nOld file:\n\n{block}\n\n- Last.\n\n## 1.2\n- Old.\n");
            let text = entry(&markdown, "1.3").unwrap();
            assert!(
                text.starts_with("- First.") && text.ends_with("- Last."),
                "{block}: {text}"
            );
            assert!(text.contains("key: value"), "{block}: {text}");
            assert_eq!(entry(&markdown, "1.2").as_deref(), Some("- Old."), "{block}");
            assert!(
                shown(&markdown, 1000).ends_with("<h4>1.2</h4>\n<ul>\n<li>Old.</li>\n</ul>\n"),
                "{block}"
            );
        }
        let draft = "<!-- template:\n## 1.3\n- Added\n-->\n\n## 1.3\n- First.\n\n<!--\n## 1.2\n- a draft\n-->\n\n- Last.\n\n## 1.2\n- Old.\n";
        assert_eq!(entry(draft, "1.3").as_deref(), Some("- First.\n\n- Last."));
        assert!(!shown(draft, 1000).contains("draft"));
    }

    #[test]
    fn what_is_no_heading_to_commonmark_cuts_no_entry() {
        for block in [
            "| 1.2 | y |",
            "| Version | Note |\n|---|---|\n| 1.2 | y |",
            "Version | Note\n--- | ---\n1.2 | y",
            "> ## 1.2\n> - a",
            "> Quoted\n> = 1.2 =",
            "> 1.2\n> ---",
            "\\## 1.2",
            "\\= 1.2 =",
            "\\* 1.2",
            "<div>\n## 1.2\n</div>",
            "<div>\n**1.2**\n</div>",
            "<details>\n<summary>More</summary>\n## 1.2\n</details>",
            "<code>\n= 1.2 =\n\n= 1.1 =\n</code>",
            "<pre><code>\n= 1.2 =\n\n= 1.1 =\n</code></pre>",
            "127.0.0.1",
            "192.168.0.1",
            "`10.0.0.1`",
            "- 127.0.0.1",
            "<!DOCTYPE\n## 1.2\n>",
            "<![CDATA[\n## 1.2\n\n]]>",
            "<?php\n## 1.2\n\n?>",
            "[note]: https://e.example/ 'a\n1.2\nb'",
            "[^note]: Since\n1.2",
            "Term\n: 1.2",
            "- a\n\n  ## 1.2\n  - b",
            "- a\n  1.2\n  ---",
        ] {
            let markdown =
                format!("# Changelog\n\n## 1.3\n- First.\n\nText:\n\n{block}\n\n- Last.\n\n## 1.2\n- Old.\n");
            let text = entry(&markdown, "1.3").unwrap();
            assert!(
                text.starts_with("- First.") && text.ends_with("- Last."),
                "{block}: {text}"
            );
            assert_eq!(entry(&markdown, "1.2").as_deref(), Some("- Old."), "{block}");
            let html = shown(&markdown, 1000);
            assert!(
                html.ends_with("<h4>1.2</h4>\n<ul>\n<li>Old.</li>\n</ul>\n") && html.matches("<h4>").count() <= 3,
                "{block}: {html}"
            );
        }
    }

    #[test]
    fn an_unmarked_line_is_no_heading_of_a_version_that_has_a_marked_one() {
        for block in [
            "1.2",
            "`1.2`",
            "* `1.2`",
            "- > ## 1.2",
            "1) = 1.2 =",
            "<b>1.2</b>",
            "**1.2**",
            "**1.2** and **1.1**",
            "<table>\n<tr><td>\n\n1.2\n\n</td></tr>\n</table>",
            "![1.2](https://e.example/x.png)",
            "1.1, 1.2",
            "v1.2 -> v1.3",
            "Version 1.2.0",
            // Signs before and after a number.
            "$8.1",
            "$ 8.1",
            "€8.1",
            "^8.1",
            "~8.1",
            "@8.1",
            "{8.1}",
            "8.1%",
            "<table>\n<tr><td>8.1</td></tr>\n</table>",
            "<ul>\n<li>8.1</li>\n</ul>",
        ] {
            for (before, after) in [("## ", ""), ("= ", " =")] {
                let heading = |version: &str| format!("{before}{version}{after}");
                let markdown = format!(
                    "{}\n- First.\n\nText:\n\n{block}\n\n- Last.\n\n{}\n- Old.\n\n{}\n- Older.\n",
                    heading("1.3"),
                    heading("1.2"),
                    heading("1.1")
                );
                let text = entry(&markdown, "1.3").unwrap();
                assert!(
                    text.starts_with("- First.") && text.ends_with("- Last."),
                    "{block}: {text}"
                );
                assert_eq!(entry(&markdown, "1.2").as_deref(), Some("- Old."), "{block}");
            }
        }
        let plain = "1.3\n* First.\n\n1.2\n* Old.\n";
        assert_eq!(entry(plain, "1.3").as_deref(), Some("- First."));
        let mixed = "## 1.3\n* First.\n\n1.2\n* Old.\n\n## 1.1\n";
        assert_eq!(entry(mixed, "1.2").as_deref(), Some("- Old."));
        // What another file of the same plugin has makes no difference.
        let above = "## 1.3\n* First.\n\n1.2\n* Old.\n\n";
        for below in ["## 1.1\n* a\n", "## 1.2\n* a\n", "## 1.1\n* a\n"] {
            let markdown = format!("{above}{below}");
            let afresh = {
                let markdown = markdown.clone();
                std::thread::spawn(move || to_html(&markdown, 1000)).join().unwrap()
            };
            assert_eq!(to_html(&markdown, 1000), afresh, "{below}");
        }
    }

    #[test]
    fn headings_between_html_are_read() {
        for (above, below) in [
            ("<details>\n<summary>More</summary>\n\n## 1.2", "</details>"),
            ("</ul>\n= 1.2 =", ""),
            ("<div>\n<h4>1.2</h4>", "</div>"),
            ("> Quoted.\n= 1.2 =", ""),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n\n## 1.2", ""),
        ] {
            let markdown = format!("## 1.3\n- First.\n\n{above}\n\n- Old.\n{below}");
            assert_eq!(entry(&markdown, "1.2").as_deref(), Some("- Old."), "{above}");
        }
        let matter = "---\nversion: 1.2\n---\n\n## 1.3\n- First.\n";
        assert_eq!(entry(matter, "1.2"), None);
        assert!(
            shown(matter, 1000).starts_with("<h4>1.3</h4>"),
            "{}",
            shown(matter, 1000)
        );
    }

    #[test]
    fn an_entry_that_is_only_a_link_keeps_it() {
        for (body, expected) in [
            ("", None),
            ("See changelog.txt", None),
            ("https://example.com/changelog", Some("https://example.com/changelog")),
            ("See: http://example.com/1-2/", Some("See: http://example.com/1-2/")),
            (
                "[https://example.com/1](https://example.com/1)",
                Some("https://example.com/1"),
            ),
            (
                "[See the full changelog](https://example.com/?a=1&b=2).",
                Some("See the full changelog: https://example.com/?a=1&b=2"),
            ),
            (
                "[Release post](https://example.com/1)",
                Some("Release post: https://example.com/1"),
            ),
            (
                "Please see [the releases](https://example.com/releases).",
                Some("Please see the releases: https://example.com/releases"),
            ),
            (
                "**Full Changelog**: https://example.com/compare/1.1...1.2",
                Some("Full Changelog: https://example.com/compare/1.1...1.2"),
            ),
        ] {
            let entry = of_version(&format!("= 1.2 =\n{body}\n\n= 1.1 =\nold"), &"1.2".parse().unwrap());
            assert!(entry.as_ref().is_none_or(|entry| entry.is_pointer), "{body}");
            assert_eq!(entry.map(|entry| entry.text).as_deref(), expected, "{body}");
        }
        for body in [
            "The first public release.",
            "Please update. It fixes https://example.com/1",
            "- See the changelog link",
        ] {
            let entry = of_version(&format!("= 1.2 =\n{body}"), &"1.2".parse().unwrap()).unwrap();
            assert_eq!((&*entry.text, entry.is_pointer), (body, false));
        }
        assert_eq!(entry("See changelog.txt for 1.2", "1.2"), None);
    }

    #[test]
    fn a_list_of_versions_is_read_item_by_item() {
        let list =
            "* 1.3: One line\n* 1.2\n\t* nested\n\t* 1.5 times faster\n* 1.1 - Another line\n* 1.0 First release";
        for (version, expected) in [
            ("1.3", Some("One line")),
            ("1.2", Some("- nested\n- 1.5 times faster")),
            ("1.5", None),
            ("1.1", Some("Another line")),
            ("1.0", Some("First release")),
        ] {
            assert_eq!(entry(list, version).as_deref(), expected, "{version}");
        }
        let html = "<h4>1.1</h4>\n<p>Another line</p>\n<h4>1.0</h4>\n<p>First release</p>\n";
        assert!(shown(list, 1000).ends_with(html), "{}", shown(list, 1000));
        let lines = "- **v1.1:** One line\n - **v1.0:** Another line\n";
        assert_eq!(entry(lines, "1.1").as_deref(), Some("One line"));
        let issues = "## 1.2\n**Fixed:**\n\n- v1.2-beta [#33](https://example.com/33)\n\n**More:**\n\n- b\n## 1.1\n";
        assert_eq!(entry(issues, "1.2-beta"), None);
        assert!(entry(issues, "1.2").unwrap().ends_with("- b"));
    }

    #[test]
    fn a_part_of_an_entry_that_names_its_version_again_belongs_to_it() {
        for again in ["**3.0 Changelog**", "*Version 3.0*", "= 3.0 ="] {
            let markdown = format!("= 3.0 - September 13th, 2023 =\n\nIntro\n\n{again}\n\n* a\n\n= 2.9 =\n* b\n");
            for version in ["3.0", "3.0.0", "3"] {
                let text = entry(&markdown, version).unwrap();
                assert!(
                    text.starts_with("Intro") && text.ends_with("- a"),
                    "{again} {version}: {text}"
                );
            }
        }
        let twice = "= 1.2 =\n* a\n\n= 1.2 =\n* a\n\n= 1.1 =\n* b\n";
        assert_eq!(entry(twice, "1.2").as_deref(), Some("- a"));
    }

    #[test]
    fn an_entry_ends_at_a_heading_of_a_higher_level() {
        let markdown = "# Changelog\n## 1.1\n- a\n### Fixed\n- b\n## 1.0\n- c\n# Links\n- d\n";
        assert_eq!(entry(markdown, "1.1").as_deref(), Some("- a\n\nFixed\n\n- b"));
        assert_eq!(entry(markdown, "1.0").as_deref(), Some("- c"));
        let generated =
            "##### [1.1.1](https://example.com/)\n### Fixed\n- a\n## [1.1.0](https://example.com/)\n### New\n- b\n";
        assert_eq!(entry(generated, "1.1.1").as_deref(), Some("Fixed\n\n- a"));
        let numbers = "= 1.1 =\n# first\n# second\n= 1.0 =\n# third\n";
        assert!(entry(numbers, "1.1").unwrap().ends_with("second"));
    }

    #[test]
    fn a_version_that_looks_like_a_date_has_its_entry() {
        let markdown = "= 2026.8.7 =\n* a\n\n= 2026.8.5 - 2026/08/05 =\n* b\n\n= 2025.12.1 - 1.9 =\n* c\n";
        assert_eq!(entry(markdown, "2026.8.7").as_deref(), Some("- a"));
        assert_eq!(entry(markdown, "2026.8.5").as_deref(), Some("- b"));
        assert_eq!(entry(markdown, "1.9").as_deref(), Some("- c"));
        assert_eq!(
            entry("2026-xx-XX - version 1.2\n* a\n\n2026-01-01 - version 1.1\n* b", "1.2").as_deref(),
            Some("- a")
        );
    }

    #[test]
    fn a_long_entry_is_cut_at_a_line_and_says_where_the_rest_is() {
        for (body, last) in [
            ("* one line of it\n".repeat(2000), "one line of it"),
            ("word ".repeat(5000), "word…"),
        ] {
            let entry = of_version(&format!("= 1.2 =\nFirst.\n\n{body}"), &"1.2".parse().unwrap()).unwrap();
            assert!(
                entry.is_cut && entry.text.ends_with(last) && entry.text.len() > ENTRY_LIMIT / 2,
                "{}",
                entry.text.len()
            );
            let closed = entry.clone().closed_text(HOMEPAGE);
            assert!(
                closed.ends_with("\n\nThe rest of the changelog: https://example.com/forms"),
                "{closed}"
            );
            assert!(
                entry
                    .clone()
                    .closed_text("")
                    .ends_with("\n\nThe changelog of this version goes on. It is too long to be shown here.")
            );
            let far = format!("https://example.com/{}", "a".repeat(2000));
            for closed in [closed, entry.closed_text(&far)] {
                assert!(closed.len() <= ENTRY_LIMIT, "{}", closed.len());
            }
        }
        // Rendering stops in the middle of this one, although its text is short.
        let links = format!("* [a](https://example.com/{})\n", "b".repeat(1000)).repeat(100);
        assert!(
            of_version(&format!("= 1.2 =\n{links}"), &"1.2".parse().unwrap())
                .unwrap()
                .is_cut
        );
    }

    #[test]
    fn html_has_the_latest_entries_that_fit() {
        let markdown =
            "Intro\n## [1.2] - 2024-01-01\n### Added\n- a\n## [1.1]\n<script>b</script>\n\n## [1.0]\n- c\n\n[1.2]: x";
        let first = "<h4>1.2 - 2024-01-01</h4>\n<h3>Added</h3>\n<ul>\n<li>a</li>\n</ul>\n";
        assert_eq!(shown(markdown, first.len()), first);
        assert_eq!(
            shown(markdown, 1000),
            format!("{first}<h4>1.1</h4>\n<h4>1.0</h4>\n<ul>\n<li>c</li>\n</ul>\n")
        );
        assert_eq!(
            shown("* just\n* items", 1000),
            "<ul>\n<li>just</li>\n<li>items</li>\n</ul>"
        );
        let link = to_html("See [the changelog](https://example.com/)", 1000);
        assert!(link.is_pointer && link.text.contains("href"));
        assert_eq!(shown("See changelog.txt", 1000), "");
    }

    #[test]
    fn a_window_is_never_empty() {
        let items = "* one line of it\n".repeat(2000);
        for markdown in [
            format!("= 1.2 =\n{items}\n= 1.1 =\n* old"),
            items,
            format!("= 1.2 =\n{}", "word ".repeat(5000)),
        ] {
            let entry = to_html(&markdown, 4096);
            assert!(entry.is_cut && entry.text.len() > 2000, "{}", entry.text);
            let closed = entry.closed_html(HOMEPAGE);
            let link = "<a href=\"https://example.com/forms\" rel=\"nofollow noopener noreferrer\">The rest of the changelog</a></p>";
            assert!(closed.ends_with(link) && closed.len() <= 4096, "{closed}");
            assert!(
                entry
                    .closed_html("")
                    .ends_with("<p>The changelog of this version goes on. It is too long to be shown here.</p>")
            );
            assert!(
                !entry
                    .closed_html("https://example.com/\"><script>x</script>")
                    .contains("<script>")
            );
        }
    }

    #[test]
    fn a_tag_message_counts_for_what_it_says_beyond_the_version() {
        let version: Version = "1.2.3".parse().unwrap();
        for (message, expected) in [
            ("1.2.3", None),
            ("v1.2.3\n", None),
            ("Release 1.2.3.", None),
            ("Tagging version 1.2.3", None),
            ("Acme Forms 1.2.3\n\n", None),
            ("Version 1.2.3 (2024-01-01)", None),
            (
                "1.2.3\n-----BEGIN PGP SIGNATURE-----\nabc\n-----END PGP SIGNATURE-----\n",
                None,
            ),
            ("1.2.3\n-----BEGIN SSH SIGNATURE-----\nabc", None),
            ("no message", None),
            ("Tagged by the release script", None),
            ("1.2.3\n\ntagged by bin/release.sh script", None),
            ("Tagging 1.2.3 beta.", None),
            ("Tag 1.2.3 hotfix (never was done).", None),
            ("Create tag v1.2.3", None),
            ("3.0.0 Release Candidate One", None),
            ("1.2.3, Release Candidate 2 (January 5th, 2024)", None),
            ("Second beta of version 1.2.3", None),
            ("Release candidate", None),
            ("1.2.3\n\nRelease Candidate One", None),
            ("1.2.3 Release Candidate One\n\n* Fixed a bug", Some("- Fixed a bug")),
            ("First release", Some("First release")),
            (
                "Release candidate with a new editor",
                Some("Release candidate with a new editor"),
            ),
            ("Automatic tag of main", None),
            ("Convert \"1.2\" to a proper git tag.", None),
            (
                "Version 1.2.3\n\n* Fixed a bug\n-----BEGIN PGP SIGNATURE-----",
                Some("- Fixed a bug"),
            ),
            ("Tagging 1.2.3\n\n* Fixed a bug", Some("- Fixed a bug")),
            ("Fixes the editor", Some("Fixes the editor")),
            ("Fixes the tag cloud", Some("Fixes the tag cloud")),
            ("Tag clouds are faster", Some("Tag clouds are faster")),
            ("No message is sent twice", Some("No message is sent twice")),
            ("Release 1.2.3\n\n= 1.2.3 =\n* a\n= 1.2.2 =\n* b", Some("- a")),
            ("= 1.2.3 =\n* a\n\n= 1.2.2 =\n* b", Some("- a")),
            (
                "version 1.2.3. Not for production.\n\n* a",
                Some("Not for production.\n\n- a"),
            ),
            ("= 1.2.2 =\n* b", None),
            ("RC1", None),
            ("1.2.3\n\nRC 1", None),
            ("Beta2", None),
            ("Merge branch main", None),
            ("Merge branch 'main' into release", None),
            ("Merge pull request #12 from acme/fixes", None),
            ("Prepare release", None),
            ("Prepare for release 1.2.3", None),
            ("Bump version", None),
            ("Bump version to 1.2.3", None),
            ("Version bump", None),
            ("chore(release): 1.2.3", None),
            ("chore: release 1.2.3 [skip ci]", None),
            ("Release", None),
            (
                "1.2.3\n\nPrepare release\n\n- Merge branch 'main'\n- Bump version",
                None,
            ),
            ("Bump jQuery to 3.7.1", Some("Bump jQuery to 3.7.1")),
            ("Merge forms with one click", Some("Merge forms with one click")),
            ("Prepare forms for print", Some("Prepare forms for print")),
            ("Signed-off-by: Ada <ada@example.com>", None),
            ("1.2.3\n\nSigned-off-by: Ada <ada@example.com>\n", None),
            (
                "1.2.3\n\n* Fixed a bug\n\nSigned-off-by: Ada <ada@example.com>\nCo-authored-by: Bob\n <bob@example.com>\n",
                Some("- Fixed a bug"),
            ),
            (
                "1.2.3\n\n* Fixed a bug\n\nChange-Id: I0123456789abcdef\nReviewed-by: Bob <bob@example.com>",
                Some("- Fixed a bug"),
            ),
            (
                "1.2.3\n\nFixed a bug.\nSigned-off-by: Ada <ada@example.com>",
                Some("Fixed a bug."),
            ),
            (
                "1.2.3\n\nFixed a bug.\n\nFixes: 0123abc\n(cherry picked from commit 0123abc)\nMore",
                Some("Fixed a bug.\n\nMore"),
            ),
            (
                "1.2.3\n\nFixed a bug, thanks to Ada <ada@example.com>.",
                Some("Fixed a bug, thanks to Ada."),
            ),
            (
                "1.2.3\n\nNote: back up first.\nThen update.",
                Some("Note: back up first.\nThen update."),
            ),
            ("1.2.3\n\nFixed: the editor", Some("Fixed: the editor")),
            (
                "1.2.3\n\nFixed: the editor\nAdded: a field",
                Some("Fixed: the editor\nAdded: a field"),
            ),
        ] {
            assert_eq!(
                from_tag_message(message, &version).map(|entry| entry.text).as_deref(),
                expected,
                "{message}"
            );
        }
        let entry = from_tag_message("See https://example.com/changelog", &version).unwrap();
        assert!(entry.is_pointer);
    }

    #[test]
    fn hostile_changelogs_take_no_time() {
        let size = 512 * 1024;
        let version: Version = "1.2".parse().unwrap();
        for seed in [
            "=",
            "*",
            "= 1.1 =\n",
            "* 1.1\n",
            "1.1 ",
            "1.",
            "[1.2](",
            "<h4>1.2",
            "\n",
            "= 1.2 =\n",
            "1.2 - x\n",
            "# 1 & ",
        ] {
            let markdown = seed.repeat(size / seed.len());
            let start = thread_time();
            of_version(&markdown, &version);
            to_html(&markdown, 64 * 1024);
            from_tag_message(&markdown, &version);
            // Unoptimized; quadratic time would be minutes.
            let took = thread_time() - start;
            assert!(took < Duration::from_secs(20), "{seed}: {took:?}");
        }
    }

    proptest! {
        #[test]
        fn no_changelog_panics(markdown in "((= |\\* |## |\\[|v|\\*\\*)?1\\.[0-3](\\.0)?( =|\\]|: |\\*\\*)?|\n|---\n|\\PC| x){0,30}") {
            let version: Version = "1.2".parse().unwrap();
            for text in [of_version(&markdown, &version), from_tag_message(&markdown, &version)].into_iter().flatten() {
                let text = text.closed_text(HOMEPAGE);
                prop_assert!(!text.is_empty() && text.len() <= ENTRY_LIMIT);
                prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            }
            prop_assert!(to_html(&markdown, 100).text.len() <= 100);
        }
    }
}
