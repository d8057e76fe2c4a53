//! What a check of `doctor` found.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// As it should be.
    Ok,
    /// Works, and deserves a look.
    Warning,
    /// Does not work, or will not after a restart.
    Broken,
}

/// What a check found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// How bad it is.
    pub verdict: Severity,
    /// The part of the instance.
    pub part: &'static str,
    /// A sentence.
    pub finding: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A part that is as it should be.
pub(super) fn ok(part: &'static str, finding: impl Into<String>) -> Finding {
    Finding {
        verdict: Severity::Ok,
        part,
        finding: finding.into(),
        hint: None,
    }
}

/// A part that works, and what to do about it.
pub(super) fn warning(part: &'static str, finding: impl Into<String>, hint: &str) -> Finding {
    Finding {
        verdict: Severity::Warning,
        part,
        finding: finding.into(),
        hint: Some(hint.to_owned()),
    }
}

/// A part that does not work.
pub(super) fn broken(part: &'static str, finding: impl Into<String>, hint: Option<String>) -> Finding {
    Finding {
        verdict: Severity::Broken,
        part,
        finding: finding.into(),
        hint,
    }
}
