//! Finds the imports of each file, also from other crates of ours: resolves every `use` and every path to the file that
//! declares the item.
//!
//! `mod.rs`, and `foo.rs` beside the folder `foo/`, are files like any other. `mod child;` is not an import, and a
//! name that a file re-exports belongs to the file that declares it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// For each file the files that it imports from.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// A module's path with the name of its crate: `["countersign", "build", "git"]`.
type Place = Vec<String>;

/// What a module declares, and what its code names.
#[derive(Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    /// Name in this module -> the path after `use`.
    uses: BTreeMap<String, Vec<String>>,
    /// The paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// Every path in the code, those after `use` included.
    paths: BTreeSet<Vec<String>>,
}

/// Reads files without comments and tests: path -> code.
pub fn imports(files: &BTreeMap<String, String>) -> Imports {
    let mut modules = BTreeMap::new();
    for (file, code) in files {
        let tokens: TokenStream = code.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        read_module(&mut modules, file, &place(file), tokens);
    }
    let workspace = Workspace(modules);
    let mut imports: Imports = files.keys().map(|file| (file.clone(), BTreeSet::new())).collect();
    for (place, module) in &workspace.0 {
        let named =
            module
                .uses
                .values()
                .chain(&module.paths)
                .filter_map(|path| match workspace.resolve(place, path, 0)? {
                    // Importing a module imports nothing yet: the paths that begin with its name do.
                    Target::Module(_) => None,
                    Target::Item(file) => Some(file),
                });
        let globs = module
            .globs
            .iter()
            .filter_map(|path| match workspace.resolve(place, path, 0)? {
                Target::Module(place) => Some(workspace.0[&place].file.clone()),
                Target::Item(file) => Some(file),
            });
        let imported = imports.get_mut(&module.file).expect("every module is in a file");
        imported.extend(named.chain(globs).filter(|file| *file != module.file));
    }
    imports
}

/// The shortest circle of imports, each file before the one that it imports.
pub fn shortest_circle(imports: &Imports) -> Option<Vec<String>> {
    imports
        .keys()
        .filter_map(|start| circle_through(imports, start))
        .min_by_key(Vec::len)
}

fn circle_through(imports: &Imports, start: &String) -> Option<Vec<String>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().expect("a way has a start");
            for next in &imports[*last] {
                if next == start {
                    return Some(way.into_iter().cloned().collect());
                }
                if seen.insert(next) {
                    longer.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
        ways = longer;
    }
    None
}

/// `src/build/git/mod.rs` -> `["build", "git"]`.
fn place(file: &str) -> Place {
    let (krate, inside) = match file.strip_prefix("crates/") {
        Some(file) => {
            let (name, inside) = file.split_once("/src/").expect("a source file of a crate");
            (format!("countersign_{name}"), inside)
        }
        None => (
            "countersign".to_owned(),
            file.strip_prefix("src/").expect("a path in src/"),
        ),
    };
    let inside = inside.strip_suffix(".rs").expect("a source file");
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    let mut place = vec![krate];
    if inside != "lib" {
        place.extend(inside.split('/').map(str::to_owned));
    }
    place
}

fn read_module(modules: &mut BTreeMap<Place, Module>, file: &str, place: &[String], tokens: TokenStream) {
    let mut module = Module {
        file: file.to_owned(),
        ..Module::default()
    };
    read_tokens(modules, &mut module, place, tokens, true);
    modules.insert(place.to_owned(), module);
}

fn read_tokens(
    modules: &mut BTreeMap<Place, Module>,
    module: &mut Module,
    place: &[String],
    tokens: TokenStream,
    top: bool,
) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let word = match &tokens[at] {
            TokenTree::Group(group) => {
                read_tokens(modules, module, place, group.stream(), false);
                at += 1;
                continue;
            }
            TokenTree::Ident(word) => word.to_string(),
            _ => {
                at += 1;
                continue;
            }
        };
        if word == "use" && !is_punct(&tokens, at + 1, '<') {
            at += 1 + read_use(module, &[], &tokens[at + 1..]);
            continue;
        }
        if word == "mod"
            && let Some(TokenTree::Ident(name)) = tokens.get(at + 1)
            && let Some(TokenTree::Group(group)) = tokens.get(at + 2)
        {
            let inner = [place, &[name.to_string()]].concat();
            let file = module.file.clone();
            read_module(modules, &file, &inner, group.stream());
            at += 3;
            continue;
        }
        let declares = ["struct", "enum", "trait", "fn", "const", "static", "type"].contains(&word.as_str());
        if top
            && declares
            && let Some(TokenTree::Ident(name)) = tokens.get(at + 1)
        {
            module.items.insert(name.to_string());
        }
        let (path, length) = read_path(&tokens[at..]);
        let absolute = at >= 2 && is_separator(&tokens, at - 2);
        if path.len() > 1 && !absolute {
            module.paths.insert(path);
        }
        at += length;
    }
}

/// Reads `a::b::{c as d, e}` up to its `,` or `;`; returns how many tokens that were.
fn read_use(module: &mut Module, before: &[String], tokens: &[TokenTree]) -> usize {
    let (names, mut length) = read_path(tokens);
    let mut path = [before, &names].concat();
    if is_separator(tokens, length) {
        length += 2;
    }
    match tokens.get(length) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let mut at = 0;
            while at < inner.len() {
                at += read_use(module, &path, &inner[at..]);
            }
            length += 1;
        }
        Some(TokenTree::Punct(punct)) if punct.as_char() == '*' => {
            module.globs.push(path);
            length += 1;
        }
        _ if path.is_empty() => {}
        rest => {
            if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
                path.pop();
            }
            let renamed = matches!(rest, Some(TokenTree::Ident(word)) if word == "as");
            let mut name = path.last().expect("not empty").clone();
            if renamed {
                // `use Trait as _` brings no name, and imports all the same.
                name = tokens[length + 1].to_string();
                if name == "_" {
                    name = format!("_ {}", path.join("::"));
                }
                length += 2;
            }
            // Two functions may give one name to two things.
            module.paths.insert(path.clone());
            module.uses.insert(name, path);
        }
    }
    // The `,` or the `;`.
    length + 1
}

/// Reads `a::b::c`; returns its segments and how many tokens they were.
fn read_path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut length = 0;
    while let Some(TokenTree::Ident(name)) = tokens.get(length) {
        path.push(name.to_string());
        length += 1;
        if !is_separator(tokens, length) || !matches!(tokens.get(length + 2), Some(TokenTree::Ident(_))) {
            break;
        }
        length += 2;
    }
    (path, length)
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')
}

fn is_punct(tokens: &[TokenTree], at: usize, sign: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

enum Target {
    Module(Place),
    /// The file that declares it.
    Item(String),
}

struct Workspace(BTreeMap<Place, Module>);

impl Workspace {
    /// Follows a path in the module `from`. `None`: it leads to a library, or to a name of the module itself.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Target> {
        assert!(depth < 16, "{path:?} in {from:?} leads back to itself");
        let mut rest = path;
        let mut place = from.to_owned();
        let mut relative = true;
        while let [first, tail @ ..] = rest {
            match first.as_str() {
                "crate" => place.truncate(1),
                name if relative && self.is_module(&[], name) => place = vec![name.to_owned()],
                "super" => drop(place.pop()),
                "self" => {}
                _ => break,
            }
            relative = false;
            rest = tail;
        }
        if relative {
            let first = rest.first()?;
            let known =
                self.is_module(&place, first) || self.0[&place].uses.get(first).is_some_and(|used| used != path);
            if !known {
                return None;
            }
        }
        while let [name, tail @ ..] = rest {
            let module = &self.0[&place];
            let used = module.uses.get(name).filter(|used| !(place == from && *used == path));
            if self.is_module(&place, name) && !(tail.is_empty() && (used.is_some() || module.items.contains(name))) {
                place.push(name.clone());
                rest = tail;
                continue;
            }
            if let Some(used) = used {
                match self.resolve(&place, used, depth + 1) {
                    Some(Target::Module(next)) => {
                        place = next;
                        rest = tail;
                        continue;
                    }
                    item => return item,
                }
            }
            // Declared here, also where a macro makes the item.
            return Some(Target::Item(module.file.clone()));
        }
        Some(Target::Module(place))
    }

    fn is_module(&self, place: &[String], name: &str) -> bool {
        self.0.contains_key(&[place, &[name.to_owned()]].concat())
    }
}

#[test]
fn imports_are_followed_to_the_file_that_declares_the_item() {
    let found = |code: &str| {
        let files = [
            ("src/lib.rs", "pub mod a; pub mod b; #[macro_use] mod m;"),
            (
                "src/a/mod.rs",
                "mod inner; pub mod other; pub use inner::Inner; pub use crate::b::B as Renamed; pub fn own() {}",
            ),
            (
                "src/a/inner.rs",
                "pub struct Inner; pub mod nested { pub fn deep() {} }",
            ),
            ("src/a/other.rs", code),
            ("src/b.rs", "pub struct B; pub mod c;"),
            ("src/b/c.rs", "pub fn f() {} pub const C: u8 = 0;"),
            ("src/m.rs", ""),
            ("crates/d/src/lib.rs", "pub mod e; pub use e::E;"),
            ("crates/d/src/e.rs", "pub struct E; pub fn own() { crate::e::own() }"),
        ];
        let files = files.map(|(path, code)| (path.to_owned(), code.to_owned()));
        let imports = imports(&files.into());
        imports["src/a/other.rs"].iter().cloned().collect::<Vec<_>>().join(" ")
    };
    for (code, expected) in [
        ("use crate::a::Inner;", "src/a/inner.rs"),
        ("use super::Inner as I;", "src/a/inner.rs"),
        ("use super::own;", "src/a/mod.rs"),
        ("use super::*;", "src/a/mod.rs"),
        ("use crate::a::Renamed;", "src/b.rs"),
        ("use crate::b::{self, c::{f, C as _}};", "src/b/c.rs"),
        ("use crate::b;", ""),
        ("use crate::b; fn g() -> b::B { b::c::f() }", "src/b.rs src/b/c.rs"),
        ("fn g() { let _ = vec![crate::b::B::default()]; }", "src/b.rs"),
        ("fn g() { use crate::b::c; println!(\"{}\", c::C); }", "src/b/c.rs"),
        ("impl crate::b::B {}", "src/b.rs"),
        (
            "fn g() { use crate::b::c::f as x; } fn h() { use crate::a::Inner as x; }",
            "src/a/inner.rs src/b/c.rs",
        ),
        ("use std::fmt::{self, Debug}; fn g(_: &dyn fmt::Display) {}", ""),
        ("const TEXT: &str = \"use crate::b::B;\"; /* crate::b::B */", ""),
        (
            "mod below { use super::super::Inner; pub fn f() {} } fn g() { below::f(); self::below::f() }",
            "src/a/inner.rs",
        ),
        ("fn g() { crate::a::inner::nested::deep() }", "src/a/inner.rs"),
        ("use countersign_d::E;", "crates/d/src/e.rs"),
        ("use countersign_d::e; fn g() { e::own() }", "crates/d/src/e.rs"),
        ("fn g() { countersign_d::e::own() }", "crates/d/src/e.rs"),
        ("use countersign::b::B;", "src/b.rs"),
        ("fn g<T: ?Sized>(_: &T) -> impl Fn() + use<'_, T> { || () }", ""),
    ] {
        assert_eq!(found(code), expected, "{code}");
    }
}

#[test]
fn the_shortest_circle_is_reported() {
    let imports = |edges: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in edges {
            imports.entry((*to).to_owned()).or_default();
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        imports
    };
    assert_eq!(shortest_circle(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let circles = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("d", "e"), ("e", "d")];
    assert_eq!(shortest_circle(&imports(&circles)), Some(vec!["d".into(), "e".into()]));
}
