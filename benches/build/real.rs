//! Clones of real plugins in the folder that `REPOSITORIES` names, or one level below it.
//! docs/benchmarks.md says which ones the figures are of.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A repository with the main file of its plugin.
pub struct RealPlugin {
    /// A slug: the name of the clone, without an owner before a `+`.
    pub slug: String,
    pub repository: PathBuf,
    pub main_file: String,
    pub tags: usize,
}

/// The plugins among the clones of a folder, by slug. A clone without a tag, or without a main file in its root, is left out.
pub fn plugins(folder: &Path) -> io::Result<Vec<RealPlugin>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let below = ["", "repo", ".git"].map(|below| path.join(below));
        let Some(repository) = below.into_iter().find(|path| path.join("HEAD").is_file()) else {
            continue;
        };
        let tags = git(&repository, &["tag"])?.lines().count();
        let main_file = main_file(&repository)?;
        if let Some(main_file) = main_file.filter(|_| tags > 0) {
            let slug = slug(path.file_name().unwrap_or_default());
            found.push(RealPlugin {
                slug,
                repository,
                main_file,
                tags,
            });
        }
    }
    found.sort_by(|one, other| one.slug.cmp(&other.slug));
    found.dedup_by(|one, other| one.slug == other.slug);
    Ok(found)
}

/// The first PHP file in the root that has a plugin's header.
fn main_file(repository: &Path) -> io::Result<Option<String>> {
    let header = [
        "grep",
        "-l",
        "-i",
        "-E",
        r"^[ \t/*#@]*Plugin Name:",
        "HEAD",
        "--",
        "*.php",
    ];
    let with_header = git(repository, &header)?;
    let mut files = with_header.lines().filter_map(|line| line.strip_prefix("HEAD:"));
    Ok(files.find(|file| !file.contains('/')).map(str::to_owned))
}

fn slug(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let bare = name.rsplit('+').next().unwrap_or_default();
    bare.trim_end_matches(".git").to_lowercase().replace(['_', '.'], "-")
}

fn git(repository: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(repository)
        .args(arguments)
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
