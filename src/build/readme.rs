//! The readme of a plugin: `readme.txt` in WordPress.org's format, or the same in a `README.md`.
//!
//! Reads what the WordPress.org parser reads, in its order, and says in warnings what it could not use. The fields and
//! sections go to the manifest; the changelog section goes on to [`changelog`](super::changelog).

use std::collections::BTreeMap;

use crate::model::version::Version;

use super::{changelog, encoding, html};

/// The longest short description, in characters.
const SHORT_DESCRIPTION_LIMIT: usize = 150;

/// A readme. A field that is missing or cannot be used is empty.
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
    /// Plain text in one line, at most 150 characters.
    pub short_description: String,
    /// Markdown by `description`, `installation`, `faq`, `screenshots`, `changelog`, `upgrade_notice`. None is empty.
    pub sections: BTreeMap<String, String>,
    /// What could not be used, in the order of the lines.
    pub warnings: Vec<Warning>,
}

/// Something in a readme that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

/// Reads a readme. Nothing in it is an error.
pub fn parse(bytes: &[u8]) -> Readme {
    let text = encoding::decode(bytes);
    let mut lines = Lines::new(&text);
    let mut readme = Readme::default();
    readme.read_name(&mut lines);
    readme.read_fields(&mut lines);
    let short_description = paragraph(&mut lines);
    readme.read_sections(&text, &mut lines);
    readme.describe(&short_description);
    readme
}

impl Readme {
    /// What the author tells those who update to this version, as plain text; empty where there is nothing.
    pub fn upgrade_notice(&self, version: &Version) -> String {
        self.sections
            .get("upgrade_notice")
            .and_then(|notices| changelog::of_version(notices, version))
            .unwrap_or_default()
    }

    fn warn(&mut self, line: usize, message: impl Into<String>) {
        self.warnings.push(Warning { line, message: message.into() });
    }

    /// The first line that is not blank, unless it is a field already.
    fn read_name(&mut self, lines: &mut Lines<'_>) {
        lines.skip_while(|line| line.trim().is_empty());
        let number = lines.number();
        let title = lines.peek().unwrap_or_default();
        if field(title).is_some_and(|(name, _)| is_known(&name)) {
            return self.warn(number, "the name of the plugin is missing");
        }
        lines.next();
        self.name = title_of(title);
        if lines.peek().is_some_and(|line| line.trim_matches(['=', '-']).is_empty()) {
            lines.next();
        }
        // The placeholder of the readme that everybody starts from.
        if self.name.eq_ignore_ascii_case("plugin name") {
            self.warn(number, "the name is the placeholder \"Plugin Name\"");
            lines.skip_while(|line| line.trim().is_empty());
            let next = lines.peek().unwrap_or_default();
            let is_name = next.len() < 50 && field(next).is_none_or(|(name, _)| !is_known(&name));
            self.name = if is_name { title_of(lines.next().unwrap_or_default()) } else { String::new() };
        }
    }

    /// The `Name: value` lines below the name. Blank lines may part them; behind one, an unknown name is a description.
    fn read_fields(&mut self, lines: &mut Lines<'_>) {
        lines.skip_while(|line| line.trim().is_empty());
        let mut after_blank = false;
        while let Some(line) = lines.peek() {
            let number = lines.number();
            match field(line) {
                None if line.is_empty() => after_blank = true,
                None => return,
                Some((name, value)) if is_known(&name) => {
                    self.set(number, &name, value);
                    after_blank = false;
                }
                Some(_) if after_blank => return,
                Some(_) => {}
            }
            lines.next();
        }
    }

    fn set(&mut self, line: usize, name: &str, value: &str) {
        let target = match name {
            "tested" | "tested up to" => &mut self.tested,
            "requires" | "requires at least" => &mut self.requires,
            "requires php" => &mut self.requires_php,
            "stable tag" => {
                self.stable_tag = stable_tag(value);
                return;
            }
            _ => return,
        };
        *target = platform_version(value);
        if target.is_empty() && !value.is_empty() {
            self.warn(line, format!("\"{}\" is not a version such as 6.5 or 6.5.1", value.escape_debug()));
        }
    }

    fn read_sections(&mut self, text: &str, lines: &mut Lines<'_>) {
        let mut open: Option<(String, usize)> = None;
        loop {
            let start = lines.offset();
            let line = lines.next();
            let below = lines.peek().unwrap_or_default();
            let title = line.and_then(|line| section_title(line, below, open.as_ref().map(|(key, _)| key.as_str())));
            if line.is_some() && title.is_none() {
                continue;
            }
            if let Some((key, from)) = open.take() {
                self.append(&key, text[from..start].trim());
            }
            let Some(title) = title else { return };
            if title.underlined {
                lines.next();
            }
            if title.key.is_none() {
                self.append("other_notes", &format!("### {}", title.title));
            }
            open = Some((title.key.unwrap_or("other_notes").to_owned(), lines.offset()));
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

    /// Sections that WordPress.org does not know go to the end of the description.
    fn describe(&mut self, short_description: &str) {
        if !self.sections.contains_key("description") {
            self.append("description", short_description);
        }
        if let Some(notes) = self.sections.remove("other_notes") {
            self.append("description", &notes);
        }
        let source = if short_description.is_empty() {
            first_paragraph(self.sections.get("description").map_or("", String::as_str))
        } else {
            short_description
        };
        self.short_description = shorten(&html::to_plain_text(source).split_whitespace().collect::<Vec<_>>().join(" "));
    }
}

/// The lines of a text, with their numbers and offsets.
struct Lines<'a> {
    text: &'a str,
    offset: usize,
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, offset: 0, number: 1 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.text[self.offset..].split_terminator('\n').next()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.offset = self.text.len().min(self.offset + line.len() + 1);
        self.number += 1;
        Some(line)
    }

    fn skip_while(&mut self, skip: impl Fn(&str) -> bool) {
        while self.peek().is_some_and(&skip) {
            self.next();
        }
    }

    fn number(&self) -> usize {
        self.number
    }

    fn offset(&self) -> usize {
        self.offset
    }
}

fn title_of(line: &str) -> String {
    html::strip(line.trim_matches(['#', '=', ' ', '\t']))
}

/// `Name: value`, also as `**Name:** value` or `* Name: value`. The name in lower case.
fn field(line: &str) -> Option<(String, &str)> {
    const MARKS: [char; 4] = [' ', '\t', '*', '-'];
    let (name, value) = line.split_once(':')?;
    (!line.starts_with(['#', '='])).then(|| (name.trim_matches(MARKS).to_ascii_lowercase(), value.trim_matches(MARKS)))
}

fn is_known(field: &str) -> bool {
    [
        "tested",
        "tested up to",
        "requires",
        "requires at least",
        "requires php",
        "tags",
        "contributors",
        "donate link",
        "stable tag",
        "license",
        "license uri",
    ]
    .contains(&field)
}

/// The version in "WordPress 6.5", "6.5.x", ">= 6.0" or "6.5-RC1"; empty where there is none, or more than one.
fn platform_version(value: &str) -> String {
    let mut versions = value
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .map(|part| part.trim_matches('.'))
        .filter(|part| (2..=3).contains(&part.split('.').count()) && part.split('.').all(|number| !number.is_empty()));
    match (versions.next(), versions.next()) {
        (Some(version), None) => version.to_owned(),
        _ => String::new(),
    }
}

fn stable_tag(value: &str) -> String {
    let value = value.trim_matches(['"', '\'', ' ']);
    let value = value.strip_prefix('/').unwrap_or(value);
    let value = value.strip_prefix("tags/").unwrap_or(value);
    let tag: String = value.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')).collect();
    if tag.starts_with('.') { format!("0{tag}") } else { tag }
}

/// The lines up to the first section, joined.
fn paragraph(lines: &mut Lines<'_>) -> String {
    let mut text = Vec::new();
    while let Some(line) = lines.peek() {
        if section_title(line, "", None).is_some() || line.trim_start().starts_with("##") {
            break;
        }
        lines.next();
        text.extend(Some(line.trim()).filter(|line| !line.is_empty()));
    }
    text.join(" ")
}

/// The title of a section.
struct Title<'a> {
    /// `None` for a section that WordPress.org does not know.
    key: Option<&'static str>,
    title: &'a str,
    /// The line below belongs to the title.
    underlined: bool,
}

/// `== Title ==` and `## Title` start a section; `# Title` and an underlined title only one that WordPress.org knows.
///
/// A version heading in a changelog or an upgrade notice never does.
fn section_title<'a>(line: &'a str, below: &str, open: Option<&str>) -> Option<Title<'a>> {
    let trimmed = line.trim();
    let title = trimmed.trim_matches(['#', '=', ' ', '\t']);
    let underlined = changelog::is_underline(below);
    let marked = trimmed.starts_with("==") || trimmed.starts_with("##") && !trimmed.starts_with("###");
    let may_be = marked || underlined || trimmed.starts_with("# ");
    if title.is_empty() || !may_be {
        return None;
    }
    let key = section_key(title);
    let is_entry = matches!(open, Some("changelog" | "upgrade_notice")) && changelog::is_version_heading(line, below);
    (key.is_some() || marked && !is_entry).then_some(Title { key, title, underlined: underlined && !marked })
}

fn section_key(title: &str) -> Option<&'static str> {
    let name = title.trim_end_matches(':').to_ascii_lowercase().replace(' ', "_");
    Some(match &*name {
        "description" => "description",
        "installation" => "installation",
        "faq" | "frequently_asked_questions" => "faq",
        "screenshots" | "screenshot" => "screenshots",
        "changelog" | "change_log" => "changelog",
        "upgrade_notice" => "upgrade_notice",
        "other_notes" => "other_notes",
        _ => return None,
    })
}

fn first_paragraph(markdown: &str) -> &str {
    markdown.split("\n\n").find(|paragraph| !paragraph.trim().is_empty()).unwrap_or_default()
}

/// Cuts at the last sentence that ends in the last fifth, else at a word.
fn shorten(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(SHORT_DESCRIPTION_LIMIT) else { return text.to_owned() };
    let head = &text[..end];
    if let Some(sentence) = head.rfind(". ").or(head.ends_with('.').then(|| head.len() - 1)) {
        if sentence * 5 > head.len() * 4 {
            return head[..=sentence].to_owned();
        }
    }
    let room = head.char_indices().last().map_or(0, |(last, _)| last);
    let words = head[..room].rfind(' ').map_or(&head[..room], |space| &head[..space]);
    format!("{}…", words.trim_end())
}
