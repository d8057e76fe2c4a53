//! `countersign publish` beside a running server: what reaches sites, and what does not.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually};

fn publish(instance: &Instance, flags: &[&str]) -> Output {
    let mut command = countersign(instance);
    command.arg("publish").arg(instance.file("incoming")).args(flags);
    command.output().unwrap()
}

/// Publishes, and gives the report and what went to stderr.
#[track_caller]
fn report(instance: &Instance, exit: i32, flags: &[&str]) -> (Value, String) {
    let output = publish(instance, &[flags, &["--json"]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(exit), "{stderr}");
    let printed = match exit {
        0 | 1 => &output.stdout[..],
        _ => stderr.as_bytes(),
    };
    (serde_json::from_slice(printed).unwrap(), stderr)
}

fn offered(server: &Server, license: &License) -> String {
    let answer = server.updates(license, "a.com", "");
    answer.json()["version"].as_str().unwrap_or("{}").to_owned()
}

#[test]
fn a_server_offers_what_is_published_and_keeps_what_an_older_pipeline_lacks_until_a_person_says_so() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.publish("1.2.0");
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");

    let three = [("1.4.0", false), ("1.3.0", false), ("1.2.0", false)];
    instance.publish_all("incoming", "1.4.0", &three);
    let (planned, _) = report(&instance, 1, &["--check"]);
    assert_eq!(planned["added"][0]["version"], "1.4.0");
    assert_eq!(
        (&planned["unchanged"], offered(&server, &license).as_str()),
        (&1.into(), "1.2.0")
    );
    let output = publish(&instance, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = "acme-forms 1.4.0  added\nacme-forms 1.3.0  added\n\
        3 releases: 2 added, 0 changed, 0 removed, 0 restored, 1 unchanged\n";
    assert_eq!((output.status.code(), text.as_str()), (Some(0), expected));
    eventually("1.4.0", || offered(&server, &license) == "1.4.0");
    assert_eq!(report(&instance, 0, &["--check"]).0["differs"], false);

    instance.publish_in("incoming", "1.2.0");
    let before = fs::read(instance.file("releases/index.json")).unwrap();
    for flags in [&[][..], &["--check"]] {
        let (error, _) = report(&instance, 3, flags);
        let message = error["error"].as_str().unwrap();
        assert!(
            message.ends_with("lacks 2 published releases (acme-forms/1.4.0, acme-forms/1.3.0)"),
            "{message}"
        );
        let hint = "build with the newest registry and all tags (git fetch --tags); or, if you mean it, name each release: \
            --withdraw acme-forms/1.4.0";
        assert_eq!(error["hint"], hint);
    }
    assert_eq!(fs::read(instance.file("releases/index.json")).unwrap(), before);
    // What the registry withholds needs no flag.
    let entry = fs::read_to_string(instance.file("registry/plugins/acme-forms.toml")).unwrap();
    instance.write(
        "registry/plugins/acme-forms.toml",
        &format!("{entry}withhold = [\"1.4\"]\n"),
    );
    let (done, _) = report(&instance, 0, &["--withdraw", "acme-forms/1.3.0"]);
    assert_eq!(done["removed"].as_array().unwrap().len(), 2);
    eventually("they are gone", || {
        offered(&server, &license) == "1.2.0" && server.part("catalog")["state"] == "ok"
    });
    assert!(!instance.file("releases/acme-forms/1.4.0.json").exists());
}

#[test]
fn a_copy_that_is_under_way_is_refused_and_the_server_goes_on() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.publish("1.2.0");
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    instance.publish_all("incoming", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    let manifest = instance.file("incoming/acme-forms/1.3.0.json");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    let (error, _) = report(&instance, 3, &[]);
    assert_eq!(error["error"], "this folder cannot be published");
    let cause = error["caused_by"][0].as_str().unwrap();
    assert!(
        cause.ends_with("1.3.0.json: its SHA-256 is not the one in the index"),
        "{cause}"
    );
    assert_eq!(
        error["hint"],
        "let the copy end, or copy the folder again, and publish again"
    );
    fs::write(&manifest, &whole).unwrap();
    report(&instance, 0, &[]);
    eventually("1.3.0", || offered(&server, &license) == "1.3.0");
    assert_eq!(server.part("catalog")["state"], "ok");
}
