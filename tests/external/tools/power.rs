//! The disk after a power failure: what was synced, and an arbitrary part of the rest.
//!
//! Reads the journal that `tests/preload/power.c` writes beside a running program, and replays it. Data that no sync
//! covered is kept, dropped or torn by a seeded choice; a new or renamed file survives once its folder is synced.

use std::collections::BTreeMap;
use std::fs;
use std::mem::take;
use std::path::{Path, PathBuf};

use crate::support::random::Random;

/// What a disk writes at once, in bytes; a page in memory has eight of them.
const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// Something that was done, or an answer that was given.
pub struct Record {
    kind: u8,
    inode: u64,
    offset: usize,
    pub bytes: Vec<u8>,
}

impl Record {
    /// The whole journal; a last record that the program did not finish counts as none.
    pub fn read(journal: &Path) -> Vec<Self> {
        let journal = fs::read(journal).unwrap();
        let mut rest = &journal[..];
        let mut records = Vec::new();
        while let Some((head, after)) = rest.split_first_chunk::<25>() {
            let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
            let Some((bytes, after)) = after.split_at_checked(number(17) as usize) else {
                break;
            };
            records.push(Self {
                kind: head[0],
                inode: number(1),
                offset: number(9) as usize,
                bytes: bytes.to_vec(),
            });
            rest = after;
        }
        assert!(
            records.iter().any(|record| record.kind == b'S' || record.kind == b'W'),
            "the journal was written"
        );
        records
    }

    /// Whether it is an answer; its bytes are the whole HTTP message.
    pub fn is_answer(&self) -> bool {
        self.kind == b'A'
    }
}

/// What a name refers to.
#[derive(Clone, Copy, PartialEq)]
enum Node {
    File(usize),
    Folder,
}

type Names = BTreeMap<PathBuf, Node>;

/// A change of a file that no sync has covered yet.
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

/// A change of names that no sync of their folder has covered yet.
enum Rename {
    Put(PathBuf, Node),
    Remove(PathBuf),
    Move(PathBuf, PathBuf),
}

#[derive(Default)]
struct File {
    synced: Vec<u8>,
    since: Vec<Change>,
}

/// Files and folders below a root, as they are now and as they are on disk.
#[derive(Default)]
pub struct Disk {
    files: Vec<File>,
    /// What the program sees.
    now: Names,
    synced: Names,
    /// By folder.
    since: BTreeMap<PathBuf, Vec<Rename>>,
    inodes: BTreeMap<u64, Node>,
    folders: BTreeMap<u64, PathBuf>,
}

impl Disk {
    /// What is below `root`, all of it synced.
    pub fn of(root: &Path) -> Self {
        let mut disk = Self::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let node = if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                    Node::Folder
                } else {
                    disk.files.push(File {
                        synced: fs::read(entry.path()).unwrap(),
                        since: Vec::new(),
                    });
                    Node::File(disk.files.len() - 1)
                };
                disk.now.insert(entry.path(), node);
            }
        }
        disk.synced = disk.now.clone();
        disk
    }

    /// Does what the program did.
    pub fn follow(&mut self, record: &Record) {
        let Record {
            kind,
            inode,
            offset,
            bytes,
        } = record;
        let mut names = bytes
            .split(|&byte| byte == 0)
            .map(|name| PathBuf::from(str::from_utf8(name).unwrap()));
        match kind {
            b'C' => {
                self.files.push(File::default());
                self.put(names.next().unwrap(), Node::File(self.files.len() - 1));
                self.inodes.insert(*inode, Node::File(self.files.len() - 1));
            }
            b'M' => self.put(names.next().unwrap(), Node::Folder),
            b'O' => {
                let path = names.next().unwrap();
                self.inodes
                    .insert(*inode, self.now.get(&path).copied().unwrap_or(Node::Folder));
                self.folders.insert(*inode, path);
            }
            b'W' => self.file(*inode).since.push(Change::Write(*offset, bytes.clone())),
            b'T' => self.file(*inode).since.push(Change::Length(*offset)),
            b'S' if self.inodes[inode] == Node::Folder => {
                let folder = &self.folders[inode];
                take(self.since.entry(folder.clone()).or_default())
                    .iter()
                    .for_each(|rename| rename.apply(&mut self.synced));
            }
            b'S' => {
                let File { synced, since } = self.file(*inode);
                take(since).iter().for_each(|change| change.apply(synced));
            }
            b'R' => self.rename(Rename::Move(names.next().unwrap(), names.next().unwrap())),
            b'L' => {
                let node = self.now[&names.next().unwrap()];
                self.put(names.next().unwrap(), node);
            }
            b'U' => self.rename(Rename::Remove(names.next().unwrap())),
            b'A' => {}
            kind => panic!("no record: {kind}"),
        }
    }

    /// Writes what the program sees, or with a choice, what a loss of power would leave now, to `root`; names below
    /// `from`.
    pub fn write(&self, from: &Path, root: &Path, mut loss: Option<&mut Random>) {
        let mut names = if loss.is_some() {
            self.synced.clone()
        } else {
            self.now.clone()
        };
        if let Some(random) = &mut loss {
            for renames in self.since.values().filter(|renames| !renames.is_empty()) {
                // A file system keeps the order of changes in a folder.
                renames[..random.below(renames.len() + 1)]
                    .iter()
                    .for_each(|rename| rename.apply(&mut names));
            }
        }
        for (path, node) in &names {
            let target = root.join(path.strip_prefix(from).unwrap());
            // What is in a folder that is lost is lost; a folder comes before what is in it.
            if !target.parent().unwrap().is_dir() {
                continue;
            }
            match node {
                Node::Folder => fs::create_dir(target).unwrap(),
                Node::File(file) => fs::write(target, self.files[*file].content(loss.as_deref_mut())).unwrap(),
            }
        }
    }

    fn file(&mut self, inode: u64) -> &mut File {
        let Node::File(file) = self.inodes[&inode] else {
            panic!("{} is a folder", self.folders[&inode].display())
        };
        &mut self.files[file]
    }

    fn put(&mut self, path: PathBuf, node: Node) {
        self.rename(Rename::Put(path, node));
    }

    fn rename(&mut self, rename: Rename) {
        rename.apply(&mut self.now);
        let (Rename::Put(path, _) | Rename::Remove(path) | Rename::Move(_, path)) = &rename;
        self.since
            .entry(path.parent().unwrap().to_owned())
            .or_default()
            .push(rename);
    }
}

impl Rename {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Put(path, node) => drop(names.insert(path.clone(), *node)),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Move(from, to) => {
                let moved: Vec<_> = names.keys().filter(|path| path.starts_with(from)).cloned().collect();
                for path in moved {
                    let rest = path.strip_prefix(from).unwrap();
                    let target = if rest == Path::new("") {
                        to.clone()
                    } else {
                        to.join(rest)
                    };
                    let node = names.remove(&path).unwrap();
                    names.insert(target, node);
                }
            }
        }
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write(offset, bytes) => {
                content.resize(content.len().max(offset + bytes.len()), 0);
                content[*offset..][..bytes.len()].copy_from_slice(bytes);
            }
            Self::Length(length) => content.resize(*length, 0),
        }
    }
}

impl File {
    fn content(&self, loss: Option<&mut Random>) -> Vec<u8> {
        let mut content = self.synced.clone();
        let Some(random) = loss else {
            self.since.iter().for_each(|change| change.apply(&mut content));
            return content;
        };
        match random.below(4) {
            // Nothing of it, or all but what came last.
            0 => {}
            1 => {
                let kept = random.below(self.since.len() + 1);
                self.since[..kept].iter().for_each(|change| change.apply(&mut content));
            }
            // Any of its pages, whole or torn.
            chance => {
                for change in &self.since {
                    match change {
                        Change::Length(_) if random.one_in(2) => change.apply(&mut content),
                        Change::Length(_) => {}
                        Change::Write(offset, bytes) => {
                            // The length reached the disk, the bytes did not: they read as zeros.
                            if random.one_in(4) {
                                content.resize(content.len().max(offset + bytes.len()), 0);
                            }
                            for (at, page) in pages(*offset, bytes) {
                                if random.one_in(chance) {
                                    let whole = random.one_in(2);
                                    let sectors = random.below(PAGE / SECTOR) * SECTOR;
                                    let kept = if whole {
                                        page.len()
                                    } else {
                                        sectors.saturating_sub(at % SECTOR)
                                    };
                                    Change::Write(at, page[..kept.min(page.len())].to_vec()).apply(&mut content);
                                }
                            }
                        }
                    }
                }
            }
        }
        content
    }
}

/// A write, page by page.
fn pages(offset: usize, bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut at = offset;
    let mut rest = bytes;
    let mut pages = Vec::new();
    while !rest.is_empty() {
        let (page, after) = rest.split_at(rest.len().min(PAGE - at % PAGE));
        pages.push((at, page));
        (at, rest) = (at + page.len(), after);
    }
    pages
}
