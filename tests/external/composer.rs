//! The real Composer beside a server with packages: require, install from a lock file, update, and what it says where it gets nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use countersign_model::license_key::LicenseKey;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::history::make_repository;
use crate::support::instance::shared_keys;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server};

const SITE: &str = "shop.example";

/// A project of an agency.
struct Project {
    folder: TempDir,
    server: String,
}

impl Project {
    fn new(server: &Server) -> Self {
        let project = Self {
            folder: TempDir::new().unwrap(),
            server: format!("http://{}", server.address),
        };
        let composer = json!({
            "repositories": [
                { "type": "composer", "url": format!("{}/composer", project.server) },
                { "packagist.org": false },
            ],
            // It is on packagist.org, which is not asked here.
            "replace": { "composer/installers": "*" },
            "config": { "secure-http": false },
        });
        fs::write(project.file("composer.json"), composer.to_string()).unwrap();
        project
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn sign_in(&self, user: &str, site: &str) {
        let host = self.server.trim_start_matches("http://");
        let auth = json!({ "http-basic": { host: { "username": user, "password": site } } });
        fs::write(self.file("auth.json"), auth.to_string()).unwrap();
    }

    /// Runs Composer; returns whether it worked, and what it said.
    fn composer(&self, arguments: &[&str]) -> (bool, String) {
        let home = self.file(".composer");
        let output = Command::new("composer")
            .args(arguments)
            .args(["--no-interaction", "--no-ansi"])
            .current_dir(self.folder.path())
            .env("COMPOSER_HOME", &home)
            .env("COMPOSER_CACHE_DIR", home.join("cache"))
            .env("COMPOSER_ALLOW_SUPERUSER", "1")
            .env("NO_PROXY", "*")
            .output()
            .expect("composer: run `make tools`");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), said.concat())
    }

    fn works(&self, arguments: &[&str]) -> String {
        let (worked, said) = self.composer(arguments);
        assert!(worked, "{arguments:?}: {said}");
        said
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let (worked, said) = self.composer(arguments);
        assert!(!worked, "{arguments:?}: {said}");
        said
    }

    /// The version in the header of the plugin that is installed.
    fn installed(&self) -> String {
        let plugin = fs::read_to_string(self.file("vendor/acme/acme-forms/acme-forms.php")).unwrap();
        let version = plugin.lines().find_map(|line| line.split_once("Version: "));
        version.unwrap().1.trim().to_owned()
    }

    /// Throws away what is installed and what Composer keeps, as another machine would begin.
    fn on_another_machine(&self) {
        let _ = fs::remove_dir_all(self.file("vendor"));
        let _ = fs::remove_dir_all(self.file(".composer"));
    }
}

/// Releases of three days: the 20th, 21st and 22nd of November 2026, and a beta of the 23rd.
fn history() -> String {
    ["1.0.0", "1.1.0", "1.2.0", "1.3.0-beta.1"]
        .map(|version| {
            format!(
                ">>> write acme-forms.php\n<?php\n/*\n * Plugin Name: Acme Forms\n * Version: {version}\n * Requires PHP: 7.4\n */\n\
                 >>> tag {version}\n"
            )
        })
        .concat()
}

fn entry(instance: &Instance, more: &str) {
    let text = format!("module = \"forms\"\nrepository = \"../../plugin.git\"\n{more}\n");
    instance.write("registry/plugins/acme-forms.toml", &text);
}

fn run(instance: &Instance, arguments: &[&str]) -> String {
    let output = countersign(instance).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn build(instance: &Instance) {
    run(instance, &["build"]);
}

fn hosting(licenses: &[String], more: &str) -> Instance {
    let instance = Instance::empty();
    entry(&instance, more);
    instance.write_licenses(licenses);
    instance.write_key(&shared_keys().private);
    instance.write_issuing_secrets();
    instance.write("public/index.html", "<title>Acme</title>\n");
    run(&instance, &["keys", "generate", "--downloads"]);
    make_repository(&history(), &instance.file("plugin.git"));
    build(&instance);
    instance
}

fn serve(instance: &Instance) -> Server {
    Server::start_with(instance, &["--composer", "acme"])
}

fn lock(project: &Project) -> Value {
    serde_json::from_str(&fs::read_to_string(project.file("composer.lock")).unwrap()).unwrap()
}

#[test]
fn composer_requires_installs_from_its_lock_file_and_updates() {
    let license = License::new();
    let instance = hosting(&[license.toml("")], "");
    let server = serve(&instance);
    assert_eq!(server.validate(&license, SITE).code(), "ok");
    let project = Project::new(&server);
    project.sign_in(&license.key, SITE);

    project.works(&["require", "acme/acme-forms:~1.1.0"]);
    assert_eq!(project.installed(), "1.1.0");
    let locked = lock(&project);
    let package = &locked["packages"][0];
    assert_eq!(package["type"], "wordpress-plugin");
    assert_eq!(package["require"]["php"], ">=7.4");
    assert_eq!(package["time"], "2026-11-21T10:17:03+00:00");
    assert_eq!(package["dist"]["shasum"].as_str().unwrap().len(), 40);
    let text = locked.to_string();
    assert!(!text.contains(&license.key), "the key is in no lock file");

    // The bytes are the same for another machine.
    project.on_another_machine();
    project.works(&["install"]);
    assert_eq!(project.installed(), "1.1.0");
    assert_eq!(lock(&project), locked);

    project.works(&["require", "acme/acme-forms:^1.0"]);
    assert_eq!(project.installed(), "1.2.0", "a beta is no stable release");

    // What the vendor takes back can be neither found nor installed.
    entry(&instance, "withhold = [\"1.2.0\"]");
    build(&instance);
    crate::support::eventually("the release is withheld", || {
        server.updates(&license, SITE, "").json()["version"] == "1.1.0"
    });
    project.on_another_machine();
    let said = project.fails(&["install"]);
    assert!(said.contains("acme-forms"), "{said}");
    project.works(&["update"]);
    assert_eq!(project.installed(), "1.1.0");
}

#[test]
fn betas_are_for_licenses_that_may_have_them_and_for_projects_that_want_them() {
    let listed = License::new();
    let other = License::new();
    let tables = [listed.toml("channels = [\"beta\"]"), other.toml("")];
    let instance = hosting(&tables, "[channels]\nbeta = \"listed\"");
    let server = serve(&instance);
    for (license, expected) in [(&listed, "1.3.0-beta.1"), (&other, "1.2.0")] {
        server.validate(license, SITE);
        let project = Project::new(&server);
        project.sign_in(&license.key, SITE);
        project.works(&["require", "acme/acme-forms:^1.0@beta"]);
        assert_eq!(project.installed(), expected);
    }
}

#[test]
fn a_token_keeps_the_key_out_of_ci_and_can_be_revoked() {
    let instance = hosting(&["# none\n".to_owned()], "");
    let key = run(
        &instance,
        &["license", "issue", "--module", "forms", "--expires", "never"],
    );
    let license = License {
        id: key.trim().parse::<LicenseKey>().unwrap().id().to_string(),
        key: key.trim().to_owned(),
    };
    let server = serve(&instance);
    server.validate(&license, SITE);
    let token = |more: &[&str]| {
        let arguments = [&["license", "composer-token", &license.id[..12]], more].concat();
        run(&instance, &arguments).trim().to_owned()
    };
    let first = token(&[]);
    assert!(first.starts_with("c1-"), "{first}");
    let project = Project::new(&server);
    project.sign_in(&first, SITE);
    project.works(&["require", "acme/acme-forms"]);
    let locked = lock(&project);

    // Another token takes its place, and the packages are the same.
    let second = token(&[]);
    project.on_another_machine();
    let said = project.fails(&["install"]);
    assert!(said.contains("401"), "{said}");
    project.sign_in(&second, SITE);
    project.works(&["install"]);
    assert_eq!(lock(&project), locked);

    token(&["--revoke"]);
    project.on_another_machine();
    project.fails(&["install"]);
    let log = server.log();
    assert!(!log.contains(&first) && !log.contains(&second) && !log.contains(&license.key));
}

#[test]
fn an_expired_license_installs_what_was_released_before_if_the_entry_says_so() {
    let license = License::new();
    let declared = |expires: &str| license.toml_with(expires, "", "forms = []");
    let instance = hosting(&[declared("2099-12-31")], "");
    let server = serve(&instance);
    server.validate(&license, SITE);
    let project = Project::new(&server);
    project.sign_in(&license.key, SITE);
    project.works(&["require", "acme/acme-forms:1.1.0"]);
    let locked = lock(&project);

    instance.write_licenses(&[declared("2026-11-21")]);
    crate::support::eventually("the license has expired", || {
        server.updates(&license, SITE, "").code() == "license_expired"
    });
    project.on_another_machine();
    let said = project.fails(&["install"]);
    assert!(said.contains("expired"), "{said}");

    entry(&instance, "[composer]\nafter_expiry = \"earlier\"");
    crate::support::eventually("a lock file can be installed", || project.composer(&["install"]).0);
    assert_eq!((project.installed(), lock(&project)), ("1.1.0".to_owned(), locked));
    // The release of the day after is not for it.
    project.works(&["require", "acme/acme-forms:^1.0"]);
    assert_eq!(project.installed(), "1.1.0");
    let said = project.fails(&["require", "acme/acme-forms:1.2.0"]);
    assert!(said.contains("1.2.0"), "{said}");
}

#[test]
fn whoever_has_no_seat_or_a_wrong_key_is_told_once_and_why() {
    let license = License::new();
    let instance = hosting(&[license.toml("")], "");
    let server = serve(&instance);
    let project = Project::new(&server);

    project.sign_in(&license.key, SITE);
    let said = project.fails(&["require", "acme/acme-forms"]);
    assert!(said.contains("not bound") || said.contains("validated"), "{said}");

    server.validate(&license, SITE);
    project.works(&["require", "acme/acme-forms"]);
    run(&instance, &["license", "release", &license.id[..12]]);
    project.on_another_machine();
    project.fails(&["install"]);
    server.validate(&license, "elsewhere.example");
    let said = project.fails(&["install"]);
    assert!(said.contains("elsewhere") || said.contains("site"), "{said}");

    let wrong = License::new();
    project.sign_in(&wrong.key, SITE);
    let before = server.metric("countersign_requests_total{code=\"unknown_license\",operation=\"composer\"}");
    let said = project.fails(&["update"]);
    assert!(said.contains("401"), "{said}");
    let after = server.metric("countersign_requests_total{code=\"unknown_license\",operation=\"composer\"}");
    assert!(
        after.unwrap_or(0.0) - before.unwrap_or(0.0) <= 2.0,
        "{before:?} {after:?}"
    );

    fs::remove_file(project.file("auth.json")).unwrap();
    let said = project.fails(&["update"]);
    assert!(said.contains("401"), "{said}");
    assert!(Path::new(&project.file("composer.lock")).exists());
}
