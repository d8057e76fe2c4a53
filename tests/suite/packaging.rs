//! The content of packages and installations of countersign.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory as _;
use countersign::cli::Cli;
use countersign_settings::config::variables;
use serde_json::Value;

#[test]
fn the_check_of_a_release_binary_tells_symbols_paths_and_missing_protections() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Built for tests, so without the settings of a release.
    let output = Command::new(project.join("packaging/check-binary"))
        .arg(env!("CARGO_BIN_EXE_countersign"))
        .output();
    let output = output.unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let paths = "of the machine it was built on";
    for fault in [
        "has symbols; strip it",
        "has debug information; strip it",
        paths,
        "without _FORTIFY_SOURCE",
    ] {
        assert!(told.contains(fault), "{fault}: {told}");
    }
}

#[test]
fn an_old_or_missing_rust_is_said_in_one_sentence() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = tempfile::tempdir().unwrap();
    for tool in ["sed", "sort", "head", "dirname"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(tool), tools.path().join(tool)).unwrap();
    }
    let check = || {
        let output = Command::new("/bin/sh")
            .arg(project.join("packaging/check-rust"))
            .env("PATH", tools.path())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let needed = env!("CARGO_PKG_RUST_VERSION");
    let (exit, said) = check();
    assert_eq!(exit, Some(1), "{said}");
    let expected = format!("error: countersign needs Rust {needed} or newer, and there is no rustc on the PATH.\n");
    assert!(said.starts_with(&expected), "{said}");
    for (version, is_enough) in [
        ("1.63.0", false),
        ("1.88.1", false),
        (needed, true),
        ("1.101.0-nightly", true),
    ] {
        let rustc = tools.path().join("rustc");
        let script = format!("#!/bin/sh\necho 'rustc {version} (4b91a6ea7 2022-08-08)'\n");
        fs::write(&rustc, script).unwrap();
        fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).unwrap();
        let (exit, said) = check();
        assert_eq!(exit, Some(i32::from(!is_enough)), "{version}: {said}");
        let expected = format!("error: countersign needs Rust {needed} or newer, and this is {version}.\n");
        assert_eq!(said.starts_with(&expected), !is_enough, "{version}: {said}");
    }
}

#[test]
fn the_files_for_ci_name_each_action_by_its_commit() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
    let mut found = 0;
    for file in ["ci/releases.github.yml", "github-action/action.yml"] {
        let text = fs::read_to_string(packaging.join(file)).unwrap();
        for line in text
            .lines()
            .filter(|line| line.contains("uses: ") && line.contains('@'))
        {
            let (_, named) = line.split_once('@').unwrap();
            let (commit, version) = named.split_once(" # v").unwrap_or_else(|| panic!("{file}: {line}"));
            let is_commit = commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
            assert!(is_commit && version.contains('.'), "{file}: {line}");
            found += 1;
        }
    }
    assert!(found >= 6, "{found}");
}

/// Packs a small program, with the pages and completions of the real one. Gives what stands in the folder, by name.
fn pack(folder: &Path, environment: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let program = folder.join("program");
    let source = folder.join("program.c");
    if !program.exists() {
        fs::write(
            &source,
            "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n",
        )
        .unwrap();
        let compiled = Command::new("gcc").args(["-o"]).arg(&program).arg(&source).status();
        assert!(compiled.unwrap().success());
    }
    let out = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "umask $1; shift; exec \"$@\"", "sh"])
        .arg(
            environment
                .iter()
                .find(|(name, _)| *name == "UMASK")
                .map_or("022", |(_, mask)| mask),
        )
        .arg(project("packaging/pack"))
        .arg(&program)
        .arg("x86_64")
        .arg(out.path())
        .arg(env!("CARGO_BIN_EXE_countersign"))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = fs::read_dir(out.path()).unwrap().map(Result::unwrap);
    files
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect()
}

fn project(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Runs a shell command in a folder, and gives what it prints.
#[track_caller]
fn sh(folder: &Path, command: &str) -> String {
    let output = Command::new("sh")
        .args(["-euc", command])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_same_program_gives_the_same_packages_whoever_packs_it_and_when() {
    let folder = tempfile::tempdir().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("countersign-{version}-x86_64");
    let deb = format!("countersign_{version}_amd64.deb");
    let first = pack(folder.path(), &[("TZ", "UTC")]);
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    assert_eq!(names, [&format!("{name}.cdx.json"), &format!("{name}.tar.gz"), &deb]);
    let again = pack(
        folder.path(),
        &[("TZ", "Asia/Tokyo"), ("LANG", "de_DE.UTF-8"), ("UMASK", "077")],
    );
    let without_dpkg = pack(folder.path(), &[("PACK_WITHOUT_DPKG", "1")]);
    for (name, bytes) in &first {
        assert!(*bytes == again[name], "{name} differs");
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    fs::write(folder.path().join("without.deb"), &without_dpkg[&deb]).unwrap();

    // Who needs to be in them, and who owns it.
    let tar = sh(folder.path(), &format!("tar -tzvf {name}.tar.gz"));
    let listed = |deb: &str, member: &str| {
        let list = sh(
            folder.path(),
            &format!("ar p {deb} {member}.tar.xz | tar -tJv --full-time"),
        );
        assert!(
            list.lines()
                .all(|line| line.contains(" root/root ") || line.contains(" 0/0 ")),
            "{list}"
        );
        let mut lines: Vec<String> = list.lines().map(|line| line.replace(" root/root ", " 0/0 ")).collect();
        lines.sort();
        let columns = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        lines.iter().map(columns).collect::<Vec<_>>()
    };
    let files = listed(&deb, "data");
    assert_eq!(listed("without.deb", "data"), files);
    assert_eq!(listed("without.deb", "control"), listed(&deb, "control"));
    assert!(
        files.iter().all(|line| line.contains("2023-11-14 22:13:20")),
        "{files:?}"
    );
    let has = |path: &str| files.iter().any(|line| line.ends_with(path));
    for path in [
        "./usr/bin/countersign",
        "./usr/lib/systemd/system/countersign.service",
        "./usr/lib/sysusers.d/countersign.conf",
        "./usr/share/man/man1/countersign.1.gz",
        "./usr/share/man/man1/countersign-publish.1.gz",
        "./usr/share/bash-completion/completions/countersign",
        "./usr/share/doc/countersign/copyright",
        "./usr/share/doc/countersign/licenses-of-crates.txt",
        "./usr/share/doc/countersign/docs/install.md",
    ] {
        assert!(has(path), "{path}");
    }
    for path in [
        "countersign",
        "systemd/countersign.service",
        "man/countersign.1",
        "sbom.cdx.json",
        "LICENSE-MIT",
    ] {
        assert!(
            tar.lines().any(|line| line.ends_with(&format!("{name}/{path}"))),
            "{path}"
        );
    }
    // No instance comes with it, and nothing that an upgrade would ask about.
    let outside = files
        .iter()
        .any(|line| line.contains(" ./srv") || line.contains(" ./etc"));
    assert!(!outside, "{files:?}");
    let control = listed(&deb, "control");
    assert!(!control.iter().any(|line| line.contains("conffiles")), "{control:?}");
    let fields = sh(
        folder.path(),
        &format!("ar p {deb} control.tar.xz | tar -xJO ./control"),
    );
    let floor = sh(
        folder.path(),
        &format!("{} program", project("packaging/glibc-floor").display()),
    );
    assert!(
        fields.contains(&format!("\nDepends: libc6 (>= {})", floor.trim())),
        "{fields}"
    );
    assert!(!fields.contains('@'), "{fields}");
    for unit in [
        "countersign.service",
        "countersign-build.service",
        "countersign-registry.service",
    ] {
        let unit = fs::read_to_string(project("packaging/systemd").join(unit)).unwrap();
        assert!(unit.contains("\nConditionPathExists=/srv/countersign/"), "{unit}");
    }
}

#[test]
fn the_bill_of_materials_has_what_is_compiled_in_and_not_what_tests_use() {
    let sbom = project("packaging/sbom");
    let output = Command::new(sbom).arg("x86_64-unknown-linux-gnu").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&bill["bomFormat"], &bill["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    let components = bill["components"].as_array().unwrap();
    let names: BTreeSet<&str> = components.iter().map(|part| part["name"].as_str().unwrap()).collect();
    for name in ["tokio", "aws-lc-sys", "countersign-model", "libgit2-sys"] {
        assert!(names.contains(name), "{name}");
    }
    for name in ["proptest", "boon", "tempfile", "todc-utils"] {
        assert!(!names.contains(name), "{name}");
    }
    let refs: BTreeSet<&str> = components
        .iter()
        .map(|part| part["bom-ref"].as_str().unwrap())
        .collect();
    for part in components {
        let is_ours = part["name"].as_str().unwrap().starts_with("countersign");
        assert_eq!(part["hashes"].is_array(), !is_ours, "{part}");
        assert!(part["licenses"][0]["expression"].is_string(), "{part}");
    }
    for node in bill["dependencies"].as_array().unwrap() {
        let mut needs = node["dependsOn"].as_array().unwrap().iter();
        assert!(needs.all(|need| refs.contains(need.as_str().unwrap())), "{node}");
    }
}

#[test]
fn the_scripts_of_the_package_are_scripts_and_delete_nothing() {
    for name in ["postinst", "prerm", "postrm"] {
        let script = project("packaging/debian").join(name);
        let text = fs::read_to_string(&script).unwrap();
        assert!(!text.contains("rm ") && !text.contains("userdel"), "{text}");
        let checked = Command::new("sh").arg("-n").arg(&script).status();
        assert!(checked.unwrap().success(), "{name}");
    }
    let upgrade = fs::read_to_string(project("packaging/debian/postinst")).unwrap();
    assert!(upgrade.contains("try-restart countersign.service"), "{upgrade}");
}

#[test]
fn the_examples_for_containers_set_only_what_is_a_setting_and_name_this_version() {
    let known = variables(&Cli::command());
    let mut found = 0;
    for file in ["compose.yaml", "kubernetes.yaml"] {
        let text = fs::read_to_string(project("packaging").join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        for name in words.filter(|word| word.starts_with("COUNTERSIGN_")) {
            assert!(known.iter().any(|known| known == name), "{file}: {name}");
            found += 1;
        }
        let tag = format!(":{}\n", env!("CARGO_PKG_VERSION"));
        let images = text
            .lines()
            .filter(|line| line.contains("image:") && line.contains("countersign"));
        assert!(images.clone().count() > 0);
        images.for_each(|image| assert!(format!("{image}\n").ends_with(&tag), "{file}: {image}"));
    }
    assert!(found >= 8, "{found}");
}
