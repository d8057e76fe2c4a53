//! Lists the files of a plugin's folder to pack, those to leave out, and those that cannot be packed, without their
//! content.
//!
//! A few trees of git can expand to very many folders. So each tree is read once, and the folders and files are counted.
//!
//! [`from_tag`](crate::build::packing::from_tag) packs the list, `preview` shows it.

use std::collections::HashMap;
use std::rc::Rc;

use crate::build::git::object::ObjectError;
use crate::build::packing::rules::{ATTRIBUTES, DISTIGNORE, EXCLUDE, LeaveOut, Rules};
use crate::build::remark::in_folder;
use crate::build::report::outcome::Reason;
use crate::build::source::assets;
use crate::build::source::source_tree::{MAX_LOOKED_AT, MAX_PATH, SourceTree, TreeEntry, TreeEntryKind};
use countersign_model::ignore_rules::{Patterns, TooManyPatterns};
use countersign_model::plugin::PackageSettings;
use countersign_package::entry_name::FolderName;
use countersign_package::{MAX_ENTRIES, collision, mark};

/// Size limit of a `.gitattributes` or a `.distignore` in bytes.
const MAX_RULES: usize = 1 << 20;

/// The deepest folder: a name in a package has at most 1,024 bytes.
const MAX_DEPTH: usize = 512;

/// What to do about a file that cannot be packed.
pub(super) const WAY_OUT: &str =
    "leave out what sites do not need with exclude in [package], or hand over an archive: from = \"file\"";

/// The list of a plugin's folder.
#[derive(Debug)]
pub(crate) struct PackingList<Id> {
    /// Files to pack, sorted by the bytes of their names.
    pub files: Vec<PackedFile<Id>>,
    /// Files to leave out; of a whole folder, only the folder.
    pub left_out: Vec<ExcludedFile>,
    /// Files that cannot be packed.
    pub obstacles: Vec<PackingObstacle>,
}

/// A file to pack.
#[derive(Clone, Debug)]
pub(crate) struct PackedFile<Id> {
    /// Its name in the top-level folder.
    pub name: String,
    /// Its id, to read it by.
    pub id: Id,
}

/// A file or folder to leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExcludedFile {
    /// Its name in the plugin's folder; a folder's ends with `/`.
    pub name: String,
    /// The rule.
    pub rule: LeaveOut,
}

/// A file that cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {what}")]
pub(crate) struct PackingObstacle {
    /// Its name in the plugin's folder.
    pub name: String,
    /// What is wrong, as text after its name.
    pub what: String,
    /// Whether it is the name.
    pub is_name: bool,
}

/// Lists the plugin's folder at `path` below the root folder `root`.
///
/// # Errors
///
/// The folder is absent, a folder or a file with rules cannot be read, or there are too many files.
pub(crate) fn packing_list<F: SourceTree>(
    files: &F,
    root: &F::Id,
    path: &str,
    settings: &PackageSettings,
) -> Result<PackingList<F::Id>, Reason> {
    let mut rules = Rules::new(&settings.exclude).map_err(|error| of_rules(EXCLUDE, &error))?;
    let mut known = HashMap::new();
    let mut above = String::new();
    // The rules of parent folders apply, too.
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if let Some(items) = assets::walk(files, root.clone(), &above).and_then(|folder| files.items(&folder).ok()) {
            enter(files, &mut rules, &mut known, &above, &items)?;
        }
        above = in_folder(&above, name);
    }
    let folder = assets::walk(files, root.clone(), path).ok_or_else(|| Reason::PathAbsent(path.to_owned()))?;
    let items = read(path, files.items(&folder))?;
    if let Some(item) = named(&items, DISTIGNORE) {
        let name = in_folder(path, DISTIGNORE);
        let set = rules.set_distignore(&name, &read(&name, files.bytes(&item.id, MAX_RULES))?);
        set.map_err(|error| of_rules(&name, &error))?;
    }
    let mut walk = Walk {
        files,
        path,
        rules,
        marked: settings.mark,
        looked_at: 0,
        known: HashMap::new(),
        known_rules: known,
        list: PackingList {
            files: Vec::new(),
            left_out: Vec::new(),
            obstacles: Vec::new(),
        },
    };
    walk.folder("", &items, 0)?;
    walk.list.files.sort_by(|a, b| a.name.cmp(&b.name));
    walk.collision();
    Ok(walk.list)
}

/// The entries of a folder.
type FolderEntries<Id> = Rc<[TreeEntry<Id>]>;

struct Walk<'a, F: SourceTree> {
    files: &'a F,
    path: &'a str,
    rules: Rules,
    marked: bool,
    looked_at: usize,
    /// The folders that were read.
    known: HashMap<F::Id, FolderEntries<F::Id>>,
    known_rules: KnownRules<F::Id>,
    list: PackingList<F::Id>,
}

impl<F: SourceTree> Walk<'_, F> {
    /// Lists what is in the folder of this name in the plugin's folder.
    fn folder(&mut self, folder: &str, items: &[TreeEntry<F::Id>], depth: usize) -> Result<(), Reason> {
        let path = in_folder(self.path, folder);
        let path = path.trim_end_matches('/');
        self.looked_at += items.len();
        if self.looked_at > MAX_LOOKED_AT {
            return Err(Reason::Unpackable(
                "the folder has more than 262,144 files and folders".into(),
            ));
        }
        if depth > MAX_DEPTH {
            return Err(Reason::Unpackable("the folder is more than 512 folders deep".into()));
        }
        let outside = self.rules.depth();
        enter(self.files, &mut self.rules, &mut self.known_rules, path, items)?;
        for item in items {
            self.item(folder, item, depth)?;
        }
        self.rules.leave(outside);
        Ok(())
    }

    fn item(&mut self, folder: &str, item: &TreeEntry<F::Id>, depth: usize) -> Result<(), Reason> {
        let name = in_folder(folder, &item.name);
        let path = in_folder(self.path, &name);
        if path.len() > MAX_PATH {
            return Err(Reason::Unpackable(
                "the folder has a name of more than 4,096 bytes".into(),
            ));
        }
        // To git, a submodule is a folder here.
        let is_folder = matches!(item.kind, TreeEntryKind::Folder | TreeEntryKind::Submodule);
        let rule = self.rules.leave_out(&path, &name, is_folder);
        if let Some(rule) = rule.map_err(|(file, error)| of_rules(&file, &error))? {
            let name = if is_folder { format!("{name}/") } else { name };
            self.list.left_out.push(ExcludedFile { name, rule });
            return Ok(());
        }
        let is_text = !item.name.contains(char::REPLACEMENT_CHARACTER);
        if let Some(error) = item.name.parse::<FolderName>().err().filter(|_| is_text) {
            self.obstacle(name, format!("is refused: {error}"), true);
            return Ok(());
        }
        let what = match item.kind {
            _ if !is_text => "has a name that is not UTF-8",
            _ if self.marked && is_mark(&name) => "is where the build id of each download will be",
            TreeEntryKind::SymbolicLink => "is a symbolic link",
            TreeEntryKind::Submodule => "is a submodule",
            TreeEntryKind::Special => Reason::SPECIAL,
            TreeEntryKind::Folder => {
                let items = match self.known.get(&item.id) {
                    Some(items) => Rc::clone(items),
                    None => {
                        let items: Rc<[_]> = read(&path, self.files.items(&item.id))?.into();
                        self.known.insert(item.id.clone(), Rc::clone(&items));
                        items
                    }
                };
                return self.folder(&name, &items, depth + 1);
            }
            TreeEntryKind::File => {
                let id = item.id.clone();
                self.list.files.push(PackedFile { name, id });
                return if self.list.files.len() > MAX_ENTRIES {
                    Err(Reason::Unpackable(
                        "the package would have more than 65,535 files".into(),
                    ))
                } else {
                    Ok(())
                };
            }
        };
        self.obstacle(name, what.to_owned(), false);
        Ok(())
    }

    fn obstacle(&mut self, name: String, what: String, is_name: bool) {
        self.list.obstacles.push(PackingObstacle { name, what, is_name });
    }

    /// Two names that are one file on some systems.
    fn collision(&mut self) {
        let found = collision::find(self.list.files.iter().map(|file| (&*file.name, false)));
        if let Some((name, collision)) = found.map(|(name, collision)| (name.to_owned(), collision)) {
            self.obstacle(name, collision.to_string(), true);
        }
    }
}

impl<Id> PackingList<Id> {
    /// Whether the list has names that no entry can include. A package that an older version published may have them.
    pub(super) fn has_refused_names(&self) -> bool {
        let mut left_out = self.left_out.iter();
        left_out.any(|file| file.rule == LeaveOut::Never) || self.obstacles.iter().any(|obstacle| obstacle.is_name)
    }
}

/// Whether a name is the mark's, in upper or lower case, in the top-level folder.
fn is_mark(name: &str) -> bool {
    name.to_lowercase() == mark::FILE
}

/// The `.gitattributes` below the root that were read. A few trees of git can have one large file in very many folders.
type KnownRules<Id> = HashMap<Id, Rc<Patterns>>;

/// Adds the rules of a folder's `.gitattributes`.
fn enter<F: SourceTree>(
    files: &F,
    rules: &mut Rules,
    known: &mut KnownRules<F::Id>,
    path: &str,
    items: &[TreeEntry<F::Id>],
) -> Result<(), Reason> {
    let Some(item) = named(items, ATTRIBUTES) else {
        return Ok(());
    };
    let name = in_folder(path, ATTRIBUTES);
    let attributes = match known.get(&item.id) {
        Some(attributes) => Rc::clone(attributes),
        None => {
            let bytes = read(&name, files.bytes(&item.id, MAX_RULES))?;
            let is_root = path.is_empty();
            let attributes = rules.read(&bytes, is_root).map_err(|error| of_rules(&name, &error))?;
            // The root's may define macros, for others with the same lines, too.
            if !is_root {
                known.insert(item.id.clone(), Rc::clone(&attributes));
            }
            attributes
        }
    };
    rules.enter(path, attributes).map_err(|error| of_rules(&name, &error))
}

/// Without its rules, a folder is not packed: what they leave out may be secret.
fn of_rules(name: &str, error: &TooManyPatterns) -> Reason {
    Reason::Unpackable(format!("{name}: {error}"))
}

fn named<'a, Id>(items: &'a [TreeEntry<Id>], name: &str) -> Option<&'a TreeEntry<Id>> {
    items
        .iter()
        .find(|item| item.name == name && item.kind == TreeEntryKind::File)
}

fn read<T>(path: &str, read: Result<T, ObjectError>) -> Result<T, Reason> {
    read.map_err(|error| Reason::from_object(if path.is_empty() { "the root folder" } else { path }, error))
}
