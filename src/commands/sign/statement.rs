//! Which statement is signed: the one that is there, or a new one that continues the plugin's chain.
//!
//! A statement is never computed again once it is signed: another package needs a new one with a new number.

use crate::commands::Failure;
use crate::commands::sign::package_file::Remade;
use countersign_model::digest::Digest;
use countersign_model::plugin::SigningSettings;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::release::statement::{Pins, ReleaseStatement, SignedPackage, StatementError, StatementType};
use countersign_registry::release_chain::SignedRelease;

/// The statement to sign.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) statement: ReleaseStatement,
    pub(super) bytes: Vec<u8>,
    /// Whether nobody has signed it yet.
    pub(super) is_new: bool,
    /// The statement whose place it takes.
    pub(super) replaced: Option<SignedRelease>,
    /// What the statement's file has now.
    pub(super) seen: Option<Vec<u8>>,
}

/// Why there is nothing to sign.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecideError {
    #[error("the signed statement says another {member} the tag gives")]
    Other { member: String },
    #[error("the release cannot be stated")]
    Statement(#[from] StatementError),
    #[error("the release cannot be stated")]
    Json(#[from] serde_json::Error),
}

/// Decides for the statement of a release: the one that is there, where it says what the tag gives; else a new one behind
/// `head`, the last statement of the plugin.
pub(super) fn decide(
    remade: &Remade,
    slug: &Slug,
    version: &Version,
    signing: &SigningSettings,
    existing: Option<&SignedRelease>,
    head: Option<(u64, Digest)>,
    may_replace: bool,
) -> Result<Decided, DecideError> {
    let new = |head: Option<(u64, Digest)>| ReleaseStatement {
        commit: remade.rebuilt.commit.clone(),
        contents: remade.contents,
        form: remade.rebuilt.package.form,
        number: head.map_or(1, |(number, _)| number + 1),
        package: remade.package.clone(),
        pins: Pins::new(&signing.keys, signing.threshold),
        previous: head.map(|(_, digest)| digest),
        published: remade.rebuilt.time,
        requires: remade.rebuilt.manifest.requires.clone(),
        requires_php: remade.rebuilt.manifest.requires_php.clone(),
        slug: slug.clone(),
        tag: remade.rebuilt.tag.clone(),
        kind: StatementType::Release1,
        version: version.clone(),
    };
    let difference = existing.and_then(|existing| other_member(&existing.statement, &new(None)));
    let (statement, replaced) = match (existing, difference) {
        (Some(existing), None) => (existing.statement.clone(), None),
        (Some(_), Some(member)) if !may_replace => return Err(DecideError::Other { member }),
        // The one that is replaced stays in the chain, so the new one comes behind all of them.
        (Some(existing), Some(_)) => {
            let last = existing.link().max(head.unwrap_or_else(|| existing.link()));
            (new(Some(last)), Some(existing.clone()))
        }
        (None, _) => (new(head), None),
    };
    statement.check()?;
    let bytes = statement.to_bytes()?;
    let seen = existing.map(|existing| existing.bytes.clone());
    Ok(Decided {
        is_new: seen.as_ref() != Some(&bytes),
        statement,
        bytes,
        replaced,
        seen: seen.or_else(|| remade.seen.clone()),
    })
}

/// The first member that two statements of one release say differently, apart from those of the chain and of the keys.
fn other_member(signed: &ReleaseStatement, found: &ReleaseStatement) -> Option<String> {
    let SignedPackage { sha256, size, mark } = &found.package;
    let same = [
        (signed.contents == found.contents, "contents"),
        (signed.form == found.form, "form of packing"),
        (signed.package.sha256 == *sha256, "package"),
        (signed.package.size == *size, "size"),
        (signed.package.mark == *mark, "mark"),
        (signed.commit == found.commit, "commit"),
        (signed.tag == found.tag, "tag"),
        (signed.published == found.published, "time of the tag"),
        (signed.requires == found.requires, "version of the CMS"),
        (signed.requires_php == found.requires_php, "version of PHP"),
    ];
    let (_, member) = same.iter().find(|(is_same, _)| !is_same)?;
    Some(match *member {
        "form of packing" => format!("{member}, {}, than form {} that", signed.form, found.form),
        member => format!("{member} than"),
    })
}

impl From<DecideError> for Failure {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Other { .. } => {
                Self::input(error).hint("a new statement with a new number takes its place with --replace")
            }
            _ => Self::input(error),
        }
    }
}
