//! What a plugin's own files say at one commit.
//!
//! [`source_reader`](crate::build::source::source_reader) makes it, [`compose`](crate::build::compose) takes it.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::build::report::outcome::Reason;
use crate::build::source::changelog::{self, ChangelogText};
use crate::build::source::plugin_header::PluginHeader;
use crate::build::source::readme::{self, Readme};

/// How much changelog HTML a manifest carries, in bytes. Every site fetches it and most keep it in their database, so it
/// is a window's worth of reading and not the plugin's history.
const CHANGELOG_HTML: usize = 16 << 10;

/// What a plugin's files say at one commit.
pub(crate) struct SourceFiles {
    /// The file with the plugin's header, relative to the plugin's folder.
    pub main_file: String,
    /// The header.
    pub header: Rc<PluginHeader>,
    /// The readme, where there is one.
    pub readme: Option<Rc<ReadmeFile>>,
    /// The readme's name; empty where there is none.
    pub readme_name: String,
    /// Changelogs in files of their own, best name first.
    pub changelogs: Vec<Rc<Changelog>>,
    /// What was left out, and why.
    pub notes: Vec<Reason>,
}

/// A parsed readme, its two long sections taken out.
pub(crate) struct ReadmeFile {
    /// Its fields and its other sections.
    pub fields: Readme,
    /// The section of this name, in Markdown; may be empty.
    pub description: String,
    /// The section of this name; may be empty.
    pub changelog: Changelog,
}

/// A changelog. Its HTML is made at most once, however many tags share it.
pub(crate) struct Changelog {
    /// Markdown, without upgrade notices.
    pub text: String,
    html: OnceCell<ChangelogText>,
}

impl Changelog {
    /// A changelog in Markdown.
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: changelog::without_notices(text).into_owned(),
            html: OnceCell::new(),
        }
    }

    /// Its latest entries as sanitized HTML.
    pub(crate) fn html(&self) -> &ChangelogText {
        self.html.get_or_init(|| changelog::to_html(&self.text, CHANGELOG_HTML))
    }
}

impl ReadmeFile {
    /// Reads a readme.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut fields = readme::parse(bytes);
        let mut take = |name| fields.sections.remove(name).unwrap_or_default();
        let description = take("description");
        let changelog = Changelog::new(&take("changelog"));
        Self {
            fields,
            description,
            changelog,
        }
    }
}
