//! The findings of `doctor`.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// In order.
    Ok,
    /// Works, but should be checked.
    Warning,
    /// Does not work, or will not work after a restart.
    Broken,
}

/// The result of a check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// How bad it is.
    pub verdict: Severity,
    /// The part of the instance.
    pub part: &'static str,
    /// A sentence.
    pub finding: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A part in order.
pub(super) fn ok(part: &'static str, finding: impl Into<String>) -> Finding {
    Finding {
        verdict: Severity::Ok,
        part,
        finding: finding.into(),
        hint: None,
    }
}

/// A part that works, with a hint.
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
