//! Steps 3 and 4 for one tag after the other. Each gives an outcome in the plugin's report, and most also a manifest
//! and a package for the [`ManifestSink`].

use std::cell::RefCell;
use std::collections::HashMap;

use crate::build::compose::{self, Facts};
use crate::build::git::object::ObjectId;
use crate::build::git::repository::Repository;
use crate::build::git::tag::Tag;
use crate::build::inputs::Inputs;
use crate::build::manifest_sink::{BuiltRelease, ManifestSink};
use crate::build::packing::{PackRequest, Packed, Packer, PackingOptions};
use crate::build::refused_cache::{RefusedCache, RefusedTag};
use crate::build::release_signing::{self, ReleaseSigning, index_line, mismatch, proof};
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::plugin_report::PluginReport;
use crate::build::review::{self, Reviewed};
use crate::build::source::source_reader::SourceReader;
use crate::build::source::source_tree::SourceTree as _;
use crate::build::tags::{Candidate, Chosen};
use crate::build::version_check;
use countersign_model::digest::Digest;
use countersign_model::plugin::{PackageOrigin, Plugin};
use countersign_model::version::Version;
use countersign_package::catalog::{HostedPackage, Release};
use countersign_registry::release_chain::SignedRelease;

/// A plugin that is being built.
pub(super) struct ReleaseBuilder<'a, S> {
    plugin: &'a Plugin,
    repository: &'a Repository,
    sink: &'a S,
    published: HashMap<&'a Version, &'a Release>,
    /// The same by their inputs.
    known: HashMap<Digest, &'a Release>,
    /// Packs releases; `None` if the entry has a `download_url`, or nothing is packed.
    packer: Option<Packer<'a>>,
    /// The signatures that releases need; `None` if they need none.
    signing: Option<ReleaseSigning<'a>>,
    inputs: Inputs,
    /// Tags that were refused; `None` to read them again.
    refusals: Option<RefusedCache>,
    /// Whether the next build may reuse the refusal of a package: only if the package depends on nothing but the tag and its entry.
    remembers_packages: bool,
    reader: SourceReader<'a, Repository>,
    looked_elsewhere: bool,
    /// The last release of each commit, by its id in hex: `1.2` and `1.2.0` are the same release if they tag the same
    /// commit.
    by_commit: HashMap<String, (Version, String)>,
    /// Whether to parse the PHP of releases that are already published.
    parse_php: bool,
    reviewed: Reviewed,
    report: &'a mut PluginReport,
}

impl<'a, S: ManifestSink> ReleaseBuilder<'a, S> {
    /// Adds the outcome of every release to `report`.
    pub(super) fn new(
        plugin: &'a Plugin,
        repository: &'a Repository,
        sink: &'a S,
        packing: Option<&'a PackingOptions>,
        parse_php: bool,
        report: &'a mut PluginReport,
    ) -> Self {
        let published = || sink.published(&plugin.slug).into_iter().flat_map(|old| &old.releases);
        Self {
            plugin,
            repository,
            sink,
            published: published().map(|release| (&release.version, release)).collect(),
            known: published()
                .filter_map(|release| Some((release.inputs?, release)))
                .collect(),
            packer: packing.and_then(|options| Packer::new(plugin, repository, options)),
            signing: packing
                .and_then(|options| ReleaseSigning::new(plugin, options.signed.as_ref(), options.installed.as_deref())),
            inputs: Inputs::of(plugin, repository.name()),
            refusals: packing.and_then(|options| {
                let cache = options.cache.as_deref()?;
                // A build that trusts no file of the last one reads and packs everything again.
                let trusts = sink.vouches_since().is_some();
                trusts.then(|| RefusedCache::of(cache, &plugin.slug))
            }),
            remembers_packages: plugin.signing.is_none()
                && (plugin.package.as_ref()).is_some_and(|package| package.from == PackageOrigin::Tag),
            reader: SourceReader::new(repository, plugin),
            looked_elsewhere: false,
            by_commit: HashMap::new(),
            parse_php,
            reviewed: Reviewed::default(),
            report,
        }
    }

    /// Makes a release from the tags of one version.
    pub(super) fn release(&mut self, candidate: Candidate) -> Result<(), S::Error> {
        if let Some(known) = candidate.only().and_then(|(version, tag)| self.known(tag, version)) {
            if self.keep(known)
                && let Some(chosen) = candidate.choose(self.repository, &mut Vec::new())
            {
                self.review_again(&chosen);
            }
            return Ok(());
        }
        let Some(chosen) = candidate.choose(self.repository, &mut self.report.tags) else {
            return Ok(());
        };
        if let Some(known) = self.known(&chosen.tag, &chosen.version) {
            if self.keep(known) {
                self.review_again(&chosen);
            }
            return Ok(());
        }

        if self.is_refused_again(&chosen) {
            return Ok(());
        }

        // 3 the plugin's own files, 4 compose
        let mut built = match compose_release(self.plugin, &mut self.reader, &chosen) {
            Ok(built) => built,
            Err(reason) => {
                self.remember(&chosen, &chosen.version, &reason);
                let reason = self.moved(&chosen, &reason).unwrap_or(reason);
                self.refuse(chosen.tag, chosen.version, reason);
                return Ok(());
            }
        };
        let version = built.version.clone();
        let mut notes = built.notes.clone();
        let commit = chosen.tagged.commit.to_string();
        if self.is_twin(&commit, &version, &chosen.tag.name) {
            return Ok(());
        }
        let read = match self.reviewed.is_due(&version) {
            true => self.review(&chosen, &mut built, true),
            false => HashMap::new(),
        };

        let published = self.published.get(&version).copied();
        let signed = match release_signing::signed(self.signing.as_ref(), &version, published, &mut notes) {
            Err(outcome) => {
                self.await_signatures(chosen.tag.name, version, outcome, notes);
                return Ok(());
            }
            Ok(signed) => signed,
        };
        let package = match self.pack(&chosen, &built, signed, read)? {
            // If nothing is packed, the published package counts as its package.
            None => self.published_package(&version),
            Some(Ok(Packed::Package(new))) => {
                notes.extend(new.replaces.then_some(Reason::Replaced));
                let absent = release_signing::remarks(&new.absent_keys, self.plugin);
                self.report.warn(&chosen.tag.name, &version, absent);
                Some(new.package)
            }
            Some(Ok(Packed::Awaits)) => {
                self.tell(chosen.tag.name, version, ReleaseOutcome::AwaitsPackage, notes);
                return Ok(());
            }
            Some(Err(reason)) => {
                self.remember(&chosen, &version, &reason);
                self.refuse(chosen.tag, version, reason);
                return Ok(());
            }
        };

        // 5 publish: written to temporary files here, put in place when all plugins are done
        built.manifest.release = signed.map(proof);
        let mut release = Release {
            version,
            tag: chosen.tag.name.clone(),
            commit,
            inputs: self.inputs.of_tag(&chosen.tag, &chosen.version),
            security: built.manifest.security,
            sha256: Digest::of(&[]),
            package,
            signed: signed.map(index_line),
        };
        // SECURITY: people signed a package and not a name.
        if let Some(what) = signed.and_then(|signed| mismatch(&signed.statement, &release, &built.manifest)) {
            self.refuse(chosen.tag, release.version, Reason::NotAsSigned(what));
            return Ok(());
        }
        let (sha256, held) = self.sink.take(&self.plugin.slug, built)?;
        release.sha256 = sha256;
        let is_unchanged =
            |old: &&Release| old.shows_the_same(&release) && self.sink.holds_package(&self.plugin.slug, old);
        let unchanged = held && self.published.get(&release.version).is_some_and(is_unchanged);
        let outcome = if unchanged {
            ReleaseOutcome::Unchanged
        } else {
            ReleaseOutcome::Built
        };
        self.push(release, outcome, notes);
        Ok(())
    }

    /// Whether an earlier build refused the same tag. If so, reports it as that build did.
    fn is_refused_again(&mut self, chosen: &Chosen) -> bool {
        let Some(inputs) = self.inputs.of_tag(&chosen.tag, &chosen.version) else {
            return false;
        };
        let refusal = self.refusals.as_ref().and_then(|refusals| refusals.get(inputs));
        let Some(RefusedTag { version, reason }) = refusal
            .filter(|refusal| self.remembers(&refusal.version, &refusal.reason))
            .cloned()
        else {
            return false;
        };
        // A package is refused after the plugin's files were read.
        if let Reason::Unpackable(_) = reason {
            if self.is_twin(&chosen.tagged.commit.to_string(), &version, &chosen.tag.name) {
                return true;
            }
            if self.reviewed.is_due(&version) {
                self.review_again(chosen);
            }
        }
        self.remember(chosen, &version, &reason);
        let reason = self.moved(chosen, &reason).unwrap_or(reason);
        self.refuse(chosen.tag.clone(), version, reason);
        true
    }

    /// Keeps a refusal for the next build, if its reason is in the tag.
    fn remember(&mut self, chosen: &Chosen, version: &Version, reason: &Reason) {
        if self.remembers(version, reason)
            && let Some(inputs) = self.inputs.of_tag(&chosen.tag, &chosen.version)
            && let Some(refusals) = &mut self.refusals
        {
            let version = version.clone();
            let reason = reason.clone();
            refusals.keep(inputs, RefusedTag { version, reason });
        }
    }

    /// Whether a refusal counts in the next build, too.
    fn remembers(&self, version: &Version, reason: &Reason) -> bool {
        let is_of_package = matches!(reason, Reason::Unpackable(_));
        reason.is_in_the_tag() && (self.remembers_packages || !is_of_package) && !self.published.contains_key(version)
    }

    /// Keeps for the next build what was refused.
    pub(super) fn finish(self) {
        if let Some(refusals) = self.refusals {
            refusals.write();
        }
    }

    /// Looks for problems that the release's author should know. Gives the files that it read.
    fn review(&mut self, chosen: &Chosen, built: &mut BuiltRelease, parse_php: bool) -> HashMap<ObjectId, Vec<u8>> {
        let folder = self.plugin.source.as_ref().map_or("", |source| &source.path);
        let inspected = review::inspect(self.plugin, self.repository, &chosen.tagged.tree, parse_php);
        built.inspected = inspected.remarks;
        let remarks = review::remarks(built, folder);
        self.report.warn(&chosen.tag.name, &built.version, remarks);
        inspected.read
    }

    /// The same for a reused release. Its author has had these warnings, so errors while reading give none.
    fn review_again(&mut self, chosen: &Chosen) {
        if let Ok(mut built) = compose_release(self.plugin, &mut self.reader, chosen) {
            self.review(chosen, &mut built, self.parse_php);
        }
    }

    /// Where the plugin seems to be at its newest tag, if it is not in its place.
    fn moved(&mut self, chosen: &Chosen, reason: &Reason) -> Option<Reason> {
        let is_newest = self.report.releases.releases.is_empty() && !self.looked_elsewhere;
        if !is_newest || chosen.version.is_prerelease() {
            return None;
        }
        let moved = self.reader.moved(&chosen.tagged.tree, reason)?;
        self.looked_elsewhere = true;
        Some(moved)
    }

    /// The published release with the same inputs as a tag.
    fn known(&self, tag: &Tag, version: &Version) -> Option<&'a Release> {
        let known = *self.known.get(&self.inputs.of_tag(tag, version)?)?;
        let is_packed = |packer: &Packer<'_>| packer.is_up_to_date(self.sink, known);
        let is_up_to_date = self.packer.as_ref().is_none_or(is_packed)
            && self.signing.as_ref().is_none_or(|signing| signing.is_up_to_date(known));
        (is_up_to_date && self.sink.is_in_place(&self.plugin.slug, known)).then_some(known)
    }

    /// Reuses a published release; says whether to review it.
    fn keep(&mut self, release: &Release) -> bool {
        if self.is_twin(&release.commit, &release.version, &release.tag) {
            return false;
        }
        self.push(release.clone(), ReleaseOutcome::Unchanged, Vec::new());
        self.reviewed.is_due(&release.version)
    }

    /// Whether an earlier tag gave this version of this commit; if not, records this one.
    fn is_twin(&mut self, commit: &str, version: &Version, tag: &str) -> bool {
        if let Some((twin, earlier)) = self.by_commit.get(commit)
            && twin.cmp_php(version).is_eq()
        {
            let outcome = Reason::SameAs(earlier.clone()).into();
            self.tell(tag.to_owned(), version.clone(), outcome, Vec::new());
            return true;
        }
        self.by_commit
            .insert(commit.to_owned(), (version.clone(), tag.to_owned()));
        false
    }

    /// A release that too few have signed: what is published of it stays, and nothing else is.
    fn await_signatures(&mut self, tag: String, version: Version, outcome: ReleaseOutcome, notes: Vec<Reason>) {
        let published = self.published.get(&version).copied();
        let staying = published.filter(|release| self.sink.is_in_place(&self.plugin.slug, release));
        self.report.releases.releases.extend(staying.cloned());
        self.tell(tag, version, outcome, notes);
    }

    fn push(&mut self, release: Release, outcome: ReleaseOutcome, notes: Vec<Reason>) {
        self.tell(release.tag.clone(), release.version.clone(), outcome, notes);
        self.report.releases.releases.push(release);
    }

    fn tell(&mut self, tag: String, version: Version, outcome: ReleaseOutcome, notes: Vec<Reason>) {
        let version = Some(version);
        self.report.tags.push(TagOutcome {
            tag,
            version,
            outcome,
            notes,
        });
    }

    /// A tag without a release. A published release with a package never changes, and stays.
    fn refuse(&mut self, tag: Tag, version: Version, reason: Reason) {
        let published = self.published.get(&version);
        let outcome = match published.is_some_and(|release| release.package.is_some()) {
            true if self.packer.is_some() => ReleaseOutcome::Failed(reason),
            _ => reason.into(),
        };
        self.tell(tag.name, version, outcome, Vec::new());
    }

    /// The published package of a release.
    fn published_package(&self, version: &Version) -> Option<HostedPackage> {
        self.plugin.package.as_ref()?;
        self.published.get(version)?.package.clone()
    }

    /// The outcome of a release's package; `None` if nothing is packed.
    fn pack(
        &self,
        chosen: &Chosen,
        built: &BuiltRelease,
        signed: Option<&SignedRelease>,
        read: HashMap<ObjectId, Vec<u8>>,
    ) -> Result<Option<Result<Packed, Reason>>, S::Error> {
        let Some(packer) = &self.packer else { return Ok(None) };
        let published = self.published.get(&built.version).copied();
        // A new signature of the published statement makes no other package.
        if let Some(release) = published.filter(|release| release_signing::has_statement(release, signed))
            && let Some(package) = release.package.clone()
            && self.sink.holds_package(&self.plugin.slug, release)
        {
            return Ok(Some(Ok(Packed::kept(package))));
        }
        let request = PackRequest {
            version: &built.version,
            main_file: &built.files.main_file,
            tagged: &chosen.tagged,
            published,
            pinned: signed.map_or(&[], |signed| &signed.statement.pins.keys),
            read: RefCell::new(read),
        };
        packer.pack(self.sink, &request).map(Some)
    }
}

/// Reads the plugin's files at a tag and composes the manifest, or says why there is no release.
fn compose_release(
    plugin: &Plugin,
    reader: &mut SourceReader<'_, Repository>,
    chosen: &Chosen,
) -> Result<BuiltRelease, Reason> {
    let mut files = reader.read(&chosen.tagged.tree)?;
    let (version, note) =
        version_check::published_version(plugin, &chosen.version, &files.main_file, &files.header.version)?;
    let facts = Facts {
        version: &version,
        tag_version: &chosen.version,
        tag: &chosen.tag.name,
        time: chosen.tagged.time,
        message: chosen.tagged.message.as_deref(),
        files: &files,
    };
    let (manifest, built) = compose::manifest(plugin, &facts);
    let notes = std::mem::take(&mut files.notes)
        .into_iter()
        .chain(note)
        .chain(built)
        .collect();
    Ok(BuiltRelease {
        version,
        manifest,
        files,
        notes,
        inspected: Vec::new(),
    })
}
