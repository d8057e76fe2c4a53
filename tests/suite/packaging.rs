//! The content of packages and installations of countersign.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory as _;
use countersign::cli::Cli;
use countersign_settings::config::variables;

#[test]
fn the_check_of_a_release_binary_tells_symbols_paths_and_missing_protections() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Built for tests, so without the settings of a release.
    let output = Command::new(project.join("packaging/check-binary"))
        .arg(env!("CARGO_BIN_EXE_countersign"))
        .output();
    let output = output.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let paths = "of the machine it was built on";
    for fault in [
        "has symbols; strip it",
        "has debug information; strip it",
        paths,
        "without _FORTIFY_SOURCE",
    ] {
        assert!(stderr.contains(fault), "{fault}: {stderr}");
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

fn project(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
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

/// What is between `before`, which is there once, and the next quote or end of a line.
fn behind(file: &str, before: &str) -> String {
    let text = fs::read_to_string(project(file)).unwrap();
    let found: Vec<&str> = text.split(before).skip(1).collect();
    assert_eq!(found.len(), 1, "{file}: {before}");
    let end = found[0].find(['\'', '"', '\n']).unwrap();
    found[0][..end].to_owned()
}

#[test]
fn every_client_has_the_version_of_the_server() {
    let first = "clients/wordpress/countersign-client.php";
    let second = "clients/wordpress/countersign-client-admin.php";
    for (file, before) in [
        ("clients/javascript/package.json", "\"version\": \""),
        ("clients/python/pyproject.toml", "\nversion = \""),
        ("clients/wordpress/composer.json", "\"version\": \""),
        (first, " * @version "),
        (first, "public const VERSION = '"),
        (second, " * @version "),
        (second, "'\\Client::VERSION' ) && '"),
    ] {
        assert_eq!(behind(file, before), env!("CARGO_PKG_VERSION"), "{file}: {before}");
    }
}

/// Runs `second_try.py` with a `cargo` that plays two runs, each with its output and exit status. Gives the script's exit status,
/// and its output with the arguments of each run.
fn second_try(runs: [(&str, i32); 2]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    for (number, (printed, status)) in runs.into_iter().enumerate() {
        fs::write(folder.path().join(format!("{number}.printed")), printed).unwrap();
        fs::write(folder.path().join(format!("{number}.status")), status.to_string()).unwrap();
    }
    let cargo = folder.path().join("cargo");
    let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$@\" >> asked\nrun=$(($(wc -l < asked) - 1))\n\
                  cat $run.printed\nexit $(cat $run.status)\n";
    fs::write(&cargo, script).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new("python3")
        .args(["-B", "tests/tools/second_try.py", "--no-fail-fast"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PATH", path)
        .output()
        .unwrap();
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), printed + &asked)
}

#[test]
fn ci_tries_a_few_failed_tests_again_and_a_failure_that_stays_fails_it() {
    let program = "     Running unittests src/lib.rs (target/debug/deps/one-1)\n";
    let ended = |passed: usize, failed: &[&str]| {
        let names: String = failed.iter().map(|name| format!("    {name}\n")).collect();
        let said = if failed.is_empty() { "ok" } else { "FAILED" };
        let list = format!("failures:\n\n---- a stdout ----\nfailures:\n    no::name\n\nfailures:\n{names}\n");
        let list = if failed.is_empty() { String::new() } else { list };
        format!(
            "{program}\n{list}test result: {said}. {passed} passed; {} failed; 0 ignored\n",
            failed.len()
        )
    };
    let one = ended(9, &["a::b"]);
    let (status, said) = second_try([(&one, 101), (&ended(1, &[]), 0)]);
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("passed only at the second try") && said.contains("--no-fail-fast -- --exact a::b\n"),
        "{said}"
    );

    let many = ended(1, &["a", "b", "c", "d", "e", "f"]);
    let crashed = format!("{one}{program}signal: 6, SIGABRT\n");
    let all = ended(10, &[]);
    for (first, second, tries, status) in [
        ((&all, 0), (&all, 0), 1, 0),
        ((&one, 101), (&one, 101), 2, 101),
        // A second run that ran nothing shows nothing.
        ((&one, 101), (&ended(0, &[]), 0), 2, 1),
        ((&many, 101), (&all, 0), 1, 101),
        ((&crashed, 101), (&all, 0), 1, 101),
        ((&program.to_owned(), 101), (&all, 0), 1, 101),
    ] {
        let (code, said) = second_try([(first.0, first.1), (second.0, second.1)]);
        assert_eq!(
            (code, said.matches("--no-fail-fast").count()),
            (Some(status), tries),
            "{said}"
        );
    }
}
