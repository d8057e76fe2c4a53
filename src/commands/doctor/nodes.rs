//! Checks the nodes that share a ledger: their versions and keys, and whether each follows the log.

use std::collections::BTreeSet;

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, ok, warning};
use countersign_ledger::inspection::SeenNode;
use countersign_model::text::printable::Printable;

const PART: &str = "nodes";

/// A node says every few seconds that it runs. One that was silent for so many seconds has stopped, or hangs.
const SILENT: i64 = 15;

/// What the table of nodes says of those that ran within the last minute.
pub(super) fn findings(nodes: &[SeenNode]) -> Vec<Finding> {
    let mut findings = vec![together(nodes)];
    for node in nodes {
        let name = Printable(&node.name);
        if node.silent_for > SILENT {
            findings.push(warning(
                PART,
                format!("node {name} has been silent for {} s", node.silent_for),
                "if it was not stopped, look at its log and at the store on its /readyz",
            ));
        } else if node.is_behind {
            findings.push(warning(
                PART,
                format!("node {name} is behind: it has read up to line {}", node.sequence),
                "look at its log and at the store on its /readyz",
            ));
        }
    }
    findings
}

/// What they have in common, or should have.
fn together(nodes: &[SeenNode]) -> Finding {
    let of = |part: fn(&SeenNode) -> &String| nodes.iter().map(part).cloned().collect::<BTreeSet<_>>();
    let joined = |set: &BTreeSet<String>| {
        let shown: Vec<_> = set.iter().map(|text| Printable(text).to_string()).collect();
        shown.join(", ")
    };
    let versions = of(|node| &node.version);
    let keys = of(|node| &node.key_id);
    let count = counted(nodes.len(), "node");
    if keys.len() > 1 {
        let finding = format!("{count} with different signing keys: {}", joined(&keys));
        return warning(
            PART,
            finding,
            "copy keys/ from the node that has the right ones to the others",
        );
    }
    match versions.len() {
        0 => ok(PART, "none has run in the last minute"),
        1 => ok(PART, format!("{count}, of version {}", joined(&versions))),
        _ => warning(
            PART,
            format!("{count}, of versions {}", joined(&versions)),
            "finish the upgrade of all nodes",
        ),
    }
}
