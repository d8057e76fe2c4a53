//! Where the sections of a readme begin, and which of them WordPress.org knows.

use crate::build::changelog;

/// The title of a section.
pub(super) struct Title<'a> {
    /// `None` for a section that WordPress.org does not know.
    pub key: Option<&'static str>,
    pub title: &'a str,
    /// The line below belongs to the title.
    pub underlined: bool,
}

/// `== Title ==` and `## Title` start a section; `# Title` and an underlined title only one that WordPress.org knows.
///
/// A version heading in a changelog or an upgrade notice never does.
pub(super) fn section_title<'a>(line: &'a str, below: &str, open: Option<&str>) -> Option<Title<'a>> {
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
