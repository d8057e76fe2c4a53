//! Power failures under 64 writers: every acknowledged binding survives, whatever else reached the disk.
//!
//! A library records what a server does to its store (`support/power`). Then the disk is reconstructed as power
//! failures would have left it, at many moments, and the store is opened on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

use crate::support::instance::shared_keys;
use crate::support::random::Random;
use crate::support::server::{countersign, countersign_in};
use crate::support::writers::{Writers, host, site};
use crate::support::{Instance, Server};
use crate::tools::power::{Disk, Record};
use crate::tools::preload;

/// A store in a folder that is new down to its parent: their names can be lost as well.
const STORE: &str = "data/bindings/store";

impl Writers {
    /// Every site whose binding was acknowledged.
    pub fn sites(&self) -> BTreeSet<usize> {
        self.acknowledged.lock().unwrap().keys().copied().collect()
    }
}

/// A program's run above the layer: the disk before, and everything that it did.
struct Run {
    root: PathBuf,
    before: Disk,
    records: Vec<Record>,
}

/// Runs a program on the instance above the layer; `work` gets what belongs into its environment.
fn above(instance: &Instance, work: impl FnOnce(&[(&str, &Path)])) -> Run {
    let root = instance.path().canonicalize().unwrap();
    let journals = folder();
    let before = Disk::of(&root);
    let journal = journals.path().join("journal");
    work(&[
        ("LD_PRELOAD", preload::power()),
        ("POWER_ROOT", &root),
        ("POWER_JOURNAL", &journal),
    ]);
    Run {
        root,
        before,
        records: Record::read(&journal),
    }
}

/// Serves until so many bindings more are acknowledged, and ends the server with `end`.
fn serve(instance: &Instance, writers: &Writers, bindings: usize, end: impl FnOnce(Server)) -> Run {
    above(instance, |layer| {
        writers.storm(Server::start_with_environment(instance, &[], layer), bindings, end);
    })
}

/// An instance with the writers' licenses and its store in that folder.
fn instance_of(writers: &Writers) -> Instance {
    let instance = writers.instance("\"unlimited\"");
    instance.write("countersign.toml", &format!("[paths]\nstore = \"{STORE}\"\n"));
    instance
}

/// A folder in memory, if there is one: hundreds of disks are written there.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        TempDir::new_in(memory).unwrap()
    } else {
        TempDir::new().unwrap()
    }
}

/// The site that a record acknowledges.
fn acknowledged(record: &Record) -> Option<usize> {
    let text = record.is_answer().then(|| str::from_utf8(&record.bytes).unwrap())?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    let statement: serde_json::Value = serde_json::from_str(body).ok()?;
    (statement["code"] == "ok").then(|| site(statement["domain"].as_str().unwrap()))
}

impl Run {
    /// Cuts the power at `cuts` moments, the last of them at the end, and tells at how many of them a binding or the
    /// whole store is lost that sites were `told` of, before the run or up to that moment. `next` gets the last disk.
    fn cut(self, cuts: usize, random: &mut Random, writers: &Writers, mut told: BTreeSet<usize>, next: &Path) -> usize {
        let Self {
            root,
            before: mut disk,
            records,
        } = self;
        let end = records.len() - 1;
        let mut moments: Vec<usize> = (1..cuts).map(|_| random.below(end)).chain([end]).collect();
        moments.sort_unstable();
        let mut lost = 0;
        let mut moments = moments.into_iter().peekable();
        for (number, record) in records.iter().enumerate() {
            disk.follow(record);
            told.extend(acknowledged(record));
            while moments.next_if_eq(&number).is_some() {
                let scratch = folder();
                let found = if moments.peek().is_some() { scratch.path() } else { next };
                disk.write(&root, found, Some(random));
                if found == next {
                    copy(next, scratch.path());
                }
                lost += usize::from(is_lost(&scratch.path().join(STORE), writers, &told));
            }
        }
        assert!(writers.sites().is_subset(&told), "every answer is in the journal");
        lost
    }
}

/// Whether the store lacks something that the server answered to sites.
fn is_lost(path: &Path, writers: &Writers, told: &BTreeSet<usize>) -> bool {
    if told.is_empty() {
        return false;
    }
    let store = match countersign_ledger::open(path) {
        Ok(store) => store,
        Err(error) => {
            eprintln!("{error}");
            return true;
        }
    };
    let is_bound = |site: &usize| {
        let id = writers.license_of(*site).id.parse().unwrap();
        store.of(&id).iter().any(|binding| binding.host.as_str() == host(*site))
    };
    !told.iter().all(is_bound)
}

/// So many runs of the server, each on the disk that the loss of power before it left, and so many losses of power in
/// each. Returns at how many of them something was lost.
pub fn losses(runs: usize, cuts: usize, bindings: usize, seed: u64) -> usize {
    let mut random = Random::new(seed);
    let mut lost = 0;
    let writers = Writers::new();
    let mut instance = instance_of(&writers);
    for number in 1..=runs {
        let next = Instance::empty();
        let told = writers.sites();
        let run = serve(&instance, &writers, bindings + random.below(bindings), Server::kill);
        lost += run.cut(cuts, &mut random, &writers, told, next.path());
        eprintln!(
            "loss of power: {} of {}, {lost} with a loss",
            number * cuts,
            runs * cuts
        );
        instance = next;
        instance.write_key(&shared_keys().private);
    }
    lost
}

#[test]
fn no_loss_of_power_loses_what_was_acknowledged() {
    assert_eq!(losses(4, 50, 300, 7), 0);
}

#[test]
fn a_disk_that_lies_about_fdatasync_is_found_out() {
    let writers = Writers::new();
    let instance = instance_of(&writers);
    let next = Instance::empty();
    let run = above(&instance, |layer| {
        let lies = [layer, &[("POWER_LIES", Path::new("1"))]].concat();
        writers.storm(Server::start_with_environment(&instance, &[], &lies), 300, Server::kill);
    });
    let lost = run.cut(50, &mut Random::new(7), &writers, BTreeSet::new(), next.path());
    assert!(lost > 10, "{lost} of 50: the layer has to bite");
}

#[test]
fn the_layer_misses_nothing_that_is_done_to_the_store() {
    let writers = Writers::new();
    let instance = instance_of(&writers);
    let run = serve(&instance, &writers, 300, |server| assert!(server.stop().success()));
    let mut disk = run.before;
    let scratch = folder();
    run.records.iter().for_each(|record| disk.follow(record));
    disk.write(&run.root, scratch.path(), None);
    assert_eq!(tree(&scratch.path().join("data")), tree(&run.root.join("data")));
}

#[test]
fn power_may_fail_at_any_moment_of_a_compaction_and_of_a_rebuild() {
    let writers = Writers::new();
    let instance = instance_of(&writers);
    writers.storm(Server::start(&instance), 300, |server| assert!(server.stop().success()));
    for verb in ["compact", "rebuild"] {
        let run = above(&instance, |layer| {
            let mut command = countersign(&instance);
            command.args(["bindings", verb]).envs(layer.iter().copied());
            assert!(command.output().unwrap().status.success());
        });
        let next = Instance::empty();
        let lost = run.cut(100, &mut Random::new(7), &writers, writers.sites(), next.path());
        assert_eq!(lost, 0, "{verb}");
    }
}

#[test]
fn a_license_is_issued_whole_or_not_at_all_and_stays_once_the_command_is_done() {
    let instance = Instance::issuing(&[]);
    let issue = [
        "license",
        "issue",
        "--module",
        "forms",
        "--expires",
        "2099-12-31",
        "--request",
    ];
    let mut issued = String::new();
    // The first command makes the store, too.
    let run = above(&instance, |layer| {
        let mut command = countersign(&instance);
        let output = command
            .args(issue)
            .arg("first")
            .envs(layer.iter().copied())
            .output()
            .unwrap();
        issued = String::from_utf8(output.stdout).unwrap();
    });
    assert_eq!(issued.trim().len(), 29, "a key");
    let mut disk = run.before;
    let mut random = Random::new(7);
    let end = run.records.len() - 1;
    for (number, record) in run.records.iter().enumerate() {
        disk.follow(record);
        let scratch = folder();
        disk.write(&run.root, scratch.path(), Some(&mut random));
        for key in ["signing.pem", "issuing.key", "references.key"] {
            let path = scratch.path().join("keys").join(key);
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let of = |request: &str| {
            let mut command = countersign_in(scratch.path());
            let output = command.args(issue).arg(request).output().unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "after {number} of {end}: {told}");
            (String::from_utf8(output.stdout).unwrap(), told)
        };
        // The store opens after each loss of power, and an acknowledged license is there.
        of("second");
        if number == end {
            let (key, told) = of("first");
            assert!(key == issued && told.contains("was issued by this request"), "{told}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for (path, content) in tree(from) {
        match content {
            None => fs::create_dir(to.join(path)).unwrap(),
            Some(bytes) => fs::write(to.join(path), bytes).unwrap(),
        }
    }
}

/// Folders and files below `root`, folders first.
fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let content = if path.is_dir() {
                None
            } else {
                Some(fs::read(&path).unwrap())
            };
            folders.extend(content.is_none().then(|| path.clone()));
            found.insert(path.strip_prefix(root).unwrap().to_owned(), content);
        }
    }
    found
}
