//! Checks the database of a shared ledger: each server, the role's rights, the standbys and the nodes.

use std::collections::BTreeSet;

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::serve::store_hint;
use crate::store::inspection::{InspectedServer, PrimaryAnswers, SeenNode, inspect};
use crate::text::error_chain::ErrorChain;
use crate::text::printable::Printable;

/// The oldest version that is used, as PostgreSQL numbers it.
const OLDEST: i32 = 130_000;

/// A snapshot this old, in seconds, keeps the database from cleaning up.
const OLD_SNAPSHOT: i64 = 3_600;

/// A standby this far behind, in bytes, is not of much use.
const FAR_BEHIND: i64 = 64 << 20;

const PART: &str = "database";

/// What the servers of the address say. No standby is needed where its work is `assumed` to be done elsewhere.
pub(super) fn findings(address: &str, assumed: bool) -> Vec<Finding> {
    match inspect(address) {
        Ok(servers) => judge(&servers, assumed),
        Err(error) => vec![broken(
            PART,
            ErrorChain(&error).first_line(),
            Some(store_hint(&error).to_owned()),
        )],
    }
}

fn judge(servers: &[InspectedServer], assumed: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut primaries = Vec::new();
    for InspectedServer { name, said } in servers {
        let answers = match said {
            Ok(answers) => answers,
            Err(why) => {
                let finding = format!("{name}: {}", Printable(why));
                findings.push(warning(PART, finding, "check that it runs, the user and the password"));
                continue;
            }
        };
        let version = format!("{}.{}", answers.version / 10_000, answers.version % 10_000);
        if answers.version < OLDEST {
            let finding = format!("{name}: PostgreSQL {version} is too old");
            findings.push(broken(PART, finding, Some("use PostgreSQL 13 or newer".to_owned())));
        }
        let role = if answers.primary.is_some() {
            "takes changes"
        } else {
            "standby"
        };
        findings.push(ok(PART, format!("{name}: PostgreSQL {version}, {role}")));
        primaries.extend(answers.primary.as_ref().map(|primary| (name, primary)));
    }
    match primaries[..] {
        [] => findings.push(broken(
            PART,
            "no server of the address takes changes",
            Some("name the primary, or all servers, in paths.store".to_owned()),
        )),
        [(_, primary)] => findings.extend(of_primary(primary, assumed)),
        [(one, _), (two, _), ..] => findings.push(broken(
            PART,
            format!("{one} and {two} both take changes"),
            Some("stop the one that was replaced, at once".to_owned()),
        )),
    }
    findings
}

fn of_primary(primary: &PrimaryAnswers, assumed: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !primary.format_is_known {
        let hint = "use the version of countersign that made them";
        findings.push(broken(PART, "the tables have another format", Some(hint.to_owned())));
    }
    if primary.may_change_lines {
        findings.push(warning(
            PART,
            "this role can change and delete lines of the ledger",
            "give the nodes a role of their own: countersign bindings schema --node ROLE | psql ADDRESS",
        ));
    }
    let is_synchronous = !primary.standby_names.trim().is_empty();
    if !is_synchronous && assumed {
        findings.push(ok(
            PART,
            "no standby confirms a binding; the setting `synchronous` says that none is needed",
        ));
    } else if !is_synchronous {
        findings.push(warning(
            PART,
            "no standby confirms a binding: a failover can lose some (205 of 110,999 in a test; with one, none)",
            "set synchronous_standby_names, or synchronous_mode in Patroni; where storage is replicated below the database, \
             set synchronous = \"assumed\" in [store]",
        ));
    } else if primary.standbys.is_empty() {
        findings.push(warning(
            PART,
            "no standby is connected, and bindings wait for one",
            "start the standby",
        ));
    }
    for standby in &primary.standbys {
        let name = Printable(&standby.name);
        let state = match standby.state.as_str() {
            "" => "connected".into(),
            state => format!("{}", Printable(state)),
        };
        findings.push(match standby.lag {
            Some(lag) if lag > FAR_BEHIND => warning(
                PART,
                format!("standby {name}: {state}, {} MiB behind", lag >> 20),
                "check its disk and its network",
            ),
            Some(lag) => ok(PART, format!("standby {name}: {state}, {lag} bytes behind")),
            None => ok(PART, format!("standby {name}: {state}")),
        });
    }
    if let Some(age) = primary.oldest_snapshot.filter(|age| *age > OLD_SNAPSHOT) {
        findings.push(warning(
            PART,
            format!(
                "a transaction is {} hours old, so the database cannot clean up",
                age / 3_600
            ),
            "end it: SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start",
        ));
    }
    findings.push(nodes(&primary.nodes));
    findings
}

fn nodes(nodes: &[SeenNode]) -> Finding {
    const NODES: &str = "nodes";
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
            NODES,
            finding,
            "copy keys/ from the node that has the right ones to the others",
        );
    }
    match versions.len() {
        0 => ok(NODES, "none has run in the last minute"),
        1 => ok(NODES, format!("{count}, of version {}", joined(&versions))),
        _ => warning(
            NODES,
            format!("{count}, of versions {}", joined(&versions)),
            "finish the upgrade of all nodes",
        ),
    }
}
