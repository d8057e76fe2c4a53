//! The license key appears in no log, file, error, metric or body: one key is sent everywhere and searched for
//! everywhere.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::instance::question;
use crate::support::server::{countersign, updates};
use crate::support::{Instance, License, Server, get, request};

/// The texts that would give the key away: as it is written, without dashes, in lower case, and its random part.
fn traces(license: &License) -> Vec<String> {
    let bare = license.key.replace('-', "");
    vec![
        license.key.clone(),
        license.key.to_lowercase(),
        bare.to_lowercase(),
        bare[..20].to_owned(),
        bare,
    ]
}

fn assert_clean(place: &str, bytes: &[u8], licenses: &[&License]) {
    for trace in licenses.iter().flat_map(|license| traces(license)) {
        let found = bytes.windows(trace.len()).any(|window| window == trace.as_bytes());
        assert!(
            !found,
            "a license key is in {place}: {}",
            String::from_utf8_lossy(bytes)
        );
    }
}

fn assert_no_file_has_it(folder: &Path, licenses: &[&License]) {
    let mut looked_at = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_clean(&path.display().to_string(), &fs::read(&path).unwrap(), licenses);
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 8, "the store's files too");
}

#[test]
fn no_route_log_or_file_has_a_license_key() {
    let all: Vec<License> = (0..3).map(|_| License::new()).collect();
    let [good, expired, unknown] = &all[..] else {
        unreachable!()
    };
    let canaries = [good, expired, unknown];
    let instance = Instance::with_licenses(&[good.toml(""), expired.toml_with("2001-01-01", "", "forms = []")]);
    let server = Server::start_with(&instance, &["--request-timeout-seconds", "1"]);
    let address = server.address;
    let mut bodies = Vec::new();
    for license in canaries {
        let key = &license.key;
        for question in [
            question(license, "a.com"),
            question(license, "b.com"),
            question(license, "ftp://a.com"),
            json!({ "license_key": key }),
            json!({ "license_key": [key], "site_url": "a.com" }),
            json!({ "license_key": { key: key }, "site_url": key }),
            json!({ "license_key": key, "site_url": "a.com", "build_id": key }),
            json!({ "license_key": key, "site_url": "a.com", "plugin_version": key }),
            json!({ "license_key": key, "site_url": "a.com", "plugin_version": format!("1.0-{}", key.to_lowercase()) }),
            json!({ "license_key": format!("{}U", &key[..28]), "site_url": "a.com" }),
            json!({ "license_key": format!("{key}{key}{key}{key}{key}"), "site_url": "a.com" }),
            json!([key]),
        ] {
            bodies.push(server.ask(&question));
        }
        for raw in [
            format!("{{\"license_key\":\"{key}\",\"license_key\":\"{key}\"}}"),
            key.clone(),
            format!("{{\"{key}\""),
        ] {
            bodies.push(request(
                address,
                "POST",
                "/api/v1/validate-license",
                &[],
                raw.as_bytes(),
            ));
            bodies.push(request(
                address,
                "POST",
                "/api/v1/validate-license",
                &[("Content-Type", "text/plain")],
                raw.as_bytes(),
            ));
        }
        let targets =
            ["acme-forms", "acme-maps", "acme-bare", "nothing", key].map(|slug| updates(slug, license, "a.com", ""));
        for target in targets.iter().map(String::as_str).chain([
            format!("/{key}").as_str(),
            format!("/keys/{key}.pem").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&license_key={key}").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url={key}@").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url=a.com&build_id={key}").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url=a.com&current_version={key}").as_str(),
            format!("/api/v1/updates/acme-forms?license_key={key}&site_url={key}").as_str(),
            format!("/index.html?license_key={key}").as_str(),
            format!("/index.html?license_key={key}&{}", "x".repeat(4096)).as_str(),
        ]) {
            bodies.push(get(address, target));
            bodies.push(request(
                address,
                "PUT",
                target,
                &[("Authorization", &format!("License {key}"))],
                b"",
            ));
            bodies.push(request(
                address,
                "GET",
                target,
                &[("Authorization", &format!("License {key}"))],
                b"",
            ));
            bodies.push(request(
                address,
                "GET",
                target,
                &[("X-Key", &format!("{key}{}", "x".repeat(8192)))],
                b"",
            ));
        }
    }
    assert!(bodies.len() > 100);
    for response in &bodies {
        assert_clean("an answer", &response.body, &canaries);
        assert_clean(
            "an answer's headers",
            format!("{:?}", response.headers).as_bytes(),
            &canaries,
        );
    }
    for site_url in [good.key.clone(), format!("https://{}.example", good.key)] {
        let refused = server.ask(&json!({ "license_key": good.key, "site_url": site_url }));
        assert_eq!(refused.json()["reason"], "license_key");
        assert_clean("a refused site", &refused.body, &canaries);
    }
    let broken = format!("{0} = 1\n[[license]]\nid = \"{0}\"\n[{0}]\n", good.key);
    instance.write("registry/plugins/broken.toml", &broken);
    crate::support::eventually("the reload is logged", std::time::Duration::from_secs(3), || {
        server.log().contains("not reloaded")
    });
    for target in ["/readyz", "/metrics"] {
        for target in [
            target.to_owned(),
            format!("{target}?license_key={0}&{0}", good.key),
            format!("{target}/{}", good.key),
        ] {
            let response = request(server.admin, "GET", &target, &[("X-Key", &good.key)], b"");
            assert_clean(&target, &response.body, &canaries);
            assert_clean(&target, format!("{:?}", response.headers).as_bytes(), &canaries);
        }
    }
    let metrics = get(server.admin, "/metrics").text();
    for secret in [&good.id[..12], &unknown.id[..12], "a.com", "127.0.0.1", "acme"] {
        assert!(!metrics.contains(secret), "a label holds what a client sends: {secret}");
    }
    fs::remove_file(instance.file("registry/plugins/broken.toml")).unwrap();
    let log = server.log();
    assert!(
        log.contains("validated") && log.contains(&good.id[..12]),
        "the log names the license by its id"
    );
    assert_clean("the log", log.as_bytes(), &canaries);
    server.stop();
    assert_no_file_has_it(instance.path(), &canaries);
}

#[test]
fn no_command_prints_or_stores_a_license_key_but_the_one_that_issues_it() {
    let all: Vec<License> = (0..2).map(|_| License::new()).collect();
    let [good, unknown] = &all[..] else { unreachable!() };
    let canaries = [good, unknown];
    let instance = Instance::with_licenses(&[good.toml("")]);
    let server = Server::start(&instance);
    let statement = server.validate(good, "a.com");
    server.stop();
    fs::write(instance.file("statement.json"), &statement.body).unwrap();
    let printed = |arguments: &[&str]| {
        let output = countersign(&instance)
            .args(arguments)
            .env("RUST_LOG", "trace")
            .env("COUNTERSIGN_LOG", "trace")
            .output()
            .unwrap();
        assert_clean(&format!("{} (stdout)", arguments[0]), &output.stdout, &canaries);
        assert_clean(&format!("{} (stderr)", arguments[0]), &output.stderr, &canaries);
        output
    };
    for key in canaries.map(|license| license.key.as_str()) {
        let mistyped = format!("{}U", &key[..28]);
        for key in [key, &mistyped] {
            for arguments in [
                &["license", "show", key][..],
                &["license", "show", key, "--json"],
                &["license", "renew", key, "--expires", "2098-01-01"],
                &["license", "renew", key, "--expires", "tomorrow"],
                &["license", "release", key, "--host", "a.com"],
                &["license", "release", key, "--host", "no host"],
                &["license", "release", key, "--all"],
                &["license", "suspend", key],
                &["license", "suspend", key],
                &["license", "resume", key],
                &["license", "revoke", key],
                &["license", "resume", key],
                &["license", "list", "--module", key],
                &["license", "issue", "--module", "forms", "--note", "x", "--expires", key],
                &["license", "issue", "--module", "forms", &format!("--expires={key}")],
                &["license", "show", "0123456789abcdef", key],
                &["build", "--plugin", key],
                &["verify", key, "--key", key],
                &["verify", "statement.json", "--key", key],
            ] {
                let place = arguments[..2].join(" ");
                let output = printed(arguments);
                assert_ne!(output.status.code(), Some(101), "{place} panicked");
            }
        }
    }
    printed(&["license", "list"]);
    printed(&["license", "list", "--json"]);
    printed(&["keys", "list"]);
    printed(&["keys", "publish"]);
    assert_no_file_has_it(instance.path(), &canaries);

    let issued = countersign(&instance)
        .args([
            "license",
            "issue",
            "--module",
            "forms",
            "--expires",
            "2099-01-01",
            "--json",
        ])
        .output()
        .unwrap();
    let issued: serde_json::Value = serde_json::from_slice(&issued.stdout).unwrap();
    let issued = License {
        key: issued["license_key"].as_str().unwrap().to_owned(),
        id: issued["id"].as_str().unwrap().to_owned(),
    };
    assert_no_file_has_it(instance.path(), &[&issued]);
    let listed = printed(&["license", "show", &issued.id]);
    assert_clean("license show", &listed.stdout, &[&issued]);
}
