//! Rules for the source files: imports between rooms, no circles, which file may use which library, one
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

/// What each room may import of ours. Whatever is not listed may import nothing of ours.
const ARROWS: [(&str, &[&str]); 28] = [
    ("time_limit", &[]),
    ("model", &[]),
    ("text", &[]),
    ("regular_file", &[]),
    ("histogram", &[]),
    ("durable_file", &["regular_file"]),
    ("folder_lock", &["text", "regular_file"]),
    ("keys", &["model", "regular_file", "text"]),
    ("watch", &[]),
    ("shop", &["model"]),
    ("import", &["model"]),
    ("spool", &["model", "durable_file", "regular_file"]),
    ("json_folder", &["durable_file", "regular_file"]),
    ("tls_client", &["regular_file"]),
    ("http_client", &["tls_client"]),
    (
        "mail",
        &[
            "config",
            "keys",
            "model",
            "text",
            "durable_file",
            "json_folder",
            "regular_file",
            "tls_client",
        ],
    ),
    (
        "webhook",
        &["config", "keys", "model", "store", "http_client", "json_folder"],
    ),
    (
        "registry",
        &[
            "model",
            "text",
            "durable_file",
            "folder_lock",
            "regular_file",
            "release",
        ],
    ),
    ("catalog", &["model", "package", "regular_file"]),
    (
        "store",
        &[
            "model",
            "text",
            "durable_file",
            "regular_file",
            "histogram",
            "tls_client",
        ],
    ),
    ("config", &["model", "text", "regular_file"]),
    ("package", &["model", "text", "regular_file"]),
    ("release", &["model", "package"]),
    (
        "build",
        &[
            "release",
            "registry",
            "catalog",
            "package",
            "model",
            "text",
            "durable_file",
            "folder_lock",
            "regular_file",
            "time_limit",
        ],
    ),
    (
        "serve",
        &[
            "mail",
            "webhook",
            "registry",
            "catalog",
            "store",
            "spool",
            "shop",
            "keys",
            "watch",
            "config",
            "model",
            "text",
            "histogram",
            "http_client",
            "json_folder",
            "regular_file",
            "package",
        ],
    ),
    (
        "preview",
        &[
            "build",
            "mail",
            "registry",
            "catalog",
            "package",
            "model",
            "text",
            "regular_file",
        ],
    ),
    (
        "commands",
        &[
            "build",
            "package",
            "release",
            "preview",
            "serve",
            "shop",
            "import",
            "spool",
            "mail",
            "webhook",
            "registry",
            "catalog",
            "store",
            "config",
            "keys",
            "model",
            "text",
            "durable_file",
            "folder_lock",
            "json_folder",
            "regular_file",
            "time_limit",
        ],
    ),
    ("cli", &["commands", "config", "model", "text"]),
];

/// Where a library's name may stand.
const LIBRARIES: [(&str, &[&str]); 13] = [
    (
        "git2::",
        &[
            "src/build/git/",
            "src/registry/git.rs",
            "src/commands/init/demo_repository.rs",
        ],
    ),
    (
        "sled::",
        &["src/store/index.rs", "src/store/index/", "src/store/mod.rs"],
    ),
    ("warp::", &["src/serve/", "src/preview/"]),
    ("askama::", &["src/preview/"]),
    (
        "rustls::",
        &["src/serve/net/tls.rs", "src/store/postgres/tls.rs", "src/tls_client.rs"],
    ),
    ("lettre::", &["src/mail/"]),
    ("minijinja::", &["src/mail/texts.rs"]),
    ("tokio_postgres", &["src/store/postgres/"]),
    (
        "flate2::",
        &["src/package/deflate.rs", "src/package/archive/content.rs"],
    ),
    (
        "ed25519_dalek::",
        &["src/model/release_key.rs", "src/release/sshsig.rs"],
    ),
    (
        "prometheus_client::",
        &["src/serve/ops/openmetrics", "src/serve/metrics.rs"],
    ),
    // A site gets a manifest from the catalog, against an entitlement.
    (
        "published_manifest",
        &["src/catalog.rs", "src/catalog/", "src/preview/"],
    ),
    (
        "RsaPrivateKey",
        &["src/keys/signing_key.rs", "src/commands/keys/make.rs"],
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
const OPENS: [&str; 1] = ["src/regular_file.rs"];

/// `src/build/git/mod.rs` stands in `build`.
fn room(path: &str) -> &str {
    path.trim_start_matches("src/").split(['/', '.']).next().unwrap()
}

/// Rooms import in one direction.
fn arrows(sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, targets) in imports(&code(sources)) {
        let room_of_path = room(&path);
        if matches!(room_of_path, "main" | "lib") {
            continue;
        }
        let allowed = ARROWS
            .iter()
            .find(|(name, _)| *name == room_of_path)
            .map_or(&[][..], |(_, allowed)| *allowed);
        let is_allowed = |target: &String| room(target) == room_of_path || allowed.contains(&room(target));
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
        for (library, allowed) in LIBRARIES {
            if code.contains(library) && !allowed.iter().any(|place| path.starts_with(place)) {
                complaints.push(format!("{path} names {library}"));
            }
        }
    }
    complaints
}

/// Whoever opens a file goes through `regular_file`.
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
        "use crate::model::license_change::LicenseChange as _;",
    );
    assert_eq!(arrows(&allowed), [""; 0]);
    for (path, line, target) in [
        (
            "src/model/name.rs",
            "use crate::registry::{Registry as _};",
            "src/registry/mod.rs",
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
            "src/registry/edit/json_text.rs",
            "use crate::registry::edit::Editor as _;",
            "src/registry/edit.rs -> src/registry/edit/json_text.rs",
        ),
        // Through a mod.rs that declares the item.
        (
            "src/registry/plugins.rs",
            "use super::Registry as _;",
            "src/registry/mod.rs -> src/registry/plugins.rs",
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
    let mutant = with("src/catalog.rs", "fn more() { let _ = std::fs::read(\"x\"); }");
    let complaint = "src/catalog.rs opens a file by fs::read(: use regular_file";
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
    let mutant = with("src/catalog.rs", "fn more() { eprintln!(\"x\"); }");
    assert!(!printers(&mutant).is_empty());
}

#[test]
fn every_file_opens_with_what_it_owns() {
    for (path, source) in sources() {
        assert!(source.starts_with("//!"), "{path} does not open with //!");
    }
}

/// Types that more than one room may declare: the arguments of a command, wherever it stands.
const COMMON_NAMES: [&str; 1] = ["Args"];

/// A name has one meaning in the whole crate.
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
        let mutant = with("src/catalog.rs", more);
        assert_eq!(shared_names(&mutant), [r#"Slug is declared in {"catalog", "model"}"#]);
    }
    let others = with(
        "src/catalog.rs",
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
    let mutant = with("src/catalog.rs", "fn more() { let (a, b) = (1, 2); }");
    assert_eq!(
        two_statements_in_one(&mutant),
        ["src/catalog.rs has let (a , b) = (1 , 2): write one statement a line"]
    );
}
