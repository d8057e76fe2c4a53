//! Keeps a mirror's folder private and minimal. [`mirror`](crate::build::git::mirror) fetches into it.
//!
//! SECURITY: git runs what a repository's configuration and hooks say, and reads objects and references from where
//! its other files point. A CI cache may come from anywhere. So the configuration is rewritten before each use, and
//! everything except objects, packs and tags is removed.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use countersign_files::regular_file;

/// The whole configuration of a mirror.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

/// The checked-out branch, which never exists.
const HEAD: &str = "ref: refs/heads/none\n";

/// The files to rewrite.
const WRITTEN: [(&str, &str); 2] = [("config", CONFIG), ("HEAD", HEAD)];

/// Write permission of the group and of others.
const WRITABLE: u32 = 0o022;

/// Any permission of the group and of others.
const OPEN: u32 = 0o077;

/// Whether only this user could write to the folder itself.
///
/// # Errors
/// It cannot be read.
pub(crate) fn is_own_folder(folder: &Path) -> io::Result<bool> {
    Ok(is_own_top(&fs::symlink_metadata(folder)?))
}

fn is_own_top(top: &Metadata) -> bool {
    top.is_dir() && is_own(top) && top.mode() & WRITABLE == 0
}

/// Whether only this user could write to the mirror in `folder`, and it has only regular files and folders. Without the
/// mirror's lock, another process that fetches may make it say no for a moment.
///
/// # Errors
/// A folder or file cannot be read.
pub(crate) fn is_ours(folder: &Path, mirror: &Path) -> io::Result<bool> {
    let top = fs::symlink_metadata(folder)?;
    if !is_own_top(&top) {
        return Ok(false);
    }
    // In a folder that only this user may enter, the permissions of its files do not matter.
    let forbidden = if top.mode() & OPEN == 0 { 0 } else { WRITABLE };
    is_ours_below(mirror, forbidden)
}

fn is_ours_below(path: &Path, forbidden: u32) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    if !(found.is_dir() || found.is_file()) || !is_own(&found) || found.mode() & forbidden != 0 {
        return Ok(false);
    }
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            if !is_ours_below(&entry?.path(), forbidden)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_own(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

/// Removes what a mirror does not need, and rewrites its configuration.
///
/// # Errors
/// Something cannot be removed or written.
pub(crate) fn tidy(mirror: &Path) -> io::Result<()> {
    for path in strange(mirror)? {
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        }?;
    }
    WRITTEN
        .iter()
        .try_for_each(|(name, text)| regular_file::write(&mirror.join(name), text.as_bytes()))
}

/// Whether [`tidy`] would change nothing.
pub(crate) fn is_tidy(mirror: &Path) -> bool {
    let holds = |(name, text): &(&str, &str)| {
        regular_file::read(&mirror.join(name), text.len() as u64).is_ok_and(|held| held == text.as_bytes())
    };
    strange(mirror).is_ok_and(|strange| strange.is_empty()) && WRITTEN.iter().all(holds)
}

/// Everything a mirror does not need: hooks, alternates, grafts, replaced objects, other branches, old lock files.
fn strange(mirror: &Path) -> io::Result<Vec<PathBuf>> {
    let is_loose = |name: &str| name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_pack =
        |name: &str| [".pack", ".idx", ".rev"].iter().any(|end| name.ends_with(end)) && !name.starts_with("tmp_");
    let mut strange = Vec::new();
    let needed = |name: &str| ["objects", "refs", "packed-refs", "config", "HEAD"].contains(&name);
    look(mirror, needed, &mut strange)?;
    look(
        &mirror.join("objects"),
        |name| name == "pack" || is_loose(name),
        &mut strange,
    )?;
    look(&mirror.join("objects/pack"), is_pack, &mut strange)?;
    look(&mirror.join("refs"), |name| name == "tags", &mut strange)?;
    Ok(strange)
}

fn look(folder: &Path, is_needed: impl Fn(&str) -> bool, strange: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(&is_needed) {
            strange.push(entry.path());
        }
    }
    Ok(())
}
