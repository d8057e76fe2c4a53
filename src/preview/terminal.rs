//! The preview as text.
//!
//! Names and texts come from repositories, so every line is escaped.

use std::fmt::Write as _;

use crate::build::counted;
use crate::build::draft::Origin;
use crate::preview::compare::{FieldDifference, LineChange};
use crate::preview::package::{PackagePreview, lines};
use crate::preview::printed::{Printed, found, left_out, name};
use crate::preview::site::{Level, PluginRow, Site, UpdateAnswer};
use crate::preview::snapshot::{PreviewSnapshot, Previewed};
use crate::preview::target::Target;
use crate::preview::view::{Comparison, Pick, RenderedRelease, Selection, details_of_theme};
use countersign_model::plugin::PluginKind;
use countersign_model::text::printable::Printable;
use countersign_model::version::Version;

/// How many tags without a release are printed; the rest is counted.
const TAGS: usize = 50;

/// How many files of each kind are printed; the rest is counted.
const FILES: usize = 20;

/// The snapshot's plugins as text.
pub fn text(snapshot: &PreviewSnapshot, target: &Target, selection: &Selection) -> Printed {
    let mut text = TerminalText::default();
    let mut is_whole = snapshot.problems.is_empty();
    for problem in &snapshot.problems {
        text.lines("", problem);
    }
    if snapshot.plugins.is_empty() && is_whole {
        text.line("no plugins in registry/plugins; its README.md has an example to start from");
    }
    for plugin in &snapshot.plugins {
        text.gap();
        is_whole &= match found(plugin, target, selection) {
            Ok((pick, rendered, site)) => {
                text.version(&pick, &rendered, &site);
                text.left_out(plugin);
                true
            }
            Err(lines) => {
                text.line(&name(plugin));
                lines.iter().for_each(|line| text.lines("  ", line));
                false
            }
        };
    }
    Printed { text: text.0, is_whole }
}

#[derive(Default)]
struct TerminalText(String);

impl TerminalText {
    fn line(&mut self, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{}", Printable(line.trim_end()));
    }

    fn lines(&mut self, indent: &str, text: &str) {
        text.lines().for_each(|line| self.line(&format!("{indent}{line}")));
    }

    fn gap(&mut self) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
    }

    fn heading(&mut self, heading: &str) {
        self.gap();
        self.line(heading);
    }

    fn version(&mut self, pick: &Pick, rendered: &RenderedRelease<'_>, site: &Site) {
        let manifest = &rendered.release.manifest;
        let would_be = if rendered.is_untagged { "would be" } else { "as" };
        let place = match pick {
            Pick::Next(Origin::WorkingTree) => format!("working tree, {would_be} tagged {}", manifest.tag),
            Pick::Next(Origin::Head) => format!("HEAD, {would_be} tagged {}", manifest.tag),
            Pick::Tagged(_) => format!("tag {}", manifest.tag),
        };
        self.line(&format!("{} {} ({place})", manifest.name, manifest.version));

        let current = if site.current.is_empty() {
            "an unknown version"
        } else {
            &site.current
        };
        self.heading(&format!(
            "On a site with CMS {}, PHP {} and {current} of it",
            site.cms, site.php
        ));
        self.line(&format!("  {}", row(rendered, site)));
        rendered
            .caveat()
            .iter()
            .for_each(|caveat| self.line(&format!("  {caveat}")));
        for note in &rendered.notes {
            let level = match note.level {
                Level::Good => "good",
                Level::Caution => "caution",
                Level::Stop => "stop",
            };
            self.line(&format!("  {level}: {}", note.text));
        }
        self.line(&format!("  answer: {}", answer_text(&rendered.answer)));
        if let Some(answer) = &rendered.answer_now {
            self.line(&format!("  answer today: {}", answer_text(answer)));
        }

        if !rendered.states.is_empty() {
            self.heading(&format!("By the state of the license, with {current} installed"));
        }
        let width = rendered
            .states
            .iter()
            .map(|answer| answer.who.len())
            .max()
            .unwrap_or_default();
        for answer in &rendered.states {
            let version = answer.version.as_ref().map_or("-", Version::as_str);
            self.line(&format!("  {:width$}  {version:10}  {}", answer.who, answer.why));
        }

        self.heading("Details");
        if manifest.kind == PluginKind::Theme {
            self.line(&format!("  {}", details_of_theme(manifest)));
        }
        for (name, value) in [
            ("author", &manifest.author),
            ("last updated", &manifest.last_updated),
            ("requires", &manifest.requires),
            ("tested up to", &manifest.tested),
            ("requires PHP", &manifest.requires_php),
            ("homepage", &manifest.homepage),
            ("package", &manifest.package),
            ("requires plugins", &manifest.requires_plugins.join(", ")),
            ("description", &manifest.description),
            ("upgrade notice", &manifest.upgrade_notice),
        ] {
            if !value.is_empty() {
                self.line(&format!("  {name}: {value}"));
            }
        }
        if !manifest.changelog.is_empty() {
            self.heading("Changelog");
            self.lines("  ", &manifest.changelog);
        }
        if !rendered.remarks.is_empty() {
            self.heading("Warnings");
            rendered
                .remarks
                .iter()
                .for_each(|remark| self.line(&format!("  {remark}")));
        }
        if let Some(preview) = &rendered.package {
            self.package(preview, rendered.comparison.as_ref());
        }
        if let Some(comparison) = &rendered.comparison {
            self.heading(&format!("Difference to {} as published", comparison.with));
            match &comparison.differences {
                Err(why) => self.lines("  ", why),
                Ok(fields) if fields.is_empty() => self.line("  none"),
                Ok(fields) => fields.iter().for_each(|field| self.difference(field)),
            }
        }
    }

    /// The files to pack, those left out, and the changes from the published package.
    fn package(&mut self, preview: &PackagePreview<'_>, comparison: Option<&Comparison>) {
        let package = preview.package;
        self.heading("Package");
        let count = counted(package.files.len(), "file");
        self.line(&format!(
            "  {count}, {} bytes unpacked, in the folder {}",
            package.unpacked(),
            package.folder
        ));
        let obstacles = package.obstacles.iter();
        self.some(
            &obstacles
                .map(|obstacle| format!("cannot be packed: {obstacle}"))
                .collect::<Vec<_>>(),
        );
        let left_out = package.left_out.iter();
        self.some(
            &left_out
                .map(|(name, rule)| format!("left out: {name} ({rule})"))
                .collect::<Vec<_>>(),
        );
        if let (Some(changes), Some(comparison)) = (&preview.changes, comparison) {
            self.heading(&format!("Package against {} as published", comparison.with));
            match changes {
                Err(why) => self.lines("  ", why),
                Ok(changes) if changes.is_empty() => self.line("  the same files"),
                Ok(changes) => self.some(&lines(changes)),
            }
        }
    }

    /// The first lines, and the number of the others.
    fn some(&mut self, lines: &[String]) {
        lines
            .iter()
            .take(FILES)
            .for_each(|line| self.line(&format!("  {line}")));
        if let Some(more) = lines.len().checked_sub(FILES).filter(|more| *more > 0) {
            self.line(&format!("  and {more} more; --json lists them all"));
        }
    }

    fn left_out(&mut self, plugin: &Previewed) {
        let all = left_out(plugin).count();
        if all > 0 {
            self.heading("Skipped tags");
        }
        left_out(plugin)
            .take(TAGS)
            .for_each(|(tag, reason)| self.line(&format!("  {tag}: {reason}")));
        if let Some(more) = all.checked_sub(TAGS).filter(|more| *more > 0) {
            self.line(&format!("  and {more} more; --json lists them all"));
        }
    }

    fn difference(&mut self, difference: &FieldDifference) {
        self.line(&format!("  {}", difference.fields.join(", ")));
        for line in &difference.lines {
            let sign = match line.change {
                LineChange::Went => "-",
                LineChange::Came => "+",
                LineChange::Stayed => " ",
                LineChange::Skipped => "…",
            };
            self.line(&format!("    {sign} {}", line.text));
        }
    }
}

fn row(rendered: &RenderedRelease<'_>, site: &Site) -> String {
    let manifest = &rendered.release.manifest;
    let name = &manifest.name;
    let version = &manifest.version;
    match rendered.row {
        PluginRow::Update if manifest.kind == PluginKind::Theme => {
            format!("There is a new version of {name} available. View version {version} details or update now.")
        }
        PluginRow::Update => format!("There is a new version of {name} available. View version {version} details."),
        PluginRow::CmsTooOld => format!("There is a new version of {name}, and this site's CMS is too old for it."),
        PluginRow::BothTooOld => {
            format!("There is a new version of {name}, and this site's CMS and PHP are too old for it.")
        }
        PluginRow::PhpTooOld if manifest.kind == PluginKind::Theme => {
            format!("There is a new version of {name}, and this site's PHP is too old for it.")
        }
        PluginRow::PhpTooOld => {
            format!(
                "There is a new version of {name}, and this site's PHP is too old for it. View version {version} details."
            )
        }
        PluginRow::UpToDate => format!("No update row: {version} is not newer than {}.", site.current),
    }
}

fn answer_text(answer: &UpdateAnswer) -> String {
    match &answer.version {
        Some(version) => format!("the manifest of {version}. {}", answer.why),
        None => format!("{{}}. {}", answer.why),
    }
}
