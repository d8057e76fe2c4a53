//! Step 2: finds the tags that may be releases of a plugin, and chooses among several tags of one version.
//!
//! [`judge`] decides by the tag's name, with the entry's [patterns](countersign_model::tag_pattern). `release_builder` then
//! decides by the files at the tag.

use crate::build::git::repository::Repository;
use crate::build::git::tag::{Tag, Tagged};
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::unmatched::{Unmatched, built_pattern};
use crate::build::version_check::misread;
use countersign_model::plugin::Plugin;
use countersign_model::version::Version;

/// The tags of one version, all equal by PHP's order; at least one.
pub(super) struct Candidate {
    tags: Vec<(Version, Tag)>,
}

/// The tag that names a release.
pub(super) struct Chosen {
    /// The version in the tag's name.
    pub version: Version,
    /// The tag.
    pub tag: Tag,
    /// The object it points at.
    pub tagged: Tagged,
}

/// Splits tags into candidates, newest first, and those whose names already show that they are not releases.
/// `repository` is the name of the repository's folder.
pub(super) fn sort_out(plugin: &Plugin, repository: Option<&str>, tags: Vec<Tag>) -> (Vec<Candidate>, Vec<TagOutcome>) {
    let mut versions = Vec::new();
    let mut skipped = Vec::new();
    let unmatched = Unmatched::of(plugin, repository);
    for tag in tags {
        match judge(plugin, &unmatched, &tag.name) {
            Ok(version) => versions.push((version, tag)),
            Err((version, reason)) => skipped.push(outcome(tag.name, version, reason.into())),
        }
    }
    // PHP's order is total for valid versions: part by part, with the end of a version between RC and a number.
    versions.sort_by(|(a, _), (b, _)| b.cmp_php(a));
    let mut candidates: Vec<Candidate> = Vec::new();
    for (version, tag) in versions {
        match candidates.last_mut() {
            Some(last) if last.tags[0].0.cmp_php(&version).is_eq() => last.tags.push((version, tag)),
            _ => candidates.push(Candidate {
                tags: vec![(version, tag)],
            }),
        }
    }
    (candidates, skipped)
}

fn judge(plugin: &Plugin, unmatched: &Unmatched, tag: &str) -> Result<Version, (Option<Version>, Reason)> {
    let version = plugin
        .tags
        .iter()
        .find_map(|pattern| pattern.version_of(tag))
        .ok_or_else(|| unmatched.judge(tag))?;
    if let Some(meant) = without_lookalikes(&version) {
        let reason = Reason::LetterForDigit(meant.to_string());
        return Err((Some(meant), reason));
    }
    if let Some(misread) = misread(&version) {
        let reason = built_pattern(tag, &version).unwrap_or(misread);
        return Err((Some(version), reason));
    }
    match excluded(plugin, &version) {
        Some(reason) => Err((Some(version), reason)),
        None => Ok(version),
    }
}

/// The intended version, if a part of one has letters that look like digits: `1.2.O`, `1.l`.
///
/// Formally it is a pre-release, but it is a mistake.
fn without_lookalikes(version: &Version) -> Option<Version> {
    let digit = |letter: char| match letter {
        'O' | 'o' => '0',
        'I' | 'l' => '1',
        other => other,
    };
    let is_slip = |part: &str| {
        let is_number = part.chars().all(|letter| digit(letter).is_ascii_digit());
        is_number && part.contains(|letter: char| !letter.is_ascii_digit())
    };
    let text = version.as_str();
    if !text.split('.').any(is_slip) {
        return None;
    }
    let parts = text.split('.').map(|part| {
        if is_slip(part) {
            part.chars().map(digit).collect()
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<_>>().join(".").parse().ok()
}

/// Why the entry keeps a version from being published, if it does.
pub(super) fn excluded(plugin: &Plugin, version: &Version) -> Option<Reason> {
    if plugin.withholds(version) {
        Some(Reason::Withheld)
    } else if !version.satisfies(&plugin.versions) {
        Some(Reason::OutsideVersions)
    } else {
        None
    }
}

impl Candidate {
    /// The number of its tags.
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    /// Whether it names this version, however its tags write it.
    pub(super) fn is_of(&self, version: &Version) -> bool {
        self.tags.iter().any(|(found, _)| found.cmp_php(version).is_eq())
    }

    /// Its only tag; `None` if there are several.
    pub(super) fn only(&self) -> Option<&(Version, Tag)> {
        match &self.tags[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Follows the tags to their commits and chooses one: an annotated one, else the first by name.
    ///
    /// Adds the others to `outcomes`, or all of them if no choice is possible.
    pub(super) fn choose(self, repository: &Repository, outcomes: &mut Vec<TagOutcome>) -> Option<Chosen> {
        let mut usable: Vec<Chosen> = Vec::new();
        for (version, tag) in self.tags {
            match repository.peel(&tag) {
                Ok(tagged) => usable.push(Chosen { version, tag, tagged }),
                Err(error) => outcomes.push(outcome(
                    tag.name,
                    Some(version),
                    Reason::from_object("the tag", error).into(),
                )),
            }
        }
        usable
            .sort_by(|a, b| (a.tagged.message.is_none(), &a.tag.name).cmp(&(b.tagged.message.is_none(), &b.tag.name)));
        let conflict = usable
            .iter()
            .any(|other| other.tagged.commit != usable[0].tagged.commit);
        if conflict {
            let names: Vec<_> = usable.iter().map(|chosen| chosen.tag.name.clone()).collect();
            let failed = |chosen: Chosen| {
                outcome(
                    chosen.tag.name,
                    Some(chosen.version),
                    Reason::conflicting_tags(&names).into(),
                )
            };
            outcomes.extend(usable.into_iter().map(failed));
            return None;
        }
        let mut usable = usable.into_iter();
        let chosen = usable.next()?;
        let same = |other: Chosen| {
            outcome(
                other.tag.name,
                Some(other.version),
                Reason::SameAs(chosen.tag.name.clone()).into(),
            )
        };
        outcomes.extend(usable.map(same));
        Some(chosen)
    }
}

fn outcome(tag: String, version: Option<Version>, outcome: ReleaseOutcome) -> TagOutcome {
    TagOutcome {
        tag,
        version,
        outcome,
        notes: Vec::new(),
    }
}
