//! The README, the pages in docs/ and the published interface agree with the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use countersign::cli::Cli;
use serde_json::Value;

fn project(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The settings of the command line: flag, variable, default as the help tells it.
fn settings() -> Vec<(String, String, String)> {
    let cli = Cli::command();
    let [serve, keys, build] = ["serve", "keys", "build"].map(|verb| cli.find_subcommand(verb).unwrap().clone());
    let all = cli
        .get_arguments()
        .chain(keys.get_arguments())
        .chain(serve.get_arguments())
        .chain(build.get_arguments());
    let mut found = Vec::new();
    for argument in all {
        let Some(variable) = argument.get_env() else { continue };
        let help = argument.get_help().unwrap().to_string();
        let Some((_, default)) = help.rsplit_once("[default: ") else {
            continue;
        };
        let flag = argument.get_long().unwrap();
        found.push((
            flag.to_owned(),
            variable.to_str().unwrap().to_owned(),
            default.trim_end_matches(']').to_owned(),
        ));
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
            ["paths", "keys", "store", "build", "serve"]
                .iter()
                .any(|table| line.starts_with(&format!("| `{table}` |")))
        })
        .collect();
    assert_eq!(rows.len(), settings().len());
    for (flag, variable, default) in settings() {
        let row = format!(
            "| `{}` | `--{flag}` | `{variable}` | `{default}` |",
            flag.replace('-', "_")
        );
        assert!(
            rows.iter().any(|line| line.contains(&row)),
            "docs/configuration.md has no row {row}"
        );
    }
}

#[test]
fn the_configuration_file_has_every_setting_with_its_default() {
    // Another test holds that each line has the right table.
    let written = project("countersign.toml");
    let lines = written.lines().map(|line| match line.split_once('.') {
        Some((table, setting)) if table.starts_with('#') && !table.contains(' ') => format!("#{setting}\n"),
        _ => format!("{line}\n"),
    });
    let file: String = lines.collect();
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
            assert!(
                none.iter().any(|line| file.contains(line)),
                "countersign.toml has no line for {name}"
            );
            continue;
        }
        assert!(
            file.contains(&quoted) || file.contains(&bare),
            "countersign.toml has no line {bare}"
        );
    }
}

/// Settings of the server that are neither a limit nor a time-out.
const NO_LIMITS: [&str; 24] = [
    "composer",
    "renew_url",
    "upgrade_url",
    "compat",
    "foreign_keys",
    "allowed_git_hosts",
    "keep_retired_days",
    "synchronous",
    "listen",
    "admin_hosts",
    "admin_listen",
    "admin_socket",
    "public_url",
    "tls_certificate",
    "tls_key",
    "grace_period_hours",
    "first_copies",
    "customers",
    "local_hosts",
    "staging_hosts",
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
    let paths = [
        "registry",
        "releases",
        "packages",
        "cache",
        "public",
        "store",
        "signing_key",
        "downloads_key",
        "issuing_key",
        "references_key",
        "retired_keys",
    ];
    let limits: BTreeSet<String> = settings()
        .into_iter()
        .map(|(flag, _, default)| (flag.replace('-', "_"), default))
        .filter(|(name, _)| !NO_LIMITS.contains(&name.as_str()) && !paths.contains(&name.as_str()))
        .map(|(name, default)| format!("| `{name}` | `{default}` "))
        .collect();
    assert_eq!(documented, limits);
}

/// The tests of a module, in `suite` and in `external`; a behaviour may need both.
fn tests_of(module: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |target| fs::read_to_string(root.join(format!("tests/{target}/{module}.rs"))).unwrap_or_default();
    ["suite", "external"].map(read).concat()
}

#[test]
fn tests_the_page_of_failures_points_to_exist() {
    let page = project("docs/operating.md");
    let table = page.split("## When things fail").nth(1).unwrap();
    let mut found = 0;
    for reference in table.split('`').filter(|text| text.contains("::")) {
        let (module, name) = reference.rsplit_once("::").unwrap();
        let source = tests_of(&module.replace("::", "/"));
        assert!(
            source.contains(&format!("fn {}", name.trim_end_matches('…'))),
            "{reference}"
        );
        found += 1;
    }
    assert!(found > 8);
}

#[test]
fn tests_and_fuzz_targets_the_threat_model_names_exist() {
    let mut found = 0;
    let model = project("docs/threat-model.md");
    for reference in model.split('`').skip(1).step_by(2) {
        if let Some((place, name)) = reference.rsplit_once("::").filter(|(_, name)| !name.is_empty()) {
            let source = if place.starts_with("src/") || place.starts_with("crates/") {
                project(place)
            } else {
                tests_of(&place.replace("::", "/"))
            };
            assert!(source.contains(&format!("fn {name}(")), "{reference}");
            found += 1;
        }
    }
    assert!(found > 50);
    let fuzzing = project("docs/fuzzing.md");
    let targets: BTreeSet<&str> = fuzzing
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let manifest = project("fuzz/Cargo.toml");
    let built: BTreeSet<&str> = manifest
        .split("[[bin]]\nname = \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(targets, built, "docs/fuzzing.md has a row for each target");
    for named in model
        .split("fuzz target")
        .skip(1)
        .filter_map(|rest| rest.split(['|', ';']).next())
    {
        for target in named.split('`').skip(1).step_by(2) {
            assert!(built.contains(target), "no fuzz target {target}");
        }
    }
}

#[test]
fn files_that_the_design_names_exist() {
    let mut found = 0;
    let design = project("docs/design.md");
    for path in design
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.ends_with(".rs"))
    {
        let Some((first, rest)) = path.split_once('/') else {
            continue; // A neighbour of the file before it.
        };
        let of_a_crate = format!("crates/{first}/src/{rest}");
        let places = [path.to_owned(), format!("src/{path}"), of_a_crate];
        assert!(
            places
                .iter()
                .any(|place| Path::new(env!("CARGO_MANIFEST_DIR")).join(place).exists()),
            "docs/design.md names {path}"
        );
        found += 1;
    }
    assert!(found > 100, "{found}");
}

/// The names of an enum's variants, as they are written in JSON.
fn variants(file: &str, name: &str) -> BTreeSet<String> {
    let source = project(file);
    let body = source
        .split(&format!("{name} {{\n"))
        .nth(1)
        .unwrap()
        .split("}\n")
        .next()
        .unwrap();
    let words = body
        .lines()
        .map(|line| line.trim().split([' ', ',', '(']).next().unwrap());
    let names = words.filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase()));
    names
        .map(|name| {
            let snake = name.char_indices().map(|(at, letter)| match letter {
                'A'..='Z' if at > 0 => format!("_{}", letter.to_ascii_lowercase()),
                _ => letter.to_ascii_lowercase().to_string(),
            });
            snake.collect()
        })
        .collect()
}

/// Every value that a `code` can have below a part of the interface.
fn codes(part: &Value, found: &mut BTreeSet<String>) {
    let code = part.pointer("/properties/code/enum").and_then(Value::as_array);
    found.extend(code.into_iter().flatten().map(|code| code.as_str().unwrap().to_owned()));
    match part {
        Value::Object(members) => members.values().for_each(|part| codes(part, found)),
        Value::Array(items) => items.iter().for_each(|part| codes(part, found)),
        _ => {}
    }
}

/// Codes that are in no answer of the public listener: what an answer without a code was, and what the admin listener says.
const NOT_PUBLIC: [&str; 5] = [
    "update",
    "up_to_date",
    "not_modified",
    "partial_content",
    "misdirected_request",
];

#[test]
fn the_published_interface_names_every_problem_and_every_verdict_and_no_other() {
    let interface: Value = serde_json::from_str(&project("public/openapi.json")).unwrap();
    let mut published = BTreeSet::new();
    codes(&interface, &mut published);
    let mut ours = variants("src/serve/reply/outcome.rs", "Code");
    for code in NOT_PUBLIC {
        assert!(ours.remove(code), "{code} is still counted");
    }
    assert!(ours.len() > 30);
    assert_eq!(published, ours);

    let mut of_statements = BTreeSet::new();
    codes(&interface["components"]["schemas"]["Statement"], &mut of_statements);
    assert_eq!(
        of_statements,
        variants("crates/model/src/statement.rs", "pub enum Verdict")
    );
}

/// Every command with its path, such as `license issue`, the program itself first.
fn commands() -> Vec<(String, Command)> {
    fn below(path: &str, command: &Command, found: &mut Vec<(String, Command)>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            below(&path, sub, found);
            found.push((path, sub.clone()));
        }
    }
    let cli = Cli::command();
    let mut found = vec![(String::new(), cli.clone())];
    below("", &cli, &mut found);
    assert!(found.len() > 60);
    found
}

/// A terminal of any width wraps the lines itself, so that a line end inside a sentence would break them twice.
#[test]
fn help_has_line_ends_only_behind_sentences() {
    for (path, command) in commands() {
        let Some(help) = command.get_after_help() else { continue };
        let help = help.to_string();
        for (line, next) in help.lines().zip(help.lines().skip(1)) {
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let goes_on = is_prose(line) && is_prose(next) && !line.ends_with(['.', ':']);
            assert!(!goes_on, "help of {path:?}: {line:?} goes on in the next line");
        }
    }
}

/// The commands that a cell of the page names: `license suspend`, `resume` for two, and `keys …` for all below.
fn named_commands<'c>(cell: &str, all: &'c [(String, Command)]) -> Vec<&'c (String, Command)> {
    let mut named = Vec::new();
    let mut parent = String::new();
    for piece in cell.split('`').skip(1).step_by(2) {
        let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let words: Vec<&str> = piece.split(' ').take_while(is_name).collect();
        let words = words.join(" ");
        let path = match all.iter().any(|(path, _)| *path == words) {
            true => words,
            false => format!("{parent} {words}"),
        };
        let is_meant = |known: &str| match piece.ends_with('…') {
            true => known == path || known.starts_with(&format!("{path} ")),
            false => known == path,
        };
        let before = named.len();
        named.extend(all.iter().filter(|(known, _)| is_meant(known)));
        // Arguments have pieces of their own.
        let is_argument = words_are_arguments(piece);
        assert!(named.len() > before || is_argument, "{cell}: no command {path:?}");
        if !is_argument {
            parent = path
                .rsplit_once(' ')
                .map_or(String::new(), |(parent, _)| parent.to_owned());
        }
    }
    named
}

fn words_are_arguments(piece: &str) -> bool {
    piece.starts_with(|c: char| c.is_ascii_uppercase() || c == '[')
}

/// The long flags of a command alone, without those of the whole program.
fn long_flags(command: &Command) -> BTreeSet<String> {
    let flags = command.get_arguments().filter_map(|argument| argument.get_long());
    flags.filter(|flag| *flag != "help").map(str::to_owned).collect()
}

#[test]
fn the_page_of_flags_has_every_flag_of_every_command_and_no_other() {
    let page = project("docs/configuration.md");
    let table = page.split("## Flags of each command").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let all = commands();
    let of_serve: BTreeSet<String> = settings().into_iter().map(|(flag, ..)| flag).collect();
    let mut documented: BTreeSet<(String, String)> = BTreeSet::new();
    let mut current = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let cell = cells[0].trim_start_matches("| ");
        if !cell.is_empty() && cell != "|" {
            current = named_commands(cell, &all);
        }
        let flags = cells[1].split('`').filter_map(|piece| piece.strip_prefix("--"));
        for flag in flags {
            let flag = flag.split([' ', '[', '=']).next().unwrap();
            let having = current.iter().filter(|(_, command)| long_flags(command).contains(flag));
            let having: Vec<_> = having.map(|(path, _)| (path.clone(), flag.to_owned())).collect();
            assert!(!having.is_empty(), "no such flag: {row}");
            documented.extend(having);
        }
        if cells[1].contains("flags of `[serve]`") {
            documented.extend(of_serve.iter().map(|flag| ("serve".to_owned(), flag.clone())));
        }
    }
    let missing: Vec<String> = all
        .iter()
        .filter(|(path, _)| !path.is_empty())
        .flat_map(|(path, command)| long_flags(command).into_iter().map(move |flag| (path.clone(), flag)))
        // It has a page of its own.
        .filter(|(_, flag)| flag != "json")
        .filter(|pair| !documented.contains(pair))
        .map(|(path, flag)| format!("{path} --{flag}"))
        .collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks {missing:#?}");
}

/// The pages of the project, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = ["", "docs", "docs/decisions", "clients", "tests", "packaging"]
        .map(|folder| root.join(folder))
        .into();
    folders.retain(|folder| folder.is_dir());
    let mut found = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 30);
    found
}

/// The lines that are no code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// What links to the headings of a page end with, as GitHub makes it.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let mut found = BTreeSet::new();
    for heading in headings {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let more = (1..).map(|number| format!("{anchor}-{number}"));
        let free = [anchor.clone()]
            .into_iter()
            .chain(more)
            .find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

#[test]
fn every_link_between_the_pages_leads_to_a_page_and_a_heading() {
    let mut checked = 0;
    for (path, page) in pages() {
        let links = prose(&page).flat_map(|line| line.split("](").skip(1));
        for link in links.filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: no file for the link {link}", path.display());
            if !anchor.is_empty() && target.extension().is_some_and(|extension| extension == "md") {
                let known = anchors(&fs::read_to_string(&target).unwrap());
                assert!(
                    known.contains(anchor),
                    "{}: no heading for the link {link}",
                    path.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "{checked}");
}

/// Every example of settings goes behind what `init` writes.
#[test]
fn each_example_of_settings_can_be_pasted_behind_the_file_that_init_writes() {
    const TABLES: [&str; 8] = ["paths", "keys", "store", "build", "serve", "shops", "mail", "webhooks"];
    let is_setting = |line: &&str| {
        let key = line.trim_start_matches(['[', ' ']);
        TABLES
            .iter()
            .any(|table| key.strip_prefix(table).is_some_and(|rest| rest.starts_with(['.', ']'])))
    };
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.current_dir(folder.path()).args(arguments).output().unwrap()
    };
    assert!(run(&["init", "i"]).status.success());
    let path = folder.path().join("i/countersign.toml");
    let written = fs::read_to_string(&path).unwrap();
    let mut pasted = 0;
    for (page, text) in pages() {
        let blocks = text.split("```toml\n").skip(1);
        for block in blocks.map(|rest| rest.split("```").next().unwrap()) {
            if !block.lines().any(|line| is_setting(&line)) {
                continue;
            }
            fs::write(&path, format!("{written}{block}")).unwrap();
            let offers = run(&["-C", "i", "shop", "offers"]);
            let said = String::from_utf8_lossy(&offers.stderr).into_owned();
            assert!(offers.status.success(), "{}: {said}\n{block}", page.display());
            pasted += 1;
        }
    }
    assert!(pasted > 7, "{pasted}");
}
