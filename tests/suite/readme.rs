//! The README, the pages in docs/ and the published interface tell the truth about the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use countersign::cli::Cli;

fn project(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The settings of the command line: flag, variable, default as the help tells it.
fn settings() -> Vec<(String, String, String)> {
    let cli = Cli::command();
    let [serve, keys, build] = ["serve", "keys", "build"].map(|verb| cli.find_subcommand(verb).unwrap().clone());
    let all = cli.get_arguments().chain(keys.get_arguments()).chain(serve.get_arguments()).chain(build.get_arguments());
    let mut found = Vec::new();
    for argument in all {
        let Some(variable) = argument.get_env() else { continue };
        let help = argument.get_help().unwrap().to_string();
        let Some((_, default)) = help.rsplit_once("[default: ") else { continue };
        let flag = argument.get_long().unwrap();
        found.push((flag.to_owned(), variable.to_str().unwrap().to_owned(), default.trim_end_matches(']').to_owned()));
    }
    assert!(found.len() > 12);
    found
}

#[test]
fn the_configuration_table_has_every_setting_with_its_default() {
    let page = project("docs/configuration.md");
    let rows: BTreeSet<&str> = page
        .lines()
        .filter(|line| {
            ["paths", "keys", "build", "serve"].iter().any(|table| line.starts_with(&format!("| `{table}` |")))
        })
        .collect();
    assert_eq!(rows.len(), settings().len());
    for (flag, variable, default) in settings() {
        let row = format!("| `{}` | `--{flag}` | `{variable}` | `{default}` |", flag.replace('-', "_"));
        assert!(rows.iter().any(|line| line.contains(&row)), "docs/configuration.md has no row {row}");
    }
}

#[test]
fn the_configuration_file_has_every_setting_with_its_default() {
    let file = project("countersign.toml");
    for (flag, _, default) in settings() {
        let name = flag.replace('-', "_");
        let none = ["[]", "\"\""].map(|none| format!("\n#{name} = {none}\n"));
        let bare = format!("\n#{name} = {default}\n");
        let quoted = if default.contains(',') {
            format!("\n#{name} = [\"{}\"]\n", default.replace(',', "\", \""))
        } else {
            format!("\n#{name} = \"{default}\"\n")
        };
        if default == "none" {
            assert!(none.iter().any(|line| file.contains(line)), "countersign.toml has no line for {name}");
            continue;
        }
        assert!(file.contains(&quoted) || file.contains(&bare), "countersign.toml has no line {bare}");
    }
}

/// Settings of the server that are neither a limit nor a time-out.
const NO_LIMITS: [&str; 12] = [
    "allowed_git_hosts",
    "keep_retired_days",
    "listen",
    "admin_listen",
    "tls_certificate",
    "tls_key",
    "grace_period_hours",
    "local_hosts",
    "proxies",
    "proxy_hops",
    "poll_seconds",
    "log_format",
];

#[test]
fn the_page_of_limits_has_every_limit_with_its_default_and_no_other() {
    let page = project("docs/limits.md");
    let table = page.split("## Fixed").next().unwrap();
    let documented: BTreeSet<String> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|row| row.split('|').take(3).collect::<Vec<_>>().join("|"))
        .collect();
    let paths = ["registry", "releases", "cache", "public", "store", "signing_key", "retired_keys"];
    let limits: BTreeSet<String> = settings()
        .into_iter()
        .map(|(flag, _, default)| (flag.replace('-', "_"), default))
        .filter(|(name, _)| !NO_LIMITS.contains(&name.as_str()) && !paths.contains(&name.as_str()))
        .map(|(name, default)| format!("| `{name}` | `{default}` "))
        .collect();
    assert_eq!(documented, limits);
}

#[test]
fn tests_the_page_of_failures_points_to_exist() {
    let page = project("docs/operating.md");
    let table = page.split("## When things fail").nth(1).unwrap();
    let mut found = 0;
    for reference in table.split('`').filter(|text| text.contains("::")) {
        let (module, name) = reference.split_once("::").unwrap();
        let source = project(&format!("tests/suite/{module}.rs"));
        assert!(source.contains(&format!("fn {}", name.trim_end_matches('…'))), "{reference}");
        found += 1;
    }
    assert!(found > 8);
}

#[test]
fn tests_and_fuzz_targets_the_threat_model_names_exist() {
    let mut found = 0;
    let model = project("docs/threat-model.md");
    for reference in model.split('`').skip(1).step_by(2) {
        if let Some((place, name)) = reference.split_once("::").filter(|(_, name)| !name.is_empty()) {
            let file = if place.starts_with("src/") { place.to_owned() } else { format!("tests/suite/{place}.rs") };
            assert!(project(&file).contains(&format!("fn {name}(")), "{reference}");
            found += 1;
        }
    }
    assert!(found > 50);
    let fuzzing = project("docs/fuzzing.md");
    let targets: BTreeSet<&str> =
        fuzzing.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let manifest = project("fuzz/Cargo.toml");
    let built: BTreeSet<&str> =
        manifest.split("[[bin]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(targets, built, "docs/fuzzing.md has a row for each target");
    for named in model.split("fuzz target").skip(1).filter_map(|rest| rest.split(['|', ';']).next()) {
        for target in named.split('`').skip(1).step_by(2) {
            assert!(built.contains(target), "no fuzz target {target}");
        }
    }
}

#[test]
fn the_published_interface_names_every_problem_and_every_verdict() {
    let interface = project("public/openapi.json");
    let codes = |file: &str| -> BTreeSet<String> {
        let source = project(file);
        let table = source.split("#[cfg(test)]").next().unwrap();
        let quoted = table.split('"').skip(1).step_by(2);
        quoted
            .filter(|text| text.contains('_') && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
            .map(str::to_owned)
            .collect()
    };
    let problems = codes("src/serve/reply/outcome.rs");
    assert!(problems.len() > 20, "{problems:?}");
    for code in problems
        .union(&codes("src/model/statement.rs"))
        .filter(|code| !["site_url", "up_to_date", "not_modified", "partial_content"].contains(&code.as_str()))
    {
        assert!(interface.contains(&format!("\"{code}\"")), "public/openapi.json does not name {code}");
    }
}
