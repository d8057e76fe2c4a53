//! `countersign preview` without a browser: its output, its HTTP responses, and that it writes nothing.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::http::{Client, Response};
use crate::support::preview::{Preview, Workplace, header, print, readme};
use crate::support::{Instance, Server, eventually, get};

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The only plugin of the JSON document.
fn only(output: &Output) -> Value {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["plugins"].as_array().unwrap().len(), 1, "{document:#}");
    document["plugins"][0].clone()
}

impl Preview {
    pub fn get(&self, path: &str) -> Response {
        self.ask("GET", path, "localhost")
    }

    /// Asks under a name.
    pub fn ask(&self, method: &str, path: &str, host: &str) -> Response {
        let mut client = Client::connect(self.address);
        client
            .send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .unwrap();
        client.receive().unwrap()
    }
}

impl Workplace {
    /// Every file with its contents, and every link with what it says.
    pub fn everything(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                let content = match kind {
                    _ if kind.is_dir() => {
                        folders.push(entry.path());
                        Vec::new()
                    }
                    _ if kind.is_file() => fs::read(entry.path()).unwrap(),
                    _ => Vec::new(),
                };
                found.push((entry.path(), content));
            }
        }
        found.sort();
        found
    }
}

#[test]
fn uncommitted_edits_come_first_and_head_and_tags_can_be_asked_for() {
    let work = Workplace::new();
    for (version, pick, expected) in [
        (None, "working-tree", "1.3.0"),
        (Some("next"), "working-tree", "1.3.0"),
        (Some("head"), "head", "1.2.0"),
        (Some("1.1"), "", ""),
        (Some("1.1.0"), "1.1.0", "1.1.0"),
    ] {
        let arguments: Vec<&str> = ["--json"]
            .into_iter()
            .chain(version.into_iter().flat_map(|v| ["--version", v]))
            .collect();
        let printed = print(work.path(), &arguments);
        if expected.is_empty() {
            assert_eq!(printed.status.code(), Some(3));
            assert_eq!(
                only(&printed)["problems"][0],
                "there is no version 1.1; the latest are working-tree, head, 1.2.0, 1.1.0, 1.0.0"
            );
            continue;
        }
        assert_eq!(printed.status.code(), Some(0));
        let plugin = only(&printed);
        assert_eq!(
            (plugin["pick"].as_str(), plugin["manifest"]["version"].as_str()),
            (Some(pick), Some(expected))
        );
    }
}

#[test]
fn a_site_that_looks_runs_versions_that_begin_with_a_number() {
    let work = Workplace::new();
    for flag in ["--cms", "--php"] {
        let refused = print(work.path(), &[flag, "six"]);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(
            refused.status.code() == Some(2) && stderr.contains("expected a version such as 6.8"),
            "{stderr}"
        );
        assert_eq!(print(work.path(), &[flag, "8.2.7-1ubuntu3"]).status.code(), Some(0));
    }
}

#[test]
fn a_tagged_release_is_shown_as_it_is_published_and_the_next_one_with_what_it_changes() {
    let work = Workplace::new();
    let tagged = only(&print(work.path(), &["--json", "--version", "1.2.0"]));
    let published = fs::read(work.path().join("releases/acme-forms/1.2.0.json")).unwrap();
    assert_eq!(tagged["manifest"], serde_json::from_slice::<Value>(&published).unwrap());
    assert_eq!(tagged["published"]["differences"], Value::Array(vec![]));

    let text = stdout(&print(work.path(), &[]));
    for line in [
        "Acme Forms 1.3.0 (working tree, would be tagged 1.3.0)",
        "On a site with CMS 6.8, PHP 8.3 and 1.2.0 of it",
        "  There is a new version of Acme Forms available. View version 1.3.0 details.",
        "  answer: the manifest of 1.3.0. 1.2.0 is older than 1.3.0, the latest release.",
        "  answer today: {}. 1.2.0 is the latest release: no update.",
        "  - New: several forms on one page.",
        "Difference to 1.2.0 as published",
        "  new_version, tag, version",
        "    - 1.2.0",
        "    + 1.3.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn what_sites_get_by_the_state_of_their_license_follows_from_the_entry() {
    let work = Workplace::new();
    let states = |more: &str, current: &str| -> Vec<(String, Option<String>)> {
        let entry = format!("repository = \"../../acme-forms\"\n{more}");
        work.write("registry/plugins/acme-forms.toml", &entry);
        let plugin = only(&print(work.path(), &["--json", "--current", current]));
        let states = plugin["states"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        states
            .map(|answer| (text(&answer["state"]).unwrap(), text(&answer["version"])))
            .collect()
    };
    let rollout = "[rollout]\nsteps = [\"0h 10%\", \"24h 100%\"]\n";
    let security = "[security]\nreleases = [\"1.2.0\"]\nlines = \"major\"\n";
    for (more, current, expected) in [
        (
            String::new(),
            "1.1.0",
            &[("active", "1.3.0"), ("expired", ""), ("went_back", "1.2.0")][..],
        ),
        (
            String::new(),
            "1.3.0",
            &[("active", ""), ("expired", ""), ("went_back", "1.2.0")],
        ),
        (
            format!("[channels]\nrc = \"listed\"\n{rollout}"),
            "1.1.0",
            &[
                ("active", "1.3.0"),
                ("channel", "1.3.0"),
                ("held", "1.3.0"),
                ("held_other_client", "1.2.0"),
                ("expired", ""),
                ("went_back", "1.2.0"),
            ],
        ),
        // Nothing is between what it runs and what it waits for.
        (
            rollout.to_owned(),
            "1.2.0",
            &[
                ("active", "1.3.0"),
                ("held", "1.3.0"),
                ("held_other_client", ""),
                ("expired", ""),
                ("went_back", "1.2.0"),
            ],
        ),
        (
            format!("{rollout}others = \"offer\"\n"),
            "1.2.0",
            &[
                ("active", "1.3.0"),
                ("held", "1.3.0"),
                ("held_other_client", "1.3.0"),
                ("expired", ""),
                ("went_back", "1.2.0"),
            ],
        ),
        (
            format!("{rollout}hold = \"all\"\n"),
            "1.1.0",
            &[
                ("active", "1.3.0"),
                ("held", "1.2.0"),
                ("held_other_client", "1.2.0"),
                ("expired", ""),
                ("went_back", "1.2.0"),
            ],
        ),
        // It lacks a security release: nothing is held, and the end of its license withholds that one only by the entry's will.
        (
            format!("{rollout}{security}expired = \"deliver\"\n"),
            "1.1.0",
            &[
                ("active", "1.3.0"),
                ("held", "1.3.0"),
                ("expired", "1.2.0"),
                ("went_back", "1.2.0"),
            ],
        ),
        (
            format!("{security}expired = \"tell\"\n[back]\nallow = \"off\"\n"),
            "1.1.0",
            &[("active", "1.3.0"), ("expired", ""), ("went_back", "")],
        ),
    ] {
        let found = states(&more, current);
        let found: Vec<_> = found
            .iter()
            .map(|(state, version)| (state.as_str(), version.as_deref().unwrap_or_default()))
            .filter(|(state, _)| *state != "refused")
            .collect();
        assert_eq!(found, expected, "{more} {current}");
    }
    // The entry of the last case.
    let text = stdout(&print(work.path(), &["--current", "1.1.0"]));
    for line in [
        "By the state of the license, with 1.1.0 installed",
        "  active                                     1.3.0       The newest release that it may have.",
        "  expired                                    -           No update. It learns that 1.3.0 is there, and that it lacks \
         a security release.",
        "  went back from 1.3.0                       -           There is no release to which it may go back.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let page = Preview::start(work.path(), &[]).get("/?current=1.1.0").text();
    assert!(
        page.contains("id=\"states\"") && page.contains("lacks a security release."),
        "{page}"
    );
}

#[test]
fn a_site_that_is_not_offered_what_is_shown_is_said_to_be_so() {
    let work = Workplace::new();
    work.edit("2.0.0-beta.1", "* Rewritten.");
    let caveat = "  This site is offered nothing; this is what it would see if 2.0.0-beta.1 were the latest.";
    let text = stdout(&print(work.path(), &[]));
    assert!(
        text.contains(&format!("View version 2.0.0-beta.1 details.\n{caveat}\n")),
        "{text}"
    );
    assert_eq!(only(&print(work.path(), &["--json"]))["caveat"], caveat.trim());
    let page = Preview::start(work.path(), &[]).get("/").text();
    assert!(page.contains(&format!("id=\"caveat\">{}<", caveat.trim())), "{page}");
    assert!(!page.contains("<h3>Today"), "one answer, where both are the same");

    let old = stdout(&print(work.path(), &["--current", "1.1.0"]));
    assert!(old.contains("  This site is offered 1.2.0; this is what"), "{old}");
    work.git(&["commit", "--quiet", "--all", "--message", "beta"]);
    work.git(&["tag", "2.0.0-beta.1"]);
    let tagged = stdout(&print(work.path(), &[]));
    assert!(
        tagged.contains("Acme Forms 2.0.0-beta.1 (working tree, as tagged 2.0.0-beta.1)\n"),
        "{tagged}"
    );
}

#[test]
fn the_site_that_looks_decides_what_it_reads() {
    let work = Workplace::new();
    let seen = |arguments: &[&str]| stdout(&print(work.path(), arguments));
    let old = seen(&["--cms", "6.1", "--php", "7.4", "--current", "1.3.0"]);
    for line in [
        "  No update row: 1.3.0 is not newer than 1.3.0.",
        "  stop: It needs PHP 8.1 or newer, and this site runs PHP 7.4: it cannot be installed.",
        "  stop: It needs version 6.2 of the CMS or newer, and this site runs 6.1: it cannot be installed.",
        "  answer: {}. 1.3.0 is the latest release: no update.",
    ] {
        assert!(old.contains(line), "{line}\n{old}");
    }
    assert!(
        seen(&["--cms", "6.8.1"])
            .contains("  caution: Its author tested it up to 6.8, not with version 6.8.1 of the CMS.")
    );
    let none = seen(&["--current", ""]);
    assert!(
        none.contains("answer: the manifest of 1.3.0. The site sends no version"),
        "{none}"
    );
    assert!(seen(&["--current", "x"]).contains("\"x\" is not a version, so it is ignored"));
}

#[test]
fn what_the_build_warns_of_is_shown_with_file_and_line() {
    let work = Workplace::new();
    work.write("acme-forms/readme.txt", &readme("1.2.0", "* x").replace("6.8", "soon"));
    work.write("acme-forms/acme-forms.php", &header("1.2.0"));
    let text = stdout(&print(work.path(), &[]));
    for line in [
        "  readme.txt:2: \"soon\" is not a version such as 6.5 or 6.5.1",
        "  acme-forms.php:5: its version is already released; raise it in the header: 1.2.0",
        "  the CMS version it was tested with is missing (Tested up to)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn what_a_header_says_of_platforms_is_checked_as_the_readmes_is() {
    let work = Workplace::new();
    let junk = header("1.3.0")
        .replace("6.2", "WordPress 6")
        .replace("8.1", "seven\n * Tested up to: latest");
    work.write("acme-forms/acme-forms.php", &junk);
    let text = stdout(&print(work.path(), &[]));
    for line in [
        "On a site with CMS 6.8, PHP 8.3 and 1.2.0 of it",
        "  acme-forms.php:7: \"WordPress 6\" is read as 6, but WordPress compares the text itself: write 6",
        "  acme-forms.php:8: \"seven\" is not a version such as 6.5 or 6.5.1",
        "  acme-forms.php:9: \"latest\" is not a version such as 6.5 or 6.5.1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_repository_with_no_instance_is_previewed_and_what_is_assumed_is_said() {
    let work = Workplace::new();
    fs::remove_dir_all(work.path().join("registry")).unwrap();
    let without = print(work.path(), &[]);
    assert_eq!(without.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&without.stderr).contains("countersign preview PATH"));

    let output = print(work.path(), &["acme-forms"]);
    let assumed = String::from_utf8_lossy(&output.stderr);
    assert!(
        assumed.contains("assumed: the slug is acme-forms, the name of the folder\n"),
        "{assumed}"
    );
    let printed = stdout(&output);
    assert!(!printed.contains("assumed"), "{printed}");
    assert!(
        printed.contains("Acme Forms 1.3.0 (working tree, would be tagged 1.3.0)\n"),
        "{printed}"
    );

    work.write(
        "acme-forms/packages/small/small.php",
        &header("0.1").replace("Acme Forms", "Small"),
    );
    let output = print(work.path(), &["acme-forms/packages/small"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("assumed: the slug is small"));
    let below = stdout(&output);
    assert!(
        below.contains("Small 0.1 (working tree, would be tagged 0.1)\n"),
        "{below}"
    );

    let inside = stdout(&print(work.path(), &["acme-forms/.git"]));
    assert!(
        inside.contains("Acme Forms 1.3.0 (working tree, would be tagged 1.3.0)\n"),
        "{inside}"
    );
    let file = print(work.path(), &["acme-forms/readme.txt"]);
    assert_eq!(file.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&file.stderr).contains("acme-forms/readme.txt: not a folder"));

    fs::rename(work.repository(), work.path().join("ß")).unwrap();
    let nameless = print(work.path(), &["ß"]);
    let assumed = String::from_utf8_lossy(&nameless.stderr);
    assert!(
        assumed.contains("assumed: the slug is plugin, because the folder's name is not a slug\n"),
        "{assumed}"
    );

    let nowhere = print(work.path(), &["releases"]);
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("releases: not in a git repository"));
}

#[test]
fn links_pipes_and_files_over_their_limit_in_the_working_tree_are_not_read() {
    let work = Workplace::new();
    let repository = work.repository();
    let text = |version: &str| {
        let output = print(work.path(), &[]);
        assert!(!stdout(&output).contains("canary"), "{version}");
        stdout(&output)
    };
    work.write("secret.txt", &readme("1.3.0", "* canary"));
    fs::remove_file(repository.join("readme.txt")).unwrap();
    symlink("../secret.txt", repository.join("readme.txt")).unwrap();
    assert!(text("link").contains("readme.txt: links and submodules are not followed: readme.txt is a symbolic link"));

    fs::remove_file(repository.join("readme.txt")).unwrap();
    let pipe = Command::new("mkfifo")
        .arg(repository.join("readme.txt"))
        .status()
        .unwrap();
    assert!(pipe.success());
    assert!(
        text("pipe").contains("readme.txt: only files and folders are read: readme.txt is a pipe, socket or device")
    );

    fs::remove_file(repository.join("readme.txt")).unwrap();
    fs::write(repository.join("readme.txt"), "canary ".repeat(400_000)).unwrap();
    assert!(text("large").contains("readme.txt: too large: readme.txt has 2800000 bytes, at most 2097152 are read"));

    fs::remove_file(repository.join("acme-forms.php")).unwrap();
    symlink("/etc/passwd", repository.join("acme-forms.php")).unwrap();
    let refused = print(work.path(), &[]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(stdout(&refused).contains("would not be a release: acme-forms.php: links and submodules are not followed"));
}

#[test]
fn ignored_files_count_no_more_than_in_a_commit_and_new_ones_do() {
    let work = Workplace::new();
    work.write("acme-forms/.gitignore", "CHANGELOG.md\n");
    work.write("acme-forms/readme.txt", &readme("9.9", "* Another."));
    work.write("acme-forms/CHANGELOG.md", "## 1.3.0\n\n* Written in a file.\n");
    let changelog = || {
        only(&print(work.path(), &["--json"]))["manifest"]["changelog"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(changelog(), "");
    work.write("acme-forms/.gitignore", "\n");
    assert_eq!(changelog(), "- Written in a file.");
    // What is ignored and was added all the same is in every commit.
    work.git(&["add", "CHANGELOG.md"]);
    work.write("acme-forms/.gitignore", "CHANGELOG.md\n");
    assert_eq!(changelog(), "- Written in a file.");
}

#[test]
fn a_configuration_that_came_with_a_folder_points_the_preview_nowhere_else() {
    let work = Workplace::new();
    work.write("elsewhere/acme-forms.php", &header("6.6.6"));
    work.git(&[
        "config",
        "core.worktree",
        work.path().join("elsewhere").to_str().unwrap(),
    ]);
    let plugin = only(&print(work.path(), &["--json"]));
    assert_eq!(
        (plugin["pick"].as_str(), plugin["manifest"]["version"].as_str()),
        (Some("head"), Some("1.2.0"))
    );
}

#[test]
fn a_remote_repository_is_read_from_its_mirror_and_never_fetched() {
    let work = Workplace::new();
    let entry = format!(
        "repository = \"file://{}\"\ndownload_url = \"https://dl.example/{{version}}.zip\"\n",
        work.repository().display()
    );
    work.write("registry/plugins/acme-forms.toml", &entry);
    let never = print(work.path(), &[]);
    assert_eq!(never.status.code(), Some(3));
    assert!(
        stdout(&never).contains(": never fetched; a preview does not fetch: run `countersign build` once"),
        "{}",
        stdout(&never)
    );
    assert!(!work.path().join("cache").exists());

    let instance = work.path().to_str().unwrap();
    let built = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(["-C", instance, "build", "--allowed-git-hosts", "file://"])
        .output()
        .unwrap();
    assert!(built.status.success());
    work.git(&["tag", "--force", "1.4.0"]);
    let plugin = only(&print(work.path(), &["--json"]));
    assert_eq!(plugin["pick"], "1.2.0", "the tag that was made since is not fetched");
}

#[test]
fn the_package_is_shown_with_what_is_left_out_and_what_changed_since_the_published_one() {
    let work = Workplace::new();
    let entry = "repository = \"../../acme-forms\"\n[package]\nexclude = [\"*.map\"]\n";
    work.write("registry/plugins/acme-forms.toml", entry);
    let built = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(["-C", work.path().to_str().unwrap(), "build"])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    work.write("acme-forms/.gitattributes", "/tests export-ignore\n");
    for name in ["tests/a.php", "inc/new.php", "app.js.map"] {
        work.write(&format!("acme-forms/{name}"), "<?php");
    }
    let plugin = only(&print(work.path(), &["--json"]));
    let package = &plugin["package"];
    let names: Vec<_> = package["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| &file["name"])
        .collect();
    assert_eq!(names, ["acme-forms.php", "inc/new.php", "readme.txt"]);
    let left_out = serde_json::json!([
        { "name": ".gitattributes", "rule": ".git*" },
        { "name": "app.js.map", "rule": "exclude: *.map" },
        { "name": "tests/", "rule": "export-ignore in .gitattributes: /tests" },
    ]);
    assert_eq!(package["left_out"], left_out);
    let changes = package["changes"]["lines"].as_array().unwrap();
    let changes: Vec<_> = changes.iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(changes[0], "added inc/new.php, 5 bytes");
    // Of one length: the checksum tells.
    assert!(
        changes.iter().any(|line| line.starts_with("changed acme-forms.php, ")),
        "{changes:?}"
    );
    let text = stdout(&print(work.path(), &[]));
    for line in [
        "left out: tests/ (export-ignore in .gitattributes: /tests)",
        "added inc/new.php, 5 bytes",
        "in the folder acme-forms",
    ] {
        assert!(text.contains(line), "{text}");
    }
    std::os::unix::fs::symlink("/etc/passwd", work.repository().join("link")).unwrap();
    assert!(stdout(&print(work.path(), &[])).contains("cannot be packed: link is a symbolic link"));
    let page = Preview::start(work.path(), &[]);
    let page = page.get("/").text();
    for shown in [
        "link is a symbolic link",
        "export-ignore in .gitattributes: /tests",
        "added inc/new.php, 5 bytes",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
}

#[test]
fn nothing_is_written_whatever_is_looked_at() {
    let work = Workplace::new();
    work.write(
        "acme-forms/.wordpress-org/icon.svg",
        "<svg xmlns='http://www.w3.org/2000/svg'/>\n",
    );
    let before = work.everything();
    print(work.path(), &[]);
    print(work.path(), &["--json", "--version", "1.0.0"]);
    print(work.path(), &["acme-forms"]);
    let preview = Preview::start(work.path(), &[]);
    for path in [
        "/",
        "/plugins/acme-forms/head",
        "/plugins/acme-forms/1.0.0",
        "/art/acme-forms/icon.svg",
        "/mail",
        "/mail/1.html",
    ] {
        assert_eq!(preview.get(path).status, 200, "{path}");
    }
    assert_eq!(preview.stop(), Some(0));
    let changed: Vec<_> = work
        .everything()
        .into_iter()
        .filter(|file| !before.contains(file))
        .collect();
    assert_eq!(
        (changed.len(), work.everything().len()),
        (0, before.len()),
        "{changed:?}"
    );
}

#[test]
fn preview_has_none_of_the_servers_routes_and_the_server_none_of_the_previews() {
    let work = Workplace::new();
    let preview = Preview::start(work.path(), &[]);
    for path in [
        "/api/v1/validate-license",
        "/api/v1/updates/acme-forms",
        "/index.html",
        "/keys/key.pem",
        "/.well-known/jwks.json",
        "/releases/index.json",
        "/plugins/acme-forms/1.2.0/x",
        "/art/acme-forms/..%2F..%2Freadme.txt",
        "/art/acme-forms/readme.txt",
        "/assets/../mod.rs",
    ] {
        let answer = preview.get(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    assert_eq!(preview.ask("POST", "/api/v1/validate-license", "localhost").status, 405);

    let instance = Instance::new();
    let server = Server::start(&instance);
    for path in [
        "/plugins/acme-forms",
        "/plugins/acme-forms/1.2.0",
        "/events",
        "/assets/preview.css",
        "/art/acme-forms/icon.svg",
        "/mail",
    ] {
        assert_eq!(get(server.address, path).status, 404, "{path}");
    }
}

#[test]
fn only_this_machine_under_its_own_names_gets_an_answer() {
    let work = Workplace::new();
    let preview = Preview::start(work.path(), &[]);
    assert!(preview.address.ip().is_loopback());
    let port = preview.address.port();
    let asked = |host: &str| preview.ask("GET", "/", host).status;
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        "localhost".into(),
        "LOCALHOST".into(),
    ] {
        assert_eq!(asked(&host), 200, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "evil.example:80",
        "",
        "[::2]",
    ] {
        assert_eq!(asked(host), 421, "{host}");
    }
}

#[test]
fn every_answer_forbids_whatever_comes_from_elsewhere() {
    let work = Workplace::new();
    work.write(
        "acme-forms/.wordpress-org/icon.svg",
        "<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>\n",
    );
    let preview = Preview::start(work.path(), &[]);
    for path in [
        "/",
        "/plugins/acme-forms/head",
        "/assets/preview.js",
        "/nowhere",
        "/art/acme-forms/icon.svg",
        "/mail",
    ] {
        let answer = preview.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(
            !policy.contains("script-src 'unsafe") && !policy.contains("http"),
            "{path}: {policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
    let picture = preview.get("/art/acme-forms/icon.svg");
    assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
    assert!(picture.header("content-security-policy").unwrap().contains("sandbox"));
}

#[test]
fn without_a_script_links_and_forms_say_all_there_is_to_say() {
    let work = Workplace::new();
    let preview = Preview::start(work.path(), &[]);
    let page = preview
        .get("/plugins/acme-forms/1.1.0?cms=6.1&php=7.4&current=&tab=changelog")
        .text();
    for part in [
        "It needs version 6.2 of the CMS or newer, and this site runs 6.1",
        "<h1><bdi>Acme Forms</bdi> <span class=\"number\">1.1.0</span></h1>",
        "GET /api/v1/updates/acme-forms?site_url=https://site.example<",
        "href=\"/plugins/acme-forms/head?cms=6.1&#38;php=7.4&#38;current=&#38;tab=changelog\"",
        "href=\"?cms=6.1&#38;php=7.4&#38;current=&#38;tab=description#details\"",
        "id=\"panel-description\" aria-labelledby=\"tab-description\" tabindex=\"0\" hidden>",
        "<button class=\"plain\" id=\"apply\" type=\"submit\">",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn every_section_of_the_manifest_has_a_tab() {
    let work = Workplace::new();
    let more = "\n== Installation ==\nUpload it.\n\n== Frequently Asked Questions ==\n= Why? =\nBecause.\n";
    work.write("acme-forms/readme.txt", &(readme("1.2.0", "* x") + more));
    let preview = Preview::start(work.path(), &[]);
    let page = preview.get("/?tab=faq").text();
    let tabs: Vec<_> = page
        .split("data-tab=\"")
        .skip(1)
        .filter_map(|rest| rest.split(['>', '<']).nth(1))
        .collect();
    assert_eq!(tabs, ["Description", "Installation", "FAQ", "Changelog"]);
    let panel = |name: &str| {
        page.split(&format!("id=\"panel-{name}\""))
            .nth(1)
            .unwrap()
            .split("</div>")
            .next()
            .unwrap()
    };
    assert!(panel("installation").contains("Upload it.") && panel("installation").contains(" hidden>"));
    assert!(panel("faq").contains("Because.") && !panel("faq").contains(" hidden>"));

    // A version without such a section shows its description.
    let older = preview.get("/plugins/acme-forms/1.1.0?tab=faq").text();
    assert!(
        older.contains("aria-controls=\"panel-description\" aria-selected=\"true\"") && !older.contains("panel-faq")
    );
}

#[test]
fn a_file_that_is_no_entry_is_reported_and_the_others_are_previewed() {
    let work = Workplace::new();
    work.write("registry/plugins/Acme Maps.toml", "name = \"x\"\n");
    let printed = print(work.path(), &[]);
    assert_eq!(printed.status.code(), Some(3));
    let text = stdout(&printed);
    assert!(
        text.contains("registry/plugins/Acme Maps.toml: not a plugin entry"),
        "{text}"
    );
    assert!(text.contains("Acme Forms 1.3.0 (working tree"), "{text}");
}

#[test]
fn what_is_not_there_is_answered_with_404_and_names_are_read_in_any_case() {
    let work = Workplace::new();
    let preview = Preview::start(work.path(), &[]);
    for (path, status) in [
        ("/plugins/nothing", 404),
        ("/plugins/acme-forms/9.9.9", 404),
        ("/plugins/acme-forms/", 200),
        ("/plugins/acme-forms/HEAD", 200),
        ("/plugins/acme-forms/Working-Tree", 200),
        ("/plugins/acme-forms/Next", 200),
    ] {
        assert_eq!(preview.get(path).status, status, "{path}");
    }
    assert_eq!(
        only(&print(work.path(), &["--json", "--version", "HEAD"]))["pick"],
        "head"
    );
    fs::remove_file(work.path().join("registry/plugins/acme-forms.toml")).unwrap();
    let printed = stdout(&print(work.path(), &[]));
    assert_eq!(
        printed,
        "no plugins in registry/plugins; its README.md has an example to start from\n"
    );
}

#[test]
fn the_mail_to_a_buyer_is_shown_with_the_vendors_text_and_what_is_wrong_with_it() {
    let work = Workplace::new();
    let preview = Preview::start(work.path(), &[]);
    let page = preview.get("/mail").text();
    for part in [
        "Built-in texts",
        "<strong>Your license key</strong>",
        "An order of 3 licenses",
        "<strong>Your license keys</strong>",
        "acme-forms",
        "src=\"/mail/1.html\" title=\"HTML of the mail\" sandbox",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let html = preview.get("/mail/3.html");
    assert_eq!(html.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = html.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'") && policy.contains("sandbox"),
        "{policy}"
    );
    assert!(!policy.contains("script") && !policy.contains("http"), "{policy}");
    for path in ["/mail/2.html", "/mail/1", "/mail/license.txt", "/mail/"] {
        assert_eq!(preview.get(path).status, 404, "{path}");
    }

    work.write("registry/mail/license.txt", "Subject: Hi\n\n<b>{{ license.key }}</b>\n");
    let shows = |part: &str| {
        eventually(part, || preview.get("/mail").text().contains(part));
    };
    shows("<strong>Hi</strong>");
    let page = preview.get("/mail").text();
    assert!(page.contains("&#60;b&#62;"), "a text is no HTML: {page}");
    assert!(
        page.contains("The mail has no HTML") && page.contains("registry/mail</code>"),
        "{page}"
    );
    assert_eq!(preview.get("/mail/1.html").status, 404);

    work.write("registry/mail/license.txt", "Subject: Hi\n\n{{ licence.key }}\n");
    shows("license.txt:3: there is no &#34;licence.key&#34;");
    assert!(preview.get("/").text().contains("href=\"/mail\""));

    let alone = Preview::start(&work.repository(), &["."]);
    assert_eq!(alone.get("/mail").status, 404);
    assert!(!alone.get("/").text().contains("href=\"/mail\""));
}

#[test]
fn print_lists_the_tags_that_give_no_release_with_their_reasons() {
    let work = Workplace::new();
    for tag in ["nightly", "v1.3.O"] {
        work.git(&["tag", tag]);
    }
    let text = stdout(&print(work.path(), &[]));
    let lines = "\nSkipped tags\n  v1.3.O: not a version: it has a letter in place of a digit: did you mean 1.3.0?\n  nightly: the name is not a version";
    assert!(text.contains(lines), "{text}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&print(work.path(), &["--json"]))).unwrap();
    let skipped: Vec<_> = json["plugins"][0]["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| &tag["tag"])
        .collect();
    assert_eq!(skipped, ["v1.3.O", "nightly"]);
}

#[test]
fn open_pages_leave_connections_for_requests() {
    use std::io::{Read, Write};
    let work = Workplace::new();
    let preview = Preview::start(work.path(), &[]);
    let mut pages = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..50 {
        let mut page = std::net::TcpStream::connect(preview.address).unwrap();
        page.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut begun = [0; 12];
        page.read_exact(&mut begun).unwrap();
        statuses.push(String::from_utf8_lossy(&begun[9..]).into_owned());
        pages.push(page);
    }
    assert_eq!(statuses.iter().filter(|status| *status == "200").count(), 48);
    assert_eq!(statuses[48..], ["503", "503"]);
    assert_eq!(preview.get("/").status, 200);
}

#[test]
fn a_broken_index_is_reported_with_a_hint_and_no_answer_is_shown() {
    let work = Workplace::new();
    work.write("releases/index.json", "{");
    let printed = print(work.path(), &[]);
    assert_eq!(printed.status.code(), Some(3));
    let text = stdout(&printed);
    assert!(text.contains("index.json:1:1: not an index"), "{text}");
    assert!(
        text.contains("\nhint: restore it, or delete it and build everything\n"),
        "{text}"
    );
    let page = Preview::start(work.path(), &[]).get("/plugins/acme-forms/1.2.0").text();
    assert!(
        page.contains("Published: unknown") && page.contains("What is published cannot be read."),
        "{page}"
    );
}

#[test]
fn sigterm_ends_it_also_while_a_page_is_open() {
    use std::io::{Read, Write};
    let work = Workplace::new();
    let preview = Preview::start(work.path(), &[]);
    let mut page = std::net::TcpStream::connect(preview.address).unwrap();
    page.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut begun = [0; 256];
    assert!(page.read(&mut begun).unwrap() > 0);
    let asked = Instant::now();
    assert_eq!(preview.stop(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
}

/// What git prints for this input.
fn git_of(work: &Workplace, arguments: &[&str], input: &str) -> String {
    let mut git = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(arguments)
        .current_dir(work.repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_few_objects_that_stand_for_very_many_folders_are_an_error_that_names_the_limit() {
    let work = Workplace::new();
    // Hosted, so that its files are listed.
    work.write(
        "registry/plugins/acme-forms.toml",
        "repository = \"../../acme-forms\"\n",
    );
    work.git(&["add", "--all"]);
    work.git(&["commit", "--quiet", "--message", "1.3.0"]);
    let mut tree = git_of(&work, &["mktree"], "");
    for _ in 0..40 {
        let twice = ["a", "b"].map(|name| format!("040000 tree {tree}\t{name}\n"));
        tree = git_of(&work, &["mktree"], &twice.concat());
    }
    let root = git_of(&work, &["ls-tree", "HEAD"], "");
    let root = git_of(&work, &["mktree"], &format!("{root}\n040000 tree {tree}\td\n"));
    let commit = git_of(&work, &["commit-tree", &root, "-p", "HEAD", "-m", "Work"], "");
    work.git(&["update-ref", "HEAD", &commit]);
    let began = Instant::now();
    let output = print(work.path(), &["--plugin", "acme-forms", "--version", "head"]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        said.contains("262,144 files and folders"),
        "{:?}: {said}",
        output.status
    );
    // Unoptimised, on a busy machine; it took the whole time that a preview may take.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    let preview = Preview::start(work.path(), &[]);
    let page = preview.get("/").text();
    assert!(began.elapsed().as_secs() < 40, "{:?}", began.elapsed());
    assert!(page.contains("1.3.0"), "{page:.500}");
    assert_eq!(preview.stop(), Some(0));
}

#[test]
fn a_theme_is_shown_as_the_themes_screen_shows_it() {
    let work = Workplace::new();
    let style = "/*\nTheme Name: Acme Shop\nTheme URI: https://acme.example/shop\nVersion: 1.3.0\nRequires at least: 6.5\n\
                 Requires PHP: 8.1\nRequires Plugins: acme-forms\n*/\n";
    work.write("acme-forms/style.css", style);
    work.write("acme-forms/index.php", "<?php\n");
    // Without an instance, the stylesheet says what it is.
    let folder = work.repository();
    let arguments = ["--json", folder.to_str().unwrap()];
    let document: Value = serde_json::from_slice(&print(work.path(), &arguments).stdout).unwrap();
    let assumed = document["assumed"].as_array().unwrap();
    let is_said = "it is a theme, because its style.css says so";
    assert!(assumed.iter().any(|sentence| sentence == is_said), "{document:#}");
    assert_eq!(document["plugins"][0]["manifest"]["type"], "theme");

    let entry = "type = \"theme\"\nrepository = \"../../acme-forms\"\n";
    work.write("registry/plugins/acme-forms.toml", entry);
    let row = |cms: &str, php: &str| {
        let arguments = ["--current", "1.2.0", "--cms", cms, "--php", php];
        let text = stdout(&print(work.path(), &arguments));
        let json = only(&print(work.path(), &[&arguments[..], &["--json"]].concat()));
        let row = json["row"].as_str().unwrap().to_owned();
        (row, text)
    };
    for (cms, php, expected, sentence) in [
        (
            "6.8",
            "8.3",
            "update",
            "There is a new version of Acme Shop available. View version 1.3.0 details or update now.",
        ),
        (
            "6.8",
            "8.0",
            "php_too_old",
            "There is a new version of Acme Shop, and this site's PHP is too old for it.",
        ),
        (
            "6.4",
            "8.3",
            "cms_too_old",
            "There is a new version of Acme Shop, and this site's CMS is too old for it.",
        ),
        (
            "6.4",
            "8.0",
            "both_too_old",
            "There is a new version of Acme Shop, and this site's CMS and PHP are too old for it.",
        ),
    ] {
        let (row, text) = row(cms, php);
        assert_eq!(row, expected);
        assert!(text.contains(&format!("  {sentence}\n")), "{text}");
        assert!(
            !text.contains("Its author"),
            "a theme has no window with such notes: {text}"
        );
        let frame = "For the details of a theme, WordPress opens https://acme.example/shop in a frame, and none of the texts here.";
        assert!(
            text.contains(frame) && text.contains("requires plugins: acme-forms"),
            "{text}"
        );
    }
    let preview = Preview::start(work.path(), &[]);
    let page = preview
        .get("/plugins/acme-forms/working-tree?current=1.2.0&cms=6.8&php=8.3")
        .text();
    for text in [
        "<h2 id=\"row-title\">Themes screen</h2>",
        " or <u>update now</u>.",
        "WordPress opens https://acme.example/shop in a frame",
        "<dt>Requires plugins</dt><dd>acme-forms</dd>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("Details window"), "{page}");
}
