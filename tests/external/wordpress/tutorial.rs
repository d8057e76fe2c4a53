//! The steps of docs/wordpress.md, run as written, from nothing to an update in WordPress.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::front::Front;
use super::site::{CORES, Core, Site};
use super::{ACTIVE, HOST};
use crate::support::{Server, eventually};

/// The shell steps of the page, in their order, each with the folder that the one before ended in.
fn steps() -> Vec<String> {
    let page = include_str!("../../../docs/wordpress.md");
    let blocks = page.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_step_of_the_page_works_as_it_is_written() {
    CORES.into_iter().for_each(follow);
}

fn follow(core: Core) {
    let folder = TempDir::new().unwrap();
    let front = Front::new();
    // The tests' own port replaces the page's fixed one.
    let server_port = format!("127.0.0.1:{}", front.address.port());
    let run = |steps: &[String]| {
        let script = steps.concat().replace("127.0.0.1:8080", &server_port);
        let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let path = format!(
            "{}:{}",
            program.parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        let mut shell = Command::new("bash");
        shell
            .args(["-euc", &script])
            .current_dir(folder.path())
            .env("PATH", path);
        shell
            .env("COUNTERSIGN", env!("CARGO_MANIFEST_DIR"))
            .env("NO_COLOR", "1");
        for (name, value) in [("NAME", "Ada"), ("EMAIL", "ada@example.com")] {
            shell
                .env(format!("GIT_AUTHOR_{name}"), value)
                .env(format!("GIT_COMMITTER_{name}"), value);
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let package = |version: &str| {
        let name = format!("server/releases/acme-forms/{version}.zip");
        fs::read(folder.path().join(name)).unwrap()
    };
    let steps = steps();
    let (first, again) = steps.split_at(steps.len() - 1);
    let printed = run(first);
    let is_key = |word: &&str| word.len() == 29 && word.matches('-').count() == 4;
    let key = printed.split_whitespace().find(is_key).expect("a license key is shown");

    let server = Server::start_in(&folder.path().join("server"), &["--public-url", &front.url()]);
    front.forward_to(server.address);
    let mut site = Site::new(core, HOST, &front);
    site.install("acme-forms", &package("1.0.0"));
    assert_eq!(site.press("acme-forms", "activate", key).notices()[0], ACTIVE);
    let visit = site.visitor().get("/").text();
    assert!(visit.ends_with("Export"), "the feature is there: {visit}");

    let released: Value =
        serde_json::from_slice(&fs::read(folder.path().join("server/releases/index.json")).unwrap()).unwrap();
    assert_eq!(released["plugins"]["acme-forms"]["latest"], "1.0.0");
    run(&["cd server\n".to_owned(), again.concat()]);
    eventually("WordPress offers the release", || {
        site.pass(61);
        site.admin
            .get("/wp-admin/update-core.php?force-check=1")
            .text()
            .contains("Update to 1.1.0.")
    });
    assert_eq!(site.update_now()["success"], true);
    let copy = site.file("wp-content/plugins/acme-forms");
    let traced = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(["-C", &folder.path().join("server").display().to_string(), "trace"])
        .arg(copy)
        .output()
        .unwrap();
    let traced = String::from_utf8(traced.stdout).unwrap();
    assert!(traced.contains(HOST) && traced.contains("1.1.0"), "{traced}");
    assert_eq!(site.complaints(), [""; 0]);
}
