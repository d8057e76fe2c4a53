//! A snapshot: everything that a preview shows, read at one moment and replaced as a whole.
//!
//! [`PreviewSnapshot::read`] drafts all plugins in parallel and reuses what has not changed.
//! [`live`](crate::preview::live) reads it again, [`view`](crate::preview::view) picks what to show.

use std::path::PathBuf;
use std::sync::Arc;

use crate::build::PluginState;
use crate::build::draft::{self, Draft, WatchedFolder};
use crate::preview::license_mail::LicenseMail;
use crate::preview::target::Target;
use countersign_model::text::ErrorChain;
use countersign_package::catalog::{ReleaseIndex, Releases, published_name};
use countersign_registry::plugins::PluginEntry;

/// The content at one moment.
#[derive(Debug, Default)]
pub struct PreviewSnapshot {
    /// The plugins, in the order of their files.
    pub plugins: Vec<Arc<Previewed>>,
    /// What a buyer gets; `None` without an instance.
    pub mail: Option<LicenseMail>,
    /// Errors that concern all plugins, escaped for a terminal.
    pub problems: Vec<String>,
}

/// One plugin.
#[derive(Debug)]
pub struct Previewed {
    /// Its registry entry.
    pub entry: PluginEntry,
    /// Its draft.
    pub draft: Draft,
    /// Its published releases; `None` if there are none, or they are unknown.
    pub published: Option<Releases>,
    /// Whether the published releases cannot be read.
    pub is_index_broken: bool,
}

impl PreviewSnapshot {
    /// Reads everything.
    pub fn read(target: &Target, before: Option<&Self>) -> Self {
        let mut problems = Vec::new();
        let index = target
            .releases
            .as_ref()
            .map(|releases| ReleaseIndex::read(releases))
            .transpose();
        let is_index_broken = index.is_err();
        let index = index.unwrap_or_else(|error| {
            let hint = "hint: restore it, or delete it and build everything";
            problems.push(format!("{}\n{hint}", ErrorChain(&error)));
            None
        });
        let mut index = index.flatten().unwrap_or_default();
        let entries = target.entries().unwrap_or_else(|error| {
            problems.push(ErrorChain(&error).to_string());
            Vec::new()
        });
        let work: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let published = entry.slug.as_ref().and_then(|slug| index.plugins.remove(slug));
                (entry, published)
            })
            .collect();
        let known = |entry: &PluginEntry| {
            let plugins = &before?.plugins;
            plugins
                .iter()
                .find(|known| known.entry.file == entry.file)
                .map(|known| &known.draft)
        };
        let drafts = draft::all(&work, &target.cache, target.read_timeout, known);
        let previewed = |((entry, published), draft)| {
            Arc::new(Previewed {
                entry,
                draft,
                published,
                is_index_broken,
            })
        };
        let (plugins, nameless): (Vec<_>, Vec<_>) = work
            .into_iter()
            .zip(drafts)
            .map(previewed)
            .partition(|plugin| plugin.entry.slug.is_some());
        for plugin in nameless {
            if let PluginState::Broken(lines) = &plugin.draft.tagged.report.state {
                problems.extend(lines.iter().cloned());
            }
        }
        let mail = target.registry().map(|registry| {
            let first = plugins
                .iter()
                .find_map(|previewed| Some((previewed, previewed.entry.plugin.as_ref().ok()?)));
            let published = first.and_then(|(previewed, plugin)| {
                published_name(target.releases.as_deref()?, &plugin.slug, previewed.published.as_ref()?)
            });
            LicenseMail::read(registry, first.map(|(_, plugin)| plugin), published.as_deref())
        });
        Self {
            plugins,
            mail,
            problems,
        }
    }

    /// The plugin of that slug.
    pub fn plugin(&self, slug: &str) -> Option<&Arc<Previewed>> {
        self.plugins
            .iter()
            .find(|plugin| plugin.entry.slug.as_ref().is_some_and(|known| known.as_str() == slug))
    }

    /// Whether both would look the same.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let same = |(a, b): (&Arc<Previewed>, &Arc<Previewed>)| {
            (Arc::ptr_eq(&a.draft.tagged, &b.draft.tagged) || a.draft.tagged.same(&b.draft.tagged))
                && a.draft.next == b.draft.next
                && a.draft.artwork == b.draft.artwork
                && a.entry.file == b.entry.file
                && a.is_index_broken == b.is_index_broken
        };
        self.problems == other.problems
            && self.mail == other.mail
            && self.plugins.len() == other.plugins.len()
            && self.plugins.iter().zip(&other.plugins).all(same)
    }

    /// The paths on which the snapshot depends.
    pub fn places(&self, target: &Target) -> Vec<WatchedFolder> {
        let own = target.places().into_iter().map(|folder: PathBuf| WatchedFolder {
            folder,
            and_below: false,
        });
        let mut places: Vec<_> = own
            .chain(
                self.plugins
                    .iter()
                    .flat_map(|plugin| plugin.draft.places.iter().cloned()),
            )
            .collect();
        places.sort();
        places.dedup();
        places
    }
}
