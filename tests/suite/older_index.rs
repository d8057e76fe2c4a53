//! An index that lacks releases which were in force, as an older pipeline writes it: refused, and said, until a person or
//! a build says that they are to go.

use std::fs;
use std::process::Command;

use crate::support::server::countersign;
use crate::support::upstream::{self, Upstream};
use crate::support::{Instance, License, Server, eventually};

const REFUSED: &str = "the index lacks 1 of the 2 releases that were in force: acme-forms 1.3.0";

const HINT: &str = "publish the newer releases again; or, if they are to go, withhold them in the plugin's entry and run \
    `countersign build`; or restart once with `countersign serve --accept-dropped-releases`";

/// An instance with 1.3.0 and 1.2.0, and its license.
fn two() -> (Instance, License) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.publish_all("releases", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    (instance, license)
}

/// What another pipeline puts there, which has never seen 1.3.0.
fn publish_older(instance: &Instance) {
    instance.publish_in("older", "1.2.0");
    // The list goes first: a server that reads between the two must not find the new index with a list of what it lacks.
    fs::remove_file(instance.file("releases/removed.json")).unwrap();
    fs::rename(instance.file("older/index.json"), instance.file("releases/index.json")).unwrap();
    fs::remove_dir_all(instance.file("older")).unwrap();
}

fn offered(server: &Server, license: &License) -> String {
    let answer = server.updates(license, "a.com", "");
    match answer.status {
        200 => answer.json()["version"].as_str().unwrap_or("{}").to_owned(),
        status => status.to_string(),
    }
}

fn doctor(instance: &Instance) -> (Option<i32>, String) {
    let mut doctor = countersign(instance);
    let output = doctor.arg("doctor").output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn an_older_index_takes_no_release_away_and_the_server_says_so() {
    let (instance, license) = two();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(offered(&server, &license), "1.3.0");
    publish_older(&instance);
    eventually("it is refused", || server.part("catalog")["state"] == "stale");
    assert_eq!(server.part("catalog")["detail"], format!("{REFUSED}; {HINT}"));
    assert_eq!(offered(&server, &license), "1.3.0");
    assert_eq!(
        server.metric("countersign_part_state{part=\"catalog\",state=\"stale\"}"),
        Some(1.0)
    );
    assert!(server.metric("countersign_reloads_total{part=\"catalog\",result=\"failed\"}") > Some(0.0));
    assert!(server.log().contains(REFUSED), "{}", server.log());
    let (code, text) = doctor(&instance);
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains(&format!("a server takes none of it: {REFUSED}")),
        "{text}"
    );
    // `systemctl reload` says nothing that a person has not said.
    let refused = server.log().matches(REFUSED).count();
    server.signal("HUP");
    eventually("SIGHUP", || server.log().matches(REFUSED).count() > refused);
    assert_eq!(offered(&server, &license), "1.3.0");
    instance.publish_all(
        "releases",
        "1.4.0",
        &[("1.4.0", false), ("1.3.0", false), ("1.2.0", false)],
    );
    eventually("the newer one", || {
        offered(&server, &license) == "1.4.0" && server.part("catalog")["state"] == "ok"
    });
}

#[test]
fn an_older_index_with_the_list_of_its_age_takes_no_release_away() {
    let (instance, license) = two();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    instance.publish("1.2.0");
    eventually("1.3.0 is removed", || offered(&server, &license) == "1.2.0");
    let files = ["releases/removed.json", "releases/index.json"];
    let old = files.map(|file| fs::read_to_string(instance.file(file)).unwrap());
    instance.publish_all("releases", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    eventually("1.3.0 is back", || offered(&server, &license) == "1.3.0");
    let new = files.map(|file| fs::read_to_string(instance.file(file)).unwrap());
    for (file, text) in files.into_iter().zip(&old) {
        instance.write(file, text);
    }
    eventually("it is refused", || server.part("catalog")["state"] == "stale");
    assert_eq!(server.part("catalog")["detail"], format!("{REFUSED}; {HINT}"));
    assert_eq!(offered(&server, &license), "1.3.0");
    assert!(server.stop().success());
    let server = Server::start(&instance);
    assert_eq!(
        server.part("catalog")["detail"],
        format!("{REFUSED}; {HINT}"),
        "and at a start"
    );
    assert!(server.stop().success());

    // Without the list, a start does not forget that it saw a newer one.
    instance.write(files[1], &new[1]);
    fs::remove_file(instance.file(files[0])).unwrap();
    let server = Server::start(&instance);
    assert_eq!(offered(&server, &license), "1.3.0");
    for (file, text) in files.into_iter().zip(&old) {
        instance.write(file, text);
    }
    eventually("it is refused again", || server.part("catalog")["state"] == "stale");
    assert_eq!(offered(&server, &license), "1.3.0");
}

#[test]
fn an_index_whose_latest_is_not_its_newest_release_takes_none_away() {
    let (instance, license) = two();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    for latest in ["\"1.2.0\"", "null"] {
        let index = fs::read_to_string(instance.file("releases/index.json")).unwrap();
        instance.write(
            "releases/index.json",
            &index.replace("\"latest\":\"1.3.0\"", &format!("\"latest\":{latest}")),
        );
        let reason = "index.json: the latest version of acme-forms is not the newest of its releases";
        eventually("it is refused", || {
            server.part("catalog")["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains(reason))
        });
        assert_eq!(offered(&server, &license), "1.3.0");
        instance.write("releases/index.json", &index);
        eventually("it is right", || server.part("catalog")["state"] == "ok");
    }
}

#[test]
fn a_withheld_release_goes_at_once() {
    let (instance, license) = two();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let entry = fs::read_to_string(instance.file("registry/plugins/acme-forms.toml")).unwrap();
    instance.write(
        "registry/plugins/acme-forms.toml",
        &format!("{entry}withhold = [\"1.3\"]\n"),
    );
    instance.write_licenses(&[license.toml("grace_period_hours = 9")]);
    eventually("the entry", || {
        server.validate(&license, "a.com").json()["grace_period_hours"] == 9
    });
    publish_older(&instance);
    eventually("it is gone", || {
        offered(&server, &license) == "1.2.0" && server.part("catalog")["state"] == "ok"
    });
}

#[test]
fn a_removal_that_a_build_accepted_reaches_the_server_without_a_further_step() {
    let upstream = Upstream::with_release("1.2.0");
    upstream.release("1.3.0");
    let instance = upstream::instance(&format!("file://{}", upstream.repository().display()));
    let entry = fs::read_to_string(instance.file("registry/plugins/acme-forms.toml")).unwrap();
    instance.write(
        "registry/plugins/acme-forms.toml",
        &format!("module = \"forms\"\n{entry}"),
    );
    let license = License::new();
    instance.write_licenses(&[license.toml("")]);
    upstream::assert_builds(&mut upstream::build(&instance));
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(offered(&server, &license), "1.3.0");
    upstream.git(&["tag", "--delete", "1.3.0"]);
    let problem = "a build would remove 1 of 2 published releases: 1.3.0; if you mean it, run `countersign build --accept-removed`";
    upstream::assert_keeps(&instance, &mut upstream::careful_build(&instance), problem);
    upstream::assert_builds(&mut upstream::build(&instance));
    eventually("it is gone", || {
        offered(&server, &license) == "1.2.0" && server.part("catalog")["state"] == "ok"
    });
}

#[test]
fn a_clone_of_one_tag_at_depth_1_takes_no_release_back() {
    let upstream = Upstream::with_release("1.2.0");
    upstream.release("1.3.0");
    let instance = upstream::instance(&format!("file://{}", upstream.repository().display()));
    upstream::assert_builds(&mut upstream::build(&instance));
    let clone = instance.file("clone");
    let address = format!("file://{}", upstream.repository().display());
    let cloned = Command::new("git")
        .args(["clone", "--quiet", "--depth", "1", "--branch", "1.3.0", &address])
        .arg(&clone)
        .status();
    assert!(cloned.unwrap().success());
    let entry = fs::read_to_string(instance.file("registry/plugins/acme-forms.toml")).unwrap();
    let entry = entry.replace(&address, clone.to_str().unwrap());
    instance.write("registry/plugins/acme-forms.toml", &entry);
    let mut build = upstream::careful_build(&instance);
    build.env("COUNTERSIGN_ALLOWED_GIT_HOSTS", "file://");
    let expected = "the clone is shallow and lacks 1 tag of published releases (1.2.0)";
    upstream::assert_keeps(&instance, &mut build, expected);
}

#[test]
fn a_start_with_an_older_index_offers_nothing_until_the_command_line_accepts_it_once() {
    let (instance, license) = two();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert!(server.stop().success());
    publish_older(&instance);
    // Each time: what a start refuses is not in force.
    for _ in 0..2 {
        let server = Server::start(&instance);
        assert_eq!(server.validate(&license, "a.com").code(), "ok", "validations go on");
        assert_eq!(offered(&server, &license), "{}");
        assert_eq!(server.part("catalog")["state"], "failing");
        assert_eq!(server.part("catalog")["detail"], format!("{REFUSED}; {HINT}"));
        assert!(server.log().contains(REFUSED), "{}", server.log());
        assert!(server.stop().success());
    }
    let server = Server::start_with(&instance, &["--accept-dropped-releases"]);
    assert!(server.log().contains("accepted because of --accept-dropped-releases"));
    assert_eq!(offered(&server, &license), "1.2.0");
    assert!(server.stop().success());
    let server = Server::start(&instance);
    assert_eq!(offered(&server, &license), "1.2.0", "it is in force now");
}

#[test]
fn what_the_command_line_accepts_is_a_new_start_for_lists_of_removed_releases() {
    let (instance, license) = two();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert!(server.stop().success());
    // A build whose clock was wrong wrote it, and its folder is lost.
    instance.write(
        "releases/removed.json",
        "{\"time\":\"2099-01-01T00:00:00Z\",\"releases\":{}}\n",
    );
    assert!(Server::start(&instance).stop().success());
    publish_older(&instance);
    let server = Server::start_with(&instance, &["--accept-dropped-releases"]);
    assert_eq!(offered(&server, &license), "1.2.0");
    instance.publish_all("releases", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    eventually("1.3.0 is back", || offered(&server, &license) == "1.3.0");
    instance.publish("1.2.0");
    eventually("a build removes it", || offered(&server, &license) == "1.2.0");
}

#[test]
fn a_start_that_refused_an_index_takes_the_right_one_when_it_comes() {
    let (instance, license) = two();
    assert!(Server::start(&instance).stop().success());
    publish_older(&instance);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    // No index is no better than an older one.
    fs::remove_file(instance.file("releases/index.json")).unwrap();
    eventually("it is looked at", || {
        server.part("catalog")["detail"]
            .as_str()
            .is_some_and(|detail| detail.starts_with("the index lacks 2 of the 2 releases"))
    });
    assert_eq!(server.part("catalog")["state"], "failing");
    instance.publish_all("releases", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    eventually("it is right", || offered(&server, &license) == "1.3.0");
}
