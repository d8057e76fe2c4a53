//! A database that comes back without its last lines: nodes keep what they know, and `bindings repair` appends it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{SecondsFormat, Utc};
use countersign_ledger::{
    self, ChangeBasis, ChangeOutcome, ChangeRefusal, Ledger, LedgerChange, LedgerState, SeatRequest, TokenChange,
    TokenOutcome, TokenStep,
};
use countersign_model::api_token::TokenScope;
use countersign_model::digest::Digest;
use countersign_model::license::{License as ModelLicense, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::cli_json::Page;
use crate::support::eventually;
use crate::support::instance::{Instance, License};
use crate::support::issued::issue_as;
use crate::support::server::{Server, countersign};
use crate::tools::daemon::run;
use crate::tools::postgres::{Cluster, Version};

const HOUR: Duration = Duration::from_secs(3_600);

/// A dump of the ledger's tables.
pub struct Dump {
    folder: TempDir,
    url: String,
}

impl Dump {
    pub fn of(cluster: &Cluster) -> Self {
        let dump = Self {
            folder: TempDir::new().unwrap(),
            url: cluster.url("postgres"),
        };
        let mut command = Command::new(Version::Debian.program("pg_dump"));
        command.args(["--format=custom", "--schema=countersign", "--file"]);
        run(command.arg(dump.file()).arg(&dump.url));
        dump
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("dump")
    }

    /// Puts it in the place of what the database has.
    pub fn restore(&self, cluster: &Cluster) {
        cluster.psql("DROP SCHEMA countersign CASCADE");
        let mut command = Command::new(Version::Debian.program("pg_restore"));
        run(command.arg("--dbname").arg(&self.url).arg(self.file()));
    }
}

fn repair(instance: &Instance, url: &str, arguments: &[&Path]) -> Output {
    let mut command = countersign(instance);
    command.args(["--store", url, "bindings", "repair"]).args(arguments);
    command.output().unwrap()
}

/// What it prints as JSON.
fn repaired(instance: &Instance, url: &str, arguments: &[&Path]) -> Value {
    let arguments = [&[Path::new("--json")], arguments].concat();
    let output = repair(instance, url, &arguments);
    assert!(output.status.success(), "{output:?}");
    let document = serde_json::from_slice(&output.stdout).unwrap();
    Page::read().check("bindings-repair", &document);
    document
}

fn is_failing(node: &Server) {
    let series = "countersign_ledger_state{state=\"lines_lost\"}";
    eventually(&node.log(), || node.metric(series) == Some(1.0));
}

/// What a node that misses lines has kept, once it has written that.
fn kept(instance: &Instance) -> Vec<PathBuf> {
    eventually("what it knows is kept", || !files(instance, "memory-").is_empty());
    files(instance, "memory-")
}

/// The names in a node's folder that begin so.
fn files(instance: &Instance, beginning: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(instance.file("node")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(beginning))
        .collect();
    found.sort();
    found
}

#[test]
fn what_a_restored_database_lacks_comes_back_from_the_nodes() {
    let cluster = prepared_cluster();
    let licenses: Vec<License> = (0..6).map(|_| License::new()).collect();
    let [before, lost, taken, released, new, fresh] = &licenses[..] else {
        panic!("six licenses")
    };
    let all: Vec<_> = licenses.iter().collect();
    let own = [instance(&all), instance(&all)];
    let url = cluster.url("node");
    let owner = cluster.url("postgres");
    let [first, second] = own.each_ref().map(|own| start(own, &url));
    assert_eq!(code(&first.validate(before, "https://a.example")), "ok");
    let dump = Dump::of(&cluster);
    for (license, host) in [(lost, "b"), (taken, "c"), (released, "d")] {
        assert_eq!(code(&first.validate(license, &format!("https://{host}.example"))), "ok");
    }
    // A node says no only when it has read up to the head.
    assert_eq!(code(&second.validate(lost, "https://z.example")), "bound_elsewhere");
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    let declared = released.toml(&format!("sites = 1\nreleased = {{ \"d.example\" = {now} }}"));
    for own in &own {
        let path = "registry/licenses/licenses.toml";
        let text = std::fs::read_to_string(own.file(path)).unwrap();
        let before = released.toml("sites = 1\n");
        assert!(text.contains(&before), "{text}");
        own.write(path, &text.replace(&before, &declared));
    }
    dump.restore(&cluster);

    for (node, own) in [(&first, &own[0]), (&second, &own[1])] {
        is_failing(node);
        let kept = kept(own);
        assert_eq!(kept.len(), 1, "{kept:?}");
        let told = || node.part("store").to_string();
        eventually("it names the file", || told().contains(kept[0].to_str().unwrap()));
        let told = told();
        assert!(
            told.contains("up to line 4") && told.contains("bindings repair"),
            "{told}"
        );
        assert_eq!(kept[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    // As if it had been an hour ago.
    let kept = std::fs::File::open(&files(&own[0], "memory-")[0]).unwrap();
    kept.set_modified(SystemTime::now() - HOUR).unwrap();
    // A restart loses nothing of it.
    first.kill();
    let first = start(&own[0], &url);
    is_failing(&first);
    // What it answers is as old as its file.
    let ledger = &first.part("store")["ledger"];
    assert_eq!(ledger["sequence"], 4);
    assert!(
        ledger["age_seconds"].as_f64().unwrap() >= HOUR.as_secs_f64(),
        "{ledger}"
    );
    for node in [&first, &second] {
        assert_eq!(code(&node.validate(lost, "https://b.example")), "ok");
        assert_eq!(node.validate(new, "https://e.example").status, 503);
        assert_eq!(node.validate(lost, "https://z.example").status, 503);
    }
    let doctor = countersign(&own[0]).args(["--store", &url, "doctor"]).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        said.contains("bindings repair") && said.contains("memory-1-4-"),
        "{said}"
    );

    // A node that never knew gives a seat away.
    let stranger = instance(&all);
    let third = start(&stranger, &url);
    assert_eq!(code(&third.validate(taken, "https://x.example")), "ok");

    let refused = repair(&own[0], &url, &[]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{error}");
    assert!(
        error.contains("does not own the table") && error.contains("hint"),
        "{error}"
    );
    let lines = || cluster.psql("SELECT count(*), max(epoch) FROM countersign.ledger, countersign.head");
    let planned = repaired(&own[0], &owner, &[Path::new("--dry-run")]);
    assert_eq!(
        (&planned["bindings"], &planned["released"]),
        (&1.into(), &1.into()),
        "{planned}"
    );
    assert_eq!(lines(), "2|1");
    assert_eq!(files(&own[0], "memory-").len(), 1);
    let shown = repair(&own[0], &owner, &[Path::new("--dry-run")]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("c.example") && shown.contains("bound to x.example"),
        "{shown}"
    );

    let done = repaired(&own[0], &owner, &[]);
    assert_eq!((&done["bindings"], &done["released"]), (&1.into(), &1.into()), "{done}");
    assert_eq!(done["nodes_reload"], true);
    let unfit = done["unfit"].as_array().unwrap();
    assert_eq!(unfit.len(), 1, "{done}");
    assert_eq!([&unfit[0]["license"], &unfit[0]["bound_to"]], [&*taken.id, "x.example"]);
    assert_eq!(lines(), "3|2");
    assert_eq!(
        (files(&own[0], "memory-").len(), files(&own[0], "repaired-").len()),
        (0, 1)
    );

    for node in [&first, &second, &third] {
        eventually("it serves again", || node.part("store")["state"] == "ok");
        for (license, host, answer) in [
            (before, "a", "ok"),
            (lost, "b", "ok"),
            (lost, "z", "bound_elsewhere"),
            (taken, "c", "bound_elsewhere"),
            (taken, "x", "ok"),
            (new, "e", "ok"),
        ] {
            let url = format!("https://{host}.example");
            eventually(&format!("{url} gets {answer}"), || {
                code(&node.validate(license, &url)) == answer
            });
        }
    }
    // The file of the other node has no more, and needs no second repair.
    let again = repaired(&own[1], &owner, &[]);
    assert_eq!(
        (&again["bindings"], &again["nodes_reload"]),
        (&0.into(), &false.into()),
        "{again}"
    );
    assert_eq!(lines(), "4|2");
    let nothing = repair(&own[1], &owner, &[]);
    assert_eq!(nothing.status.code(), Some(3), "{nothing:?}");
    let verify = countersign(&own[1])
        .args(["--store", &url, "bindings", "verify"])
        .output()
        .unwrap();
    assert!(verify.status.success(), "{verify:?}");
    assert_eq!(code(&second.validate(fresh, "https://f.example")), "ok");
}

#[test]
fn lines_that_come_back_need_no_repair() {
    let cluster = prepared_cluster();
    let licenses = [License::new(), License::new()];
    let own = instance(&licenses.each_ref());
    let url = cluster.url("node");
    let older = Dump::of(&cluster);
    let node = start(&own, &url);
    assert_eq!(code(&node.validate(&licenses[0], "https://a.example")), "ok");
    let newer = Dump::of(&cluster);
    older.restore(&cluster);
    is_failing(&node);
    newer.restore(&cluster);
    eventually("it binds again", || {
        code(&node.validate(&licenses[1], "https://b.example")) == "ok"
    });
    assert_eq!(files(&own, "memory-").len(), 0, "{}", node.log());

    // The same at a start, and a file that was harmed is named.
    older.restore(&cluster);
    is_failing(&node);
    let kept = kept(&own).remove(0);
    node.stop();
    let text = std::fs::read_to_string(&kept).unwrap();
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let (seal, content) = lines.split_last().unwrap();
    let (last, before) = content.split_last().unwrap();
    assert!(last.contains("\"event\":\"bound\""), "{text}");
    // No line names the last one but the seal.
    for (harmed, why) in [
        (text.replacen("\"host\":\"", "\"host\":\"x", 1), "was changed"),
        (content.concat(), "was cut"),
        (before.concat(), "was cut"),
        (before.concat() + seal, "was changed"),
        (text[..text.len() - 1].to_owned(), "was cut"),
    ] {
        std::fs::write(&kept, harmed).unwrap();
        let told = super::node::refusal(&own, &url, 3);
        assert!(told.contains(kept.to_str().unwrap()) && told.contains(why), "{told}");
        let refused = repair(&own, &cluster.url("postgres"), &[]);
        let told = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && told.contains(why), "{told}");
    }
    std::fs::write(&kept, text).unwrap();
    let node = start(&own, &url);
    is_failing(&node);
    assert_eq!(code(&node.validate(&licenses[0], "https://a.example")), "ok");
}

/// A node of this process.
pub struct OwnNode {
    pub folder: TempDir,
    pub bindings: Arc<Ledger>,
    pub runtime: Runtime,
}

impl OwnNode {
    pub fn start(cluster: &Cluster) -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            bindings: countersign_ledger::open_shared(&cluster.url("node"), folder.path(), true).unwrap(),
            runtime: Builder::new_current_thread().build().unwrap(),
            folder,
        }
    }

    fn change(&self, change: LedgerChange) -> ChangeOutcome {
        self.runtime.block_on(self.bindings.change_license(change)).unwrap()
    }

    fn status(&self, id: &LicenseId) -> Option<(u32, LicenseStatus)> {
        let issued = self.bindings.issued(id)?;
        Some((issued.revision, issued.license.status))
    }
}

/// A license that a token issues.
pub fn issue(number: u8) -> LedgerChange {
    issue_as(&License::new(), number)
}

fn changed(issue: &LedgerChange, revision: u32, status: LicenseStatus) -> LedgerChange {
    LedgerChange {
        license: ModelLicense {
            status,
            ..issue.license.clone()
        },
        basis: ChangeBasis::Revision(revision),
        ..issue.clone()
    }
}

fn create(number: u8) -> TokenStep {
    TokenStep::Create {
        hash: Digest::of(&[number]),
        scopes: [TokenScope::LicensesWrite].into(),
    }
}

fn token(node: &OwnNode, name: &str, step: TokenStep) {
    let change = TokenChange {
        author: Author::default(),
        name: name.parse().unwrap(),
        step,
        now: Utc::now(),
    };
    let outcome = node.runtime.block_on(node.bindings.change_token(change)).unwrap();
    assert!(matches!(outcome, TokenOutcome::Recorded(_)), "{outcome:?}");
}

#[test]
fn licenses_that_were_lost_come_back_unless_they_were_changed_since() {
    let cluster = prepared_cluster();
    let node = OwnNode::start(&cluster);
    let [old, since, new] = [issue(1), issue(2), issue(3)];
    let is_recorded = |outcome: ChangeOutcome| assert!(matches!(outcome, ChangeOutcome::Recorded(_)), "{outcome:?}");
    is_recorded(node.change(old.clone()));
    is_recorded(node.change(since.clone()));
    token(&node, "old", create(1));
    let dump = Dump::of(&cluster);
    is_recorded(node.change(changed(&old, 1, LicenseStatus::Suspended)));
    is_recorded(node.change(changed(&since, 1, LicenseStatus::Suspended)));
    is_recorded(node.change(changed(&since, 2, LicenseStatus::Active)));
    is_recorded(node.change(new.clone()));
    let host = "a.example".parse().unwrap();
    let bound = node.bindings.bind(SeatRequest::new(&new.license, &host, Utc::now()));
    node.runtime.block_on(bound).unwrap();
    token(&node, "old", TokenStep::Revoke);
    token(&node, "new", create(2));
    dump.restore(&cluster);
    eventually("the node notices", || {
        node.bindings.health().ledger == LedgerState::LinesLost
    });
    let other = OwnNode::start(&cluster);
    is_recorded(other.change(changed(&since, 1, LicenseStatus::Revoked)));

    let kept = || countersign_ledger::kept_files(node.folder.path()).unwrap();
    eventually("what it knows is kept", || !kept().is_empty());
    let files = kept();
    let repaired =
        countersign_ledger::repair_shared(&cluster.url("postgres"), &files, &|_| None, &1.into(), false).unwrap();
    assert_eq!(
        (repaired.licenses, repaired.bound, repaired.unfit.len()),
        (2, 1, 0),
        "{repaired:?}"
    );
    assert_eq!((repaired.tokens, repaired.unfit_tokens.len()), (2, 0), "{repaired:?}");
    assert_eq!(
        repaired.unfit_licenses,
        [(since.license.id, ChangeRefusal::Revised { revision: 2 })]
    );
    for node in [&node, &other] {
        eventually("the node serves again", || {
            let is_well = node.bindings.health().ledger == LedgerState::Ok;
            is_well && node.status(&old.license.id) == Some((2, LicenseStatus::Suspended))
        });
        assert_eq!(node.status(&new.license.id), Some((1, LicenseStatus::Active)));
        assert_eq!(node.status(&since.license.id), Some((2, LicenseStatus::Revoked)));
        assert_eq!(node.bindings.of(&new.license.id).len(), 1);
        // A token that was revoked stays revoked.
        let is_good = |number| {
            node.bindings
                .token_of(&Digest::of(&[number]))
                .is_some_and(|token| !token.revoked)
        };
        assert_eq!([is_good(1), is_good(2)], [false, true]);
        // A retry of the shop finds the license, and derives the same key.
        let again = node.change(new.clone());
        assert!(matches!(again, ChangeOutcome::Repeated(_)), "{again:?}");
    }
    let again =
        countersign_ledger::repair_shared(&cluster.url("postgres"), &files, &|_| None, &1.into(), false).unwrap();
    assert_eq!(
        (again.licenses, again.bound, again.nodes_reload),
        (0, 0, false),
        "{again:?}"
    );
}
