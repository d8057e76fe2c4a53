//! Rules that Cargo does not enforce: imports between rooms, no circles, which file may use which library, one
//! way to open a file, unique type names, and one statement a line.
//!
//! Each rule is a function from the sources to violations. Each has a test that shows it fail, on sources with one
//! line more.

mod code;
mod declarations;
mod imports;

use std::collections::{BTreeMap, BTreeSet};

use code::{Sources, all_files, code, sources};
use declarations::{tuple_lets, types};
use imports::{imports, shortest_circle};

/// What each room of `src/` may import of the others; Cargo holds what crates import.
const ARROWS: [(&str, &[&str]); 6] = [
    ("build", &[]),
    ("webhook", &[]),
    ("serve", &["webhook"]),
    ("preview", &["build"]),
    ("commands", &["build", "preview", "serve", "webhook"]),
    ("cli", &["commands"]),
];

/// The files that may use a library or a name, where Cargo alone would allow more.
const PLACES: [(&str, &[&str]); 8] = [
    (
        "git2::",
        &[
            "src/build/git/",
            "crates/registry/src/git.rs",
            "src/commands/init/demo_repository.rs",
        ],
    ),
    (
        "sled::",
        &[
            "crates/ledger/src/index.rs",
            "crates/ledger/src/index/",
            "crates/ledger/src/lib.rs",
        ],
    ),
    ("warp::", &["src/serve/", "src/preview/"]),
    (
        "askama::",
        &[
            "src/preview/",
            "src/serve/account/",
            "src/serve/desk/",
            "src/serve/first_copy_page.rs",
            "src/serve/link_page.rs",
            "src/serve/pages/",
        ],
    ),
    (
        "rustls::",
        &[
            "src/serve/net/tls.rs",
            "crates/ledger/src/postgres/session.rs",
            "crates/settings/src/tls_client.rs",
        ],
    ),
    (
        "prometheus_client::",
        &["src/serve/ops/openmetrics", "src/serve/metrics.rs"],
    ),
    // A site gets a manifest from the catalog, against an entitlement.
    (
        "published_manifest",
        &[
            "crates/package/src/catalog.rs",
            "crates/package/src/catalog/",
            "src/preview/",
        ],
    ),
    (
        "RsaPrivateKey",
        &["crates/settings/src/keys/signing_key.rs", "src/commands/keys/make.rs"],
    ),
];

/// Ways to open a file that wait for a pipe's other end and read a device without end.
const OPENERS: [&str; 12] = [
    "File::open",
    "File::create",
    "File::options",
    "OpenOptions",
    "fs::read(",
    "fs::read_to_string",
    "fs::write",
    "fs::copy",
    "fs::{read",
    "use std::fs::read",
    "warp::fs::file",
    "tokio::fs::",
];

/// Who may open files otherwise.
const OPENS: [&str; 1] = ["crates/files/src/regular_file.rs"];

/// The room of a file: `build` of `src/build/git/mod.rs`, `crates/model` of `crates/model/src/slug.rs`.
fn room(path: &str) -> &str {
    match path.strip_prefix("src/") {
        Some(inside) => inside.split(['/', '.']).next().unwrap(),
        None => path.split("/src/").next().unwrap(),
    }
}

/// Rooms import in one direction.
fn arrows(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, targets) in imports(&code(sources)) {
        let room_of_path = room(&path);
        if matches!(room_of_path, "main" | "lib") || path.starts_with("crates/") {
            continue;
        }
        let allowed = ARROWS
            .iter()
            .find(|(name, _)| *name == room_of_path)
            .map_or(&[][..], |(_, allowed)| *allowed);
        let is_allowed = |target: &String| {
            target.starts_with("crates/") || room(target) == room_of_path || allowed.contains(&room(target))
        };
        let wrong = targets.iter().filter(|target| !is_allowed(target));
        complaints
            .extend(wrong.map(|target| format!("{path} imports {target}; {room_of_path} may import {allowed:?}")));
    }
    complaints
}

/// No file imports itself by way of others, inside a room or through a `mod.rs`.
fn circles(sources: &Sources) -> Vec<String> {
    shortest_circle(&imports(&code(sources)))
        .map(|circle| circle.join(" -> "))
        .into_iter()
        .collect()
}

/// A library is named only where it belongs.
fn misplaced_libraries(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, code) in code(sources) {
        for (library, allowed) in PLACES {
            if code.contains(library) && !allowed.iter().any(|place| path.starts_with(place)) {
                complaints.push(format!("{path} names {library}"));
            }
        }
    }
    complaints
}

/// Code that opens a file goes through `regular_file`.
fn other_ways_to_open_a_file(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, code) in code(sources) {
        let ways = OPENERS
            .iter()
            .filter(|opener| code.contains(**opener) && !OPENS.contains(&path.as_str()));
        complaints.extend(ways.map(|opener| format!("{path} opens a file by {opener}: use regular_file")));
    }
    complaints
}

/// The sources with something more at the end of a file, behind its tests.
fn with(path: &str, more: &str) -> Sources {
    let mut sources = sources();
    let source = sources.get_mut(path).unwrap_or_else(|| panic!("{path} is there"));
    *source = format!("{source}\n{more}\n");
    sources
}

#[test]
fn arrows_between_rooms_run_one_way() {
    assert_eq!(arrows(&sources()), [""; 0]);
    let allowed = with(
        "src/serve/gate.rs",
        "use countersign_model::license_step::LicenseStep as _;",
    );
    assert_eq!(arrows(&allowed), [""; 0]);
    for (path, line, target) in [
        (
            "src/build/report.rs",
            "use crate::commands::{output as _, build::Args as _};",
            "src/commands/build.rs",
        ),
        (
            "src/serve/gate.rs",
            "fn more() { let _ = crate::build::FORMAT; }",
            "src/build/inputs.rs",
        ),
        (
            "src/build/tags.rs",
            "use super::super::serve::gate::Gate as _;",
            "src/serve/gate.rs",
        ),
    ] {
        let complaints = arrows(&with(path, line));
        assert!(
            complaints.len() == 1 && complaints[0].starts_with(&format!("{path} imports {target};")),
            "{complaints:?}"
        );
    }
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    assert_eq!(circles(&sources()), [""; 0]);
    for (path, line, circle) in [
        // Inside a room.
        (
            "src/commands/license/view.rs",
            "use crate::commands::license::show::show as _;",
            "src/commands/license/show.rs -> src/commands/license/view.rs",
        ),
        // Through a lib.rs that declares the item.
        (
            "crates/registry/src/plugins.rs",
            "use super::Registry as _;",
            "crates/registry/src/lib.rs -> crates/registry/src/plugins.rs",
        ),
        // Through a name that a mod.rs re-exports.
        (
            "src/build/error.rs",
            "fn more() { let _ = super::run; }",
            "src/build/error.rs -> src/build/pipeline.rs",
        ),
    ] {
        assert_eq!(circles(&with(path, line)).concat(), circle);
    }
}

#[test]
fn each_library_is_named_only_where_it_belongs() {
    assert_eq!(misplaced_libraries(&sources()), [""; 0]);
    let mutant = with("src/serve/gate.rs", "fn more() -> git2::Oid { git2::Oid::zero() }");
    assert_eq!(misplaced_libraries(&mutant), ["src/serve/gate.rs names git2::"]);
}

#[test]
fn files_are_opened_by_regular_file_alone() {
    assert_eq!(other_ways_to_open_a_file(&sources()), [""; 0]);
    let mutant = with(
        "crates/package/src/catalog.rs",
        "fn more() { let _ = std::fs::read(\"x\"); }",
    );
    let complaint = "crates/package/src/catalog.rs opens a file by fs::read(: use regular_file";
    assert_eq!(other_ways_to_open_a_file(&mutant), [complaint]);
}

/// Macros that panic where nobody reads what they print.
const PRINTERS: [&str; 3] = ["print!(", "println!(", "dbg!("];

/// Nothing prints that panics where nobody reads.
fn printers(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, code) in code(sources) {
        let found = PRINTERS.iter().filter(|printer| code.contains(**printer));
        complaints
            .extend(found.map(|printer| format!("{path} prints by {printer}: use text::stderr or commands::output")));
    }
    complaints
}

#[test]
fn only_stderr_prints() {
    assert_eq!(printers(&sources()), [""; 0]);
    let mutant = with("crates/package/src/catalog.rs", "fn more() { eprintln!(\"x\"); }");
    assert!(!printers(&mutant).is_empty());
}

#[test]
fn every_file_opens_with_what_it_owns() {
    for (path, source) in sources() {
        assert!(source.starts_with("//!"), "{path} does not open with //!");
    }
}

/// Types that more than one room may declare: the arguments of a command, in any room.
const COMMON_NAMES: [&str; 1] = ["Args"];

/// A name has one meaning in the whole workspace.
fn shared_names(sources: &Sources) -> Vec<String> {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, code) in code(sources) {
        for name in types(&code) {
            rooms.entry(name).or_default().insert(room(&path).to_owned());
        }
    }
    rooms
        .iter()
        .filter(|(name, rooms)| rooms.len() > 1 && !COMMON_NAMES.contains(&name.as_str()))
        .map(|(name, rooms)| format!("{name} is declared in {rooms:?}"))
        .collect()
}

#[test]
fn no_type_name_is_declared_in_two_rooms() {
    assert_eq!(shared_names(&sources()), [""; 0]);
    for more in [
        "struct Slug;",
        "enum Slug {}",
        "trait Slug {}",
        "type Slug = u8;",
        "fn f() { union Slug { a: u8 } }",
        "macro! { pub struct Slug; }",
    ] {
        let mutant = with("crates/package/src/catalog.rs", more);
        assert_eq!(
            shared_names(&mutant),
            [r#"Slug is declared in {"crates/model", "crates/package"}"#]
        );
    }
    let others = with(
        "crates/package/src/catalog.rs",
        "struct Args;\n#[cfg(test)]\nmod more {\n    struct Slug;\n}",
    );
    assert_eq!(shared_names(&others), [""; 0]);
}

/// One statement a line: no tuple is made only to be taken apart.
fn two_statements_in_one(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, source) in sources {
        complaints.extend(
            tuple_lets(source)
                .into_iter()
                .map(|found| format!("{path} has {found}: write one statement a line")),
        );
    }
    complaints
}

#[test]
fn no_tuple_is_made_only_to_be_taken_apart() {
    assert_eq!(two_statements_in_one(&all_files()), [""; 0]);
    let mutant = with("crates/package/src/catalog.rs", "fn more() { let (a, b) = (1, 2); }");
    assert_eq!(
        two_statements_in_one(&mutant),
        ["crates/package/src/catalog.rs has let (a , b) = (1 , 2): write one statement a line"]
    );
}
