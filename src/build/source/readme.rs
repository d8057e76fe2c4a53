//! The readme of a plugin: `readme.txt` in WordPress.org's format, or the same in a `README.md`.
//!
//! Parses what the WordPress.org parser parses, in its order, and warns of what it could not use. The fields and
//! sections go to the manifest; [`changelog`] parses the changelog section.

mod fields;
mod lines;
mod prose;
mod section;

use std::collections::BTreeMap;

use countersign_model::version::Version;

use crate::build::source::markdown::Block;
use crate::build::source::{changelog, encoding, html};
pub use fields::platform_version;
use fields::{field, is_known, shorten, stable_tag};
use lines::ReadmeLines;
use prose::{Paragraph, is_decoration, paragraphs};
use section::{Open, section_title};

/// A readme. A field that is missing or unusable is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readme {
    /// The plugin's name, plain text.
    pub name: String,
    /// `Tested up to`: a version of two or three numbers.
    pub tested: String,
    /// `Requires at least`: a version of two or three numbers.
    pub requires: String,
    /// `Requires PHP`: a version of two or three numbers.
    pub requires_php: String,
    /// `Stable tag`: letters, digits, `_`, `.` and `-`.
    pub stable_tag: String,
    /// Plain text in one line, at most 150 characters. Empty if a heading or the readme's own fields are in its place.
    pub short_description: String,
    /// The same from the first paragraph of text, as a substitute.
    pub first_text: String,
    /// Markdown by `description`, `installation`, `faq`, `screenshots`, `changelog`, `upgrade_notice`. None is empty.
    pub sections: BTreeMap<String, String>,
    /// Warnings in the order of the lines.
    pub warnings: Vec<ReadmeWarning>,
}

/// A part of a readme that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadmeWarning {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub message: String,
}

/// Parses a readme. No content is an error.
pub fn parse(bytes: &[u8]) -> Readme {
    let text = encoding::decode(bytes);
    let mut lines = ReadmeLines::new(&text);
    let mut readme = Readme::default();
    readme.read_name(&mut lines);
    readme.read_fields(&text, &mut lines);
    let start = lines.offset;
    let first_line = lines.number;
    skip_to_section(&mut lines);
    let introduction = paragraphs(&text[start..lines.offset]);
    for (line, name, value) in introduction.iter().flat_map(Paragraph::fields) {
        readme.set_absent(first_line + line, &name, value);
    }
    readme.read_sections(&text, &mut lines);
    readme.describe(&introduction);
    readme.warnings.sort_by_key(|warning| warning.line);
    readme
}

impl Readme {
    /// The upgrade notice of this version as plain text; may be empty.
    pub fn upgrade_notice(&self, version: &Version) -> String {
        let notices = self.sections.get("upgrade_notice");
        let notice = notices.and_then(|notices| changelog::find(notices, version));
        notice.map(|notice| html::to_plain_text(&notice)).unwrap_or_default()
    }

    fn warn(&mut self, line: usize, message: impl Into<String>) {
        self.warnings.push(ReadmeWarning {
            line,
            message: message.into(),
        });
    }

    /// The first line that is not blank, unless it is a field already. After pictures and comments, only a heading.
    fn read_name(&mut self, lines: &mut ReadmeLines<'_>) {
        let mut is_first = true;
        while let Some(line) = lines.peek() {
            let is_aside = matches!(lines.block(), Some(Block::Comment | Block::Alert | Block::Table));
            if !line.trim().is_empty() && !is_aside && !is_decoration(line.trim()) {
                break;
            }
            is_first &= line.trim().is_empty();
            lines.next();
        }
        let is_heading = |line: &str| line.starts_with(['#', '=']) || changelog::is_underline(lines.below());
        if !is_first && !lines.peek().is_some_and(is_heading) {
            return;
        }
        let number = lines.number;
        let title = lines.peek().unwrap_or_default();
        if field(title).is_some_and(|(name, _)| is_known(&name)) {
            return self.warn(number, "the name of the plugin is missing");
        }
        lines.next();
        self.name = title_of(title);
        if lines
            .peek()
            .is_some_and(|line| line.trim_matches(['=', '-']).is_empty())
        {
            lines.next();
        }
        // The placeholder in the template of a readme.
        if self.name.eq_ignore_ascii_case("plugin name") {
            self.warn(number, "the name is the placeholder \"Plugin Name\"");
            lines.skip_while(|line| line.trim().is_empty());
            let next = lines.peek().unwrap_or_default();
            let is_name = next.len() < 50 && field(next).is_none_or(|(name, _)| !is_known(&name));
            self.name = if is_name {
                title_of(lines.next().unwrap_or_default())
            } else {
                String::new()
            };
        }
    }

    /// The `Name: value` lines after the name. Blank lines and comments may separate them. An unknown name is a field
    /// among fields that are known, and else a description.
    fn read_fields(&mut self, text: &str, lines: &mut ReadmeLines<'_>) {
        lines.skip_while(|line| line.trim().is_empty());
        let mut after_blank = false;
        let mut among_fields = false;
        while let Some(line) = lines.peek() {
            let number = lines.number;
            match field(line) {
                _ if lines.block() == Some(Block::Comment) => {}
                None if line.is_empty() => {
                    after_blank = true;
                    among_fields = false;
                }
                None => return,
                Some((name, value)) if is_known(&name) => {
                    self.set(number, &name, value);
                    after_blank = false;
                    among_fields = true;
                }
                Some(_) if after_blank => return,
                Some(_) => {
                    among_fields = among_fields || has_fields(&text[lines.offset..]);
                    if !among_fields {
                        return;
                    }
                }
            }
            lines.next();
        }
    }

    fn set(&mut self, line: usize, name: &str, value: &str) {
        if name == "stable tag" {
            self.stable_tag = stable_tag(value);
        }
        let Some(target) = self.platform(name) else { return };
        *target = platform_version(value);
        if target.is_empty() && !value.is_empty() {
            self.warn(
                line,
                format!("\"{}\" is not a version such as 6.5 or 6.5.1", value.escape_debug()),
            );
        }
    }

    /// The value of a field outside of the header, where the header has none.
    fn set_absent(&mut self, line: usize, name: &str, value: &str) {
        let is_absent = match name {
            "stable tag" => self.stable_tag.is_empty(),
            _ => self.platform(name).is_some_and(|value| value.is_empty()),
        };
        if is_absent {
            self.set(line, name, value);
        }
    }

    fn platform(&mut self, name: &str) -> Option<&mut String> {
        match name {
            "tested" | "tested up to" => Some(&mut self.tested),
            "requires" | "requires at least" => Some(&mut self.requires),
            "requires php" => Some(&mut self.requires_php),
            _ => None,
        }
    }

    fn read_sections(&mut self, text: &str, lines: &mut ReadmeLines<'_>) {
        let mut open: Option<(Open, usize)> = None;
        let mut notices_line = 0;
        while let Some(line) = lines.peek() {
            let start = lines.offset;
            let number = lines.number;
            if !lines.may_be_heading() {
                lines.next();
                continue;
            }
            let title = section_title(line, lines.below(), open.as_ref().map(|(open, _)| open));
            lines.next();
            let Some(title) = title else { continue };
            if title.underlined {
                lines.next();
            }
            if let Some((Open { key, .. }, from)) = open.take() {
                self.append(key, text[from..start].trim());
            }
            if title.key == Some("upgrade_notice") {
                notices_line = number;
            }
            if title.key.is_none() {
                self.append("other_notes", &format!("### {}", title.title));
            }
            open = Some((
                Open {
                    key: title.key.unwrap_or("other_notes"),
                    marks: title.marks,
                },
                lines.offset,
            ));
        }
        if let Some((Open { key, .. }, from)) = open {
            self.append(key, text[from..].trim());
        }
        let notices = self.sections.get("upgrade_notice").map_or("", String::as_str);
        if !html::to_plain_text(changelog::above_versions(notices)).is_empty() {
            self.warn(
                notices_line,
                "the Upgrade Notice is below no version heading such as = 1.2 =, so it belongs to no release",
            );
        }
    }

    fn append(&mut self, key: &str, markdown: &str) {
        if markdown.is_empty() {
            return;
        }
        let section = self.sections.entry(key.to_owned()).or_default();
        if !section.is_empty() {
            section.push_str("\n\n");
        }
        section.push_str(markdown);
    }

    /// Sections unknown to WordPress.org are added to the end of the description. `introduction` is the text before
    /// the first section.
    fn describe(&mut self, introduction: &[Paragraph<'_>]) {
        let texts = introduction.iter().filter(|paragraph| paragraph.is_text());
        let introduction = texts.map(Paragraph::text).collect::<Vec<_>>().join("\n\n");
        if !self.sections.contains_key("description") {
            self.append("description", &introduction);
        }
        if let Some(notes) = self.sections.remove("other_notes") {
            self.append("description", &notes);
        }
        let in_line = |markdown: &str| {
            shorten(
                &html::to_plain_text(markdown)
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        let description = self.sections.get("description").cloned().unwrap_or_default();
        let paragraphs = paragraphs(&description);
        let after_fields = paragraphs
            .iter()
            .position(|paragraph| paragraph.fields().next().is_none());
        for (_, name, value) in paragraphs[..after_fields.unwrap_or(paragraphs.len())]
            .iter()
            .flat_map(Paragraph::fields)
        {
            self.set_absent(0, &name, value);
        }
        let first = after_fields.map(|first| &paragraphs[first]);
        self.short_description = match first.filter(|first| first.is_text()) {
            _ if !introduction.is_empty() => in_line(&introduction),
            Some(first) => in_line(&first.text()),
            None => String::new(),
        };
        let text = paragraphs.iter().find(|paragraph| paragraph.is_text());
        self.first_text = text.map(|text| in_line(&text.text())).unwrap_or_default();
    }
}

/// Whether the first paragraph has a known field.
fn has_fields(text: &str) -> bool {
    let mut lines = text.lines().take_while(|line| !line.trim().is_empty());
    lines.any(|line| field(line).is_some_and(|(name, _)| is_known(&name)))
}

fn title_of(line: &str) -> String {
    html::strip(line.trim_matches(['#', '=', ' ', '\t']))
}

/// Skips the lines before the first section.
fn skip_to_section(lines: &mut ReadmeLines<'_>) {
    while let Some(line) = lines.peek() {
        let is_title = || section_title(line, lines.below(), None).is_some() || line.trim_start().starts_with("##");
        if lines.may_be_heading() && is_title() {
            return;
        }
        lines.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::source::readme::fields::SHORT_DESCRIPTION_LIMIT;
    use crate::build::source::testing::thread_time;
    use proptest::prelude::*;
    use std::time::Duration;

    const README: &str = "=== Acme Forms ===\nContributors: acme\nRequires at least: 5.0\nTested up to: 6.5.2\n\
        Requires PHP: 7.4\nStable tag: 1.2.3\n\nForms &amp; *more*.\nOn two lines.\n\n== Description ==\nLong.\n\n\
        = Part =\nMore.\n\n== Frequently Asked Questions ==\nWhy?\n\n== Thanks ==\nYou.\n\n== Changelog ==\n\n\
        = 1.2.3 =\n* Fixed\n\n== 1.2.2 ==\n* Older\n\n== Upgrade Notice ==\n= 1.2.3 =\nPlease see the changelog &lt;now&gt;.\n";

    #[test]
    fn a_readme_is_read_whole() {
        let readme = parse(README.as_bytes());
        assert_eq!(readme.name, "Acme Forms");
        assert_eq!(
            (&*readme.requires, &*readme.tested, &*readme.requires_php),
            ("5.0", "6.5.2", "7.4")
        );
        assert_eq!(readme.stable_tag, "1.2.3");
        assert_eq!(readme.short_description, "Forms & more. On two lines.");
        let section = |key: &str| readme.sections.get(key).map(String::as_str);
        assert_eq!(
            section("description"),
            Some("Long.\n\n= Part =\nMore.\n\n### Thanks\n\nYou.")
        );
        assert_eq!(section("faq"), Some("Why?"));
        assert_eq!(section("changelog"), Some("= 1.2.3 =\n* Fixed\n\n== 1.2.2 ==\n* Older"));
        assert_eq!(
            readme.upgrade_notice(&"1.2.3".parse().unwrap()),
            "Please see the changelog <now>."
        );
        assert_eq!(readme.upgrade_notice(&"1.2.4".parse().unwrap()), "");
        assert_eq!(readme.warnings, []);
    }

    #[test]
    fn line_ends_and_encodings_make_no_difference() {
        let expected = parse(README.as_bytes());
        let utf16: Vec<u8> = [0xFF, 0xFE]
            .into_iter()
            .chain(README.encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        for bytes in [
            README.replace('\n', "\r\n").into_bytes(),
            README.replace('\n', "\r").into_bytes(),
            format!("\u{FEFF}{README}").into_bytes(),
            utf16,
        ] {
            assert_eq!(parse(&bytes), expected);
        }
        assert_eq!(parse(b"=== Caf\xE9 ===\n").name, "Café");
    }

    #[test]
    fn a_markdown_readme_is_read_too() {
        for title in [
            "# Acme Forms",
            "# Acme Forms #",
            "Acme Forms\n==========",
            "## Acme <b>Forms</b>",
            "\n\n=== Acme Forms",
        ] {
            let text = format!(
                "{title}\n\n**Requires at least:** 5.0  \n* Tested up to: WordPress 6.5+\n- Requires PHP: >= 7.4\n\
                 **Stable tag:** tags/1.2\n\nForms.\n\n## Description\nLong.\n\n# Change Log\n## 1.2\n- Fixed\n"
            );
            let readme = parse(text.as_bytes());
            assert_eq!(readme.name, "Acme Forms", "{title}");
            assert_eq!(
                (&*readme.requires, &*readme.tested, &*readme.requires_php),
                ("5.0", "6.5", "7.4"),
                "{title}"
            );
            assert_eq!(readme.stable_tag, "1.2");
            assert_eq!(readme.short_description, "Forms.");
            assert_eq!(readme.sections["description"], "Long.");
            assert_eq!(readme.sections["changelog"], "## 1.2\n- Fixed");
        }
        let readme = parse(b"Acme\n===\n\nForms.\n\nChangelog\n---------\n\n1.2\n---\n- Fixed\n\nOther\n-----\nx");
        assert_eq!(readme.sections["changelog"], "1.2\n---\n- Fixed\n\nOther\n-----\nx");
    }

    #[test]
    fn headings_inside_a_changelog_do_not_end_it() {
        for (title, inside) in [
            ("== Changelog ==", "= 1.2 =\n\n## New\n* a"),
            (
                "== Changelog ==",
                "=== 1.2 ===\n\n==== New ====\n\n===== Newer =====\n* a",
            ),
            ("## Changelog", "### 1.2\n\n#### New\n* a"),
            ("# Changelog", "## 1.2\n\n## Fixed\n* a"),
        ] {
            let after = if title.starts_with('=') {
                "== Thanks =="
            } else {
                "# FAQ"
            };
            let readme = parse(format!("=== A ===\n\nForms.\n\n{title}\n\n{inside}\n\n{after}\nYou.\n").as_bytes());
            assert_eq!(readme.sections["changelog"], inside, "{title}");
        }
        let readme = parse(b"=== A ===\n\nForms.\n\n## Changelog\n\n### 1.2\n* a\n\n## Thanks\nYou.\n");
        assert_eq!(readme.sections["changelog"], "### 1.2\n* a");
    }

    #[test]
    fn a_missing_or_a_placeholder_name_is_reported() {
        let readme = parse(b"Tested up to: 6.5\n\nForms.");
        assert_eq!(
            (&*readme.name, &*readme.tested, readme.warnings[0].line),
            ("", "6.5", 1)
        );
        let readme = parse(b"\n=== Plugin Name ===\nAcme Forms\nTested up to: 6.5\n");
        assert_eq!(
            (&*readme.name, &*readme.tested, readme.warnings[0].line),
            ("Acme Forms", "6.5", 2)
        );
        let readme = parse(b"=== Plugin Name ===\nTested up to: 6.5\n");
        assert_eq!((&*readme.name, &*readme.tested), ("", "6.5"));
    }

    #[test]
    fn fields_end_where_the_description_begins() {
        let readme = parse(b"=== A ===\nTested: 6.4\n\nRequires: 5.0\n\nNote: this is text.\nRequires PHP: 8.0\n");
        assert_eq!(
            (&*readme.tested, &*readme.requires, &*readme.requires_php),
            ("6.4", "5.0", "8.0"),
            "fields in a paragraph of their own count"
        );
        assert_eq!(readme.short_description, "", "a description with fields in it is none");
        let readme = parse(b"=== A ===\nTested: 6.4\n\nNote: this is text.\nOn two lines.\n");
        assert_eq!(readme.short_description, "Note: this is text. On two lines.");
        assert_eq!(readme.sections["description"], "Note: this is text.\nOn two lines.");
        assert_eq!(parse(b"=== A ===\nTested: 6.4\nTested: 6.5").tested, "6.5");
    }

    #[test]
    fn a_line_with_a_colon_is_a_field_only_among_fields() {
        for text in [
            "Note: this is text.\n",
            "Note: this is text.\n\nTested up to: 6.5\nStable tag: 1.2\n",
        ] {
            let readme = parse(format!("=== A ===\n\n{text}").as_bytes());
            assert_eq!(readme.short_description, "Note: this is text.", "{text}");
            let expected = if text.contains("Tested") {
                ("6.5", "1.2")
            } else {
                ("", "")
            };
            assert_eq!((&*readme.tested, &*readme.stable_tag), expected, "{text}");
        }
        let readme = parse(b"=== A ===\nAuthor: ada\nTested up to: 6.5\nAuthor URI: https://e.example\n\nForms.\n");
        assert_eq!((&*readme.short_description, &*readme.tested), ("Forms.", "6.5"));
        assert_eq!(readme.sections["description"], "Forms.");
    }

    #[test]
    fn alerts_tables_contents_and_front_matter_are_no_description() {
        for above in [
            "> [!NOTE]\n> Beta.\n\n",
            "[TOC]\n\n",
            "[[_TOC_]]\n\n",
            "{:toc}\n\n",
            "| PHP | WordPress |\n|---|---|\n| 8.1 | 6.5 |\n\n",
            "PHP | WordPress\n--- | ---\n8.1 | 6.5\n\n",
        ] {
            let readme = parse(format!("# A\n\n{above}Forms for all.\n\n## Usage\n").as_bytes());
            assert_eq!(readme.short_description, "Forms for all.", "{above}");
            let below = format!("# A\n\n## Description\n\n{above}Forms for all.\n");
            assert_eq!(parse(below.as_bytes()).short_description, "Forms for all.", "{above}");
        }
        for matter in ["---\ntitle: A\ntags: [a, b]\n---\n", "---\ntitle: A\n...\n\n"] {
            let readme = parse(format!("{matter}# Acme\n\nForms for all.\n").as_bytes());
            assert_eq!(
                (&*readme.name, &*readme.short_description),
                ("Acme", "Forms for all."),
                "{matter}"
            );
        }
        assert_eq!(parse(b"# A\n\n> Forms for all.\n").short_description, "Forms for all.");
        assert_eq!(
            parse(b"# A\n\n---\n\nForms for all.\n").short_description,
            "Forms for all."
        );
    }

    #[test]
    fn an_old_readmes_history_is_its_changelog() {
        for title in [
            "== Release History ==",
            "= Release History =",
            "== Version History ==",
            "== Release history ==",
            "= Changelog =",
            "== Revision history: ==",
        ] {
            let text = format!(
                "=== A ===\n\nForms.\n\n== Description ==\n\nLong.\n\n= Features =\n\nMany.\n\n{title}\n\n= Version 1.1 =\n* Second\n\n\
                 = Notes =\n* More\n\n= Version 1.0 =\n* First\n\n== Thanks ==\n\nYou.\n"
            );
            let readme = parse(text.as_bytes());
            let changelog = "= Version 1.1 =\n* Second\n\n= Notes =\n* More\n\n= Version 1.0 =\n* First";
            assert_eq!(
                readme.sections.get("changelog").map(String::as_str),
                Some(changelog),
                "{title}"
            );
            assert_eq!(
                readme.sections["description"], "Long.\n\n= Features =\n\nMany.\n\n### Thanks\n\nYou.",
                "{title}"
            );
        }
        let readme =
            parse(b"=== A ===\n\n== Changelog ==\n\n= Changelog =\n\n= 1.0 =\n* History\n\n= History =\n* a\n");
        assert!(
            readme.sections["changelog"].ends_with("= History =\n* a"),
            "{:?}",
            readme.sections
        );
    }

    #[test]
    fn only_a_version_is_taken_from_a_version_field() {
        for (value, expected) in [
            ("6.5", "6.5"),
            ("WordPress 6.5.1", "6.5.1"),
            ("6.5.x", "6.5"),
            (">=6.0", "6.0"),
            ("6.5-RC1", "6.5"),
            ("6.5+", "6.5"),
            ("5.0 or higher", "5.0"),
            ("6", ""),
            ("trunk", ""),
            ("5.0 - 6.5", ""),
            ("1.2.3.4", ""),
            ("6..5", ""),
        ] {
            let readme = parse(format!("=== A ===\nTested up to: {value}\n").as_bytes());
            assert_eq!(readme.tested, expected, "{value}");
            assert_eq!(readme.warnings.len(), usize::from(expected.is_empty()), "{value}");
        }
    }

    #[test]
    fn a_stable_tag_is_cleaned() {
        for (value, expected) in [
            ("1.2.3", "1.2.3"),
            ("\"trunk\"", "trunk"),
            ("/tags/1.2", "1.2"),
            (".5", "0.5"),
            ("1.2 (new!)", "1.2new"),
        ] {
            assert_eq!(
                parse(format!("=== A ===\nStable tag: {value}\n").as_bytes()).stable_tag,
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn a_short_description_has_at_most_150_characters() {
        let short = |text: &str| parse(format!("=== A ===\n\n{text}\n").as_bytes()).short_description;
        let words = short(&"wörd ".repeat(50));
        assert!(words.chars().count() <= 150 && words.ends_with("wörd…"), "{words}");
        assert_eq!(short(&"x".repeat(200)), format!("{}…", "x".repeat(149)));
        assert_eq!(short(&"x".repeat(150)), "x".repeat(150));
        let sentence = format!("{}.", "x".repeat(130));
        assert_eq!(short(&format!("{sentence} {}", "y ".repeat(50))), sentence);
    }

    #[test]
    fn the_description_stands_in_for_a_missing_short_one() {
        let readme = parse(
            b"=== A ===\nTested up to: 6.5\n\n== Description ==\n\nFirst [one](https://example.com/).\n\nSecond.",
        );
        assert_eq!(readme.short_description, "First one.");
    }

    #[test]
    fn a_heading_or_fields_are_no_short_description() {
        for (text, first_text) in [
            (
                "== Description ==\n\n= Features =\n\nForms for all.\n",
                "Forms for all.",
            ),
            ("== Description ==\n\n## Features\n", ""),
            ("== Description ==\n\nFeatures\n--------\n\nForms.", "Forms."),
            (
                "Forms.\n**Contributors:** ada\n**Tags:** forms\n\n== Description ==\n\nContributors: ada\nForms.\n",
                "",
            ),
        ] {
            let readme = parse(format!("=== A ===\nTags: a\n\n{text}").as_bytes());
            assert_eq!(
                (&*readme.short_description, &*readme.first_text),
                ("", first_text),
                "{text}"
            );
        }
        let readme = parse(b"=== A ===\n\n== Description ==\n\n= Forms =\nfor all.\n");
        assert_eq!(readme.short_description, "Forms for all.");
    }

    #[test]
    fn the_description_is_the_first_text_that_is_no_decoration() {
        for (text, expected) in [
            (
                "# Own\n\n![Banner](banner.png)\n\nA short text that says what it is.\n\n**Contributors:** ada\n\
                 **Requires at least:** 6.0\n**Tested up to:** 6.5\n\n## Description\n\nLong.\n",
                "A short text that says what it is.",
            ),
            (
                "# Books\nContributors: ada\nRequires at least: 6.0\n<!-- release-version -->\nStable tag: 1.0.0\n\
                 <!--\nend\n-->\nTested up to: 6.5\nLicense: GPL\n\nBooks is a tool.\n\n## Description\n\n\
                 [![Badge](https://e.example/a.svg)](https://e.example/)\n\nBooks makes many formats.\n",
                "Books is a tool.",
            ),
            (
                "![Acme](https://e.example/banner.png)\n\nWordPress Plugin for [Acme](https://e.example) Login\n\n\
                 [![L](https://e.example/l.svg)](https://e.example/)\n\n:rocket: [Start](#start) - [Use](#use)\n\n\
                 ## Overview\n\nRequires at least: 6.0\nTested up to: 6.5\n",
                "WordPress Plugin for Acme Login",
            ),
            (
                "# Acme\n\n## Description\n\nRequires at least: 6.0\nTested up to: 6.5\n\n\
                 [![L](https://e.example/l.svg)](https://e.example/)\n\n<!-- text -->\n\nForms for all.\n",
                "Forms for all.",
            ),
        ] {
            let readme = parse(text.as_bytes());
            assert_eq!(readme.short_description, expected, "{text}");
            if !text.contains("Overview") {
                assert_eq!((&*readme.requires, &*readme.tested), ("6.0", "6.5"), "{text}");
            }
        }
        let readme = parse(b"![Acme](a.png)\n\n# Acme Forms\n\nForms.\n");
        assert_eq!((&*readme.name, &*readme.short_description), ("Acme Forms", "Forms."));
        let readme = parse(b"![Acme](a.png)\n\nForms.\n");
        assert_eq!((&*readme.name, &*readme.short_description), ("", "Forms."));
    }

    #[test]
    fn sections_in_code_and_comments_are_none() {
        let code = "```\n== Changelog ==\n= 1.2 =\n```";
        let text = format!(
            "=== A ===\n\nForms.\n\n== Description ==\n\n{code}\n\n<!--\n== FAQ ==\n-->\n\n    ## Changelog\n\n\
             == Changelog ==\n\n= 1.2 =\n* First\n\n{code}\n\n* Last\n"
        );
        let readme = parse(text.as_bytes());
        assert!(!readme.sections.contains_key("faq"));
        assert!(
            readme.sections["description"].ends_with("## Changelog"),
            "{:?}",
            readme.sections
        );
        assert!(
            readme.sections["changelog"].starts_with("= 1.2 =\n* First")
                && readme.sections["changelog"].ends_with("* Last")
        );
    }

    #[test]
    fn an_upgrade_notice_of_no_version_is_warned_of() {
        for (notice, is_warned) in [
            ("Security: fixes a hole. Update now.", true),
            ("= Security =\nUpdate now.", true),
            ("Back up.\n\n= 1.2 =\nUpdate now.", true),
            ("= 1.2 =\nUpdate now.", false),
            ("* 1.2: Update now.", false),
            ("<!-- none -->", false),
            ("", false),
        ] {
            let readme = parse(format!("=== A ===\n\nForms.\n\n== Upgrade Notice ==\n\n{notice}\n").as_bytes());
            let lines: Vec<_> = readme.warnings.iter().map(|warning| warning.line).collect();
            assert_eq!(lines, [5][..usize::from(is_warned)], "{notice}");
        }
    }

    #[test]
    fn hostile_readmes_take_no_time() {
        for seed in [
            "=",
            "*",
            "<",
            "#",
            "= x =\n",
            "== x ==\n",
            "a: b\n",
            "\n",
            "## 1.2\n",
            "x\n---\n",
            "<a",
            ": ",
        ] {
            let readme = seed.repeat(1024 * 1024 / seed.len());
            let start = thread_time();
            parse(readme.as_bytes());
            // Unoptimized; quadratic time would be minutes.
            let took = thread_time() - start;
            assert!(took < Duration::from_secs(5), "{seed}: {took:?}");
        }
    }

    proptest! {
        #[test]
        fn no_readme_panics(bytes: Vec<u8>, text in "(=== ?|== ?|# ?|Tested up to: ?|Changelog|1\\.2|\n|---|\\PC){0,40}") {
            let readme = parse(&[text.as_bytes(), &bytes, text.as_bytes()].concat());
            prop_assert!(readme.short_description.chars().count() <= SHORT_DESCRIPTION_LIMIT);
            let texts = [&readme.name, &readme.short_description, &readme.stable_tag];
            prop_assert!(texts.into_iter().all(|text| !text.contains(|c: char| c.is_control() && c != '\t')));
            prop_assert!(readme.sections.values().all(|section| !section.is_empty()));
        }
    }
}
