//! The content of a plugin's own files at one commit.
//!
//! [`source_reader`](crate::build::source::source_reader) makes it, [`compose`](crate::build::compose) takes it.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::build::report::outcome::Reason;
use crate::build::source::changelog::{self, ChangelogText};
use crate::build::source::markdown::{BlockLines, Markdown};
use crate::build::source::plugin_header::PluginHeader;
use crate::build::source::readme::{self, Readme};

/// Limit of a manifest's changelog HTML in bytes. Every site fetches it and most keep it in their database, so it is
/// enough to read in a window, not the plugin's whole history.
const CHANGELOG_HTML: usize = 16 << 10;

/// The content of a plugin's files at one commit.
pub(crate) struct SourceFiles {
    /// The file with the plugin's header, relative to the plugin's folder.
    pub main_file: String,
    /// The header.
    pub header: Rc<PluginHeader>,
    /// The readme, if there is one.
    pub readme: Option<Rc<ReadmeFile>>,
    /// The readme's name; may be empty.
    pub readme_name: String,
    /// Changelogs in separate files, best name first.
    pub changelogs: Vec<Rc<Changelog>>,
    /// What was skipped, and why.
    pub notes: Vec<Reason>,
}

/// A parsed readme, without its two long sections.
pub(crate) struct ReadmeFile {
    /// Its fields and its other sections.
    pub fields: Readme,
    /// The section of this name, in Markdown; may be empty.
    pub description: String,
    /// The section of this name; may be empty.
    pub changelog: Changelog,
}

/// A changelog. Its HTML is made once, however many tags share it.
pub(crate) struct Changelog {
    /// Markdown, without upgrade notices.
    text: String,
    blocks: Rc<BlockLines>,
    html: OnceCell<ChangelogText>,
}

impl Changelog {
    /// A changelog in Markdown.
    pub(super) fn new(text: &str) -> Self {
        let text = changelog::without_notices(text).into_owned();
        Self {
            blocks: Rc::new(BlockLines::of(&text)),
            text,
            html: OnceCell::new(),
        }
    }

    /// Its Markdown, without upgrade notices.
    pub(crate) fn markdown(&self) -> Markdown<'_> {
        Markdown {
            text: &self.text,
            blocks: self.blocks.clone(),
        }
    }

    /// Its latest entries as sanitized HTML.
    pub(crate) fn html(&self) -> &ChangelogText {
        self.html
            .get_or_init(|| changelog::to_html(self.markdown(), CHANGELOG_HTML))
    }
}

impl ReadmeFile {
    /// Parses a readme.
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
