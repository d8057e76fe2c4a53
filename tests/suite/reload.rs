//! Reload: a change on disk is in force at once and not at the next poll, broken files change nothing, and no request is dropped or
//! answered from a half-loaded state.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use countersign_model::public_key::PublicKey;

use crate::support::http::Client;
use crate::support::instance::{manifest, new_keys, question};
use crate::support::server::{countersign_in, updates};
use crate::support::{Instance, License, Server, eventually, eventually_within, get};

/// How long a change may take: also on a busy machine, and less than the 30 seconds after which the poll finds it.
const LIVE: Duration = Duration::from_secs(20);

/// How long reloads go on beside requests.
const RELOADS: Duration = Duration::from_secs(2);

fn serve(licenses: &[&License]) -> (Instance, Server) {
    let tables: Vec<String> = licenses.iter().map(|license| license.toml("")).collect();
    let instance = Instance::with_licenses(&tables);
    let server = Server::start(&instance);
    for license in licenses {
        assert_eq!(server.validate(license, "a.com").code(), "ok");
    }
    (instance, server)
}

fn latest(server: &Server, license: &License) -> String {
    server.updates(license, "a.com", "").text()
}

impl Server {
    /// The same from within the instance, which is what nearly everybody does: all paths are relative.
    pub fn start_inside(instance: &Path) -> Self {
        let mut command = countersign_in(Path::new("."));
        command.current_dir(instance);
        Self::start_command(command, &[])
    }
}

/// How many times a part was read again, whatever came of it.
fn loads(server: &Server, part: &str) -> f64 {
    let series = |result| format!("countersign_reloads_total{{part=\"{part}\",result=\"{result}\"}}");
    ["done", "failed"]
        .iter()
        .map(|result| server.metric(&series(result)).unwrap())
        .sum()
}

#[test]
fn a_new_build_an_edited_license_an_edited_plugin_and_a_new_key_are_live_before_the_poll() {
    let license = License::new();
    let (instance, server) = serve(&[&license]);

    instance.publish("1.3.0");
    eventually_within("a new build", LIVE, || latest(&server, &license) == manifest("1.3.0"));

    instance.write_licenses(&[license.toml("grace_period_hours = 7")]);
    eventually_within("an edited license", LIVE, || {
        server.validate(&license, "a.com").json()["grace_period_hours"] == 7
    });

    instance.write("registry/plugins/acme-forms.toml", "module = \"other\"\n");
    eventually_within("an edited plugin", LIVE, || {
        server.updates(&license, "a.com", "").status == 404
    });

    let keys = new_keys(2048);
    let key_id = PublicKey::from_pem(&keys.public).unwrap().key_id().to_owned();
    instance.write_key(&keys.private);
    eventually_within("a new signing key", LIVE, || {
        server.validate(&license, "a.com").json()["key_id"] == key_id
    });
    eventually_within("the key is logged", LIVE, || server.log().contains("part=\"key\""));
}

#[test]
fn every_way_to_replace_files_is_noticed() {
    let license = License::new();
    let (instance, server) = serve(&[&license]);
    let live = |what: &str, version: &str| {
        eventually_within(what, LIVE, || latest(&server, &license) == manifest(version));
    };

    instance.publish("2.0.0");
    live("rename", "2.0.0");

    let index = fs::read_to_string(instance.file("releases/index.json")).unwrap();
    fs::write(instance.file("releases/acme-forms/2.0.1.json"), manifest("2.0.1")).unwrap();
    instance.note_removed("releases", [("acme-forms".into(), "2.0.1".into())].into());
    let edited = index.replace("2.0.0", "2.0.1").replace(
        &crate::support::instance::sha256(&manifest("2.0.0")),
        &crate::support::instance::sha256(&manifest("2.0.1")),
    );
    fs::write(instance.file("releases/index.json"), edited).unwrap();
    live("in-place edit", "2.0.1");

    fs::remove_dir_all(instance.file("releases")).unwrap();
    eventually_within("the folder is missed", LIVE, || {
        server.part("catalog")["state"] == "stale"
    });
    assert_eq!(
        latest(&server, &license),
        manifest("2.0.1"),
        "a deleted folder changes nothing"
    );
    instance.publish("2.1.0");
    live("delete and create", "2.1.0");

    instance.publish_in("builds/1", "3.0.0");
    instance.publish_in("builds/2", "3.1.0");
    fs::rename(instance.file("releases"), instance.file("releases-old")).unwrap();
    symlink("builds/1", instance.file("releases")).unwrap();
    live("a folder becomes a symbolic link", "3.0.0");
    symlink("builds/2", instance.file("releases-next")).unwrap();
    fs::rename(instance.file("releases-next"), instance.file("releases")).unwrap();
    live("symlink swap", "3.1.0");
    instance.publish_in("builds/2", "3.2.0");
    live("a change behind the symbolic link", "3.2.0");

    fs::remove_file(instance.file("registry/licenses/licenses.toml")).unwrap();
    fs::write(
        instance.file("registry/licenses/renamed.toml"),
        license.toml("grace_period_hours = 8"),
    )
    .unwrap();
    eventually_within("a license file under another name", LIVE, || {
        server.validate(&license, "a.com").json()["grace_period_hours"] == 8
    });
}

#[test]
fn files_are_watched_by_whatever_path_they_are_reached() {
    let root = std::env::current_dir().unwrap();
    let up: String = root.components().skip(1).map(|_| "../").collect();
    let starts: [fn(&Path, &str) -> Server; 3] = [
        |instance, _| Server::start_inside(instance),
        |instance, up| Server::start_in(&Path::new(up).join(instance.strip_prefix("/").unwrap()), &[]),
        |instance, _| {
            symlink(instance, instance.join("itself")).unwrap();
            Server::start_in(&instance.join("itself"), &[])
        },
    ];
    for (number, start) in starts.into_iter().enumerate() {
        let license = License::new();
        let instance = Instance::with_licenses(&[license.toml("")]);
        instance.publish_in("builds/1", "1.1.0");
        instance.publish_in("builds/2", "1.2.0");
        fs::remove_dir_all(instance.file("releases")).unwrap();
        let server = start(instance.path(), &up);
        server.validate(&license, "a.com");
        let live = |version: &str| {
            let what = format!("{version}, started in way {number}");
            eventually_within(&what, LIVE, || latest(&server, &license) == manifest(version));
        };
        // The first look is over, and the poll is far away.
        thread::sleep(Duration::from_millis(500));
        symlink("builds/1", instance.file("releases")).unwrap();
        live("1.1.0");
        symlink("builds/2", instance.file("next")).unwrap();
        fs::rename(instance.file("next"), instance.file("releases")).unwrap();
        live("1.2.0");
        instance.publish_in("builds/2", "1.3.0");
        live("1.3.0");
        instance.write_licenses(&[license.toml("grace_period_hours = 7")]);
        eventually_within("an edited license", LIVE, || {
            server.validate(&license, "a.com").json()["grace_period_hours"] == 7
        });
    }
}

#[test]
fn what_changes_while_files_are_read_is_noticed_too() {
    let license = License::new();
    let (instance, server) = serve(&[&license]);
    let before = loads(&server, "registry");
    // Read last, and for long enough that a change falls into it.
    let lines = (0..10_000)
        .map(|id| format!("{{\"id\":\"{id:064x}\",\"expires\":\"2099-12-31\",\"modules\":{{\"forms\":[]}}}}\n"));
    instance.write("registry/licenses/z.jsonl", &lines.collect::<String>());
    eventually("all licenses", || loads(&server, "registry") > before);
    for round in 1..=8_u64 {
        for hours in [round, 100 + round] {
            instance.write_licenses(&[license.toml(&format!("grace_period_hours = {hours}"))]);
            // The first is read 200 ms after it was made.
            thread::sleep(Duration::from_millis(200 + round * 10));
        }
        // Sooner than the poll would.
        let live = || server.validate(&license, "a.com").json()["grace_period_hours"] == 100 + round;
        eventually("the change", live);
    }
}

#[test]
fn where_notifications_see_nothing_the_poll_does() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    // A folder that is reached through two links: nobody watches the one in the middle.
    instance.publish_in("builds/1", "1.0.0");
    instance.publish_in("builds/2", "1.1.0");
    fs::create_dir(instance.file("links")).unwrap();
    symlink("../builds/1", instance.file("links/current")).unwrap();
    fs::remove_dir_all(instance.file("releases")).unwrap();
    symlink("links/current", instance.file("releases")).unwrap();
    let server = Server::start_with(&instance, &["--poll-seconds", "1"]);
    server.validate(&license, "a.com");
    assert_eq!(latest(&server, &license), manifest("1.0.0"));
    symlink("../builds/2", instance.file("links/next")).unwrap();
    fs::rename(instance.file("links/next"), instance.file("links/current")).unwrap();
    eventually("the poll", || latest(&server, &license) == manifest("1.1.0"));
}

#[test]
fn what_is_broken_keeps_the_last_good_state_is_logged_once_and_shows_on_readyz() {
    let license = License::new();
    let (instance, server) = serve(&[&license]);
    for (part, file, broken, expected) in [
        (
            "registry",
            "registry/licenses/licenses.toml",
            "[[license]]\nid = 5\nexpires = 2099-12-31\nmodules = { forms = [] }\n",
            "registry/licenses/licenses.toml:2:6",
        ),
        (
            "registry",
            "registry/plugins/acme-forms.toml",
            "module = \"a\"\nmodul = \"b\"\n",
            "registry/plugins/acme-forms.toml:2:1",
        ),
        (
            "catalog",
            "releases/index.json",
            "{\n\"plugins\": {",
            "releases/index.json:2:12",
        ),
        (
            "catalog",
            "releases/acme-forms/1.2.0.json",
            "{}",
            "releases/acme-forms/1.2.0.json",
        ),
        ("key", "keys/signing.pem", "no key\n", "keys/signing.pem"),
    ] {
        let good = fs::read_to_string(instance.file(file)).unwrap();
        let well = server.part(part);
        assert_eq!(well["state"], "ok");
        let series = format!("countersign_reloads_total{{part=\"{part}\",result=\"failed\"}}");
        let failed = server.metric(&series).unwrap();
        // In place, so that the key keeps its mode.
        fs::write(instance.file(file), broken).unwrap();
        eventually_within(file, LIVE, || server.part(part)["state"] == "stale");
        let detail = server.part(part)["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(expected), "{detail}");
        assert_eq!(server.validate(&license, "a.com").code(), "ok", "{file}");
        assert_eq!(latest(&server, &license), manifest("1.2.0"), "{file}");
        assert_eq!(
            get(server.admin, "/readyz").status,
            200,
            "the last good state does its work"
        );
        // Changes are seen in their order: once the repair is in force, the fault is read no more.
        fs::write(instance.file(file), &good).unwrap();
        eventually_within(file, LIVE, || server.part(part)["state"] == "ok");
        assert_eq!(server.metric(&series), Some(failed + 1.0), "it is read once");
        let logged = || {
            let log = server.log();
            log.lines()
                .filter(|line| line.contains("not reloaded") && line.contains(expected))
                .count()
        };
        assert_eq!(logged(), 1, "{}", server.log());

        fs::write(instance.file(file), broken).unwrap();
        eventually_within(file, LIVE, || server.part(part)["state"] == "stale");
        // Another change finds the same fault, which is no news.
        let before = ["registry", "catalog"].map(|part| loads(&server, part));
        instance.write("registry/plugins/acme-maps.toml", "module = \"maps\"\n");
        instance.write("releases/another.txt", "no manifest\n");
        eventually_within("another change", LIVE, || {
            let now = ["registry", "catalog"].map(|part| loads(&server, part));
            now[0] > before[0] && now[1] > before[1]
        });
        fs::write(instance.file(file), good).unwrap();
        eventually_within(file, LIVE, || server.part(part)["state"] == "ok");
        assert_eq!(logged(), 2, "{}", server.log());
    }
}

#[test]
fn a_damaged_manifest_that_no_site_may_get_holds_up_no_reload() {
    let license = License::new();
    let (instance, server) = serve(&[&license]);
    instance.publish_all("releases", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    eventually_within("a new build", LIVE, || latest(&server, &license) == manifest("1.3.0"));
    let reloads = || server.metric("countersign_reloads_total{part=\"catalog\",result=\"done\"}");
    let before = reloads();
    instance.write("releases/acme-forms/1.2.0.json", "{}");
    eventually_within("a reload", LIVE, || reloads() > before);
    assert_eq!(
        (&server.part("catalog")["state"], latest(&server, &license)),
        (&"ok".into(), manifest("1.3.0"))
    );
    assert_eq!(
        server.metric("countersign_releases"),
        Some(2.0),
        "as many as the index names"
    );
}

#[test]
fn a_reload_that_drops_more_than_a_fifth_of_the_licenses_is_refused_also_after_sighup() {
    let all: Vec<License> = (0..10).map(|_| License::new()).collect();
    let (instance, server) = serve(&all.iter().collect::<Vec<_>>());
    let keep = |count: usize| {
        instance.write_licenses(&all[..count].iter().map(|license| license.toml("")).collect::<Vec<_>>());
    };
    keep(8);
    eventually_within("a fifth may go", LIVE, || {
        server.validate(&all[8], "a.com").code() == "unknown_license"
    });
    keep(6);
    eventually_within("a quarter may not", LIVE, || {
        server.part("registry")["state"] == "stale"
    });
    let detail = server.part("registry")["detail"].as_str().unwrap().to_owned();
    let expected = "the registry lacks 2 of the 8 licenses that were in force; restore the \
        licenses; or, if you removed them on purpose, restart once with `countersign serve --accept-dropped-licenses`";
    assert_eq!(detail, expected);
    assert_eq!(server.validate(&all[7], "a.com").code(), "ok");
    // What `systemctl reload` sends: it is looked at and refused once more.
    let refused = server.log().matches("licenses that were in force").count();
    server.signal("HUP");
    eventually_within("SIGHUP", LIVE, || {
        server.log().matches("licenses that were in force").count() > refused
    });
    assert_eq!(server.part("registry")["state"], "stale");
    assert_eq!(server.validate(&all[7], "a.com").code(), "ok");
    keep(8);
    eventually_within("restored", LIVE, || server.part("registry")["state"] == "ok");
}

#[test]
fn a_reload_neither_fills_nor_empties_a_licenses_bucket() {
    let [asked, silent, changed, added] = std::array::from_fn(|_| License::new());
    // So many that one may go.
    let others: String = (0..8).map(|_| License::new().toml("")).collect();
    let instance = Instance::with_licenses(&[
        asked.toml(""),
        silent.toml(""),
        changed.toml(""),
        License::new().toml(""),
        others.clone(),
    ]);
    let server = Server::start_with(&instance, &["--requests-per-license", "1"]);
    let ask = |license| server.validate(license, "a.com").code();
    assert_eq!([ask(&asked), ask(&changed)], ["ok"; 2]);

    let changed_now = changed.toml("grace_period_hours = 9");
    let mark = License::new();
    let more = [added.toml(""), mark.toml("")].concat();
    instance.write_licenses(&[asked.toml(""), silent.toml(""), changed_now, more, others]);
    eventually("the registry is read again", || {
        server.validate(&mark, "a.com").code() != "unknown_license"
    });

    assert_eq!([ask(&asked), ask(&changed)], ["too_many_requests"; 2]);
    for license in [&silent, &added] {
        assert_eq!([ask(license), ask(license)], ["ok", "too_many_requests"]);
    }
}

#[test]
fn five_hundred_torn_truncated_garbled_and_good_writes_never_show_a_half_state() {
    const ROUNDS: usize = 500;
    let license = License::new();
    // A file cut at the end of a line may be well-formed: then it lacks the other license, and drops too many.
    let other = License::new();
    let tables = |round: usize| {
        let modules = format!("forms = [\"round-{round}\"]\nmaps = [\"round-{round}\"]");
        license.toml_with("2099-12-31", &format!("grace_period_hours = {round}"), &modules) + &other.toml("")
    };
    let instance = Instance::new();
    instance.write_licenses(&[tables(0)]);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");

    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<JoinHandle<usize>> = (0..2).map(|_| reader(&server, &license, 2, &stop)).collect();
    let file = instance.file("registry/licenses/licenses.toml");
    let index = instance.file("releases/index.json");
    for round in 1..=ROUNDS {
        let good = tables(round);
        let version = format!("1.2.{round}");
        match round % 5 {
            // Torn: what an editor that truncates and writes shows for a moment, cut anywhere.
            0 => fs::write(&file, &good[..(round * 7919) % good.len()]).unwrap(),
            // Cut at the end of a line, where it may still be well-formed.
            1 => fs::write(&file, good.split_inclusive('\n').take(round % 9).collect::<String>()).unwrap(),
            2 => fs::write(&file, b"\xff\x00[[license]]\n").unwrap(),
            3 => fs::write(&index, "{\"plugins\": {").unwrap(),
            _ => fs::write(instance.file("releases/acme-forms/1.2.0.json"), "torn").unwrap(),
        }
        // Sometimes the next write comes at once, sometimes a moment later.
        thread::sleep(Duration::from_millis((round % 4) as u64 * 10));
        if round % 2 == 0 {
            instance.write_licenses(&[good]);
        } else {
            fs::write(&file, good).unwrap();
        }
        instance.publish(&version);
    }
    let expected = format!("round-{ROUNDS}");
    eventually_within("the last good write", LIVE, || {
        server.validate(&license, "a.com").json()["features"]["maps"][0] == expected.as_str()
            && latest(&server, &license) == manifest(&format!("1.2.{ROUNDS}"))
    });
    stop.store(true, Ordering::Relaxed);
    let answers: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    assert!(answers > ROUNDS, "{answers} answers were looked at");
    assert!(server.stop().success());
}

/// Asks until it is stopped: every answer is whole, with all its modules, of one round, and comes at once.
fn reader(server: &Server, license: &License, modules: usize, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let address = server.address;
    let license = license.clone();
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut client = Client::connect(address);
        let mut answers = 0;
        while !stop.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let statement = client
                .post_json("/api/v1/validate-license", &question(&license, "a.com"))
                .json();
            assert_eq!(statement["status"], "active", "{statement}");
            let features = statement["features"].as_object().unwrap();
            assert_eq!(features.len(), modules, "{statement}");
            if modules == 2 {
                let feature = format!("round-{}", statement["grace_period_hours"]);
                assert!(
                    features.values().all(|features| features[0] == feature.as_str()),
                    "{statement}"
                );
            }
            let found = client.request("GET", &updates("acme-forms", &license, "a.com", ""), &[], b"");
            let version = found.json()["version"].as_str().unwrap().to_owned();
            assert_eq!(found.text(), manifest(&version));
            assert!(asked.elapsed() < Duration::from_secs(10), "a reload held requests up");
            answers += 2;
        }
        answers
    })
}

#[test]
fn requests_under_way_during_reloads_are_all_answered() {
    let license = License::new();
    let (instance, server) = serve(&[&license]);
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<JoinHandle<usize>> = (0..2).map(|_| reader(&server, &license, 1, &stop)).collect();
    let started = Instant::now();
    while started.elapsed() < RELOADS {
        instance.publish("1.4.0");
        instance.write_licenses(&[license.toml("")]);
        server.signal("HUP");
        thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    readers
        .into_iter()
        .for_each(|reader| assert!(reader.join().unwrap() > 0));
    assert!(!server.log().contains("ERROR"));
}

/// So many reloads of a registry of 500 licenses and of releases, every third of them of something broken, and memory
/// that stays flat: what replaced what was in force is gone.
pub fn rounds(rounds: usize) {
    let licenses: Vec<License> = (0..500).map(|_| License::new()).collect();
    let license = &licenses[0];
    let tables = |round: usize| -> Vec<String> {
        licenses
            .iter()
            .map(|license| license.toml(&format!("grace_period_hours = {}", round % 8_000)))
            .collect()
    };
    let instance = Instance::with_licenses(&tables(0));
    let server = Server::start(&instance);
    let mut client = Client::connect(server.address);
    let mut warm = 0;
    let mut largest = 0;
    for round in 1..=rounds {
        match round % 6 {
            0 => instance.write("registry/licenses/broken.toml", &format!("round = {round}\n")),
            3 => instance.write("releases/index.json", &format!("{{\"round {round}\": 0}}")),
            _ => instance.write_licenses(&tables(round)),
        }
        server.signal("HUP");
        let part = if round % 6 == 0 { "registry" } else { "catalog" };
        if round.is_multiple_of(3) {
            eventually("the fault shows", || {
                let found = server.part(part);
                let detail = found["detail"].as_str().unwrap_or_default();
                found["state"] == "stale" && (round % 6 == 0 || detail.contains(&format!("round {round}")))
            });
            assert_eq!(
                client
                    .post_json("/api/v1/validate-license", &question(license, "a.com"))
                    .code(),
                "ok"
            );
            let _ = fs::remove_file(instance.file("registry/licenses/broken.toml"));
            instance.publish(&format!("1.{round}.0"));
            server.signal("HUP");
            eventually("the repair shows", || server.part(part)["state"] == "ok");
        } else {
            eventually("the change shows", || {
                let answer = client
                    .post_json("/api/v1/validate-license", &question(license, "a.com"))
                    .json();
                answer["grace_period_hours"] == round % 8_000
            });
        }
        // A tenth of the rounds is for what the allocator keeps for the next time.
        match resident(server.pid()) {
            now if round <= rounds / 10 => warm = now.max(warm),
            now => largest = now.max(largest),
        }
        if round.is_multiple_of(1_000) {
            eprintln!("reload: {round} of {rounds}; {warm} KiB after the warm-up, {largest} KiB at most since");
        }
    }
    assert!(
        largest < warm + warm / 4,
        "{warm} KiB after the warm-up, {largest} KiB later"
    );
    assert!(server.stop().success());
}

/// What a process has in memory, in KiB.
fn resident(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn memory_stays_flat_over_many_reloads_good_and_bad() {
    rounds(200);
}

#[test]
fn a_mistake_in_an_offer_is_reported_and_leaves_what_is_in_force() {
    let license = License::new();
    let (instance, server) = serve(&[&license]);
    let page = include_str!("../../docs/registry.md");
    let offer = page.split("\n## Offers").nth(1).unwrap();
    let offer = offer.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let files = countersign::serve::FilesSeen::of(&instance.file("registry")).fingerprint;
    instance.write("registry/offers/forms.toml", offer);
    eventually_within("the page's offer", LIVE, || {
        let part = server.part("registry");
        part["state"] == "ok" && part["in_force"] != files
    });
    instance.write("registry/offers/forms.toml", &offer.replace("period", "perod"));
    eventually_within("a mistake", LIVE, || server.part("registry")["state"] == "stale");
    let detail = server.part("registry")["detail"].to_string();
    assert!(detail.contains("forms.toml:1:1: missing field"), "{detail}");
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let listed = countersign_in(instance.path())
        .args(["shop", "offers"])
        .output()
        .unwrap();
    assert_eq!(listed.status.code(), Some(3));
    fs::remove_dir_all(instance.file("registry/offers")).unwrap();
    eventually_within("no offers", LIVE, || server.part("registry")["state"] == "ok");
}
