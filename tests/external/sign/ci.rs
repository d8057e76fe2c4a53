//! The files for CI as they stand: their YAML is read, and their commands run in a registry's repository.

use super::*;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A YAML file of the project.
fn yaml(file: &str) -> Value {
    // PyYAML comes with the contract tester.
    let output = Command::new(project().join("tests/tools/.venv/bin/python"))
        .args([
            "-c",
            "import json, sys, yaml\njson.dump(yaml.load(sys.stdin, yaml.BaseLoader), sys.stdout)",
        ])
        .stdin(fs::File::open(project().join(file)).unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{file}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A registry in git, with the files that its CI needs.
fn registry() -> (Vendor, String) {
    let vendor = Vendor::new(&["anna", "bert"], 2);
    fs::create_dir_all(vendor.instance.file("packaging/ci")).unwrap();
    let jq = "packaging/ci/awaiting.jq";
    fs::copy(project().join(jq), vendor.instance.file(jq)).unwrap();
    let revision = commit(&vendor);
    (vendor, revision)
}

fn commit(vendor: &Vendor) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=Anna", "-c", "user.email=anna@acme.example"])
            .args(arguments)
            .current_dir(vendor.instance.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "registry", "packaging"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "A change"]);
    // The first commit is what a pull request goes to: in GitHub's checkout, and for who fetches it.
    let first = git(&["rev-list", "--max-parents=0", "HEAD"]);
    git(&["update-ref", "refs/remotes/origin/main", &first]);
    git(&["branch", "--force", "target", &first]);
    git(&["config", "remote.origin.url", "."]);
    git(&["rev-parse", "HEAD"])
}

/// Runs commands as a runner would; gives the exit code and what was printed.
fn run(vendor: &Vendor, script: &str, revision: &str) -> (Option<i32>, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-eo", "pipefail", "-c", script])
        .current_dir(vendor.instance.path())
        .env("PATH", path)
        .env("GITHUB_SHA", revision)
        .env("GITHUB_BASE_REF", "main")
        .env("RUNNER_TEMP", vendor.instance.path())
        .env("CI_DEFAULT_BRANCH", "target")
        .env("CI_COMMIT_SHA", revision)
        .env("GITHUB_STEP_SUMMARY", vendor.instance.file("summary.md"))
        .env("INSTANCE", ".")
        .env("CHECK", "true")
        .env("PLUGIN", "")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.code(), told.concat())
}

/// The commands of a step.
fn step(job: &Value, name: &str) -> String {
    let steps = job["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == name).unwrap();
    step["run"].as_str().unwrap().to_owned()
}

fn lines(job: &Value) -> String {
    let lines = job["script"].as_array().unwrap().iter();
    lines.map(|line| format!("{}\n", line.as_str().unwrap())).collect()
}

#[test]
fn the_github_workflow_comments_what_awaits_whom_and_publishes_what_is_signed() {
    let workflow = yaml("packaging/ci/releases.github.yml");
    let jobs = &workflow["jobs"];
    let (vendor, revision) = registry();
    let check = step(&jobs["check"], "check");
    let comment = |revision: &str| {
        let (code, told) = run(&vendor, &check, revision);
        assert_eq!(code, Some(0), "{told}");
        fs::read_to_string(vendor.instance.file("comment.md")).unwrap()
    };
    let told = comment(&revision);
    let line =
        "- `acme-forms 1.0.0` awaits 2 of 2 signatures, by `anna` or `bert`: `countersign sign acme-forms 1.0.0`\n";
    assert!(
        told.starts_with("These releases are not published yet:\n\n") && told.contains(line),
        "{told}"
    );
    // The job that may write runs no program of the pull request.
    assert_eq!(jobs["comment"]["permissions"], json!({ "pull-requests": "write" }));
    assert_eq!(workflow["permissions"], json!({ "contents": "read" }));
    assert!(step(&jobs["comment"], "comment").contains("gh pr comment \"$NUMBER\" --body-file comment.md"));
    assert!(
        !vendor.instance.file("releases/index.json").exists(),
        "a check writes nothing"
    );

    for person in ["anna", "bert"] {
        vendor.signs(person, "1.0.0", &[]);
    }
    vendor.signs("anna", "1.1.0", &[]);
    let revision = commit(&vendor);
    let told = comment(&revision);
    assert!(
        !told.contains("1.0.0") && told.contains("`acme-forms 1.1.0` awaits 1 of 2 signatures, by `bert`:"),
        "{told}"
    );
    let (code, told) = run(&vendor, &step(&jobs["build"], "build"), &revision);
    assert_eq!(code, Some(0), "{told}");
    assert!(vendor.instance.file("releases/acme-forms/1.0.0.zip").exists());
    assert!(!vendor.instance.file("releases/acme-forms/1.1.0.zip").exists());
    let summary = fs::read_to_string(vendor.instance.file("summary.md")).unwrap();
    assert!(summary.contains("acme-forms 1.1.0"), "{summary}");

    vendor.signs("bert", "1.1.0", &[]);
    assert_eq!(comment(&commit(&vendor)), "", "nothing waits, nothing is said");
    // What a pull request makes of the program that writes the comment is not run.
    vendor.instance.write("packaging/ci/awaiting.jq", "\"all is well\"");
    assert_eq!(comment(&commit(&vendor)), "");
    // A signature that fits nothing fails the check.
    fs::copy(vendor.file("1.0.0.sig"), vendor.file("1.1.0.sig")).unwrap();
    let (code, told) = run(&vendor, &check, &commit(&vendor));
    assert_eq!(code, Some(3), "{told}");
}

#[test]
fn a_release_that_leaves_sites_behind_is_in_the_comment_too() {
    let vendor = Vendor::with_a_change_of_keys("");
    vendor.signs("bert", "1.1.0", &[]);
    let installed = vendor.installed(&[("1.0.0", 37)]);
    let (_, _, report) = vendor.build(&["--installed", installed.to_str().unwrap()]);
    vendor.instance.write("report.json", &report.to_string());
    let jq = project().join("packaging/ci/awaiting.jq");
    let (code, told) = run(&vendor, &format!("jq -r -f {} report.json", jq.display()), "");
    assert_eq!(code, Some(0), "{told}");
    let line = "- `acme-forms 1.1.0` would leave 37 sites behind that run `1.0.0`. It needs a signature by `SHA256:";
    assert!(told.contains(line), "{told}");
}

#[test]
fn the_gitlab_snippet_and_the_action_check_build_and_warn() {
    let snippet = yaml("packaging/gitlab/countersign.gitlab-ci.yml");
    let (vendor, revision) = registry();
    let job = |name: &str| lines(&snippet[name]);
    assert_eq!(run(&vendor, &job("countersign:check"), &revision).0, Some(0));
    let (code, told) = run(&vendor, &job("countersign:awaiting"), &revision);
    assert_eq!(code, Some(10), "{told}");
    assert!(told.contains("awaits 2 of 2 signatures, by `anna` or `bert`"), "{told}");
    assert_eq!(
        snippet["countersign:awaiting"]["allow_failure"]["exit_codes"],
        json!(["10"])
    );
    // What a merge request makes of the program that writes this is not run.
    vendor
        .instance
        .write("packaging/ci/awaiting.jq", "\"all is well\" | empty");
    let changed = commit(&vendor);
    assert_ne!(changed, revision);
    let (code, told) = run(&vendor, &job("countersign:awaiting"), &changed);
    assert!(
        code == Some(10) && told.contains("awaits 2 of 2 signatures, by `anna` or `bert`"),
        "{code:?}: {told}"
    );
    for person in ["anna", "bert"] {
        for version in ["1.0.0", "1.1.0"] {
            vendor.signs(person, version, &[]);
        }
    }
    let revision = commit(&vendor);
    let action = yaml("packaging/github-action/action.yml");
    let check = action["runs"]["steps"][0]["run"].as_str().unwrap();
    assert_eq!(run(&vendor, check, &revision).0, Some(0));
    assert!(!vendor.instance.file("releases/index.json").exists());
    assert_eq!(run(&vendor, &job("countersign:build"), &revision).0, Some(0));
    assert!(vendor.instance.file("releases/acme-forms/1.1.0.zip").exists());
    assert_eq!(run(&vendor, &job("countersign:awaiting"), &revision).0, Some(0));
    // What a build compares with is there at the next one.
    assert!(
        snippet[".countersign"]["cache"]["paths"]
            .as_array()
            .unwrap()
            .contains(&json!("releases/"))
    );
}
