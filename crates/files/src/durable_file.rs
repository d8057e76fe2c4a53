//! Files that are either complete or absent: written to a temporary name, synced, renamed; then the folder is synced.
//!
//! A reader sees the old file or the new one, even after a power failure. A new file gets the owner of its folder,
//! and users who may read the folder may read the file. So a command that root runs with umask 077 does not lock out
//! the server's user.
//! Private keys are for their owner only.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::regular_file;

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only its owner. The owner is that of the folder, if this process may give files away.
    Owner,
    /// Everyone who may read its folder, whatever the umask is.
    LikeFolder,
}

/// Replaces the file at `path` with `bytes`, or creates it with [`Access::LikeFolder`].
///
/// An existing file keeps its permissions and, if this process may give files away, its owner. If `path` is a symbolic
/// link, its target is replaced. A failed attempt leaves nothing behind.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&target).ok();
    let temporary = temporary_name(&target)?;
    // SECURITY: never more permissions than the old file, not even for a moment: it may be a private key.
    let mode = old.as_ref().map_or(0o600, |old| old.permissions().mode() & 0o777);
    write_new(&temporary, bytes, mode, |file| match &old {
        Some(old) => keep_access(file, old),
        None => give_access(file, folder_of(&target), Access::LikeFolder),
    })?;
    fs::rename(&temporary, &target).inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    sync_folder(folder_of(&target))
}

/// Creates a file; fails with `AlreadyExists` if there is one. A killed process leaves no file of that name.
pub fn create_new(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let temporary = temporary_name(path)?;
    write_new(&temporary, bytes, 0o600, |file| {
        give_access(file, folder_of(path), access)
    })?;
    rename_to_new(&temporary, path).inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    sync_folder(folder_of(path))
}

/// Appends to a file that exists, behind its first `end` bytes, or behind all of it without an `end`. What cannot be written whole, such as
/// on a full disk, is cut off again: half a line would spoil the next one.
pub fn append(path: &Path, end: Option<u64>, bytes: &[u8]) -> io::Result<()> {
    let mut file = regular_file::open_to_write(path)?;
    let end = match end {
        Some(end) => {
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?
        }
        None => file.seek(SeekFrom::End(0))?,
    };
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    written.inspect_err(|_| drop(file.set_len(end)))
}

/// Replaces a file that only its owner reads; `false` if there is none, also where somebody deletes it meanwhile.
///
/// A process that is killed may leave the old file under a temporary name.
pub fn replace_existing(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let temporary = temporary_name(path)?;
    write_new(&temporary, bytes, 0o600, |file| {
        give_access(file, folder_of(path), Access::Owner)
    })?;
    let replaced = match renameat_with(CWD, &temporary, CWD, path, RenameFlags::EXCHANGE) {
        Err(Errno::NOENT) => Ok(false),
        // The file system cannot exchange files, as over NFS: a deletion in this moment is undone.
        Err(Errno::INVAL | Errno::NOSYS) if path.exists() => {
            fs::rename(&temporary, path).inspect_err(|_| drop(fs::remove_file(&temporary)))?;
            sync_folder(folder_of(path))?;
            return Ok(true);
        }
        Err(Errno::INVAL | Errno::NOSYS) => Ok(false),
        exchanged => exchanged.map(|()| true).map_err(io::Error::from),
    };
    let removed = fs::remove_file(&temporary);
    if replaced? {
        removed?;
        sync_folder(folder_of(path))?;
        return Ok(true);
    }
    Ok(false)
}

/// Renames a file to an unused name: with link(2), or with renameat2(2) if the file system has no hard links.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
        }
        Err(error) => Err(error),
        Ok(()) => fs::remove_file(from),
    }
}

/// Creates or replaces a file without syncing it, for many files that are synced together.
pub fn write_like_folder(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_like_folder(path)?.write_all(bytes)
}

/// The same for a file that its caller writes.
pub fn create_like_folder(path: &Path) -> io::Result<File> {
    // Emptying a file takes a fifth of the time of writing 10,000 small ones, so it is the second attempt.
    let file = match regular_file::create_new(path, 0o600) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => regular_file::create(path, 0o600)?,
        created => created?,
    };
    give_access(&file, folder_of(path), Access::LikeFolder)?;
    Ok(file)
}

/// A file under a temporary name, for a writer that needs to read it before it is put in place. It is removed if it is not
/// put there.
#[derive(Debug)]
pub struct PendingFile {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
}

impl PendingFile {
    /// An empty file for `target`.
    pub fn begin(target: &Path, access: Access) -> io::Result<Self> {
        let temporary = temporary_name(target)?;
        let file = regular_file::create_new(&temporary, 0o600)?;
        give_access(&file, folder_of(target), access)?;
        let target = target.to_owned();
        Ok(Self {
            file,
            temporary,
            target,
        })
    }

    /// The file, to be written and read.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts it in its place, whatever is there.
    pub fn put(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        sync_folder(folder_of(&self.target))
    }

    /// Puts it in its place; gives it back with `AlreadyExists` where there is a file.
    pub fn put_new(self) -> Result<(), (Self, io::Error)> {
        let put = || {
            self.file.sync_all()?;
            rename_to_new(&self.temporary, &self.target)?;
            sync_folder(folder_of(&self.target))
        };
        put().map_err(|error| (self, error))
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // Gone already where it was put in place.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Creates a folder and its missing parents. Each gets the owner of its parent, and with [`Access::LikeFolder`] the
/// same people may enter it.
pub fn create_folders(path: &Path, access: Access) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    create_folders(above, Access::LikeFolder)?;
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => give_access(&regular_file::open_folder(path)?, above, access),
        // Another process created it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a folder and all that is in it the owner of the folder above. Only root may give files away; for other users they stay
/// theirs.
///
/// # Errors
/// A folder cannot be read.
pub fn give_to_owner_above(folder: &Path) -> io::Result<()> {
    give_access(&regular_file::open_folder(folder)?, folder_of(folder), Access::Owner)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => give_to_owner_above(&entry.path())?,
            kind if kind.is_file() => {
                let file = regular_file::open(&entry.path(), regular_file::UNLIMITED)?;
                give_access(&file, folder, Access::Owner)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Syncs the names in a folder: a rename survives a power failure only after that.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    regular_file::open_folder(folder)?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8], mode: u32, prepare: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut file = regular_file::create_new(path, mode)?;
    let written = prepare(&file)
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

/// Gives a new file or folder its folder's owner and group, and with [`Access::LikeFolder`] its folder's access for
/// others.
fn give_access(new: &File, folder: &Path, access: Access) -> io::Result<()> {
    let given = new.metadata()?;
    let like = fs::metadata(folder)?;
    if (given.uid(), given.gid()) != (like.uid(), like.gid()) {
        // Only root may give a file away. For other users it stays theirs.
        let _ = std::os::unix::fs::fchown(new, Some(like.uid()), Some(like.gid()));
    }
    let mode = match (access, given.is_dir()) {
        (Access::Owner, _) => return Ok(()),
        // Others must never be able to write what they may only read beside it; a group that shares a folder may write.
        (Access::LikeFolder, true) => 0o700 | like.mode() & 0o2_075,
        (Access::LikeFolder, false) => 0o600 | like.mode() & 0o064,
    };
    new.set_permissions(fs::Permissions::from_mode(mode))
}

fn keep_access(file: &File, old: &fs::Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only root may give a file away. For other users it becomes theirs, as with any editor.
        let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(old.permissions())
}

/// A hidden file in the same folder, which readers of the registry and of `releases/` skip.
fn temporary_name(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let random = getrandom::u64().map_err(io::Error::other)?;
    Ok(target.with_file_name(format!(".{name}.{random:016x}.tmp")))
}

/// Deletes what killed processes left in a folder: regular files under temporary names of this module. A process that writes
/// in the folder at this moment may fail.
pub fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_leftover = entry.file_name().to_str().is_some_and(is_temporary);
        if !is_leftover || !entry.file_type()?.is_file() {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a name has the form that [`temporary_name`] gives.
fn is_temporary(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    let Some((target, random)) = inner.and_then(|inner| inner.rsplit_once('.')) else {
        return false;
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    !target.is_empty() && random.len() == 16 && random.bytes().all(is_hex)
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_replaced_file_has_the_new_bytes_and_the_old_permissions_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        create_new(&path, b"old", Access::Owner).unwrap();
        assert_eq!(mode(&path), 0o600);
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        replace(&path, b"newer").unwrap();
        assert_eq!(mode(&path), 0o664);
        assert_eq!(names(folder.path()), ["key.pem"]);
    }

    #[test]
    fn a_reader_that_had_the_old_file_open_keeps_it_whole() {
        use std::io::Read as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"old").unwrap();
        let mut open = File::open(&path).unwrap();
        replace(&path, b"new").unwrap();
        let mut seen = String::new();
        open.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "old");
    }

    #[test]
    fn a_symbolic_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        let target = folder.path().join("target");
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink("target", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn what_is_there_is_never_created_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        create_new(&path, b"first", Access::Owner).unwrap();
        assert_eq!(
            create_new(&path, b"second", Access::Owner).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read(&path).unwrap(), b"first");
        // Not through a dangling link, either.
        std::os::unix::fs::symlink("elsewhere", folder.path().join("link")).unwrap();
        let linked = create_new(&folder.path().join("link"), b"third", Access::Owner);
        assert_eq!(linked.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(folder.path()), ["key.pem", "link"], "no temporary file is left");
    }

    #[test]
    fn a_pending_file_is_put_in_place_once_and_goes_where_it_is_not_put() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let pending = |text: &str| {
            let pending = PendingFile::begin(&path, Access::LikeFolder).unwrap();
            pending.file().write_all(text.as_bytes()).unwrap();
            pending
        };
        drop(pending("dropped"));
        assert_eq!(names(folder.path()), [""; 0]);
        pending("first").put_new().unwrap();
        let (second, error) = pending("second").put_new().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        second.put().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn what_a_killed_process_left_is_deleted_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let left = temporary_name(&path("5f.json")).unwrap();
        fs::write(&left, "jane@example.com").unwrap();
        let others = [
            "5f.json",
            "5f.json.0123456789abcdef.tmp",
            ".5f.json.0123456789abcde.tmp",
            ".5f.json.0123456789abcdeG.tmp",
            ".5f.json.0123456789abcdef.bak",
            ".0123456789abcdef.tmp",
            ".notes.tmp",
        ];
        for name in others {
            fs::write(path(name), "").unwrap();
        }
        std::os::unix::fs::symlink("5f.json", path(".link.0123456789abcdef.tmp")).unwrap();
        fs::create_dir(path(".folder.0123456789abcdef.tmp")).unwrap();
        remove_leftovers(folder.path()).unwrap();
        assert!(!left.exists());
        assert_eq!(names(folder.path()).len(), others.len() + 2);
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("occupied");
        fs::create_dir(&occupied).unwrap();
        fs::write(occupied.join("old"), "old").unwrap();
        assert!(replace(&occupied, b"new").is_err());
        assert_eq!(names(folder.path()), ["occupied"]);
        assert!(replace(&folder.path().join("missing/file"), b"new").is_err());
    }

    #[test]
    fn a_new_file_is_as_readable_as_its_folder_and_a_secret_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        for (bits, file, inner) in [
            (0o755, 0o644, 0o755),
            (0o750, 0o640, 0o750),
            (0o2770, 0o660, 0o2770),
            (0o700, 0o600, 0o700),
        ] {
            let root = folder.path().join(format!("{bits:o}"));
            fs::create_dir(&root).unwrap();
            fs::set_permissions(&root, fs::Permissions::from_mode(bits)).unwrap();
            replace(&root.join("replaced"), b"").unwrap();
            create_new(&root.join("created"), b"", Access::LikeFolder).unwrap();
            write_like_folder(&root.join("written"), b"").unwrap();
            create_folders(&root.join("a/b"), Access::LikeFolder).unwrap();
            create_folders(&root.join("keys"), Access::Owner).unwrap();
            create_new(&root.join("a/secret"), b"", Access::Owner).unwrap();
            let modes = ["replaced", "created", "written", "a/secret"].map(|name| mode(&root.join(name)));
            assert_eq!(modes, [file, file, file, 0o600], "{bits:o}");
            let whole = |name: &str| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(
                [whole("a"), whole("a/b"), whole("keys") & 0o777],
                [inner, inner, 0o700],
                "{bits:o}"
            );
        }
    }
}
