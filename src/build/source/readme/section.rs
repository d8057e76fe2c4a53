//! Finds the sections of a readme, and those that WordPress.org knows.

use crate::build::source::changelog;

/// The title of a section.
pub(crate) struct Title<'a> {
    /// `None` if WordPress.org does not know the section.
    pub key: Option<&'static str>,
    pub title: &'a str,
    pub marks: Marks,
    /// Whether the next line belongs to the title.
    pub underlined: bool,
}

/// `== Title ==` and `## Title` start a section; `# Title` and an underlined title only one that WordPress.org knows.
/// `= Release History =`, as in old readmes, starts the changelog outside of it.
///
/// In a changelog or an upgrade notice, a version heading does not, nor a heading of another kind than the section's
/// own: `## Fixed` or `=== Fixed ===` after `== Changelog ==`.
pub(crate) fn section_title<'a>(line: &'a str, below: &str, open: Option<&Open>) -> Option<Title<'a>> {
    let trimmed = line.trim();
    // Most lines: neither marked nor before an underline.
    if !trimmed.starts_with(['=', '#']) && !below.trim_start().starts_with(['=', '-']) {
        return None;
    }
    let title = trimmed.trim_matches(['#', '=', ' ', '\t']);
    let underlined = changelog::is_underline(below);
    let marked = trimmed.starts_with("==") || trimmed.starts_with("##") && !trimmed.starts_with("###");
    let is_history = || {
        trimmed.starts_with('=')
            && section_key(title) == Some("changelog")
            && open.is_none_or(|open| !open.is_by_version())
    };
    let may_be = marked || underlined || trimmed.starts_with("# ") || is_history();
    if title.is_empty() || !may_be || changelog::indent(line) >= changelog::CODE_INDENT {
        return None;
    }
    let key = section_key(title);
    let marks = if marked || trimmed.starts_with('=') {
        Marks::of(trimmed)
    } else {
        Marks(if underlined { '_' } else { '#' }, 1)
    };
    let is_entry = open.is_some_and(|open| {
        open.is_by_version() && (!open.marks.ends_at(marks) || changelog::is_version_heading(line, below))
    });
    (key.is_some() || marked && !is_entry).then_some(Title {
        key,
        title,
        marks,
        underlined: underlined && !marked,
    })
}

/// The current section.
pub(crate) struct Open {
    pub key: &'static str,
    pub marks: Marks,
}

impl Open {
    /// Whether its headings name versions.
    fn is_by_version(&self) -> bool {
        matches!(self.key, "changelog" | "upgrade_notice")
    }
}

/// How a section's title is marked: the sign, and its number.
#[derive(Clone, Copy)]
pub(crate) struct Marks(char, usize);

impl Marks {
    fn of(title: &str) -> Self {
        let sign = title.chars().next().unwrap_or_default();
        Self(sign, title.chars().take_while(|c| *c == sign).count())
    }

    /// Whether a section with such a title ends at another one.
    fn ends_at(self, Self(sign, count): Self) -> bool {
        match (self, sign) {
            (Self('=', own), '=') => count == own || own == 1,
            (Self('=', _), _) => false,
            (Self('#', own), '#') => count <= own,
            (_, sign) => sign == '#' || sign == '_',
        }
    }
}

fn section_key(title: &str) -> Option<&'static str> {
    let name = title.trim_end_matches(':').to_ascii_lowercase().replace(' ', "_");
    Some(match &*name {
        "description" => "description",
        "installation" => "installation",
        "faq" | "frequently_asked_questions" => "faq",
        "screenshots" | "screenshot" => "screenshots",
        "changelog" | "change_log" | "release_history" | "version_history" | "revision_history" => "changelog",
        "upgrade_notice" => "upgrade_notice",
        "other_notes" => "other_notes",
        _ => return None,
    })
}
