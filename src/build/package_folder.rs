//! The folder `packages/`: archives from the vendor's own build, as `<slug>/<version>.zip`, in the normal form.
//!
//! `countersign package add` puts them there; [`packing`](crate::build::packing) makes packages of them if the entry
//! has `from = "file"`. They have no build id and a fixed time; the package gets the tag's time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use countersign_files::regular_file;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::MAX_PACKED;

/// The time of every file in these archives: the earliest of the format. So the same archive always gives the same
/// bytes, whether its tag is known or not.
pub const TIME: DateTime<Utc> = match DateTime::from_timestamp(315_532_800, 0) {
    Some(time) => time,
    None => DateTime::UNIX_EPOCH,
};

/// The folder.
#[derive(Clone, Debug, Default)]
pub struct PackageFolder {
    root: PathBuf,
}

/// An archive in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// Size in bytes.
    pub size: u64,
}

impl PackageFolder {
    /// The folder at `root`, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The path of a release's archive.
    pub fn place(&self, slug: &Slug, version: &Version) -> PathBuf {
        self.root.join(slug.as_str()).join(format!("{version}.zip"))
    }

    /// Opens the archive of a release; `None` if it is not there yet.
    ///
    /// # Errors
    ///
    /// It is not a regular file, is too large, or cannot be opened.
    pub fn open(&self, slug: &Slug, version: &Version) -> io::Result<Option<File>> {
        match regular_file::open(&self.place(slug, version), MAX_PACKED) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the archive of a release is absent, or neither it nor its folder has changed since `moment`.
    pub fn is_unchanged(&self, slug: &Slug, version: &Version, moment: SystemTime) -> bool {
        let place = self.place(slug, version);
        match regular_file::changed_at(&place, MAX_PACKED) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(time) => {
                // A file that is moved there may have an old time.
                let folder = place.parent().and_then(|folder| fs::metadata(folder).ok());
                let folder = folder.map(|folder| regular_file::change_time(&folder));
                time < moment && folder.is_some_and(|time| time < moment)
            }
        }
    }

    /// Every archive, by plugin, newest version first. Files with other names are skipped.
    ///
    /// # Errors
    ///
    /// A folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<HandedOver>> {
        let mut found = Vec::new();
        for (folder, slug) in names(&self.root, "")? {
            let Ok(slug) = slug.parse::<Slug>() else { continue };
            for (file, version) in names(&folder, ".zip")? {
                let (Ok(version), Ok(metadata)) = (version.parse(), fs::metadata(&file)) else {
                    continue;
                };
                if metadata.is_file() {
                    let slug = slug.clone();
                    let size = metadata.len();
                    found.push(HandedOver { slug, version, size });
                }
            }
        }
        found.sort_by(|a, b| a.slug.cmp(&b.slug).then_with(|| b.version.cmp_php(&a.version)));
        Ok(found)
    }
}

/// The entries with this ending, without it; none if it is not a folder.
fn names(folder: &Path, ending: &str) -> io::Result<Vec<(PathBuf, String)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(ending));
        found.extend(stem.map(|stem| (entry.path(), stem.to_owned())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_listed_by_plugin_newest_first_and_other_files_are_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let folder = PackageFolder::new(&root.path().join("packages"));
        assert_eq!(folder.list().unwrap(), []);
        for name in [
            "beta/1.0.zip",
            "acme/1.9.zip",
            "acme/1.10.zip",
            "acme/notes.txt",
            "acme/.1.0.zip.x.tmp",
            "No/1.0.zip",
        ] {
            let path = root.path().join("packages").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "zip").unwrap();
        }
        fs::create_dir(root.path().join("packages/acme/2.0.zip")).unwrap();
        let listed: Vec<_> = folder
            .list()
            .unwrap()
            .iter()
            .map(|found| format!("{} {} {}", found.slug, found.version, found.size))
            .collect();
        assert_eq!(listed, ["acme 1.10 3", "acme 1.9 3", "beta 1.0 3"]);
    }

    #[test]
    fn an_archive_is_unchanged_until_it_or_its_folder_changes() {
        let root = tempfile::tempdir().unwrap();
        let folder = PackageFolder::new(root.path());
        let slug: Slug = "acme".parse().unwrap();
        let version: Version = "1.0".parse().unwrap();
        let hour = std::time::Duration::from_secs(3_600);
        let before = SystemTime::now() - hour;
        assert!(folder.is_unchanged(&slug, &version, before), "there is none");
        fs::create_dir(root.path().join("acme")).unwrap();
        fs::write(folder.place(&slug, &version), "zip").unwrap();
        assert!(!folder.is_unchanged(&slug, &version, before));
        let later = before + 2 * hour;
        assert!(folder.is_unchanged(&slug, &version, later));
        assert_eq!(TIME.to_rfc3339(), "1980-01-01T00:00:00+00:00");
    }
}
