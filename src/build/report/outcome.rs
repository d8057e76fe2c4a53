//! The outcome of each tag: built, unchanged, skipped or failed, with the reason. [`report`](crate::build::report)
//! shows it.

use countersign_model::version::Version;
use countersign_registry::left_behind::LeftBehind;

pub(crate) use crate::build::report::reason::Reason;

/// The outcome of one tag.
#[derive(Debug)]
pub struct TagOutcome {
    /// The tag's name, not escaped.
    pub tag: String,
    /// Its version, as published if it is published.
    pub version: Option<Version>,
    /// The outcome.
    pub outcome: ReleaseOutcome,
    /// Notes that stop nothing.
    pub notes: Vec<Reason>,
}

/// The outcome of a tag.
#[derive(Debug)]
pub enum ReleaseOutcome {
    /// Its manifest is new or changed.
    Built,
    /// The same manifest is already published.
    Unchanged,
    /// By a rule, it is not a release of this plugin. A published manifest is removed.
    Skipped(Reason),
    /// It has an error. A published manifest stays.
    Failed(Reason),
    /// Its package is not there yet. It is published when it is.
    AwaitsPackage,
    /// Enough people have signed it, and sites in the field believe none of them. It is published once others have signed,
    /// or the plugin's entry lets these sites be left behind.
    LeavesBehind(Vec<LeftBehind>),
    /// Too few people have signed it. It is published once enough have.
    AwaitsSignatures {
        /// How many have.
        good: usize,
        /// How many must.
        needed: usize,
        /// Those who have not, as people know their keys.
        missing: Vec<String>,
    },
}

impl From<Reason> for ReleaseOutcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::ConflictingTags(_) | Reason::Unreadable { .. } | Reason::Immutable(_) | Reason::NotAsSigned(_) => {
                Self::Failed(reason)
            }
            _ => Self::Skipped(reason),
        }
    }
}
