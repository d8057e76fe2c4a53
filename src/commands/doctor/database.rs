//! Checks the database of a shared ledger: each server, the tables, the role's rights and the standbys. `nodes` checks who
//! shares it, and `server` what the node that runs here has read.

use std::path::Path;

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::doctor::nodes;
use crate::commands::store::store_hint;
use countersign_ledger::inspection::{InspectedServer, PrimaryAnswers, RoleRights, ServerAnswers, inspect};
use countersign_model::text::ErrorChain;
use countersign_model::text::printable::Printable;

/// The oldest version that is used, as PostgreSQL numbers it.
const OLDEST: i32 = 130_000;

/// A snapshot this old, in seconds, keeps the database from cleaning up.
const OLD_SNAPSHOT: i64 = 3_600;

/// A standby this far behind, in bytes, is not of much use.
const FAR_BEHIND: i64 = 64 << 20;

const PART: &str = "database";

/// What this node kept when the ledger lost lines.
pub(super) fn kept(node: &Path) -> Vec<Finding> {
    let warn = |finding: String| {
        let hint =
            "say what of it still fits: countersign --store postgres://owner@HOST/DATABASE bindings repair --dry-run";
        warning(PART, finding, hint)
    };
    match countersign_ledger::kept_files(node) {
        Ok(files) => files
            .iter()
            .map(|path| {
                warn(format!(
                    "{}: the ledger lost lines, and this node kept what it knew",
                    path.display()
                ))
            })
            .collect(),
        Err(error) => vec![warning(
            PART,
            format!("{}: {error}", node.display()),
            "check the folder's owner and mode",
        )],
    }
}

/// What the servers of the address say.
pub(super) struct DatabaseFindings {
    pub findings: Vec<Finding>,
    /// The number of the ledger's last line, if exactly one server takes changes and shows it.
    pub last_line: Option<u64>,
}

/// Asks the servers of the address. With `assumed`, a database without a synchronous standby is in order.
pub(super) fn findings(address: &str, assumed: bool) -> DatabaseFindings {
    match inspect(address) {
        Ok(servers) => judge(&servers, assumed),
        Err(error) => DatabaseFindings {
            findings: vec![broken(
                PART,
                ErrorChain(&error).first_line(),
                Some(store_hint(&error).to_owned()),
            )],
            last_line: None,
        },
    }
}

fn judge(servers: &[InspectedServer], assumed: bool) -> DatabaseFindings {
    let mut findings = Vec::new();
    let mut primaries = Vec::new();
    let mut last_line = None;
    for InspectedServer { name, said } in servers {
        match said {
            Ok(answers) => {
                findings.extend(of_server(name, answers));
                primaries.extend(
                    answers
                        .primary
                        .as_ref()
                        .filter(|_| !answers.is_read_only)
                        .map(|primary| (name, answers, primary)),
                );
            }
            Err(why) => {
                let finding = format!("{name}: {}", Printable(why));
                findings.push(warning(PART, finding, "check that it runs, the user and the password"));
            }
        }
    }
    match primaries[..] {
        [] => findings.push(broken(
            PART,
            "no server of the address takes changes",
            Some("name the primary, or all servers, in paths.store".to_owned()),
        )),
        [(_, answers, primary)] => {
            findings.extend(behind(servers, answers));
            findings.extend(of_primary(primary, assumed));
            findings.extend(nodes::findings(&primary.nodes));
            last_line = answers.sequence;
        }
        [(one, ..), (two, ..), ..] => findings.push(broken(
            PART,
            format!("{one} and {two} both take changes"),
            Some("stop the one that was replaced, at once".to_owned()),
        )),
    }
    DatabaseFindings { findings, last_line }
}

/// What one server says of itself.
fn of_server(name: &str, answers: &ServerAnswers) -> Vec<Finding> {
    let mut findings = Vec::new();
    let version = format!("{}.{}", answers.version / 10_000, answers.version % 10_000);
    if answers.version < OLDEST {
        let finding = format!("{name}: PostgreSQL {version} is too old");
        findings.push(broken(PART, finding, Some("use PostgreSQL 13 or newer".to_owned())));
    }
    if answers.clock_lead.is_too_much() {
        let finding = format!("{name}: this machine's clock is {} the server's", answers.clock_lead);
        let hint = "let the network set the clocks of all machines (NTP): a site refuses a statement that is older than its last one";
        findings.push(broken(PART, finding, Some(hint.to_owned())));
    }
    let role = match answers {
        ServerAnswers { primary: None, .. } => "standby",
        ServerAnswers { is_read_only: true, .. } => {
            let finding = format!("{name}: takes no changes (default_transaction_read_only is on)");
            let hint = "ALTER SYSTEM RESET default_transaction_read_only, and the same of the role and the database";
            findings.push(broken(PART, finding, Some(hint.to_owned())));
            "read-only"
        }
        _ => "takes changes",
    };
    findings.push(ok(PART, format!("{name}: PostgreSQL {version}, {role}")));
    findings
}

/// Standbys of the address that do not show what the primary has.
fn behind(servers: &[InspectedServer], primary: &ServerAnswers) -> Vec<Finding> {
    let newest = primary.sequence.unwrap_or_default();
    let of_standby = |server: &InspectedServer| {
        let answers = server.said.as_ref().ok().filter(|answers| answers.primary.is_none())?;
        let lines = newest.checked_sub(answers.sequence?).filter(|lines| *lines > 0)?;
        let count = counted(usize::try_from(lines).unwrap_or(usize::MAX), "line");
        Some(warning(
            PART,
            format!("{}: this standby is {count} of the ledger behind", server.name),
            "check that it receives from the primary (pg_stat_wal_receiver), its disk and its network",
        ))
    };
    servers.iter().filter_map(of_standby).collect()
}

fn of_primary(primary: &PrimaryAnswers, assumed: bool) -> Vec<Finding> {
    let mut findings = of_tables(primary);
    if !primary.is_durable {
        findings.push(warning(
            PART,
            "fsync or full_page_writes is off: a crash of the machine can lose bindings, or the whole database",
            "ALTER SYSTEM RESET fsync; ALTER SYSTEM RESET full_page_writes; and restart the server",
        ));
    }
    if ["off", "local"].contains(&primary.synchronous_commit.as_str()) {
        findings.push(ok(
            PART,
            format!(
                "synchronous_commit is {}, and a node sets it to on for each binding",
                Printable(&primary.synchronous_commit)
            ),
        ));
    }
    findings.extend(of_standbys(primary, assumed));
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
    findings
}

/// The tables, and what this role may do with them.
fn of_tables(primary: &PrimaryAnswers) -> Vec<Finding> {
    const MAKE: &str = "countersign bindings schema --node ROLE | psql ADDRESS";
    let RoleRights {
        absent,
        lacking,
        dangerous,
    } = &primary.rights;
    let mut findings = Vec::new();
    if let Some(other) = primary.other_format {
        let finding = format!(
            "the tables have format {other}, and this version reads {}",
            primary.format
        );
        let hint = match other < primary.format {
            true => {
                "stop all nodes, back the database up, and upgrade the tables: countersign bindings schema --upgrade | psql ADDRESS"
            }
            false => "use the version of countersign that made them, the same on all nodes",
        };
        findings.push(broken(PART, finding, Some(hint.to_owned())));
    }
    if !absent.is_empty() {
        let names: Vec<_> = absent.iter().map(String::as_str).collect();
        let finding = format!("tables are missing in the schema countersign: {}", names.join(", "));
        findings.push(broken(PART, finding, Some(format!("make them as their owner: {MAKE}"))));
    }
    if !lacking.is_empty() {
        let finding = format!("this role lacks rights that a node needs: {}", lacking.join(", "));
        findings.push(broken(PART, finding, Some(format!("grant them as the owner: {MAKE}"))));
    }
    if !dangerous.is_empty() {
        findings.push(warning(
            PART,
            format!(
                "this role can change or delete lines of the ledger ({})",
                dangerous.join(", ")
            ),
            "give the nodes a role of their own: countersign bindings schema --node ROLE | psql ADDRESS",
        ));
    }
    findings
}

/// Whether a standby confirms bindings, and how it does.
fn of_standbys(primary: &PrimaryAnswers, assumed: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_synchronous = !primary.standby_names.trim().is_empty();
    // A role that may not see the states sees none of them.
    let states: Vec<_> = primary.standbys.iter().map(|standby| standby.state.as_str()).collect();
    let is_confirming = |state: &&str| ["", "sync", "quorum"].contains(state);
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
    } else if states.is_empty() {
        findings.push(warning(
            PART,
            "no standby is connected, and bindings wait for one",
            "start the standby",
        ));
    } else if !states.iter().any(is_confirming) {
        findings.push(warning(
            PART,
            "no connected standby is one that synchronous_standby_names names, and bindings wait for one",
            "compare it with the application_name of each standby: SELECT application_name, sync_state FROM pg_stat_replication",
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
    findings
}
