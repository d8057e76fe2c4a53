//! The packages of countersign itself: the same bytes each time, what is in them, and what `make dist` says that it does not make.
//!
//! Nothing is compiled for release here: a `cargo` of the test's own gives a small program, which runs the one under test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    char name[4096];
    char *real = getenv("REAL_PROGRAM");
    if (real == NULL || count < 1) return 1;
    strcpy(name, real);
    execv(name, words);
    return 1;
}
"#;

const CARGO: &str = r#"#!/bin/sh
case $1 in
    zigbuild) exit 101 ;;
    build) mkdir -p "$CARGO_TARGET_DIR/release" && cp "$SMALL_PROGRAM" "$CARGO_TARGET_DIR/release/countersign" ;;
    *) exec "$REAL_CARGO" "$@" ;;
esac
"#;

#[test]
fn what_this_machine_can_make_is_made_with_signed_sums_and_the_rest_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("program.c"), PROGRAM).unwrap();
    let hardened = [
        "-O2",
        "-s",
        "-fPIE",
        "-pie",
        "-fstack-protector-all",
        "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=2",
    ];
    let compiled = Command::new("gcc")
        .args(hardened)
        .args(["-Wl,-z,relro,-z,now", "-o", "program", "program.c"])
        .current_dir(folder.path())
        .status();
    assert!(compiled.unwrap().success());
    fs::create_dir(file("bin")).unwrap();
    for (name, script) in [
        ("cargo", CARGO),
        ("rustup", "#!/bin/sh\necho x86_64-unknown-linux-gnu\n"),
        ("composer", "#!/bin/sh\nexit 127\n"),
        ("buildah", "#!/bin/sh\nexit 127\n"),
    ] {
        fs::write(file("bin").join(name), script).unwrap();
        fs::set_permissions(file("bin").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(file("key"))
        .status();
    assert!(made.unwrap().success());

    let path = std::env::var("PATH").unwrap();
    let flit = project("tests/tools/.venv/bin");
    let output = Command::new(project("packaging/dist"))
        .env("PATH", format!("{}:{}:{path}", file("bin").display(), flit.display()))
        .env("CARGO_TARGET_DIR", file("target"))
        .env("SMALL_PROGRAM", file("program"))
        .env("REAL_PROGRAM", env!("CARGO_BIN_EXE_countersign"))
        .env("REAL_CARGO", env!("CARGO"))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("DIST_KEY", file("key"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    let floor = "not made: x86_64 for glibc 2.17: there is no cargo-zigbuild; it needs glibc 2.";
    for said in [
        floor,
        "not made: aarch64: Rust's library is not installed (rustup target add",
        "not made: the client in clients/wordpress: there is no composer",
        "not made: images for containers: there is no buildah",
    ] {
        assert!(told.contains(said), "{told}");
    }
    assert!(!told.contains("a signature of SHA256SUMS"), "{told}");

    let version = env!("CARGO_PKG_VERSION");
    let public = fs::read_to_string(file("key.pub")).unwrap();
    fs::write(file("signers"), format!("releases {public}")).unwrap();
    let check = "cd target/dist && sha256sum --check SHA256SUMS && \
        ssh-keygen -Y verify -n countersign-dist -I releases -f ../../signers -s SHA256SUMS.sig < SHA256SUMS";
    let checked = Command::new("sh")
        .args(["-ec", check])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(
        checked.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    for name in [
        format!("countersign_{version}_amd64.deb: OK"),
        format!("countersign-{version}-x86_64.tar.gz: OK"),
        format!("countersign-{version}-x86_64.cdx.json: OK"),
        format!("countersign-client-{version}.tgz: OK"),
        format!("countersign_client-{version}-py3-none-any.whl: OK"),
        format!("countersign_client-{version}.tar.gz: OK"),
    ] {
        assert!(text.lines().any(|line| line == name), "{text}");
    }
}

/// Packs a small program, with the pages and completions of the real one. Gives what is in the folder, by name.
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
        .env("PACK_EFFORT", "1")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = fs::read_dir(out.path()).unwrap().map(Result::unwrap);
    files
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect()
}

pub fn project(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Runs a shell command in a folder, and gives what it prints.
#[track_caller]
pub fn sh(folder: &Path, command: &str) -> String {
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

/// The relative links of all Markdown files below a folder that lead to no file there.
fn dead_links(folder: &Path) -> Vec<String> {
    let listed = sh(folder, "find . -name '*.md' | sort");
    let mut dead = Vec::new();
    for document in listed.lines().map(|path| path.trim_start_matches("./")) {
        let text = fs::read_to_string(folder.join(document)).unwrap();
        let beside = Path::new(document).parent().unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next())
        {
            let is_elsewhere = link.is_empty() || link.contains(':') || link.contains(' ') || link.ends_with(".png");
            let target = beside.join(link);
            let is_source = [
                "src",
                "tests",
                "benches",
                "fuzz",
                "crates",
                ".ci",
                "Makefile",
                "Cargo.toml",
            ]
            .iter()
            .any(|name| link.trim_start_matches("../").starts_with(name));
            if !is_elsewhere && !is_source && !folder.join(&target).exists() {
                dead.push(format!("{document}: {link}"));
            }
        }
    }
    dead
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
        "./usr/lib/systemd/system/countersign.socket",
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
    // Links of its documents lead to files that came with it, but for pictures and sources.
    sh(folder.path(), &format!("tar -xzf {name}.tar.gz"));
    let unpacked = folder.path().join(&name);
    assert_eq!(dead_links(&unpacked), Vec::<String>::new());
    fs::remove_file(unpacked.join("packaging/compose.yaml")).unwrap();
    let dead = dead_links(&unpacked);
    assert!(
        dead.iter().any(|link| link == "README.md: packaging/compose.yaml"),
        "{dead:?}"
    );

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
        "countersign.socket",
        "countersign-build.service",
        "countersign-registry.service",
    ] {
        let unit = fs::read_to_string(project("packaging/systemd").join(unit)).unwrap();
        assert!(unit.contains("\nConditionPathExists=/srv/countersign/"), "{unit}");
    }
}

#[test]
fn the_bill_of_materials_has_what_is_compiled_in_and_not_what_tests_use() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(project("packaging/sbom"))
        .arg("x86_64-unknown-linux-gnu")
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bill: Value = serde_json::from_slice(&fs::read(folder.path().join("sbom.cdx.json")).unwrap()).unwrap();
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
    // libgit2 is not ours to give away without its exception.
    let licenses = fs::read_to_string(folder.path().join("licenses-of-crates.txt")).unwrap();
    assert!(licenses.contains("LINKING EXCEPTION") && licenses.contains("serde 1."));
}
