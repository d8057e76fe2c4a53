//! The report as text for people: errors first, each reason once.
//!
//! Names come from repositories, so every line is escaped before it is coloured.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::build::report::BuildReport;
use crate::build::report::listing::{counted, listed};
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::plugin_report::{PluginReport, PluginState, ReleaseWarning};
use countersign_model::text::printable::Printable;
use countersign_registry::left_behind;

/// The report as text, with ANSI colours if `colour`.
pub fn summary(report: &BuildReport, colour: bool) -> String {
    let mut text = SummaryText {
        text: String::new(),
        colour,
    };
    for plugin in &report.plugins {
        text.plugin(plugin, report.check);
    }
    let goes = if report.check { "would be removed" } else { "removed" };
    for (slug, versions) in &report.gone {
        text.line(
            Style::Warning,
            &format!("{slug}  no longer in the registry; {goes}: {}", listed(versions)),
        );
    }
    for file in &report.damaged {
        text.line(
            Style::Wrong,
            &format!("{file} does not match the index, so the server does not load these releases; restore the file"),
        );
    }
    let counts = report.counts();
    let misnamed = report.plugins.iter().filter(|plugin| plugin.slug.is_none()).count();
    let mut total = format!(
        "{}{}, {}: {} built, {} unchanged, {} skipped, {} failed",
        counted(report.plugins.len() - misnamed, "plugin"),
        if misnamed == 0 {
            String::new()
        } else {
            format!(", {} not named after a plugin", counted(misnamed, "file"))
        },
        counted(counts.tags(), "tag"),
        counts.built,
        counts.unchanged,
        counts.skipped,
        counts.failed
    );
    // What the counts of tags leave out.
    let broken = report
        .plugins
        .iter()
        .filter(|plugin| matches!(plugin.state, PluginState::Broken(_)))
        .count();
    let removed = report.plugins.iter().map(|plugin| plugin.removed.len()).sum::<usize>();
    let removed = removed + report.gone.values().map(Vec::len).sum::<usize>();
    let damaged = report.damaged.len();
    let more = [
        (broken, counted(broken, "plugin") + " broken"),
        (
            removed,
            format!(
                "{} {}",
                counted(removed, "release"),
                if report.check { "to remove" } else { "removed" }
            ),
        ),
        (damaged, counted(damaged, "file") + " damaged"),
        (counts.awaiting, format!("{} awaiting a package", counts.awaiting)),
        (report.warnings(), counted(report.warnings(), "warning")),
    ];
    for (_, count) in more.iter().filter(|(count, _)| *count > 0) {
        total += &format!(", {count}");
    }
    if report.check {
        total += if report.differs() {
            "; nothing written, a build would change it"
        } else {
            "; nothing would change"
        };
    }
    text.line(Style::Plain, &total);
    text.text
}

#[derive(Clone, Copy)]
enum Style {
    Plain,
    Warning,
    Wrong,
}

struct SummaryText {
    text: String,
    colour: bool,
}

impl SummaryText {
    fn line(&mut self, style: Style, line: &str) {
        let (start, end) = match style {
            _ if !self.colour => ("", ""),
            Style::Plain => ("", ""),
            Style::Warning => ("\x1b[33m", "\x1b[0m"),
            Style::Wrong => ("\x1b[31m", "\x1b[0m"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{start}{}{end}", Printable(line));
    }

    fn plugin(&mut self, plugin: &PluginReport, check: bool) {
        let name = plugin.slug.as_ref().map_or(plugin.file.clone(), ToString::to_string);
        let counts = plugin.counts();
        match &plugin.state {
            PluginState::NoSource => self.line(Style::Plain, &format!("{name}  no source configured")),
            PluginState::Broken(problems) => {
                self.line(
                    Style::Wrong,
                    &format!(
                        "{name}  broken; {} published before stay",
                        counted(plugin.kept.len(), "release")
                    ),
                );
                for problem in problems {
                    self.line(Style::Wrong, &format!("  {problem}"));
                }
            }
            PluginState::Read => {
                let tags = counted(counts.tags(), "tag");
                let mut line = format!("{name}  {tags}: {} built, {} unchanged", counts.built, counts.unchanged);
                for (count, word) in [
                    (counts.skipped, "skipped"),
                    (counts.failed, "failed"),
                    (counts.awaiting, "awaiting a package"),
                ] {
                    if count > 0 {
                        line += &format!(", {count} {word}");
                    }
                }
                match &plugin.releases.latest {
                    Some(latest) => line += &format!("; latest {latest}"),
                    None => line += "; nothing to offer",
                }
                self.line(if counts.failed > 0 { Style::Wrong } else { Style::Plain }, &line);
                if let Some((tag, reason)) = plugin.missing_newest() {
                    self.line(Style::Warning, &format!("  newest not published: {tag}: {reason}"));
                }
            }
        }
        self.changes(plugin, check);
        for ReleaseWarning { version, remark, .. } in &plugin.warnings {
            self.line(Style::Warning, &format!("  warning, {version}: {remark}"));
        }
        let failed = plugin.tags.iter().filter_map(|tag| match &tag.outcome {
            ReleaseOutcome::Failed(reason) => Some((tag, reason)),
            _ => None,
        });
        let skipped = plugin.tags.iter().filter_map(|tag| match &tag.outcome {
            ReleaseOutcome::Skipped(reason) => Some((tag, reason)),
            _ => None,
        });
        let awaiting = plugin
            .tags
            .iter()
            .filter(|tag| matches!(tag.outcome, ReleaseOutcome::AwaitsPackage));
        let awaiting: Vec<_> = awaiting.filter_map(|tag| tag.version.as_ref()).collect();
        if !awaiting.is_empty() {
            let line = format!(
                "  awaiting a package, hand it over with `countersign package add`: {}",
                listed(&awaiting)
            );
            self.line(Style::Plain, &line);
        }
        self.unsigned(plugin);
        // Those of the newest releases are among the warnings.
        let is_warned_of = |tag: &&TagOutcome| plugin.warnings.iter().any(|warning| warning.tag == tag.tag);
        let others = plugin.tags.iter().filter(|tag| !is_warned_of(tag));
        let notes = others.flat_map(|tag| tag.notes.iter().map(move |note| (tag, note)));
        let notes = notes.filter(|(_, note)| !matches!(note, Reason::Replaced | Reason::LeavesBehind(_)));
        self.grouped("failed", Style::Wrong, failed);
        self.grouped("skipped", Style::Plain, skipped);
        self.grouped("note on", Style::Plain, notes);
    }

    /// Releases that await signatures, and those that sites in the field would not take.
    fn unsigned(&mut self, plugin: &PluginReport) {
        for tag in &plugin.tags {
            let Some(version) = &tag.version else { continue };
            match &tag.outcome {
                ReleaseOutcome::AwaitsSignatures { good, needed, missing } => {
                    let count = needed - good.min(needed);
                    let who = missing.join(" or ");
                    let line =
                        format!("  {version} awaits {count} of {needed} signatures, by {who}: `countersign sign`");
                    self.line(Style::Plain, &line);
                }
                ReleaseOutcome::LeavesBehind(left) => {
                    for line in left_behind::lines(left) {
                        let line = format!("  not published: release {version} would leave {line}");
                        self.line(Style::Warning, &line);
                    }
                }
                _ => {}
            }
            let notes = tag.notes.iter().filter(|note| matches!(note, Reason::LeavesBehind(_)));
            for note in notes {
                self.line(Style::Warning, &format!("  release {version} {note}"));
            }
        }
    }

    fn changes(&mut self, plugin: &PluginReport, check: bool) {
        let changes = [
            ("add", "added", &plugin.added),
            ("change", "changed", &plugin.changed),
            ("remove", "removed", &plugin.removed),
        ];
        for (verb, done, versions) in changes.into_iter().filter(|(_, _, versions)| !versions.is_empty()) {
            let verb = if check {
                format!("would {verb}")
            } else {
                done.to_owned()
            };
            self.line(
                Style::Plain,
                &format!("  {verb} {}: {}", versions.len(), listed(versions)),
            );
        }
        let replaced = plugin.tags.iter().filter(|tag| tag.notes.contains(&Reason::Replaced));
        let replaced: Vec<_> = replaced.filter_map(|tag| tag.version.as_ref()).collect();
        if !replaced.is_empty() {
            let verb = if check {
                "would replace what is"
            } else {
                "replaced what was"
            };
            let line = format!("  {verb} published under the same version: {}", listed(&replaced));
            self.line(Style::Warning, &line);
        }
    }

    /// One line for each reason, with its tags.
    fn grouped<'a>(&mut self, word: &str, style: Style, tags: impl Iterator<Item = (&'a TagOutcome, &'a Reason)>) {
        let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (TagOutcome { tag, .. }, reason) in tags {
            let detail = reason.detail();
            let named = if detail.is_empty() {
                tag.clone()
            } else {
                format!("{tag} ({detail})")
            };
            kinds.entry(reason.headline()).or_default().push(named);
        }
        for (headline, tags) in kinds {
            self.line(
                style,
                &format!("  {word} {}, {headline}: {}", tags.len(), listed(&tags)),
            );
        }
    }
}
