//! One release made again from its tag, for the person who is about to sign it. Nothing is published.
//!
//! It passes the same steps as a build. What `build` would publish is the manifest and the package that come out here.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Seek as _};
use std::time::SystemTime;

use chrono::{DateTime, NaiveDateTime, Utc};

use crate::build::error::BuildError;
use crate::build::fetch;
use crate::build::git::mirror::Mirrors;
use crate::build::manifest_sink::{BuiltRelease, ManifestSink, NewPackage, PackFailure};
use crate::build::packing::PackingOptions;
use crate::build::progress::Progress;
use crate::build::release_builder::ReleaseBuilder;
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::plugin_report::PluginReport;
use crate::build::source::source_tree::SourceTree as _;
use crate::build::tags;
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::manifest::Manifest;
use countersign_model::slug::Slug;
use countersign_model::text::ErrorChain;
use countersign_model::version::Version;
use countersign_package::catalog::{HostedPackage, Release, Releases};
use countersign_package::file_digest::digest_of;
use countersign_package::writer::Package;
use countersign_registry::plugins::PluginEntry;

/// How `last_updated` is written in a manifest.
const MANIFEST_TIME: &str = "%Y-%m-%d %H:%M:%S";

/// A release as `build` would publish it.
#[derive(Debug)]
pub struct Rebuilt {
    /// Its tag.
    pub tag: String,
    /// Its commit, in hex.
    pub commit: String,
    /// The tag's time.
    pub time: DateTime<Utc>,
    /// What the CMS will read.
    pub manifest: Manifest,
    /// The package, which was written to the file.
    pub package: HostedPackage,
}

/// Why a release cannot be made again.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The repositories cannot be fetched.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The entry or its repository is wrong.
    #[error("{0}")]
    Plugin(String),
    /// No tag gives this version.
    #[error("no tag gives version {0}")]
    NoTag(Version),
    /// There is a tag, and nothing to publish of it.
    #[error("tag {tag} gives no release: {reason}")]
    Refused {
        /// The tag.
        tag: String,
        /// Why.
        reason: String,
    },
    /// The package that CI builds is not there.
    #[error("tag {tag} awaits its package")]
    AwaitsPackage {
        /// The tag.
        tag: String,
    },
    /// The file for the package cannot be written.
    #[error("the package cannot be written")]
    Write(#[from] io::Error),
}

/// Makes the release `version` of a plugin again, and writes its package to the empty file `out`.
///
/// # Errors
///
/// Where there is no such release, or a repository or the file fails.
pub fn rebuild(
    entry: &PluginEntry,
    version: &Version,
    mirrors: &Mirrors,
    packing: &PackingOptions,
    out: &File,
    progress: &dyn Progress,
) -> Result<Rebuilt, RebuildError> {
    let plugin = entry.plugin.as_ref().map_err(|reasons| {
        let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        RebuildError::Plugin(reasons.join("\n"))
    })?;
    let fetched = fetch::fetch(&[entry], mirrors, progress)?;
    let repository = fetch::open(plugin, &fetched).map_err(RebuildError::Plugin)?;
    let tags = repository.tags();
    let tags = tags.map_err(|error| RebuildError::Plugin(ErrorChain(&error).to_string()))?;
    let (candidates, mut skipped) = tags::sort_out(plugin, repository.name(), tags);
    let mut report = PluginReport::new(entry);
    let workbench = Workbench {
        out,
        version,
        taken: RefCell::default(),
    };
    let mut builder = ReleaseBuilder::new(plugin, &repository, &workbench, Some(packing), false, &mut report);
    for candidate in candidates.into_iter().filter(|candidate| candidate.is_of(version)) {
        builder.release(candidate)?;
    }
    let release = report
        .releases
        .releases
        .iter()
        .find(|release| release.version == *version);
    let taken = workbench.taken.borrow_mut().take();
    match (release, taken) {
        (
            Some(Release {
                tag,
                commit,
                package: Some(package),
                ..
            }),
            Some(BuiltRelease { manifest, .. }),
        ) => Ok(Rebuilt {
            tag: tag.clone(),
            commit: commit.clone(),
            time: time_of(&manifest),
            manifest,
            package: package.clone(),
        }),
        _ => {
            skipped.append(&mut report.tags);
            Err(refusal(version, &skipped))
        }
    }
}

/// The tag's time, as the manifest has it.
fn time_of(manifest: &Manifest) -> DateTime<Utc> {
    let time = NaiveDateTime::parse_from_str(&manifest.last_updated, MANIFEST_TIME);
    time.unwrap_or_default().and_utc()
}

/// Why no tag gave the release.
fn refusal(version: &Version, outcomes: &[TagOutcome]) -> RebuildError {
    let is_meant = |outcome: &&TagOutcome| {
        let mut found = outcome.version.iter();
        found.any(|found| found.cmp_php(version).is_eq())
    };
    let Some(outcome) = outcomes.iter().rfind(is_meant) else {
        return RebuildError::NoTag(version.clone());
    };
    let tag = outcome.tag.clone();
    match &outcome.outcome {
        ReleaseOutcome::AwaitsPackage => RebuildError::AwaitsPackage { tag },
        // Nothing asks for signatures here.
        ReleaseOutcome::AwaitsSignatures { .. } | ReleaseOutcome::LeavesBehind(_) => {
            RebuildError::NoTag(version.clone())
        }
        ReleaseOutcome::Skipped(reason) | ReleaseOutcome::Failed(reason) => {
            let parts = [reason.headline(), &reason.detail()].map(str::to_owned);
            let parts: Vec<_> = parts.into_iter().filter(|text| !text.is_empty()).collect();
            RebuildError::Refused {
                tag,
                reason: parts.join(": "),
            }
        }
        // Another version of the same commit, or packages that are not hosted here.
        ReleaseOutcome::Built | ReleaseOutcome::Unchanged => RebuildError::NoTag(version.clone()),
    }
}

/// Takes one release, as if nothing were published.
struct Workbench<'a> {
    out: &'a File,
    version: &'a Version,
    taken: RefCell<Option<BuiltRelease>>,
}

impl ManifestSink for Workbench<'_> {
    type Error = io::Error;

    fn published(&self, _: &Slug) -> Option<&Releases> {
        None
    }

    fn is_in_place(&self, _: &Slug, _: &Release) -> bool {
        false
    }

    fn holds_package(&self, _: &Slug, _: &Release) -> bool {
        false
    }

    fn vouches_since(&self) -> Option<SystemTime> {
        None
    }

    fn package(
        &self,
        _: &Slug,
        version: &Version,
        _: Option<&Release>,
        pack: &mut dyn FnMut(&File) -> Result<Package, PackFailure>,
    ) -> io::Result<Result<NewPackage, Reason>> {
        // The same version written in another way may have a tag of its own.
        let elsewhere = match version == self.version {
            true => None,
            false => Some(regular_file::create_nameless()?),
        };
        let mut out = elsewhere.as_ref().unwrap_or(self.out);
        let package = match pack(out) {
            Ok(package) => package,
            Err(PackFailure::Release(reason)) => return Ok(Err(reason)),
            Err(PackFailure::Output(error)) => return Err(error),
        };
        out.rewind()?;
        Ok(Ok(NewPackage {
            size: package.size,
            sha256: digest_of(out, |_| ())?,
            mark: package.mark,
        }))
    }

    fn take(&self, _: &Slug, built: BuiltRelease) -> io::Result<(Digest, bool)> {
        let digest = Digest::of(&built.manifest.to_bytes());
        if built.version == *self.version {
            *self.taken.borrow_mut() = Some(built);
        }
        Ok((digest, false))
    }
}
