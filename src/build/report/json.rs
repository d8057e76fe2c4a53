//! The report as JSON, for `--json`.

use serde_json::{Value, json};

use crate::build::remark::Remark;
use crate::build::report::BuildReport;
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::plugin_report::{PluginReport, PluginState, ReleaseWarning, TagCounts};
use countersign_registry::left_behind::LeftBehind;

impl BuildReport {
    /// The whole report.
    pub fn to_json(&self) -> Value {
        json!({
            "check": self.check,
            "differs": self.differs(),
            "failed": self.failed(),
            "warnings": self.warnings(),
            "counts": self.counts().to_json(),
            "plugins": self.plugins.iter().map(PluginReport::to_json).collect::<Vec<_>>(),
            "gone": self.gone,
            "damaged": self.damaged,
        })
    }
}

impl PluginReport {
    pub(in crate::build) fn to_json(&self) -> Value {
        let (state, problems) = match &self.state {
            PluginState::Read => ("read", &[][..]),
            PluginState::NoSource => ("no_source", &[][..]),
            PluginState::Broken(problems) => ("broken", &problems[..]),
        };
        json!({
            "file": self.file,
            "slug": self.slug,
            "state": state,
            "problems": problems,
            "counts": self.counts().to_json(),
            "latest": self.releases.latest,
            "newest_not_published": self.missing_newest().map(|(tag, _)| tag),
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "kept": self.kept,
            "warnings": self.warnings.iter().map(warning_json).collect::<Vec<_>>(),
            "tags": self.tags.iter().map(tag_json).collect::<Vec<_>>(),
        })
    }
}

impl TagCounts {
    fn to_json(self) -> Value {
        json!({
            "tags": self.tags(),
            "built": self.built,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "failed": self.failed,
            "awaiting": self.awaiting,
        })
    }
}

fn tag_json(tag: &TagOutcome) -> Value {
    let (outcome, reason) = match &tag.outcome {
        ReleaseOutcome::Built => ("built", None),
        ReleaseOutcome::Unchanged => ("unchanged", None),
        ReleaseOutcome::Skipped(reason) => ("skipped", Some(reason)),
        ReleaseOutcome::Failed(reason) => ("failed", Some(reason)),
        ReleaseOutcome::AwaitsPackage => ("awaits_package", None),
        ReleaseOutcome::AwaitsSignatures { .. } => ("awaits_signatures", None),
        ReleaseOutcome::LeavesBehind(_) => ("leaves_behind", None),
    };
    let mut object = json!({
        "tag": tag.tag,
        "version": tag.version,
        "outcome": outcome,
        "reason": reason.map(reason_json),
        "notes": tag.notes.iter().map(reason_json).collect::<Vec<_>>(),
    });
    if let ReleaseOutcome::AwaitsSignatures { good, needed, missing } = &tag.outcome {
        object["signatures"] = json!({ "good": good, "needed": needed, "missing": missing });
    }
    if let ReleaseOutcome::LeavesBehind(left) = &tag.outcome {
        object["left_behind"] = left.iter().map(LeftBehind::to_json).collect();
    }
    object
}

fn warning_json(warning: &ReleaseWarning) -> Value {
    let ReleaseWarning {
        tag,
        version,
        remark: Remark { file, line, message },
    } = warning;
    json!({ "tag": tag, "version": version, "file": file, "line": line, "message": message })
}

fn reason_json(reason: &Reason) -> Value {
    json!({ "code": reason.code(), "text": reason.to_string() })
}
